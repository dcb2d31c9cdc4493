"""What a client is told instead of an answer."""

import json
from dataclasses import dataclass
from typing import Self

__all__ = ["Problem", "ProblemBody", "Refusal"]

_LONGEST = 500  # characters of a message, which may quote the request


@dataclass(frozen=True)
class Refusal:
    """Why there is no answer.

    Attributes:
        code: for programs, such as "too_large".
        message: for people.
        where: in the request, such as "records[3]"; null where it is about all of it.
    """

    code: str
    message: str
    where: str | None = None


@dataclass(frozen=True)
class ProblemBody:
    """The body of all answers but those of status 200."""

    error: Refusal


class Problem(Exception):
    """A request that is not answered.

    Attributes:
        status: of HTTP.
        refusal: what the client is told.
        has_unread_body: whether the connection has to be closed, as more of the body may come.
    """

    def __init__(self, status: int, code: str, message: str, where: str | None = None) -> None:
        super().__init__(code)
        if len(message) > _LONGEST:
            message = f"{message[:_LONGEST]}…"
        self.status, self.refusal = status, Refusal(code, message, where)
        self.has_unread_body = False

    def with_unread_body(self) -> Self:
        """The same, of a body that was not read to its end."""
        self.has_unread_body = True
        return self

    def content(self) -> bytes:
        """The body of the response: ASCII, so that nothing in it can break what shows it."""
        return json.dumps({"error": vars(self.refusal)}).encode("ascii")
