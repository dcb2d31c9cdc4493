"""Certificates: intervals, figures counted in another way, and refusal of used data."""

import json

import numpy as np
import pytest
import tensorflow as tf
from digit_networks import compressed_model, explainer, random_ids, truth, vectors
from scipy.stats import beta, binom, binomtest

from keras_mmil import Bags, Explainer, ragged
from keras_mmil.rules.evidence import certificate as module
from keras_mmil.rules.evidence.certificate import UsedTopBagsError, interval


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (10, 10), (1, 1), (957, 1000)])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_ends_are_quantiles_of_beta_distributions(k, n, level):
    found = interval(k, n, level)
    tail = (1 - level) / 2
    low = beta.ppf(tail, k, n - k + 1) if k else 0
    high = beta.ppf(1 - tail, k + 1, n - k) if k < n else 1
    np.testing.assert_allclose([found.low, found.high], [low, high], atol=1e-9)
    assert (found.estimate, found.n, found.k) == (k / n, n, k)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.93])
def test_the_true_share_is_inside_with_the_probability(share):
    """Not by simulation: summed over all counts there can be."""
    n = 40
    inside = [found.low <= share <= found.high for found in (interval(k, n) for k in range(n + 1))]
    assert binom.pmf(np.arange(n + 1), n, share)[inside].sum() >= 0.95


def test_of_nothing():
    found = interval(0, 0)
    assert (found.low, found.high) == (0, 1)
    assert np.isnan(found.estimate)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["estimate"] is None
    assert str(found) == "unknown (0.0 % to 100.0 %)"
    assert str(interval(1, 2)) == "50.0 % (1.3 % to 98.7 %)"


@pytest.fixture(scope="module")
def poor(digit_model, digit_ids):
    """An explainer whose rules are sometimes wrong."""
    valid = vectors(random_ids(60, seed=1))
    return explainer(n_clusters=(2, 2)).fit(digit_model, vectors(digit_ids), valid)


def assert_interval(found, k, n, level):
    ends = binomtest(k, n).proportion_ci(level)
    assert (found.k, found.n) == (k, n)
    np.testing.assert_allclose((found.low, found.high), (ends.low, ends.high))


@pytest.mark.slow
def test_figures_counted_top_bag_by_top_bag(poor, digit_model):
    ids = random_ids(90, seed=2)
    x, y = vectors(ids), truth(random_ids(90, seed=3))
    found = poor.certify(x, y, level=0.9)
    network = (digit_model.predict(x, verbose=0)[:, 0] > 0.5).astype(int).tolist()
    explanations = poor.explain(x)
    rules = [e.label for e in explanations]
    assert_interval(
        found.fidelity, sum(a == b for a, b in zip(rules, network, strict=True)), 90, 0.9
    )
    assert_interval(found.accuracy, sum(a == b for a, b in zip(rules, y, strict=True)), 90, 0.9)
    assert found.fidelity.k < 90
    assert found.majority == max(map(network.count, network)) / 90
    top = poor.levels_[-1].rules
    assert [r.number for r in found.rules] == list(range(1, len(top) + 1))
    for rule, certified in zip(top, found.rules, strict=True):
        matched = [e.network for e in explanations if rule in e.top_bag.matched]
        k = sum(label == rule.conclusion for label in matched)
        assert_interval(certified.precision, k, len(matched), 1 - 0.1 / len(top))
        assert certified.clause == top.clause(rule)
        true = [
            label for label, e in zip(y, explanations, strict=True) if rule in e.top_bag.matched
        ]
        k, share = sum(x == rule.conclusion for x in true), np.mean(y == rule.conclusion)
        assert_interval(certified.right, k, len(matched), 1 - 0.1 / len(top))
        assert certified.lift == pytest.approx(k / len(true) / share)
        assert f"{k} rightly so, {certified.lift:.2g} times the average" in str(found)
    assert (found.n, found.n_used, found.without) == (90, 0, None)
    unlabelled = poor.certify(x)
    assert unlabelled.accuracy is None
    assert all(rule.right is rule.lift is None for rule in unlabelled.rules)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["fidelity"]["n"] == 90
    assert str(found.fidelity) in str(found)


@pytest.mark.slow
def test_of_a_dataset(poor):
    x, y = vectors(random_ids(50, seed=4)), truth(random_ids(50, seed=4))
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
    assert poor.certify(batches) == poor.certify(x, y)
    assert poor.certify(batches.map(lambda x, y: x)) == poor.certify(x)


