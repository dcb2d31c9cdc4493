"""The one thread that computes, and the requests that wait for it."""

import asyncio
import dataclasses
import json
import logging
import queue
import threading
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from service.answer import Answer, Answers
from service.bodies import records_of
from service.limits import Limits
from service.metrics import Metrics
from service.problem import Problem
from service.served import Served

__all__ = ["Worker"]

_LOG = logging.getLogger("uvicorn.error")


@dataclass
class _Job:
    """A request: its body, what was read of it, and who waits for the answer."""

    body: bytes
    is_batch: bool
    answer: "Future[bytes]" = field(default_factory=Future)
    n_records: int = 0
    n_values: int = 0
    inputs: Any = None


class Worker:
    """Answers bodies in a thread of its own, so that the event loop never waits.

    Requests that have come in the meantime are computed together: most of the time of a call does
    not depend on the number of records. TensorFlow uses all cores for a call, so that a second
    thread would not help; a second process does.

    Args:
        served: the network and its rules.
        limits: how many may wait, how long, and how much is computed at once.
        metrics: to count.
    """

    def __init__(self, served: Served, limits: Limits, metrics: Metrics) -> None:
        self._served, self._limits, self._metrics = served, limits, metrics
        self._waiting: queue.Queue[_Job | None] = queue.Queue(limits.waiting)
        # A daemon, so that a second Ctrl-C ends the process, whatever it computes.
        self._thread = threading.Thread(target=self._run, name="network", daemon=True)
        self._thread.start()

    @property
    def is_ready(self) -> bool:
        """Whether another request may come."""
        return self._thread.is_alive() and not self._waiting.full()

    async def answer(self, body: bytes, is_batch: bool) -> bytes:
        """The answer to a body, as JSON.

        Raises:
            Problem: if it cannot be read, or if there is no time for it.
        """
        job = _Job(body, is_batch)
        try:
            self._waiting.put_nowait(job)
        except queue.Full:
            raise Problem(503, "busy", "Too many requests wait; try again later") from None
        try:
            async with asyncio.timeout(self._limits.answer_seconds):
                return await asyncio.wrap_future(job.answer)
        except TimeoutError:
            message = f"No answer within {self._limits.answer_seconds:g} s; try again later"
            raise Problem(503, "too_late", message) from None

    def close(self) -> None:
        """Answer all that wait, and end the thread."""
        self._waiting.put(None)
        self._thread.join()

    # In the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        is_open = True
        while is_open:
            jobs, is_open = self._next()
            for some in self._together(filter(self._read, jobs)):
                self._compute(some)

    def _next(self) -> tuple[list[_Job], bool]:
        """Those that wait, at least one, up to the size of one body; and whether more may come."""
        jobs: list[_Job] = []
        n_bytes = 0
        while not jobs or (n_bytes < self._limits.body_bytes and not self._waiting.empty()):
            job = self._waiting.get()
            if job is None:
                return jobs, False
            jobs.append(job)
            n_bytes += len(job.body)
        return jobs, True

    def _read(self, job: _Job) -> bool:
        """Whether a body holds records that the network can read; otherwise it is refused."""
        if not job.answer.set_running_or_notify_cancel():  # nobody waits any more
            return False
        try:
            records, job.n_values = records_of(job.body, job.is_batch, self._limits)
            job.inputs = self._served.read_records(records, job.is_batch)
            job.n_records = len(records)
        except Problem as problem:
            job.answer.set_exception(problem)
        except Exception as error:
            job.answer.set_exception(_fault(error))
        return not job.answer.done()

    def _together(self, jobs: Iterable[_Job]) -> Iterator[list[_Job]]:
        """Jobs that hold no more values than are allowed in one."""
        some: list[_Job] = []
        for job in jobs:
            if some and sum(each.n_values for each in [*some, job]) > self._limits.values:
                yield some
                some = []
            some.append(job)
        if some:
            yield some

    def _compute(self, jobs: list[_Job]) -> None:
        try:
            inputs, sizes = [job.inputs for job in jobs], [job.n_records for job in jobs]
            answers = self._served.answers(inputs, sizes)
            contents = [
                _content(found, job.is_batch) for found, job in zip(answers, jobs, strict=True)
            ]
        except Exception as error:
            fault = _fault(error)
            for job in jobs:
                job.answer.set_exception(fault)
            return
        for job, content, found in zip(jobs, contents, answers, strict=True):
            self._metrics.count_records(found)
            job.answer.set_result(content)


def _content(answers: list[Answer], is_batch: bool) -> bytes:
    content = Answers(answers) if is_batch else answers[0]
    return json.dumps(dataclasses.asdict(content), allow_nan=False).encode("ascii")


def _fault(error: Exception) -> Problem:
    """A fault of ours. The log gets no message, which might quote the request."""
    where = "".join(traceback.format_tb(error.__traceback__))
    _LOG.error("%s\n%s", type(error).__name__, where)
    return Problem(500, "fault", "The service failed; its log says where")
