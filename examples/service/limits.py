"""What the service allows a client."""

import argparse
import dataclasses
import math
from dataclasses import dataclass
from typing import Self

__all__ = ["Limits"]


def _limit(default, what):
    return dataclasses.field(default=default, metadata={"help": what})


@dataclass(frozen=True)
class Limits:
    """What the service allows; all of it can be set on the command line.

    Together they bound its memory: `waiting` bodies of `body_bytes` wait, and what is computed at
    once are at most `values` values.
    """

    body_bytes: int = _limit(2**20, "bytes of a request's body")
    depth: int = _limit(32, "levels of objects and lists in it")
    records: int = _limit(100, "records in it")
    values: int = _limit(20_000, "values in it, objects and lists included")
    waiting: int = _limit(64, "requests that wait for the network")
    connections: int = _limit(256, "connections at a time")
    head_seconds: float = _limit(5.0, "in which the head of a request has to be there")
    body_seconds: float = _limit(10.0, "in which its body has to be there")
    answer_seconds: float = _limit(10.0, "in which it is answered, or refused")
    stop_seconds: float = _limit(20.0, "in which requests are still answered after SIGTERM")

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"Expected a positive number. Received: {name}={value!r}")

    @classmethod
    def add_to(cls, parser: argparse.ArgumentParser) -> None:
        """Add an option for each limit."""
        group = parser.add_argument_group("limits")
        for each in dataclasses.fields(cls):
            group.add_argument(
                f"--{each.name.replace('_', '-')}",
                type=type(each.default),
                default=each.default,
                help=f"{each.metadata['help']} (default: %(default)s)",
            )

    @classmethod
    def of(cls, options: argparse.Namespace) -> Self:
        """Those of the command line."""
        return cls(**{each.name: getattr(options, each.name) for each in dataclasses.fields(cls)})
