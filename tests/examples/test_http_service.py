"""The HTTP service says what the classifier says, and refuses the rest in a form for programs."""

import asyncio
import dataclasses
import gzip
import shutil
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
from seals import reseal
from service_client import Client

import keras_mmil
from keras_mmil.layers import BagLayer, InstanceWise, TextBags
from service.demo import CUSTOMER
from service.limits import Limits
from service.served import Served

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.* (has|have) nothing at :UserWarning"),  # as in the service
]

LATE = {"orders": [{"paid_late": True, "items": [{"category": "electronics", "returned": True}]}]}
RECORDS = [CUSTOMER, LATE, {}, {"age": None, "orders": []}, {"city": "Nowhere", "shoe": 44}]


def check(answer, record, estimator, number=0):
    """An answer says what the classifier says."""
    (probabilities,) = estimator.predict_proba([record])
    names = [str(name) for name in estimator.classes_]
    assert answer["probabilities"] == pytest.approx(
        dict(zip(names, probabilities, strict=True)), abs=1e-5
    )
    assert answer["label"] == str(estimator.predict([record])[0])
    (explanation,) = estimator.explain([record])
    assert answer["rules_label"] == explanation.top_bag.name
    assert answer["agrees"] == (answer["label"] == answer["rules_label"])
    assert answer["explanation"] == str(explanation).replace("record 0", f"record {number}", 1)
    assert answer["fired"][0]["because"] == str(explanation.top_bag.reason)


def test_an_answer_is_that_of_the_classifier(client, estimator):
    for record in RECORDS:
        response = client.post({"record": record})
        assert response.status_code == 200
        assert response.headers["x-content-type-options"] == "nosniff"
        check(response.json(), record, estimator)


def test_an_answer_names_the_rules_that_fired(client):
    found = client.post({"record": CUSTOMER}).json()
    assert (found["label"], found["agrees"]) == ("True", True)
    assert [(each["part"], each["position"], each["role"]) for each in found["fired"]] == [
        ("record", [], None),
        ("orders", [1], "decides"),
    ]
    assert "items are (category electronics, returned)" in found["fired"][-1]["because"]
    assert client.post({"record": LATE}).json()["label"] == "False"


def test_a_batch_has_an_answer_for_each_record(client, estimator):
    answers = client.post({"records": RECORDS}, "/predict/batch").json()["answers"]
    assert len(answers) == len(RECORDS)
    for number, (answer, record) in enumerate(zip(answers, RECORDS, strict=True)):
        check(answer, record, estimator, number)


def test_requests_at_once_are_answered_each(client, estimator, served, monkeypatch):
    sizes_together = []

    def watched(self, inputs, sizes):
        sizes_together.append(sizes)
        return answers(self, inputs, sizes)

    answers = Served.answers
    monkeypatch.setattr(Served, "answers", watched)

    async def ask():
        bodies = [{"record": record} for record in RECORDS] * 3
        wrong = client.posting({"record": {"orders": 3}})
        return await asyncio.gather(wrong, *map(client.posting, bodies))

    refused, *responses = client.run(ask())
    assert refused.status_code == 422
    for response, record in zip(responses, RECORDS * 3, strict=True):
        check(response.json(), record, estimator)
    assert sum(map(len, sizes_together)) == len(responses)
    assert max(map(len, sizes_together)) > 1  # which is what is tested here


