"""What the service counts, for Prometheus."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.exposition import generate_latest

from service.answer import Answer

__all__ = ["Metrics"]

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counters of one service. None of their names holds anything of a request."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "requests",
            "Requests that were answered or refused",
            ["endpoint", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "request_seconds",
            "Time from the head of a request to its answer",
            ["endpoint"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._records = Counter(
            "records",
            "Records by the class that the network gave them, and whether the rules agree",
            ["label", "agrees"],
            registry=self._registry,
        )

    def count_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request.

        Args:
            endpoint: its path, if there is such an endpoint.
            status: of its answer.
            seconds: that it took.
        """
        self._requests.labels(endpoint, str(status)).inc()
        self._seconds.labels(endpoint).observe(seconds)

    def count_records(self, answers: Iterable[Answer]) -> None:
        """Count records that were answered."""
        for answer in answers:
            self._records.labels(answer.label, str(answer.agrees).lower()).inc()

    def as_text(self) -> bytes:
        """All of them, in the format of Prometheus."""
        return generate_latest(self._registry)
