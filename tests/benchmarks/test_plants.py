"""The other models of plants compute what they say, and rank better than chance."""

import json

import numpy as np
import pytest

from keras_mmil import zoo
from keras_mmil.builders.flora import Flora
from keras_mmil.datasets import synthetic
from keras_mmil.metrics import held_out_labels, held_out_precision

WHOLE = synthetic.load_flora(n_regions=(9, 10), n_species=12, seed=1)
SEEN = WHOLE.incomplete(20, seed=0)
LABELS = held_out_labels(SEEN.presence, WHOLE.presence)


def test_naive_hamming(load_benchmark):
    scores = load_benchmark("baselines.plants").naive_hamming(SEEN, 0)
    for region in (0, 37):
        differ = (SEEN.presence != SEEN.presence[region]).sum(axis=1)
        others = [i for i in np.argsort(differ, kind="stable") if i != region][:25]
        np.testing.assert_allclose(scores[region], SEEN.presence[others].mean(axis=0))


def test_naive_euclidean(load_benchmark):
    scores = load_benchmark("baselines.plants").naive_euclidean(SEEN, 0)
    latitude, longitude = np.radians(SEEN.coordinates.astype(float)).T
    # Great circles, which are as straight as lines at this size.
    product = np.cos(latitude[:, None]) * np.cos(latitude)
    half = np.sin((longitude[:, None] - longitude) / 2) ** 2 * product
    kilometres = (
        2 * 6371 * np.arcsin(np.sqrt(np.sin((latitude[:, None] - latitude) / 2) ** 2 + half))
    )
    radius = np.median(np.sort(kilometres, axis=1)[:, 25]) + 1e-6
    for region in (0, 44):
        others = [i for i in np.flatnonzero(kilometres[region] <= radius) if i != region]
        np.testing.assert_allclose(scores[region], SEEN.presence[others].mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("name", ["naive-hamming", "gaussian-process", "factorisation"])
def test_they_rank_better_than_chance(load_benchmark, name):
    scores = load_benchmark("baselines.plants").MODELS[name](SEEN, 0)
    assert scores.shape == SEEN.presence.shape
    chance = np.random.default_rng(0).random(scores.shape)
    ranked, by_chance = (np.nanmean(held_out_precision(LABELS, each)) for each in (scores, chance))
    assert ranked > 1.5 * by_chance


def test_gaussian_processes_are_sure_of_what_is_everywhere_or_nowhere(load_benchmark):
    presence = SEEN.presence.copy()
    presence[:, 0], presence[:, 1] = True, False
    flora = Flora(presence, SEEN.coordinates, SEEN.species, SEEN.regions)
    scores = load_benchmark("baselines.plants").gaussian_process(flora, 0)
    assert (scores[:, 0] == 1).all()
    assert (scores[:, 1] == 0).all()
    assert 0 < scores[:, 2:].min() < scores[:, 2:].max() < 1
    of_some = load_benchmark("baselines.plants").gaussian_process(flora, 0, [7, 0])
    np.testing.assert_allclose(of_some, scores[:, [7, 0]])


def test_ranking_of_the_quarters_of_the_regions(load_benchmark):
    """The first is that of the regions where fewest species were seen."""
    scores = np.random.default_rng(1).random(SEEN.presence.shape)
    figure, quarters = load_benchmark("plants").rank(LABELS, scores)
    each = held_out_precision(LABELS, scores)
    by_richness = sorted(range(90), key=lambda i: SEEN.presence[i].sum())
    assert figure == pytest.approx(np.nanmean(each), abs=1e-6)
    assert quarters[0] == pytest.approx(np.nanmean(each[by_richness[:23]]), abs=1e-4)
    assert quarters[3] == pytest.approx(np.nanmean(each[by_richness[-22:]]), abs=1e-4)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run, its data and its model."""
    folder = tmp_path_factory.mktemp("run")
    data = zoo.registry["plants-mil-P5"].load(seed=2, source="synthetic")
    model = zoo.plants_mil(**data.build_arguments)
    model.fit(*data.train[:2], batch_size=64, verbose=0)
    model.save(folder / "model.keras")
    settings = {"experiment": "plants-mil-P5", "seed": 2, "source": "synthetic"}
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder, data, model


@pytest.mark.slow
def test_ranking_of_a_run(load_benchmark, run):
    """The network and the flora are those of the run."""
    folder, data, model = run
    module = load_benchmark("plants")
    _, flora, labels, scores = module.read_run(folder)
    np.testing.assert_array_equal(flora.presence, labels == 1)
    figure, _ = module.rank(labels, scores)
    x, labels, _ = data.test
    expected = model.evaluate(x, labels, verbose=0, return_dict=True)["map"]
    assert figure == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
def test_maps_of_a_species(load_benchmark, run, tmp_path, capsys):
    folder, data, _ = run
    module = load_benchmark("species_maps")
    name = data.build_arguments["dataset"].species[3]
    module.draw(folder, name, tmp_path / "species.png")
    assert (tmp_path / "species.png").stat().st_size > 10_000
    models = [line.partition(",")[0] for line in capsys.readouterr().out.splitlines()]
    assert models == ["MIL", "naive Hamming", "factorisation", "Gaussian process"]
    with pytest.raises(SystemExit, match="Received: 'nowhere'"):
        module.draw(folder, "nowhere", tmp_path / "species.png")


def test_threshold_of_the_best_f1(load_benchmark):
    scores = np.array([0.1, 0.4, 0.35, 0.8, 0.7])
    truth = np.array([False, False, True, True, True])
    threshold, f1 = load_benchmark("species_maps").best_threshold(scores, truth)
    assert threshold == 0.35
    assert f1 == pytest.approx(6 / 7)


def test_picture_of_rankings(load_benchmark):
    records = [
        {"model": model, "variant": f"P{share}", "metric": metric, "mean": mean, "std": 0.0}
        for model, mean in [("mmil", 0.5), ("naive-hamming", 0.3)]
        for share in (30, 5, "5-masked")
        for metric in ("map", "train_minutes")
    ]
    (panel,) = load_benchmark("plots").draw_ranking(records).axes
    labels = [text.get_text() for text in panel.get_legend().get_texts()]
    assert labels == ["mmil", "naive-hamming"]
    for line, mean in zip(panel.containers, (0.5, 0.3), strict=True):
        np.testing.assert_array_equal(line[0].get_xdata(), [5, 30])
        np.testing.assert_array_equal(line[0].get_ydata(), mean)
