"""The data of the experiment on plants."""

import numpy as np
import pytest

import keras_mmil
from keras_mmil import datasets, ragged, zoo


@pytest.mark.slow
def test_forms_of_floras():
    """Regions among their own similar ones; species left out of the bags in training."""
    data = zoo.registry["plants-P10-self"].load(source="synthetic")
    seen = data.build_arguments["dataset"]
    assert data.train[0].to_list() == seen.similar_regions(include_self=True).to_list()
    for form, rate in (("", None), ("-self", None), ("-masked", 0.25)):
        model = zoo.registry[f"plants-P10{form}"].build(dataset=seen)
        rates = [x.rate for x in model.layers if isinstance(x, keras_mmil.layers.MemberDropout)]
        assert rates == ([] if rate is None else [rate])


def test_floras_of_species_and_nearby_regions(reported):
    """What is shown are names of regions and species; rules are about what is likelier than not."""
    experiment = zoo.registry["plants-mil-P10-nearby"]
    assert experiment.learning_rate(40)(20) == pytest.approx(0.0005)
    data = experiment.load(seed=2, source="synthetic")
    seen = data.build_arguments["dataset"]
    x = data.train.x
    assert x["species"].to_list() == [np.flatnonzero(row).tolist() for row in seen.presence]
    assert x["nearby"].to_list() == seen.nearby_regions(25).to_list()
    assert data.explainer == {"target": (0, pytest.approx(0.2)), "metric": "sensitivity"}
    model = experiment.build(dataset=seen)
    assert model.get_layer("species_dropout").rate == 0.25
    report = reported(data)
    regions, show = report.clusters.call_args.args
    row = seen.regions.index(show[""]((3,)))
    near, species = regions["nearby"][3].numpy(), regions["species"][3].numpy()
    np.testing.assert_array_equal(near, seen.nearby_regions(25)[row])
    assert show["nearby"]((3, 2)) == seen.regions[near[2]]
    assert show["species"]((3, 1)) == seen.species[species[1]]
    assert report.maps.call_args.kwargs["members"] == "species"
    page = data.page()
    assert page.show.of("species").row((0, 0)).startswith("species ")
    assert page.show.of("").row((0,)) in seen.regions
    assert "<svg" in page.show.of("nearby").cluster([(0, 0), (0, 1)])


@pytest.mark.slow
@pytest.mark.parametrize("model", ["mmil", "mil"])
def test_floras(model, reported):
    """A network learns what was seen, and is tested on what was overlooked.

    Its rules are fitted, validated and judged on other regions each.
    """
    experiment = zoo.registry["plants-P10" if model == "mmil" else "plants-mil-P10"]
    data = experiment.load(seed=2, source="synthetic")
    whole = datasets.synthetic.load_flora(seed=2)
    seen = data.build_arguments["dataset"]
    np.testing.assert_array_equal(seen.presence, whole.incomplete(10, seed=2).presence)
    (x, y, _), (_, y_valid, _), (x_test, labels, _) = data.train, data.valid, data.test
    np.testing.assert_array_equal(y, seen.presence)
    np.testing.assert_array_equal(labels == 1, seen.presence)
    np.testing.assert_array_equal(labels > 0, whole.presence)
    similar = seen.similar_regions()
    if model == "mmil":
        assert x.to_list() == x_test.to_list() == similar.to_list()
    else:
        found = keras_mmil.Bags(x["bags"], x["counts"], (), ()).to_ragged().to_list()
        merged = similar.merge_dims(1, 2).to_list()
        assert [sorted(bag) for bag in found] == [sorted(bag) for bag in merged]
    assert len(y_valid) == 60
    rule_data = data.rule_data()
    assert [ragged.n_top_bags(part) for part in (rule_data.x, rule_data.x_valid)] == [180, 60]
    x_judge, truth, _ = data.for_testing_rules()
    assert ragged.n_top_bags(x_judge) == len(truth) == 60
    species = data.explainer["target"]
    assert 0.5 < truth.mean() / max(whole.presence[:, species].mean(), 1e-9) < 2
    report = reported(data)
    regions, show = report.clusters.call_args.args
    assert report.explanations.call_args.args == (regions, show)
    assert report.maps.call_args.args == (regions,)
    places = report.maps.call_args.kwargs
    row = seen.regions.index(show((0,)))
    np.testing.assert_array_equal(places["of_top_bags"][0], seen.coordinates[row])
    np.testing.assert_array_equal(places["of_instances"], seen.coordinates)
    assert ragged.n_top_bags(regions) == len(places["of_top_bags"]) == 300
    species = [seen.species[i] for i in np.flatnonzero(seen.presence[row])]
    if model == "mmil":
        assert [show((0, i)) for i in range(len(species))] == species
        assert show((0, 1, 2)) == seen.regions[similar[row][1][2]]
