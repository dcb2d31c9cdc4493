"""Made-up machines with sensors and their readings, numbers alone, whose rule is known."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from keras_mmil._support.checks import check_int, check_number

__all__ = ["TARGET", "fails", "load_sensors"]

Record: TypeAlias = dict[str, Any]

TARGET = "failed"
"""The path of the field to predict."""
_WARM, _PEAK = 55.0, 97.0


def load_sensors(
    n_machines: int = 1000,
    seed: int = 0,
    *,
    share_missing: float = 0.05,
    share_flipped: float = 0.05,
) -> list[Record]:
    """Machines with sensors, each with readings: numbers alone.

    `fails` tells what the label is, apart from labels that are flipped at random.

    Args:
        n_machines: number of machines, at least 1.
        seed: integer.
        share_missing: share of missing numbers, from 0 to 1.
        share_flipped: share of wrong labels, from 0 to 1.

    Returns:
        A dict for each machine: `age` and `load`, `sensors` (`voltage`, and `readings` with `hour`
        and `value`), and `failed`. About 40 % have failed.

    Raises:
        ValueError: if an argument is out of range.

    Example:

    >>> classifier = NestedClassifier().fit(load_sensors(), "failed")
    """
    n = check_int("n_machines", n_machines, least=1)
    share_missing = check_number("share_missing", share_missing, least=0, most=1)
    share_flipped = check_number("share_flipped", share_flipped, least=0, most=1)
    rng = np.random.default_rng(seed)

    def number(value: float, digits: int = 1) -> float | None:
        return None if rng.random() < share_missing else round(float(value), digits)

    def sensor() -> Record:
        level = rng.normal(46, 9)
        readings = [
            {"hour": number(hour, 0), "value": number(rng.normal(level, 17))}
            for hour in range(rng.integers(2, 9))
        ]
        return {"voltage": number(rng.normal(12, 0.5), 2), "readings": readings}

    machines = []
    for flipped in rng.random(n) < share_flipped:
        machine = {
            "age": number(rng.uniform(0, 20)),
            "load": number(rng.beta(2, 2), 3),
            "sensors": [sensor() for _ in range(rng.integers(1, 9))],
        }
        machines.append({**machine, TARGET: fails(machine) != bool(flipped)})
    return machines


def fails(machine: Mapping[str, Any]) -> bool:
    """The rule of the labels: a count of means, or a threshold. Missing values are left out.

    A machine fails if the mean reading of at least two of its sensors is above 55, or if some
    reading is above 97.
    """
    values = [
        [each["value"] for each in sensor["readings"] if each["value"] is not None]
        for sensor in machine["sensors"]
    ]
    n_warm = sum(bool(some) and float(np.mean(some)) > _WARM for some in values)
    return n_warm >= 2 or any(value > _PEAK for some in values for value in some)
