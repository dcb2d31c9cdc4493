"""Trains: a small dump, damaged ones, and the real one."""

import damage
import pytest

from keras_mmil.datasets import trains

NAME = "records/trains.sql"
DUMP = """\
-- MySQL dump
CREATE TABLE `cars` (
  `id` int(11) NOT NULL
);
INSERT INTO `cars` VALUES (1,1,1,'rectangle','short','not_double','none',2,'circle',1),\
(2,2,1,'hexagon','long','not_double','flat',3,NULL,0);
INSERT INTO `cars` VALUES (3,2,2,'bucket','short','double','none',2,'(a,b);',-1);
INSERT INTO `trains` VALUES (1,'east'),(2,'west');
UNLOCK TABLES;
"""


def test_load(data_folder):
    data_folder.write(NAME, DUMP)
    tables, top, keys = trains.load()
    assert tables["trains"] == {"id": [1, 2], "direction": ["east", "west"]}
    cars = [
        dict(zip(tables["cars"], row, strict=True))
        for row in zip(*tables["cars"].values(), strict=True)
    ]
    assert cars == [
        {
            **{"id": 1, "train_id": 1, "position": 1, "shape": "rectangle", "len": "short"},
            **{"sides": "not_double", "roof": "none", "wheels": 2},
            **{"load_shape": "circle", "load_num": 1},
        },
        {
            **{"id": 2, "train_id": 2, "position": 1, "shape": "hexagon", "len": "long"},
            **{"sides": "not_double", "roof": "flat", "wheels": 3},
            **{"load_shape": None, "load_num": 0},
        },
        {
            **{"id": 3, "train_id": 2, "position": 2, "shape": "bucket", "len": "short"},
            **{"sides": "double", "roof": "none", "wheels": 2},
            **{"load_shape": "(a,b);", "load_num": -1},
        },
    ]
    assert (top, keys) == ("trains", (("cars.train_id", "trains.id"),))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(2,'west')", "(2,'we''st')"),
        ("(2,'west')", r"(2,'we\'st')"),
        ("(2,'west')", "(2,west)"),
        ("(2,'west')", "(2,0x12)"),
        ("(2,'west')", "(2,)"),
        ("(2,'west');", "(2,'west')"),
        ("INSERT INTO `trains` VALUES", "INSERT INTO `trains` (`id`) VALUES"),
        ("INSERT INTO `trains`", "insert ignore into `trains`"),
        ("INSERT INTO `trains`", "  INSERT INTO `trains`"),
    ],
)
def test_lines_of_another_form(data_folder, old, new):
    data_folder.write(NAME, DUMP.replace(old, new))
    with pytest.raises(ValueError, match=r"Expected a line INSERT.*trains\.sql, line 7"):
        trains.load()


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("(2,'west')", "(2,'west',3)", r"line 7, with a row \(2,'west',3\) of trains"),
        ("INTO `trains`", "INTO `wagons`", r"a row \(1,'east'\) of wagons"),
        ("'west'", "'north'", r"to \['east', 'north'\]"),
        ("'west'", "NULL", r"to \['None', 'east'\]"),
        ("INSERT INTO `trains` VALUES (1,'east'),(2,'west');\n", "", r"to \[\]"),
    ],
)
def test_other_rows(data_folder, old, new, match):
    data_folder.write(NAME, DUMP.replace(old, new))
    with pytest.raises(ValueError, match=match):
        trains.load()


def test_damaged(data_folder):
    path = data_folder.write(NAME, DUMP)
    damage.check_files([path], trains.load, is_checked=False)


@pytest.mark.data
def test_real(data_dir):
    tables, _, _ = trains.load()
    assert tables["trains"]["direction"] == ["east"] * 10 + ["west"] * 10
    cars = tables["cars"]
    assert len(cars["id"]) == 63
    # The classic rule is right about 18 of 20.
    is_closed_short = {
        train
        for train, length, roof in zip(cars["train_id"], cars["len"], cars["roof"], strict=True)
        if length == "short" and roof != "none"
    }
    assert sum((train in is_closed_short) == (train <= 10) for train in range(1, 21)) == 18


def test_numbers_of_too_many_digits(data_folder):
    """Python would refuse them without a word about the file."""
    data_folder.write(NAME, DUMP.replace("(1,'east')", f"({'9' * 5000},'east')"))
    with pytest.raises(ValueError, match=r"trains\.sql, line 7"):
        trains.load()
