"""The HTTP service under load: `python benchmarks/serving.py`.

It starts `examples/http_service.py` with its demo on this machine, and lets clients ask it at once,
each for one customer after another, or for a hundred in a request. An answer of another status than
200, or a label that is not the true one where network and rules agree on it, ends the benchmark.
Results go to `benchmarks/results/serving.json`.
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import httpx
import numpy as np
from records import write

from keras_mmil.datasets.synthetic import churn

SERVICE = Path(__file__).parents[1] / "examples" / "http_service.py"
_READY = re.compile(r"running on (http://\S+)")
_TIME_LIMIT = 300  # seconds to start, and to end
_RIGHT = 0.98  # share of the labels, at least: what an answer has to do with its record


class Server:
    """The service as a process, at `url`, which ends with a `with` block.

    Args:
        arguments: of its command line; the port is free to choose.
    """

    def __init__(self, *arguments):
        self._arguments = [*map(str, arguments), "--port", "0"]

    def __enter__(self):
        self._log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        command = [sys.executable, str(SERVICE), *self._arguments]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, env=environment
        )
        started = time.monotonic()
        while not (found := _READY.search(self.log())):
            if self.process.poll() is not None or time.monotonic() - started > _TIME_LIMIT:
                self.process.kill()
                raise RuntimeError(f"Expected a service that starts. Received: {self.log()}")
            time.sleep(0.1)
        self.url = found[1]
        return self

    def __exit__(self, *exception):
        self.process.terminate()
        try:
            self.process.wait(_TIME_LIMIT)
        finally:
            self.process.kill()
            self._log.close()

    def log(self):
        """What it has printed."""
        return Path(self._log.name).read_text(encoding="utf-8")

    def memory_gb(self, field="VmHWM"):
        """A line of Linux's account of its memory, by default the greatest that it was."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(re.search(rf"^{field}:\s+(\d+)", status, re.MULTILINE)[1]) / 2**20


def main():
    """Measure, print, and record."""
    options = parse(sys.argv[1:])
    with Server(options.model or "--demo") as server:
        found = measured(server, options.requests, options.clients)
    if not options.dry:
        write("serving", found)


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="folder of the demo, if it is there already")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--clients", type=int, default=16, help="that ask at once")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    return parser.parse_args(arguments)


def measured(server, n_requests, n_clients):
    """The figures, as records."""
    records = []
    for size, clients in ((1, 1), (1, n_clients), (100, 4)):
        n = n_requests if clients == n_clients else max(n_requests // 10, clients)
        customers, labels = made_up(n * size)
        started = time.perf_counter()
        seconds, answers = asyncio.run(asked(server.url, customers, size, clients))
        elapsed = time.perf_counter() - started
        right = [answer["label"] == label for answer, label in zip(answers, labels, strict=True)]
        if np.mean(right) < _RIGHT:
            raise RuntimeError(f"Expected right labels. Received: {np.mean(right):.1%} of them")
        figures = {
            "p50_ms": 1000 * np.quantile(seconds, 0.5),
            "p99_ms": 1000 * np.quantile(seconds, 0.99),
            "requests_per_second": n / elapsed,
            "errors": 0,
            "peak_gb": server.memory_gb(),
        }
        variant = f"{clients} at once, {size} in a request"
        print(variant, {name: round(float(each), 2) for name, each in figures.items()}, flush=True)
        records += [
            {
                "experiment": "serving",
                "model": "churn",
                "variant": variant,
                "metric": metric,
                "mean": round(float(mean), 4),
                "runs": n,
            }
            for metric, mean in figures.items()
        ]
    return records


async def asked(url, customers, size, n_clients):
    """Ask for all customers.

    Returns:
        Seconds of each request, and the answers in the order of the customers.
    """
    bodies = [customers[i : i + size] for i in range(0, len(customers), size)]
    path = "/predict" if size == 1 else "/predict/batch"
    seconds, answers = [0.0] * len(bodies), [None] * len(bodies)
    waiting = iter(enumerate(bodies))

    async def client(http):
        for i, some in waiting:
            body = {"record": some[0]} if size == 1 else {"records": some}
            started = time.perf_counter()
            response = await http.post(path, json=body)
            seconds[i] = time.perf_counter() - started
            if response.status_code != 200:
                raise RuntimeError(f"Expected status 200. Received: {response.text}")
            found = response.json()
            answers[i] = [found] if size == 1 else found["answers"]

    async with httpx.AsyncClient(base_url=url, timeout=_TIME_LIMIT) as http:
        await asyncio.gather(*(client(http) for _ in range(n_clients)))
    return seconds, [answer for some in answers for answer in some]


def made_up(n):
    """Customers as JSON knows them, and the names of their classes."""
    tables = churn.load_churn(n, seed=1, share_missing=0.05).tables
    items, orders = defaultdict(list), defaultdict(list)
    for row in rows(tables["items"]):
        items[row.pop("order")].append(row)
    for row in rows(tables["orders"]):
        orders[row.pop("customer")].append({**row, "items": items[row["id"]]})
    customers = [{**row, "orders": orders[row["id"]]} for row in rows(tables["customers"])]
    return customers, [str(row.pop(churn.TARGET)) for row in customers]


def rows(table):
    """The rows of a table of columns, as dicts."""
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


if __name__ == "__main__":
    main()