SMALL = Limits(body_bytes=300, depth=4, records=2, values=12)
GOOD = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("body", "headers", "status", "code", "where"),
    [
        (b"", {}, 400, "no_json", "line 1, column 1"),
        (b'{"record": {}', {}, 400, "no_json", "line 1, column 14"),
        (b'{"record": {}} x', {}, 400, "no_json", "line 1, column 16"),
        (b'{"record": {"city": "\xff"}}', {}, 400, "no_utf_8", "byte 21"),
        (b'\xef\xbb\xbf{"record": {}}', {}, 400, "no_json", "line 1, column 1"),
        ('{"record": {}}'.encode("utf-16"), {}, 400, "no_utf_8", "byte 0"),
        (b'{"record": {"age": NaN}}', {}, 400, "no_json", None),
        (b'{"record": {"age": -Infinity}}', {}, 400, "no_json", None),
        (b'{"record": {"age": 1, "age": 2}}', {}, 400, "no_json", None),
        (b'{"record": {"age": 1e999}}', {}, 422, "too_large_number", None),
        (b'{"record": {"age": 9' + b"0" * 200 + b"}}", {}, 422, "too_large_number", None),
        (b'{"record": {"age": 3.4e38}}', {}, 200, None, None),
        (b'{"record": {"age": -3.5e38}}', {}, 422, "too_large_number", None),
        (b'{"record": {"orders": [{"paid_late": 2}]}}', {}, 422, "wrong_record", None),
        (b"[]", {}, 422, "wrong_envelope", None),
        (b"{}", {}, 422, "wrong_envelope", None),
        (b'{"record": {}, "more": 1}', {}, 422, "wrong_envelope", None),
        (b'{"records": [{}]}', {}, 422, "wrong_envelope", None),
        (b'{"record": null}', {}, 422, "wrong_record", None),
        (b'{"record": []}', {}, 422, "wrong_record", None),
        (b'{"record": "x"}', {}, 422, "wrong_record", None),
        (b'{"record": {"age": "old"}}', {}, 422, "wrong_record", None),
        (b'{"record": {"orders": {"items": []}}}', {}, 422, "wrong_record", None),
        (b'{"record": {"x": [[1]]}}', {}, 200, None, None),
        (b'{"record": {"x": [[[1]]]}}', {}, 422, "too_deep", None),
        (b'{"record": {"x": [1, 2, 3, 4, 5, 6, 7, 8, 9]}}', {}, 200, None, None),
        (b'{"record": {"x": [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]}}', {}, 422, "too_many_values", None),
        (b'{"record": {}}' + b" " * 286, {}, 200, None, None),
        (b'{"record": {}}' + b" " * 287, {}, 413, "too_large", None),
        (b" " * 10_000, {}, 413, "too_large", None),
        (b'{"record": {}}', {"content-type": "text/plain"}, 415, "wrong_content_type", None),
        (
            b'{"record": {}}',
            {"content-type": "application/json; charset=utf-16"},
            415,
            "wrong_content_type",
            None,
        ),
        (
            b'{"record": {}}',
            {"content-type": "application/json; charset=UTF-8"},
            200,
            None,
            None,
        ),
        (
            gzip.compress(b" " * 10**6),
            {"content-encoding": "gzip"},
            415,
            "wrong_content_encoding",
            None,
        ),
    ],
)
def test_what_is_refused_is_named(small, body, headers, status, code, where):
    response = small.post(body, headers=headers)
    assert response.status_code == status
    if code is not None:
        error = response.json()["error"]
        assert (error["code"], error["where"]) == (code, where)
        assert error["message"].startswith(("Expected", "'age' is", "'orders.paid_"))


@pytest.fixture(scope="module")
def small(served):
    with Client(served, SMALL) as client:
        yield client


@pytest.mark.parametrize(
    ("body", "code", "where"),
    [
        ({"records": []}, "wrong_number", "records"),
        ({"records": {}}, "wrong_number", "records"),
        ({"records": [{}, {}, {}]}, "wrong_number", "records"),
        ({"record": {}}, "wrong_envelope", None),
        ({"records": [{}, 7]}, "wrong_record", "records[1]"),
        ({"records": [{}, {"orders": "none"}]}, "wrong_record", "records[1]"),
    ],
)
def test_wrong_batches_are_named(small, body, code, where):
    response = small.post(body, "/predict/batch")
    assert response.status_code == 422
    assert (response.json()["error"]["code"], response.json()["error"]["where"]) == (code, where)


def test_deep_nesting_is_no_recursion(client):
    for n in (33, 1000, 100_000, 400_000):
        response = client.post(b"[" * n + b"]" * n)
        assert (response.status_code, response.json()["error"]["code"]) == (422, "too_deep")


def test_other_endpoints_are_refused_in_the_same_form(client):
    for status, response in {
        404: client.get("/nothing/<script>"),
        405: client.get("/predict"),
    }.items():
        assert response.status_code == status
        assert response.json()["error"]["code"] == f"http_{status}"
        assert "script" not in response.text


