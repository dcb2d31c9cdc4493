"""Made-up nested records: the rules by hand-made records, shares, and seeds."""

import numpy as np
import pytest

from keras_mmil.datasets.synthetic import load_sensors, load_tickets, sensors, tickets
from keras_mmil.records import Schema


def message(author, hours=0.0, text="", attached=()):
    attachments = [{"type": kind, "kilobytes": 1} for kind in attached]
    return {"author": author, "hours": hours, "text": text, "attachments": attachments}


def ticket(*messages, plan="basic", tags=()):
    return {"customer": {"plan": plan}, "messages": list(messages), "tags": list(tags)}


CRASH = message("customer", text="the app crashes when I open it")
LOG = message("agent", attached=["image", "log"])
SLOW = message("agent", 24.1)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (ticket(SLOW, SLOW, plan="enterprise"), True),
        (ticket(SLOW, SLOW, plan="business"), False),
        (ticket(SLOW, message("agent", 24.0), plan="enterprise"), False),
        (ticket(SLOW, message("customer", 99.0), plan="enterprise"), False),
        (ticket(SLOW, message("agent", None), plan="enterprise"), False),
        (ticket(SLOW, SLOW, plan=None), False),
        (ticket(CRASH, LOG), True),
        (ticket(CRASH, LOG, tags=["vip"]), False),
        (ticket(CRASH, LOG, SLOW, SLOW, tags=["vip"], plan="enterprise"), True),
        (ticket(CRASH, message("agent", attached=["video"])), False),
        (ticket(message("agent", text="it crashes"), LOG), False),
        (ticket(message("customer", text=None), LOG), False),
    ],
)
def test_the_rule_of_tickets(record, expected):
    assert tickets.is_escalated(record) == expected


def machine(*means_and_values):
    return {"sensors": [{"readings": [{"value": v} for v in some]} for some in means_and_values]}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (machine([50, 61], [56]), True),
        (machine([50, 61], [55]), False),
        (machine([56, None], [None, 56]), True),
        (machine([97.1], [0]), True),
        (machine([97.0], [0]), False),
        (machine([], [None]), False),
    ],
)
def test_the_rule_of_sensors(record, expected):
    assert sensors.fails(record) == expected


@pytest.mark.parametrize(
    ("load", "rule", "target", "shares"),
    [
        (load_tickets, tickets.is_escalated, tickets.TARGET, (0.2, 0.32)),
        (load_sensors, sensors.fails, sensors.TARGET, (0.3, 0.5)),
    ],
)
def test_records_are_reproducible_and_labels_flipped(load, rule, target, shares):
    records = load(1500, seed=1)
    assert records == load(1500, seed=1) != load(1500, seed=2)
    labels = np.array([each[target] for each in records])
    assert shares[0] < labels.mean() < shares[1]
    wrong = np.mean(labels != [rule(each) for each in records])
    assert 0.03 < wrong < 0.07
    pure = load(300, share_flipped=0, share_missing=0)
    assert [each[target] for each in pure] == [rule(each) for each in pure]
    schema = Schema.infer(records)
    assert all(field.share_missing == 0 for field in Schema.infer(pure) if field.kind == "number")
    assert target in schema
    with pytest.raises(ValueError, match="share_missing"):
        load(share_missing=2)


def test_tickets_hold_what_must_not_be_learnt_by_heart():
    records = load_tickets()
    assert len({each["id"] for each in records}) == len(records)
    customers = [each["customer"]["id"] for each in records]
    assert 3 < len(customers) / len(set(customers)) < 4.5
    assert all(isinstance(each["amount"], str | None) for each in records)
    assert all(each["messages"][0]["author"] == "customer" for each in records)