@pytest.mark.parametrize("part", [slice(None), slice(3, 20), slice(None, None, -1)])
def test_used_data_are_refused(poor, digit_ids, part):
    for ids in (digit_ids, random_ids(60, seed=1)):
        x = ragged.take(vectors(ids), part)
        with pytest.raises(ValueError, match=r"other top-bags.*Received: (\d+) top-bags, .* \1 eq"):
            poor.certify(x)
    new = vectors(random_ids(19, seed=5))
    with pytest.raises(ValueError, match="39 top-bags, of which 20"):
        poor.certify(ragged.concat([vectors(digit_ids)[:20], new]))


def test_some_used_top_bags(poor, digit_ids):
    used, new = vectors(digit_ids)[:10], vectors(random_ids(50, seed=5))
    found = poor.certify(ragged.concat([new, used]), truth(random_ids(60, seed=6)))
    assert (found.n, found.n_used) == (60, 10)
    assert found.without == poor.certify(new, truth(random_ids(60, seed=6))[:50])
    assert "10 of these top-bags equal some" in str(found)


def test_what_the_network_was_trained_on(poor):
    """What the rules have not seen, the network may have: that is known by hashes alone."""
    new = vectors(random_ids(50, seed=5))
    hashes = poor.hashes(new)
    assert hashes.shape == (50,)
    assert len(set(hashes.tolist())) == 50
    np.testing.assert_array_equal(hashes[10:20], poor.hashes(new[10:20]))
    with pytest.raises(ValueError, match=r"the network was trained on\. Received: 50 top-bags"):
        poor.certify(new, trained_on=hashes[::-1])
    found = poor.certify(new, trained_on=hashes[:10])
    assert found.without == poor.certify(new[10:])
    assert (found.n, found.n_used) == (50, 10)
    assert poor.certify(new[10:], trained_on=hashes[:10]).n_used == 0


def test_each_half_was_used_for_something(poor, digit_ids):
    """Few enough for chance, had they been used for one purpose only."""
    used, new = vectors(digit_ids)[:10], vectors(random_ids(10, seed=5))
    with pytest.raises(ValueError, match="neither rules nor network"):
        poor.certify(ragged.concat([used, new]), trained_on=poor.hashes(new))


def test_more_known_ones_than_chance_explains_are_refused():
    """Of 100 used top-bags half occur twice: by chance, half of the new ones equal some of them."""
    used = np.array([*range(50), *range(50, 75), *range(50, 75)], np.uint64)
    for n_known in range(21, 40):
        is_known = np.arange(40) < n_known
        if binom.sf(n_known - 1, 40, 0.5) >= 1e-6:
            module._check_unused(is_known, used, "rules were fitted on")
        else:
            with pytest.raises(UsedTopBagsError, match=f"of which {n_known} equal"):
                module._check_unused(is_known, used, "rules were fitted on")


@pytest.mark.slow
def test_data_that_repeat_themselves():
    """Bags of one or two ids: new ones equal used ones by chance, also more than half of them."""
    rng = np.random.default_rng(0)

    def draw(n):
        sizes = rng.integers(1, 3, n)
        n_ids = sizes.sum()
        return ragged.from_flat(rng.integers(0, 4, n_ids), [sizes, np.ones(n_ids, int)])

    model = compressed_model()
    fit = explainer(n_clusters=(3, 2)).fit(model, draw(300), draw(100))
    odd = ragged.from_nested_lists([[[0, 0, 0, 1, 3]]])
    x = ragged.concat([draw(80), odd])
    found = fit.certify(x)
    assert (found.n_used, found.without.n) == (80, 1)
    packed = fit.certify(Bags.from_ragged(x))
    assert (packed.n_used, packed.fidelity) == (80, found.fidelity)
    with pytest.raises(ValueError, match="80 equal"):
        fit.certify(x[:80])


def test_hashes_are_saved(poor, digit_model, digit_ids, tmp_path):
    poor.save(tmp_path)
    loaded = Explainer.load(tmp_path, digit_model)
    with pytest.raises(ValueError, match="fitted or chosen on"):
        loaded.certify(vectors(digit_ids))
    x = vectors(random_ids(90, seed=2))
    assert loaded.certify(x) == poor.certify(x)


@pytest.mark.parametrize("level", [0, 1, 1.0, 95, "0.9"])
def test_level_out_of_range(poor, digit_ids, level):
    with pytest.raises(ValueError, match=f"between 0 and 1. Received: level={level!r}"):
        poor.certify(vectors(digit_ids), level=level)