def test_schema_says_what_records_are(client, estimator):
    about = client.get("/schema").json()
    assert about["classes"] == ["False", "True"]
    paths = {part["path"]: part["kind"] for part in about["parts"]}
    assert paths["orders.items.category"] == "category"
    assert paths["orders"] == "bag"
    assert "churned" not in paths
    assert not any(estimator.schema_[path].is_left_out for path in paths)
    assert about["limits"] == dataclasses.asdict(Limits())


def test_health_and_metrics(served):
    with Client(served) as client:
        assert client.get("/health").json() == {"live": True, "ready": True}
        client.post({"records": [CUSTOMER, LATE]}, "/predict/batch")
        client.post(b"{")
        client.get("/nothing")
        text = client.get("/metrics").text
    for line in (
        'records_total{agrees="true",label="True"} 1.0',
        'records_total{agrees="true",label="False"} 1.0',
        'requests_total{endpoint="/predict/batch",status="200"} 1.0',
        'requests_total{endpoint="/predict",status="400"} 1.0',
        'requests_total{endpoint="other",status="404"} 1.0',
        'request_seconds_count{endpoint="/predict"} 1.0',
    ):
        assert f"\n{line}\n" in text
    assert "process_resident_memory_bytes" in text


def test_openapi_describes_bodies_and_answers(client):
    api = client.get("/openapi.json").json()
    post = api["paths"]["/predict/batch"]["post"]
    envelope = post["requestBody"]["content"]["application/json"]["schema"]
    assert envelope["properties"]["records"]["maxItems"] == 100
    answer = api["components"]["schemas"]["Answer"]["properties"]
    assert answer.keys() == client.post({"record": {}}).json().keys()
    assert {"200", "400", "408", "413", "415", "422", "503"} == post["responses"].keys()


@pytest.fixture
def held(served, monkeypatch):
    """Holds the thread of the service until it is told to go on."""
    go_on = threading.Event()
    answers = Served.answers

    def slow(self, inputs, sizes):
        assert go_on.wait(60)
        return answers(self, inputs, sizes)

    served.warm_up()
    monkeypatch.setattr(Served, "warm_up", lambda self: None)
    monkeypatch.setattr(Served, "answers", slow)
    yield go_on
    go_on.set()


def test_who_waits_too_long_is_told(served, held):
    with Client(served, Limits(answer_seconds=0.2)) as client:
        response = client.post({"record": {}})
        assert (response.status_code, response.json()["error"]["code"]) == (503, "too_late")
        assert response.headers["retry-after"] == "1"
        held.set()


def test_more_than_may_wait_are_told_so_and_the_others_answered(served, held):
    async def ask():
        first = asyncio.create_task(client.posting({"record": {}}))
        await asyncio.sleep(0.3)  # the thread has it
        others = [asyncio.create_task(client.posting({"record": {}})) for _ in range(5)]
        await asyncio.sleep(0.3)
        unready = await client.http.get("/health")
        held.set()
        return unready, await first, await asyncio.gather(*others)

    with Client(served, Limits(waiting=3)) as client:
        unready, first, others = client.run(ask())
        assert (unready.status_code, unready.json()["ready"]) == (503, False)
        assert first.status_code == 200
        assert sorted(each.status_code for each in others) == [200] * 3 + [503] * 2
        assert client.get("/health").status_code == 200


def test_the_event_loop_is_free_while_the_network_computes(served, held):
    async def ask():
        answer = asyncio.create_task(client.posting({"record": {}}))
        await asyncio.sleep(0.1)
        for _ in range(20):
            assert (await client.http.get("/health")).status_code == 200
        assert not answer.done()
        held.set()
        return await answer

    with Client(served) as client:
        assert client.run(ask()).status_code == 200


def test_a_fault_of_ours_is_500_and_its_message_stays_here(served, monkeypatch, caplog):
    message = "secret of the request"
    with Client(served) as client:

        def broken(self, inputs, sizes):
            raise RuntimeError(message)

        monkeypatch.setattr(Served, "answers", broken)
        response = client.post({"record": {}})
        assert (response.status_code, response.json()["error"]["code"]) == (500, "fault")
        assert "secret" not in response.text + caplog.text
        assert "RuntimeError" in caplog.text
        monkeypatch.undo()
        assert client.post({"record": {}}).status_code == 200


