"""Made-up support tickets as nested records, whose rule is known."""

import datetime
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from keras_mmil._support.checks import check_int, check_number

__all__ = ["TARGET", "is_escalated", "load_tickets"]

Record: TypeAlias = dict[str, Any]

TARGET = "escalated"
"""The path of the field to predict."""
_PLANS, _OF_PLANS = ("basic", "business", "enterprise"), (0.4, 0.2, 0.4)
_COUNTRIES = ("AT", "DE", "FR", "GR", "IT", "PT")
_CHANNELS, _PRIORITIES = ("chat", "form", "mail", "phone"), ("low", "normal", "high")
_TAGS = ("account", "billing", "feature", "login", "mobile", "shipping", "vip")
_TYPES = ("image", "invoice", "log", "video")
_OPENERS = ("Hello", "Hi there", "Good morning", "Dear team", "Hey")
_COMPLAINTS = (
    "the export stops half way",
    "my invoice shows the wrong address",
    "I cannot find the settings",
    "the page stays blank",
    "the total differs from the order",
)
_CRASH = "the app crashes when I open it"
_ANSWERS = (
    "thank you for your message, we are looking into it",
    "could you send us a screenshot",
    "this is known and will be mended",
    "please try again now",
)
_START = datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)
_LONG = 24.0  # hours


def load_tickets(
    n_tickets: int = 1200,
    seed: int = 0,
    *,
    share_missing: float = 0.05,
    share_flipped: float = 0.05,
) -> list[Record]:
    """Tickets with a customer, messages with attachments, and tags.

    Beside what matters there are ids, time stamps, numbers as texts, and missing values.
    `is_escalated` tells what the label is, apart from labels that are flipped at random.

    Args:
        n_tickets: number of tickets, at least 1.
        seed: integer.
        share_missing: share of missing values, from 0 to 1; ids, times and labels are complete.
        share_flipped: share of wrong labels, from 0 to 1.

    Returns:
        A dict for each ticket: `id`, `opened_at`, `channel`, `priority`, `amount` (a number as
        text), `customer` (`id`, `plan`, `country`, `since`), `messages` (`author`, `hours` since
        the message before, `sent_at`, `text`, `attachments` with `type` and `kilobytes`), `tags`,
        and `escalated`. About a quarter are escalated.

    Raises:
        ValueError: if an argument is out of range.

    Example:

    >>> classifier = NestedClassifier().fit(load_tickets(), "escalated")
    """
    n = check_int("n_tickets", n_tickets, least=1)
    share_missing = check_number("share_missing", share_missing, least=0, most=1)
    share_flipped = check_number("share_flipped", share_flipped, least=0, most=1)
    rng = np.random.default_rng(seed)
    customers = [_customer(rng, i, share_missing) for i in range(max(n * 3 // 10, 1))]
    tickets = [_ticket(rng, i, customers, share_missing) for i in range(n)]
    is_flipped = rng.random(n) < share_flipped
    for ticket, flipped in zip(tickets, is_flipped, strict=True):
        ticket[TARGET] = is_escalated(ticket) != bool(flipped)
    return tickets


def is_escalated(ticket: Mapping[str, Any]) -> bool:
    """The rule of the labels. Conditions on missing values are false.

    A ticket is escalated if its customer has the plan "enterprise" and waited over 24 hours at
    least twice, for the messages of agents; or if a customer writes that something crashes, a log
    is attached to some message, and no tag is "vip".
    """
    messages = ticket["messages"]
    waits = [
        each["author"] == "agent" and each["hours"] is not None and each["hours"] > _LONG
        for each in messages
    ]
    if ticket["customer"]["plan"] == "enterprise" and sum(waits) >= 2:
        return True
    crashes = any(
        each["author"] == "customer" and "crashes" in (each["text"] or "") for each in messages
    )
    has_log = any(part["type"] == "log" for each in messages for part in each["attachments"])
    return crashes and has_log and "vip" not in ticket["tags"]


def _maybe(rng: np.random.Generator, share_missing: float, value: Any) -> Any:
    return None if rng.random() < share_missing else value


def _customer(rng: np.random.Generator, i: int, share_missing: float) -> Record:
    since = datetime.date(2018, 1, 1) + datetime.timedelta(days=int(rng.integers(2500)))
    return {
        "id": f"C{1000 + i}",
        "plan": _maybe(rng, share_missing, rng.choice(_PLANS, p=_OF_PLANS).item()),
        "country": _maybe(rng, share_missing, rng.choice(_COUNTRIES).item()),
        "since": since.isoformat(),
    }


def _ticket(
    rng: np.random.Generator, i: int, customers: list[Record], share_missing: float
) -> Record:
    opened = _START + datetime.timedelta(minutes=int(rng.integers(500_000)))
    is_crash = rng.random() < 0.45
    messages, sent = [], opened
    for k in range(int(rng.integers(2, 9))):
        by_customer = k == 0 or rng.random() < 0.45
        hours = 0.0 if k == 0 else round(float(rng.exponential(32)), 1)
        sent += datetime.timedelta(hours=hours)
        messages.append(
            {
                "author": "customer" if by_customer else "agent",
                "hours": _maybe(rng, share_missing, hours),
                "sent_at": sent.isoformat(timespec="minutes"),
                "text": _maybe(rng, share_missing, _text(rng, by_customer, is_crash)),
                "attachments": [
                    {
                        "type": rng.choice(_TYPES).item(),
                        "kilobytes": _maybe(rng, share_missing, int(rng.lognormal(5, 1))),
                    }
                    for _ in range(rng.poisson(0.4))
                ],
            }
        )
    tags = rng.choice(_TAGS, int(rng.integers(4)), replace=False).tolist()
    return {
        "id": f"T{20_000 + i}",
        "opened_at": opened.isoformat(timespec="minutes"),
        "channel": _maybe(rng, share_missing, rng.choice(_CHANNELS).item()),
        "priority": _maybe(rng, share_missing, rng.choice(_PRIORITIES).item()),
        "amount": _maybe(rng, share_missing, f"{rng.lognormal(3, 1):.2f}"),
        "customer": customers[rng.integers(len(customers))],
        "messages": messages,
        "tags": tags,
    }


def _text(rng: np.random.Generator, by_customer: bool, is_crash: bool) -> str:
    opener = rng.choice(_OPENERS).item()
    if not by_customer:
        return f"{opener}, {rng.choice(_ANSWERS).item()}."
    parts = rng.choice(_COMPLAINTS, int(rng.integers(1, 3)), replace=False).tolist()
    if is_crash and rng.random() < 0.7:
        parts.insert(int(rng.integers(len(parts) + 1)), _CRASH)
    return f"{opener}, {' and '.join(parts)}. Order {rng.integers(10_000, 99_999)}."
