"""Bodies that nobody means well with get 4xx, or an answer that is the classifier's: never 5xx."""

import gzip
import json
import time
import zlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from service_client import Client

from service.demo import CUSTOMER
from service.limits import Limits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.* (has|have) nothing at :UserWarning"),  # as in the service
]

LIMITS = Limits(body_bytes=20_000, values=500, records=20)
SLOWEST = 20  # seconds for an answer on a busy machine, where it takes a tenth of one

NAMES = ["city", "age", "orders", "items", "category", "price", "returned", "paid_late", "channel"]
ODD_KEYS = ["", ".", "__proto__", "constructor", "__class__", "$ref", "key", "[]", "\0", "orders."]
ODD_TEXTS = ["\0", "\ud800", "\udc00x", "\u202e", "<script>", "\x1b[31m", "{0.__class__}", "%s%n"]
ODD_NUMBERS = [
    *(0, -0.0, 1e308, -1e308, 1e-320, 1e39, 3.5e38, 2**53 + 1, 2**63, -(2**63), 2**64, 10**400),
    *(2**62, -(2**62), float("nan"), float("inf"), -float("inf"), 10**38, 10**39),
]

keys = st.one_of(st.sampled_from(NAMES), st.sampled_from(ODD_KEYS), st.text(max_size=8))
# With halves of surrogate pairs, which JSON can write.
texts = st.one_of(
    st.sampled_from(["Rome", "electronics", "2024-01-01", *ODD_TEXTS]),
    st.text(st.characters(), max_size=20),
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from(ODD_NUMBERS),
    st.floats(),
    texts,
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def mostly(draw, good, odd=values, one_in=25):
    """What is good, and now and then something odd."""
    return draw(odd if draw(st.sampled_from(range(one_in))) == 1 else good)


numbers = mostly(st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(ODD_NUMBERS))
flags = mostly(st.booleans() | st.sampled_from([0, 1, 0.5]))
some_items = st.fixed_dictionaries(
    {},
    optional={
        "category": mostly(texts),
        "price": numbers,
        "returned": flags,
        "quantity": numbers,
        "note": mostly(texts),
    },
)
some_orders = st.fixed_dictionaries(
    {},
    optional={
        "channel": mostly(texts),
        "paid_late": flags,
        "items": mostly(st.lists(mostly(some_items), max_size=3)),
        "date": mostly(texts),
    },
)
customers = st.builds(
    lambda known, others: others | known,
    st.fixed_dictionaries(
        {},
        optional={
            "city": mostly(texts),
            "age": numbers,
            "churned": values,
            "orders": mostly(st.lists(mostly(some_orders), max_size=3)),
        },
    ),
    mostly(st.just({}), st.dictionaries(keys, values, max_size=2), one_in=3),
)
records = mostly(customers, one_in=8)
envelopes = mostly(
    st.one_of(
        st.tuples(st.just("/predict"), st.builds(lambda record: {"record": record}, records)),
        st.tuples(
            st.just("/predict/batch"),
            st.builds(lambda some: {"records": some}, st.lists(customers, min_size=1, max_size=3)),
        ),
    ),
    st.tuples(st.sampled_from(["/predict", "/predict/batch"]), values),
    one_in=8,
)


def encoded(content, ensure_ascii):
    """JSON as Python writes it: NaN and Infinity, and halves of pairs, included."""
    return json.dumps(content, ensure_ascii=ensure_ascii).encode("utf-8", "surrogatepass")


@st.composite
def damaged(draw):
    """A good body, cut, changed, or written twice."""
    body = encoded({"record": draw(customers)}, draw(st.booleans()))
    at = draw(st.integers(0, len(body)))
    return draw(
        st.sampled_from(
            [
                body[:at],
                body[:at] + draw(st.binary(min_size=1, max_size=3)) + body[at + 1 :],
                body + body,
                body.replace(b"{", b'{"age":1,"age":2,', 1),
                b'{"record":' * at + body,
                b"\xef\xbb\xbf" + body,
                body.decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass"),
                gzip.compress(body),
            ]
        )
    )


@st.composite
def large(draw):
    """A body with very much of something."""
    n = draw(st.sampled_from([100, 5_000, 30_000, 10**6]))
    return draw(
        st.sampled_from(
            [
                b"[" * n,
                b'{"record":' + b"[" * n + b"]" * n + b"}",
                b'{"record":' + b'{"x":' * n + b"1" + b"}" * n + b"}",
                b'{"record":{"age":' + b"9" * n + b"}}",
                b'{"record":{"age":0.' + b"3" * n + b"}}",
                b'{"record":{"age":1e' + b"9" * n + b"}}",
                b'{"record":{"city":"' + b"x" * n + b'"}}',
                b'{"record":{"' + b"k" * n + b'":1}}',
                b'{"record":{"orders":[' + b"{}," * n + b"{}]}}",
                b'{"record":{"orders":[{"items":[' + b"null," * n + b"{}]}]}}",
                b'{"record":{' + b",".join(b'"%d":1' % i for i in range(n // 10)) + b"}}",
                b" " * n + b'{"record":{}}',
            ]
        )
    )


headers = st.sampled_from(
    [
        {"content-type": "text/plain"},
        {"content-type": ""},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": "application/json;" * 50},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-encoding": "gzip"},
        {"content-encoding": "br, deflate"},
        {"content-length": "99999999999999999999999999"},
        {"accept": "*/*;q=" + "9" * 1000},
        {"x-forwarded-for": "\x1b[31m'; DROP TABLE"},
    ]
)
in_envelopes = st.builds(lambda pair, a: (pair[0], encoded(pair[1], a)), envelopes, st.booleans())
at_one = st.one_of(damaged(), large(), st.binary(max_size=50))
requests = st.tuples(
    mostly(in_envelopes, st.tuples(st.just("/predict"), at_one), one_in=4),
    mostly(st.just({}), headers, one_in=8),
)


class Judge:
    """Sends requests, and compares the answers with the classifier's: of all records at once."""

    def __init__(self, client, estimator):
        self._client, self._estimator = client, estimator
        self.answered, self.statuses = [], Counter()

    def send(self, path, body, headers):
        started = time.monotonic()
        response = self._client.post(body, path, headers)
        assert time.monotonic() - started < SLOWEST
        status = response.status_code
        self.statuses[status] += 1
        assert status == 200 or 400 <= status < 500, (status, path, body[:500], response.text)
        content = response.json()
        if status != 200:
            assert content.keys() == {"error"}
            assert content["error"].keys() == {"code", "message", "where"}
            assert len(content["error"]["message"]) < 600
            return
        sent = json.loads(body)
        if path == "/predict":
            self.answered.append((sent["record"], content))
        else:
            self.answered += zip(sent["records"], content["answers"], strict=True)

    def judge(self):
        """Compare, and return how many were compared."""
        records = [record for record, _ in self.answered]
        probabilities = self._estimator.predict_proba(records)
        explanations = self._estimator.explain(records)
        for (_, answer), expected, explanation in zip(
            self.answered, probabilities, explanations, strict=True
        ):
            np.testing.assert_allclose(list(answer["probabilities"].values()), expected, atol=1e-4)
            assert answer["rules_label"] == explanation.top_bag.name
            rest, found = (
                str(text).partition(" is ")[2] for text in (explanation, answer["explanation"])
            )
            assert found == rest
        return len(records)


def attack(client, estimator, n):
    judge = Judge(client, estimator)

    @settings(
        max_examples=n, database=None, suppress_health_check=list(HealthCheck), derandomize=n < 1000
    )
    @example((("/predict", b" " * 10**6), {}))  # few are drawn that are so large, or
    @example((("/predict", b"{}"), {"content-type": "text/plain"}))  # no JSON by their header
    @given(requests)
    def sent(request):
        (path, body), headers = request
        judge.send(path, body, headers)

    sent()
    n_answered = judge.judge()
    print(f"{judge.statuses.total()} requests, by status: {judge.statuses}")
    assert n_answered > n // 5  # so that not all of them are refused at the door
    assert {400, 413, 415, 422} <= judge.statuses.keys()
    assert client.get("/health").json()["ready"]
    assert client.post({"record": CUSTOMER}).json()["label"] == "True"


@pytest.fixture(scope="module")
def guarded(served):
    with Client(served, LIMITS) as client:
        yield client


def test_hostile_bodies_get_4xx_or_the_right_answer(guarded, estimator):
    attack(guarded, estimator, 80)


@pytest.mark.nightly
def test_many_hostile_bodies_get_4xx_or_the_right_answer(guarded, estimator):
    attack(guarded, estimator, 10_000)


def test_bombs_are_not_unpacked(guarded):
    bomb = zlib.compress(b" " * 10**8, 9)
    for encoding in ("gzip", "deflate", "br", "zstd", "gzip, gzip", "identity, gzip"):
        response = guarded.post(bomb, headers={"content-encoding": encoding})
        assert response.status_code == 415 if len(bomb) < LIMITS.body_bytes else 413
