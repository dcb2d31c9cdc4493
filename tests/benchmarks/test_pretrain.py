"""Runs are packed for `zoo.load`, with fewer tokens where these suffice."""

import numpy as np
import pytest

from keras_mmil import zoo
from keras_mmil.cli.options import RunOptions
from keras_mmil.cli.run import run
from keras_mmil.zoo import _weights

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*into one class", "ignore:.*distinct points"),
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a small run on made-up reviews."""
    folder = tmp_path_factory.mktemp("run")
    options = RunOptions(
        out=str(folder), source="opinions", limit=40, epochs=1, max_clusters=3, verbose=0
    )
    run(zoo.registry["imdb"], options)
    return folder


@pytest.fixture
def pretrain(load_benchmark):
    return load_benchmark("pretrain")


@pytest.mark.nightly
def test_a_run_is_packed(pretrain, finished, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pretrain.pruning, "FEWEST", 30)
    monkeypatch.setattr(pretrain, "MAY_CHANGE", 1.0)  # so that 30 tokens are enough
    monkeypatch.setattr(pretrain, "BY_PRUNING", 1.0)
    out = tmp_path / "packed"
    pretrain.main([str(finished), "--name", "imdb", "--out", str(out), "--commit", "abc"])
    assert "test_accuracy" in capsys.readouterr().out
    monkeypatch.setattr(_weights, "FOLDER", out)
    found = zoo.load("imdb")
    facts = found.card.facts
    assert (facts["tokens"], facts["commit"]) == (32, "abc")
    expected = "keras-mmil run imdb --source opinions --epochs 1 --seed 0 --limit 40"
    assert facts["command"] == expected

    # The network that was trained gives the same outputs where other tokens are unknown.
    data = pretrain.any_run(finished).data
    kept = found.model.get_layer("to_bags").vocabulary
    before = data.words.vocabulary
    assert set(kept) < set(before)
    as_unknown = np.array([i if token in kept else 1 for i, token in enumerate(before)])
    x = data.test.x
    trained = pretrain.any_run(finished).model
    wanted = trained.predict(x.with_flat_values(as_unknown[x.flat_values]), verbose=0)
    new_ids = np.array([kept.index(token) if token in kept else 1 for token in before])
    built = zoo.imdb_mmil(weights="pretrained")
    ours = built.predict(x.with_flat_values(new_ids[x.flat_values]), verbose=0)
    np.testing.assert_allclose(ours, wanted, atol=2e-3)  # weights are rounded
    assert not np.array_equal(ours, wanted)
    accuracy = ((ours[:, 0] > 0.5) == data.test.y).mean()
    assert facts["figures"]["test_accuracy"] == pytest.approx(accuracy)
    assert f"| {100 * accuracy:.2f} % |" in found.card.text
    assert f"Of {len(before)} tokens, the 32 that change" in found.card.text
    assert found.explain(["A charming film."])

    (out / "imdb" / "card.md").write_text("")
    pretrain.main(["--cards", "--out", str(out)])
    assert zoo.card("imdb").text == found.card.text


def test_a_network_that_became_worse_is_not_written(pretrain, finished, tmp_path, monkeypatch):
    figures = iter([{"test_accuracy": 0.9}, {"test_accuracy": 0.8969}])
    monkeypatch.setattr(pretrain.FinishedRun, "figures", property(lambda _: next(figures)))
    with pytest.raises(ValueError, match=r"at most 0\.003\. Received: 0\.9000 before, 0\.8969"):
        pretrain.main([str(finished), "--name", "imdb", "--out", str(tmp_path)])
    assert not list(tmp_path.iterdir())


def test_tokens_that_change_nothing_have_no_effect(pretrain, finished):
    found = pretrain.any_run(finished)
    x = found.data.train.x
    effects = pretrain.pruning.effects(found.model, x, batch_size=7)
    occur = np.isin(np.arange(len(effects)), x.flat_values)
    assert (effects[~occur] == 0).all()
    assert effects[1] == 0  # what is unknown remains so
    assert (effects[2:][occur[2:]] > 0).mean() > 0.8


def test_large_matrices_are_rounded_to_8_bits(pretrain):
    rng = np.random.default_rng(0)
    large, small = (rng.normal(size=(n, 100)).astype(np.float32) for n in (100, 99))
    expected = small.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(pretrain.rounded(small, 8), expected)
    _, about = _weights.pack([pretrain.rounded(x, 8) for x in (large, small)])
    assert [each["stored"] for each in about] == ["int8", "float16"]
    np.testing.assert_array_equal(pretrain.rounded(large, 32), large)


def test_weights_too_large_for_16_bits(pretrain):
    with pytest.raises(ValueError, match="up to 65504"):
        pretrain.rounded(np.array([1e5], np.float32))


def test_wilsons_interval(pretrain):
    z, p, n = 1.959963985, 0.8, 50
    middle, width = p + z**2 / (2 * n), z * np.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)
    expected = (np.array([middle - width, middle + width])) / (1 + z**2 / n)
    np.testing.assert_allclose(pretrain.cards.wilson(p, n), expected, rtol=1e-6)
