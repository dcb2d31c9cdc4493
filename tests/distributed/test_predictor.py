"""Predictions and explanations of batches, against the model's own."""

import warnings

import keras
import numpy as np
import pyarrow as pa
import pytest
from bag_forms import BATCH, FORMS, dense, plain_model, text_model, texts, vectors

import keras_mmil
from keras_mmil import NestedClassifier, NestedRegressor
from keras_mmil.distributed import Predictor
from keras_mmil.layers import BagLayer
from keras_mmil.rules import Explainer

CUSTOMERS = [
    {"id": i, "city": "Oslo", "orders": [{"price": float(p)} for p in range(i % 5)], "n": i % 5}
    for i in range(60)
]


def batch_of(x, **others):
    lists = x.tolist() if isinstance(x, np.ndarray) else x.to_list()
    return pa.RecordBatch.from_pydict({"x": lists, **others})


@pytest.mark.slow
@pytest.mark.parametrize("form", ["ragged", "one level", "dense", "ids", "texts"])
def test_predictions_are_the_models(form, tmp_path):
    make_model, make_data = FORMS[form]
    model, x = make_model(), make_data()
    model.save(tmp_path / "model.keras")
    predictor = Predictor(tmp_path / "model.keras", keep=["id"], batch_size=BATCH)
    ids = [f"row {i}" for i in range(22)]
    found = predictor.predict_batch(batch_of(x, id=ids, other=ids))
    assert found.schema.names == ["id", "prediction"]
    assert found["id"].to_pylist() == ids
    assert found["prediction"].type == pa.float32()
    expected = model.predict(x, batch_size=BATCH, verbose=0)[:, 0]
    np.testing.assert_array_equal(found["prediction"].to_numpy(), expected)


def several_outputs(kind):
    inputs = keras.Input((None, 2), ragged=True)
    h = BagLayer(4)(inputs)
    a = keras.layers.Dense(1, name="a")(h)
    b = keras.layers.Reshape((2, 3), name="b")(keras.layers.Dense(6)(h))
    return keras_mmil.Model(inputs, {"list": [a, b], "dict": {"first": a, "second": b}}[kind])


@pytest.mark.parametrize(("kind", "names"), [("list", "ab"), ("dict", ("first", "second"))])
def test_several_outputs(kind, names, tmp_path):
    model, x = several_outputs(kind), vectors(1)
    model.save(tmp_path / "model.keras")
    found = Predictor(tmp_path / "model.keras").predict_batch(batch_of(x))
    outputs = model.predict(x, verbose=0)
    a, b = outputs.values() if kind == "dict" else outputs
    assert found.schema.names == [f"prediction/{name}" for name in names]
    np.testing.assert_array_equal(found[0].to_numpy(), a[:, 0])
    assert found[1].to_pylist() == b.tolist()


def test_outputs_for_each_sub_bag(tmp_path):
    inputs = keras.Input((None, None, 2), ragged=True)
    hidden = keras_mmil.layers.InstanceWise(keras.layers.Dense(3))(BagLayer(4)(inputs))
    model, x = keras_mmil.Model(inputs, hidden), vectors()
    model.save(tmp_path / "model.keras")
    found = Predictor(tmp_path / "model.keras").predict_batch(batch_of(x))
    assert found["prediction"].to_pylist() == model.predict(x, verbose=0).to_list()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["ragged", "texts"])
def test_explanations_are_the_explainers(form, tmp_path):
    make_model, make_data = FORMS[form]
    model, x = make_model(), make_data()
    model.save(tmp_path / "model.keras")
    threshold = float(np.median(model.predict(x, verbose=0)))
    explainer = Explainer(3, target=(0, threshold), verbose=0, ccp_alpha=0).fit(model, x, x)
    explainer.save(tmp_path / "rules")
    predictor = Predictor(
        tmp_path / "model.keras", explainer=tmp_path / "rules", keep="id", batch_size=BATCH
    )
    found = predictor.explain_batch(batch_of(x, id=list(range(22))), first=0)
    expected = explainer.explain(x)
    assert found.schema.names == ["id", "label", "network", "agrees", "because", "explanation"]
    assert found["explanation"].to_pylist() == [str(each) for each in expected]
    assert found["label"].to_pylist() == [explainer.classes_[i] for i in explainer.predict(x)]
    assert found["network"].to_pylist() == [each.network_name for each in expected]
    assert found["agrees"].to_pylist() == [each.agrees for each in expected]
    assert found["because"].to_pylist() == [str(each.top_bag.reason) for each in expected]
    later = predictor.explain_batch(batch_of(x, id=list(range(22))), first=1000)
    if form == "ragged":
        assert later["explanation"][21].as_py().startswith("top-bag 1021 is ")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    classifier = NestedClassifier(
        effort="low", epochs=2, random_state=0, explainer={"max_clusters": 3}
    )
    labels = np.array(["few" if each["n"] < 2 else "many" for each in CUSTOMERS])
    records = [{k: v for k, v in each.items() if k != "n"} for each in CUSTOMERS]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(into one class|distinct points)")
        classifier.fit(records, labels).rules_  # noqa: B018 - so that they are saved
    classifier.save(folder)
    return folder, classifier, pa.RecordBatch.from_pylist(CUSTOMERS)


