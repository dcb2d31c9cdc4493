"""The service as a process: load, slow and broken clients, and its end."""

import asyncio
import contextlib
import gzip
import importlib
import json
import random
import re
import signal
import socket
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from service.demo import CUSTOMER

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

SECONDS = 1.0  # for heads and for bodies
LIMITS = ["--head-seconds", SECONDS, "--body-seconds", SECONDS, "--body-bytes", 100_000]
PATIENCE = 15.0  # more than that is a hang
CLOSE = "Connection: close\r\n"
BODY = json.dumps({"record": CUSTOMER}).encode()
MOST_GROWTH_GB = 0.15


def head(length=None, more="", path="/predict"):
    length = len(BODY) if length is None else length
    lines = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return f"{lines}Content-Length: {length}\r\n{more}\r\n".encode()


CHUNKED = head().replace(b"Content-Length: %d" % len(BODY), b"Transfer-Encoding: chunked")


@pytest.fixture(scope="module")
def serving(demo_folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module("serving")


@pytest.fixture(scope="module")
def server(serving, demo_folder):
    with serving.Server(demo_folder, *LIMITS) as server:
        ask(server)
        server.before = server.memory_gb("VmRSS")
        yield server


@contextlib.contextmanager
def connected(server):
    url = urlsplit(server.url)
    with socket.create_connection((url.hostname, url.port), timeout=PATIENCE) as client:
        yield client


def rest(client):
    """All that comes until the server closes the connection."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := client.recv(2**16):
            found += chunk
    return found


def sent(server, *pieces):
    with connected(server) as client:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for piece in pieces:
                client.sendall(piece)
        return rest(client)


def statuses(answer):
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


def ask(server, path="/predict", body=BODY):
    request = urllib.request.Request(server.url + path, body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return json.load(response) if "json" in response.headers["content-type"] else None


def is_ready(server):
    with urllib.request.urlopen(f"{server.url}/health", timeout=PATIENCE) as response:
        return json.load(response) == {"live": True, "ready": True}


def test_load_is_served_without_errors(server, serving):
    customers, labels = serving.made_up(60)
    seconds, answers = asyncio.run(serving.asked(server.url, customers, 1, 16))
    assert len(seconds) == len(answers) == 60
    assert [answer["label"] for answer in answers] == labels


@pytest.mark.parametrize(
    "pieces",
    [[], [b"P"], [b"POST /predict HTTP/1.1\r\n", b"Host: x\r\n"], [head()[:-2]]],
    ids=["nothing", "a byte", "some lines", "all but the end"],
)
def test_a_head_that_does_not_come_ends_the_connection(server, pieces):
    started = time.monotonic()
    assert statuses(sent(server, *pieces)) == []
    assert time.monotonic() - started < SECONDS + 4


def test_a_head_in_drops_ends_the_connection(server):
    with connected(server) as client:
        started = time.monotonic()
        with contextlib.suppress(OSError):
            for byte in head():
                client.sendall(bytes([byte]))
                time.sleep(0.1)
        assert time.monotonic() - started < SECONDS + 4
        assert rest(client) == b""


def test_a_second_head_is_not_waited_for_either(server):
    for start in (b"", b"POST /pre"):
        with connected(server) as client:
            client.sendall(head() + BODY + start)
            started = time.monotonic()
            assert statuses(rest(client)) == [200]
            assert time.monotonic() - started < 9  # where nothing has begun, uvicorn waits 5 s


def test_connections_are_kept_and_requests_may_follow_closely(server):
    answer = sent(server, (head() + BODY) * 3 + head(more=CLOSE) + BODY)
    assert statuses(answer) == [200] * 4


def test_a_slow_body_is_refused(server):
    with connected(server) as client:
        client.sendall(head())
        with contextlib.suppress(OSError):
            for byte in BODY[:60]:
                client.sendall(bytes([byte]))
                time.sleep(0.05)
        answer = rest(client)
    assert statuses(answer) == [408]
    assert b'"too_slow"' in answer


def test_a_body_that_is_cut_does_no_harm(server):
    for pieces in ([head(), BODY[:50]], [CHUNKED, b"5\r\nab"]):
        with connected(server) as client:
            for piece in pieces:
                client.sendall(piece)
            client.shutdown(socket.SHUT_WR)
            assert 200 not in statuses(rest(client))
    for _ in range(30):
        with connected(server) as client:  # gone before the answer is there
            client.sendall(head() + BODY)
    assert is_ready(server)


def chunked(*pieces):
    return [CHUNKED, *(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n"]


def test_chunks_are_read_up_to_the_limit(server):
    last = [CHUNKED.replace(b"Host", b"Connection: close\r\nHost")]
    good = sent(server, *last, *chunked(*[bytes([byte]) for byte in BODY])[1:])
    assert statuses(good) == [200]
    for n, status in ((2, 413), (10, 413), (200, 413)):
        pieces = [b" " * 60_000] * n
        answer = sent(server, *last, *chunked(*pieces)[1:])
        assert statuses(answer) in ([status], [])  # a client that goes on sending may miss it
        assert statuses(answer) or n == 200
    assert is_ready(server)


RANDOM = random.Random(0)
# A client that sends on when the connection is closed may find it reset, and no answer; and no end
# of a head can come in what is none.
UNANSWERED = {"a huge length", "a huge chunk", "a huge head", "many lines", "no HTTP", "TLS"}
WRONG = {
    "shorter than it says": [head(10, CLOSE), BODY],
    "no length": [head(more=CLOSE).replace(b"Content-Length", b"X-Length")],
    "a negative length": [head(-1)],
    "no number": [head("ten")],
    "two lengths": [head(more="Content-Length: 3\r\n"), BODY],
    "a huge length": [head(10**15), b" " * 500_000],
    "a length of many digits": [head("9" * 4000)],
    "length and chunks": [head(more=f"Transfer-Encoding: chunked\r\n{CLOSE}"), BODY],
    "chunks that are none": [CHUNKED, b"zz\r\n\r\n"],
    "a huge chunk": [CHUNKED, b"ffffffffffffffff\r\n", b" " * 500_000],
    "a negative chunk": [CHUNKED, b"-5\r\nhello\r\n0\r\n\r\n"],
    "another encoding": [head(more=f"Transfer-Encoding: gzip\r\n{CLOSE}"), BODY],
    "a bomb": [
        head(len(gzip.compress(b" " * 10**7)), f"Content-Encoding: gzip\r\n{CLOSE}"),
        gzip.compress(b" " * 10**7),
    ],
    "a huge head": [b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 10**6 + b"\r\n\r\n"],
    "many lines": [b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: x\r\n" * 10**5 + b"\r\n"],
    "an empty line": [b"\r\n"],
    "a line in two": [head(more=f"X: a\r\n b\r\n{CLOSE}"), b"{}" * 40],
    "odd letters": [head(more=f"X: a\0b\r\n{CLOSE}")],
    "no HTTP": [RANDOM.randbytes(2000)],
    "TLS": [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + RANDOM.randbytes(500)],
    "HTTP/2": [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    "HTTP/0.9": [b"GET /\r\n\r\n"],
    "another method": [b"DELETE /predict HTTP/1.1\r\nHost: x\r\n" + CLOSE.encode() + b"\r\n"],
    "a strange method": [b"G\x00T / HTTP/1.1\r\nHost: x\r\n\r\n"],
    "a path out of here": [head(0, CLOSE, "/../../etc/passwd")],
    "a path of odd letters": [head(0, CLOSE, "/%00%ff%0d%0aX:%20y")],
    "an upgrade": [head(0, "Connection: upgrade, close\r\nUpgrade: websocket\r\n", "/predict")],
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_request_is_refused_at_once(server, case):
    started = time.monotonic()
    found = statuses(sent(server, *WRONG[case]))
    assert all(400 <= status < 500 for status in found)
    assert found or case in UNANSWERED
    assert time.monotonic() - started < SECONDS + 4


def test_many_slow_clients_leave_room_for_others(server):
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connected(server)) for _ in range(100)]
        for client in slow:
            client.sendall(b"POST /predict HTTP/1.1\r\nHost:")
        assert ask(server)["label"] == "True"
        assert is_ready(server)


def test_after_all_that_it_is_ready_and_has_not_grown(server):
    for i in range(10):
        wide = {"orders": [{"items": [{"price": i + j} for j in range(20)]}] * 40}
        ask(server, body=json.dumps({"record": wide}).encode())
    assert is_ready(server)
    assert ask(server)["label"] == "True"
    assert server.memory_gb("VmRSS") - server.before < MOST_GROWTH_GB
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=PATIENCE) as response:
        text = response.read().decode()
    (open_files,) = re.findall(r"^process_open_fds (\S+)$", text, re.MULTILINE)
    assert float(open_files) < 60  # no connection is left over
    assert "Traceback" not in server.log()
    assert "passwd" not in server.log() + text


def test_sigterm_lets_requests_finish(server):
    """The last: it ends the service."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(server)) for _ in range(8)]
        for client in clients:
            client.sendall(head(more=f"Expect: 100-continue\r\n{CLOSE}"))
        for client in clients:  # a connection not accepted yet would be reset, by the kernel
            assert statuses(client.recv(2**10)) == [100]
        server.process.send_signal(signal.SIGTERM)
        for client in clients:
            client.sendall(BODY)
        answers = [rest(client) for client in clients]
    assert [statuses(answer) for answer in answers] == [[200]] * 8
    bodies = [json.loads(answer.rpartition(b"\r\n\r\n")[2]) for answer in answers]
    assert {body["label"] for body in bodies} == {"True"}
    assert server.process.wait(PATIENCE) in (0, -signal.SIGTERM)
