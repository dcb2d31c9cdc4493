"""Recipes: a small file, damaged ones, and the real one."""

import damage
import pytest

from keras_mmil.datasets import recipes

NAME = "records/recipes.jsonl"
RECIPES = [
    {"id": 1, "ingredients": ["salt", "jalapeño"], "cuisine": "mexican"},
    {"id": 2, "ingredients": [], "cuisine": "thai"},
]


def test_load(data_folder):
    data_folder.write_lines(NAME, RECIPES)
    assert recipes.load() == RECIPES


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("{", r"Expected JSON.*recipes\.jsonl, line 3"),
        ("3", "another document 2"),
        ('{"id": 1, "ingredients": ["salt"]}', "id, ingredients and cuisine.*another document 2"),
        ('{"id": 1, "ingredients": [3], "cuisine": "thai"}', "another document 2"),
        ('{"id": 1, "ingredients": "salt", "cuisine": "thai"}', "another document 2"),
        ('{"id": 1, "ingredients": [], "cuisine": null}', "another document 2"),
    ],
)
def test_other_lines(data_folder, line, match):
    path = data_folder.write_lines(NAME, RECIPES)
    path.write_text(path.read_text() + line)
    with pytest.raises(ValueError, match=match):
        recipes.load()


def test_no_lines(data_folder):
    data_folder.write(NAME, "\n")
    with pytest.raises(ValueError, match="a document a line"):
        recipes.load()


def test_damaged(data_folder):
    path = data_folder.write_lines(NAME, RECIPES)
    damage.check_files([path], recipes.load, is_checked=False)


@pytest.mark.data
def test_real(data_dir):
    found = recipes.load()
    assert len(found) == 2500
    assert len({recipe["cuisine"] for recipe in found[:2000]}) == 20
    assert found[0]["cuisine"] == "italian"
