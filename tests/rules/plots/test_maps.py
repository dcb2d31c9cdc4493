"""Maps: what is drawn, and what clusters and rules are on them."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from record_networks import MEANINGS, read

from keras_mmil import Bags, Explainer, zoo
from keras_mmil.datasets import synthetic
from keras_mmil.rules.plots.maps import Maps, plot_maps

pytestmark = pytest.mark.slow  # the network that all of them share is trained

FLORA = synthetic.load_flora(n_regions=(8, 9), n_species=10, seed=2)
N = len(FLORA.regions)


@pytest.fixture(scope="module", params=["mmil", pytest.param("mil", marks=pytest.mark.nightly)])
def fitted(request):
    x = FLORA.similar_regions(5)
    build = zoo.plants_mmil
    if request.param == "mil":
        x, build = Bags.from_ragged(x.merge_dims(1, 2)), zoo.plants_mil
    model = build(FLORA, dense_units=16)
    model.fit(x, FLORA.presence.astype(int), epochs=8, batch_size=8, verbose=0)
    species = int(np.abs(FLORA.presence.mean(axis=0) - 0.5).argmin())
    threshold = float(np.median(model.predict(x, verbose=0)[:, species]))
    explainer = Explainer(
        n_clusters=4, target=(species, threshold), class_names=("no", "yes"), verbose=0
    )
    return explainer.fit(model, x), x


def test_what_colours_mean():
    """A legend for yes and no, a colour bar with the scale of each map of numbers."""
    scores = np.linspace(2, 5, N)
    figure = plot_maps(FLORA.coordinates, {"seen": FLORA.presence[:, 0], "score": scores})
    (legend,) = figure.legends
    meanings = [text.get_text() for text in legend.get_texts()]
    colours = [to_rgba(line.get_color()) for line in legend.get_lines()]
    assert meanings == ["yes", "no"]
    drawn = figure.axes[0].collections[0].get_facecolors()
    for place, is_there in enumerate(FLORA.presence[:, 0]):
        np.testing.assert_allclose(drawn[place], colours[0 if is_there else 1])
    bar = figure.axes[-1]
    assert len(figure.axes) == 3
    assert bar.get_ylim() == (2, 5)
    assert not plot_maps(FLORA.coordinates, {"score": scores}).legends


def test_places_of_clusters(fitted):
    explainer, x = fitted
    found = Maps(explainer, x).instances(N)
    assert list(found) == list(explainer.clusters_[0].names)
    inside = np.stack(list(found.values()))
    ids = x.to_ragged() if isinstance(x, Bags) else x
    named = np.unique(ids.flat_values)
    np.testing.assert_array_equal(inside.sum(axis=0), np.isin(np.arange(N), named))
    # As the explanations say, of the first top-bag that holds anything.
    labels, stored = explainer.labels(x)[0], x.inputs["bags"] if isinstance(x, Bags) else x
    for label, place in zip(
        labels[5:6].flat_values.numpy(), stored[5:6].flat_values.numpy(), strict=True
    ):
        assert inside[label, place]


def test_places_and_members_of_several_bags():
    """Regions nearby are places; species are counted. The explanations say the same."""
    x = {"species": FLORA.seen_species(), "nearby": FLORA.nearby_regions(6)}
    model = zoo.plants_nearby(FLORA, bag_units=8, dense_units=16)
    explainer = Explainer(n_clusters=3, target=lambda y: (y[:, 0] > np.median(y[:, 0])).astype(int))
    explainer.set_params(verbose=0, class_names=("no", "yes")).fit(model, x)
    maps = Maps(explainer, x)
    places, species = maps.instances(N), maps.members("species")
    assert [clusters.path for clusters in explainer.clusters_] == ["nearby", "species"]
    np.testing.assert_array_equal(np.sum(list(places.values()), axis=0), 1)  # all are near others
    for i, explanation in enumerate(explainer.explain(x)):
        children = explanation.top_bag.children
        near = [child.name for child in children if child.path == "nearby"]
        for name, region in zip(near, x["nearby"][i].numpy(), strict=True):
            assert places[name][region]
        names = [child.name for child in children if child.path == "species"]
        assert {name: n[i] for name, n in species.items()} == {n: names.count(n) for n in species}


def test_members_in_clusters(fitted):
    explainer, x = fitted
    found = Maps(explainer, x).members()
    assert list(found) == list(explainer.clusters_[-1].names)
    for i, explanation in enumerate(explainer.explain(x[:12])):
        names = [child.name for child in explanation.top_bag.children]
        assert {name: counts[i] for name, counts in found.items()} == {
            name: names.count(name) for name in found
        }


def test_members_of_each_bag_of_records(churn_explainer, customers):
    maps = Maps(churn_explainer, read(customers[:30]))
    for level, path in ((2, "orders"), ("x", "visits"), ("visits", "visits")):
        holds, name, other = MEANINGS[path]
        found = maps.members(level)
        of_customers = [[holds(part) for part in customer[path]] for customer in customers[:30]]
        assert found[name].tolist() == list(map(sum, of_customers))
        assert (found[name] + found[other]).tolist() == list(map(len, of_customers))
    with pytest.raises(ValueError, match=r"\{2: 'orders', 3: 'visits'\}. Received: level=None"):
        maps.members()
    with pytest.raises(
        ValueError, match=r"bags that top-bags hold.*Received: level='orders.items'"
    ):
        maps.members("orders.items")
    with pytest.raises(ValueError, match="a level from 0 to 3"):
        maps.members(4)
    with pytest.raises(
        ValueError, match=r"numbers of places. Received: records with fields .*plan"
    ):
        maps.instances(3)


def test_where_rules_hold(fitted):
    explainer, x = fitted
    maps = Maps(explainer, x)
    matches, balances = maps.rules("yes")
    of_class = [rule for rule in explainer.levels_[-1].rules if rule.conclusion == 1]
    assert len(matches) == len(of_class) > 0
    union = np.any(list(matches.values()), axis=0)
    np.testing.assert_array_equal(union, explainer.predict(x) == 1)
    for rule, clause in zip(of_class, matches, strict=True):
        np.testing.assert_array_equal(matches[clause], balances[clause] == len(rule.conditions))
        assert (np.abs(balances[clause]) <= len(rule.conditions)).all()
    with pytest.raises(ValueError, match="conclusion='maybe'"):
        maps.rules("maybe")


def test_picture(tmp_path):
    shown = {
        FLORA.species[0]: FLORA.presence[:, 0],
        "number of species": FLORA.presence.sum(axis=1),
        "a": np.zeros(N, bool),
        "b": np.arange(N) / N,
        "c": np.zeros(N),
    }
    figure = plot_maps(FLORA.coordinates, shown, tmp_path / "maps.png", columns=3)
    assert (tmp_path / "maps.png").stat().st_size > 1000
    assert [ax.get_title() for ax in figure.axes[:6]] == [*shown, ""]
    for ax in figure.axes[:5]:
        (squares,) = ax.collections
        np.testing.assert_allclose(squares.get_offsets(), FLORA.coordinates[:, ::-1])
    colours = figure.axes[0].collections[0].get_facecolors()
    for value in (True, False):
        assert len(np.unique(colours[FLORA.presence[:, 0] == value], axis=0)) == 1
    assert len(np.unique(colours, axis=0)) == 2
    values = figure.axes[1].collections[0].get_array()
    np.testing.assert_array_equal(values, FLORA.presence.sum(axis=1))


@pytest.mark.parametrize("shown", [{}, {"short": np.zeros(3)}, {"flat": np.zeros((N, 2))}])
def test_no_maps(shown):
    with pytest.raises(ValueError, match=r"Received: (maps=|'short'|'flat')"):
        plot_maps(FLORA.coordinates, shown)


def test_one_place():
    figure = plot_maps(np.array([[40.0, 1.0]]), {"here": np.array([True])})
    assert len(figure.axes) == 1


def test_long_titles():
    rule = "present ← " + ", ".join(f"o_v{i}={i % 2}" for i in range(1, 10)) + "."
    other = rule.replace("present", "PRESENT")
    figure = plot_maps(FLORA.coordinates, {rule: np.ones(N), other: np.ones(N)})
    figure.draw_without_rendering()
    left, right = (ax.title.get_window_extent() for ax in figure.axes[:2])
    assert left.x1 < right.x0
    assert left.y1 < figure.bbox.y1
    assert figure.axes[0].get_title().replace("\n", " ") == rule
