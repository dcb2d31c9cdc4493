"""The data of the experiment on point clouds."""

import numpy as np
import pytest

from keras_mmil import builders, ragged, zoo


def test_clouds_and_their_rotations():
    """All clouds are for training; rules are validated on some, and fitted to the others."""
    clouds = zoo.registry["modelnet-mil-P100"].load(seed=1, source="synthetic")
    bags = zoo.registry["modelnet-P100"].load(seed=1, source="synthetic")
    flat = zoo.registry["modelnet-mil-P100-rotations"].load(seed=1, source="synthetic")
    assert [len(part[1]) for part in (clouds.train, clouds.valid, clouds.test)] == [400, 80, 200]
    for part in ("train", "valid", "test"):
        (x, y, _), (x_bags, y_bags, _), (x_flat, y_flat, _) = (
            getattr(data, part) for data in (clouds, bags, flat)
        )
        turned = builders.clouds.rotations(x.to_tensor().numpy(), 5)
        np.testing.assert_array_equal(x_bags.to_tensor(), turned)
        np.testing.assert_array_equal(x_flat.to_tensor(), turned.reshape(-1, *turned.shape[2:]))
        np.testing.assert_array_equal(y_bags, y)
        np.testing.assert_array_equal(y_flat, np.repeat(y, 5))
    of_train = {cloud.numpy().tobytes() for cloud in clouds.train[0].to_tensor()}
    assert {cloud.numpy().tobytes() for cloud in clouds.valid[0].to_tensor()} < of_train
    assert not {cloud.numpy().tobytes() for cloud in clouds.test[0].to_tensor()} & of_train
    for data in (clouds, bags, flat):
        rule_data = data.rule_data()
        assert rule_data.x_valid is data.valid[0]
        joined = ragged.concat([rule_data.x_valid, rule_data.x])
        np.testing.assert_array_equal(joined.to_tensor(), data.train[0].to_tensor())
        assert data.for_testing_rules() is data.test


@pytest.mark.slow
@pytest.mark.parametrize("model", ["", "mil-"])
def test_clouds_that_are_resampled(model):
    """Those for training have more points than all others, of which some are drawn."""
    experiment = zoo.registry[f"modelnet-{model}P100-resampled"]
    data = experiment.load(seed=1, source="synthetic")
    sizes = {
        part: {int(n) for n in ragged.nested_lengths(x)[-1]}
        for part, x in (
            ("train", data.train.x),
            ("valid", data.valid.x),
            ("test", data.test.x),
            ("rules", data.rule_data().x),
        )
    }
    assert sizes == {"train": {614}, "valid": {60}, "test": {60}, "rules": {60}}
    np.testing.assert_array_equal(data.train.y[:80], data.valid.y)
    joined = ragged.concat([data.valid.x, data.rule_data().x]).to_tensor().numpy()
    some = data.train.x.to_tensor().numpy()[..., :60, :]
    flat = (part.reshape(-1, 60, 3) for part in (joined, some))
    found, expected = (builders.clouds.normalise(part) for part in flat)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    layer = experiment.build(n_classes=4).get_layer("random_points")
    assert layer.n_points == 100


def test_the_wide_network_differs_in_the_units_of_rotations():
    def shapes(split):
        model = zoo.registry[f"modelnet-{split}"].build(n_classes=4)
        return {weight.path: tuple(weight.shape) for weight in model.trainable_variables}

    ours, wide = shapes("P100-resampled"), shapes("P100-resampled-wide")
    differing = {name: (ours[name], wide[name]) for name in ours if wide[name] != ours[name]}
    assert wide.keys() == ours.keys()
    assert differing == {
        "bag_layer_2/kernel": ((512, 40), (512, 512)),
        "bag_layer_2/bias": ((40,), (512,)),
        "bag_layer_2/empty_vector": ((40,), (512,)),
        "label/kernel": ((40, 4), (512, 4)),
    }


def test_what_is_reported_of_bags_of_clouds(reported):
    bags = zoo.registry["modelnet-P100"].load(seed=1, limit=5, source="synthetic")
    report = reported(bags)
    (x, labels, names), (_, show) = (
        method.call_args.args for method in (report.sub_bags, report.clusters)
    )
    assert x is bags.test.x
    for method in (report.clusters, report.explanations, report.clouds):
        assert method.call_args.args == (x, show)
    assert show((3,)) == f"cloud 3 ({names[bags.test[1][3]]})"
    assert show((3, 2)) == f"cloud 3 ({names[bags.test[1][3]]}), rotation 2"
    point = bags.test[0][3, 2, 7].numpy()
    assert show((3, 2, 7)) == "({:.2f}, {:.2f}, {:.2f})".format(*point)
    assert labels[3].numpy().tolist() == [bags.test[1][3]] * 5


def test_what_is_reported_of_clouds(reported):
    clouds = zoo.registry["modelnet-mil-P100"].load(seed=1, limit=5, source="synthetic")
    report = reported(clouds)
    x, show = report.clouds.call_args.args
    assert x is clouds.test.x
    assert show((3, 7)) == "({:.2f}, {:.2f}, {:.2f})".format(*x[3, 7].numpy())
    report.sub_bags.assert_not_called()