def test_who_waits_at_the_end_is_still_answered(served, held):
    client, threads = Client(served), set(threading.enumerate())

    async def ask_and_stop():
        answer = asyncio.create_task(client.posting({"record": CUSTOMER}))
        await asyncio.sleep(0.2)
        held.set()
        await client._lifespan.__aexit__(None, None, None)
        return await answer

    client.__enter__()
    assert client.run(ask_and_stop()).status_code == 200
    client._runner.close()
    assert set(threading.enumerate()) == threads


@pytest.fixture(scope="module")
def text_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(0)
    words = ["good", "bad", "film", "the", "plot", "a", "seen", "end"]
    texts = [". ".join(" ".join(rng.choice(words, 3)) for _ in range(2)) for _ in range(120)]
    labels = np.array([[float("good" in text)] for text in texts])
    text = keras.Input((), dtype="string", name="text")
    x = TextBags(["_", "?", *words], depth=2, splitter="core", window_size=1)(text)
    x = InstanceWise(keras.layers.Embedding(10, 4))(x)
    x = InstanceWise(keras.layers.Flatten())(x)
    x = BagLayer(8)(BagLayer(8)(x))
    model = keras_mmil.Model(text, keras.layers.Dense(1, activation="sigmoid")(x))
    model.compile(keras.optimizers.Adam(0.05), "binary_crossentropy")
    tf.config.run_functions_eagerly(True)  # for the rest of the test: tracing would take longer
    model.fit(texts, labels, epochs=15, batch_size=120, verbose=0)
    explainer = keras_mmil.Explainer(max_clusters=3, verbose=0).fit(model, texts)
    model.save(folder / "model.keras")
    explainer.save(folder / "rules")
    return folder, model, explainer


@pytest.mark.eager  # records are served with graphs
def test_texts_are_served_as_records_are(text_folder):
    folder, model, explainer = text_folder
    texts = ["The film. Good bad film!", "bad", "", "\ud800 <b>good</b>", "é" * 1000]
    with Client(Served.load(folder)) as client:
        assert client.get("/schema").json()["kind"] == "texts"
        answers = client.post({"records": texts}, "/predict/batch").json()["answers"]
        response = client.post({"record": {"text": "good"}})
        assert (response.status_code, response.json()["error"]["code"]) == (422, "wrong_record")
    for text, answer in zip(texts, answers, strict=True):
        known = text.encode(errors="replace").decode()
        (expected,) = explainer.explain([known])
        assert answer["explanation"] == str(expected)
        (probability,) = model.predict([known], verbose=0)[0]
        assert answer["probabilities"]["positive"] == pytest.approx(probability, abs=1e-5)
        assert answer["label"] == ("positive" if probability > 0.5 else "negative")


def test_other_folders_are_refused(tmp_path, demo_folder, text_folder):
    with pytest.raises(ValueError, match=r"Expected the folder of a saved .*Received: /"):
        Served.load(tmp_path)
    records = [{"a": i % 3, "b": bool(i % 2), "c": i % 5} for i in range(40)]
    quick = {"effort": "low", "units": 4, "epochs": 1, "random_state": 0}
    several = keras_mmil.NestedClassifier(**quick).fit(records, np.eye(2, dtype=int)[[0, 1] * 20])
    several.save(tmp_path / "several")
    with pytest.raises(ValueError, match="classifier of one label"):
        Served.load(tmp_path / "several")
    shutil.copy(demo_folder / "estimator.json", tmp_path)
    reseal(tmp_path / "estimator.json", {"kind": "NestedRegressor"})
    with pytest.raises(ValueError, match="Received: kind='NestedRegressor'"):
        Served.load(tmp_path)


def test_limits_have_to_be_positive():
    with pytest.raises(ValueError, match="Received: depth=0"):
        Limits(depth=0)
    with pytest.raises(ValueError, match="Received: head_seconds=nan"):
        Limits(head_seconds=float("nan"))
