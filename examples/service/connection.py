"""Connections that are closed where the head of a request does not come."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["patient_for"]


def patient_for(seconds: float) -> type[H11Protocol]:
    """uvicorn's connections, with a time limit that these lack.

    uvicorn waits for ever for the first head on a connection, and for the rest of any that has
    begun. A few thousand clients who send a byte now and then would hold all its connections.

    Args:
        seconds: from when a connection is made, or the first byte of a further head comes, to when
            this head is whole.
    """

    class Connection(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            if self._is_between_requests and self._deadline is None:
                self._wait()
            super().data_received(data)
            if not self._is_between_requests:
                self._stop_waiting()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def on_response_complete(self) -> None:
            super().on_response_complete()  # which starts with what has come of the next request
            if self._is_between_requests and self.conn.trailing_data[0]:
                self._wait()

        @property
        def _is_between_requests(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _wait(self) -> None:
            self._stop_waiting()
            self._deadline = self.loop.call_later(seconds, self.transport.close)

        def _stop_waiting(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Connection