@pytest.mark.slow
def test_classifiers_of_records(classifier):
    folder, ours, batch = classifier
    predictor = Predictor(folder, keep=["id"])
    found = predictor.predict_batch(batch)
    assert found.schema.names == ["id", "prediction", "probability"]
    assert found["prediction"].to_pylist() == ours.predict(CUSTOMERS).tolist()
    np.testing.assert_allclose(
        found["probability"].to_pylist(), ours.predict_proba(CUSTOMERS), rtol=1e-6
    )
    explained = predictor.explain_batch(batch)
    expected = [str(each) for each in ours.explain(CUSTOMERS)]
    assert explained["explanation"].to_pylist() == expected
    assert "n" not in predictor.columns(batch.schema)


def test_fields_of_records_must_be_there(classifier):
    folder, _, batch = classifier
    with pytest.raises(ValueError, match=r"without \['orders'\]"):
        Predictor(folder).predict_batch(batch.drop_columns(["orders"]))


@pytest.mark.slow
def test_regressors_of_records(tmp_path):
    regressor = NestedRegressor(effort="low", epochs=1, random_state=0, validation_split=0.0)
    regressor.fit(CUSTOMERS, "n").save(tmp_path)
    batch = pa.RecordBatch.from_pylist(CUSTOMERS).drop_columns(["n"])
    found = Predictor(tmp_path).predict_batch(batch)
    assert found.schema.names == ["prediction"]
    np.testing.assert_allclose(
        found["prediction"].to_numpy(), regressor.predict(CUSTOMERS), rtol=1e-6
    )


@pytest.fixture
def model_path(tmp_path):
    model = plain_model(1, ragged_input=False)
    model.save(tmp_path / "model.keras")
    return tmp_path / "model.keras"


def test_wrong_columns(model_path):
    with pytest.raises(ValueError, match=r"columns to keep.*without \['key'\]"):
        Predictor(model_path, keep=["key"]).predict_batch(batch_of(dense()))
    with pytest.raises(ValueError, match=r"other columns to keep.*\['prediction'\]"):
        Predictor(model_path, keep=["prediction"]).predict_batch(
            batch_of(dense(), prediction=[0] * 22)
        )
    with pytest.raises(ValueError, match="different columns to keep"):
        Predictor(model_path, keep=["id", "id"])
    with pytest.raises(ValueError, match="at least one row"):
        Predictor(model_path).predict_batch(batch_of(dense()).slice(0, 0))
    with pytest.raises(ValueError, match="batch_size"):
        Predictor(model_path, batch_size=0)


def test_what_is_no_model(model_path, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"\.keras file.*nothing"):
        Predictor(tmp_path / "nothing")
    with pytest.raises(ValueError, match="only estimators"):
        Predictor(model_path, label="a")
    with pytest.raises(ValueError, match="folder of a saved explainer"):
        Predictor(model_path).explain_batch(batch_of(dense()))
    (tmp_path / "estimator.json").write_text('{"class": "Other"}')
    with pytest.raises(ValueError, match="NestedClassifier or NestedRegressor in"):
        Predictor(tmp_path)


@pytest.mark.slow
def test_a_folder_of_a_run(tmp_path):
    model, x = text_model(), texts()
    model.save(tmp_path / "model.keras")
    threshold = float(np.median(model.predict(x, verbose=0)))
    Explainer(3, target=(0, threshold), verbose=0).fit(model, x, x).save(tmp_path / "rules")
    predictor = Predictor(tmp_path)
    assert len(predictor.explain_batch(batch_of(x[:3]))) == 3
    assert predictor.predict_batch(batch_of(x[:3]))["prediction"].to_numpy() == pytest.approx(
        model.predict(x[:3], verbose=0)[:, 0]
    )
