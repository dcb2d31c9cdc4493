"""Synthetic problems, checked against loops over their latent labels."""

import numpy as np
import pytest

from keras_mmil import ragged
from keras_mmil.datasets.synthetic import points


def offside(bag):
    """The paper's example, word by word; players are behind (0), in front (1), inconclusive (2)."""
    says = []
    for image in bag:
        if all(player == 0 for player in image):
            says.append("offside")
        elif any(player == 1 for player in image):
            says.append("not offside")
        else:
            says.append("inconclusive")
    return not ("not offside" in says or all(image == "inconclusive" for image in says))


def zero_and_no_two(bag):
    return 0 in bag and 2 not in bag


def three_level(bag):
    return any(all(map(zero_and_no_two, sub_bag)) for sub_bag in bag)


PROBLEMS = [
    (points.load_offside, offside, points.offside_labels, 2),
    (points.load_zero_and_no_two, zero_and_no_two, points.zero_and_no_two_labels, 1),
    (points.load_three_level, three_level, points.three_level_labels, 3),
]
each_problem = pytest.mark.parametrize(("load", "rule", "label_of", "depth"), PROBLEMS)


@pytest.mark.slow
@each_problem
def test_form_labels_and_balance(load, rule, label_of, depth):
    counts = (101, 20, 30)
    for n, (x, y, z) in zip(counts, load(*counts, instance_labels=True), strict=True):
        assert x.shape.as_list() == [n, *[None] * depth, 2]
        assert (x.dtype, x.row_splits.dtype, z.dtype) == ("float32", "int64", "int64")
        assert (y.shape, y.dtype, y.sum()) == ((n,), np.int64, n // 2)
        assert y.tolist() == [int(rule(bag)) for bag in z.to_list()] == label_of(z).tolist()


@each_problem
def test_points_lie_at_the_corners_of_their_latent_labels(load, rule, label_of, depth):
    for noise, tolerance in ((0.0, 1e-6), (0.1, 0.5)):  # five standard deviations
        x, _, z = load(50, 0, 0, noise=noise, instance_labels=True)[0]
        angles = 2 * np.pi * z.flat_values.numpy() / 3
        corners = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        distances = np.linalg.norm(x.flat_values.numpy() - corners, axis=1)
        assert distances.max() < tolerance
        assert (distances.std() > 0.01) == (noise > 0)


@pytest.mark.slow
@each_problem
def test_the_same_for_the_same_seed(load, rule, label_of, depth):
    (x, y), again, other = (load(2, 0, 10, seed=seed)[2] for seed in (1, 1, 2))
    assert x.to_list() == again[0].to_list() != other[0].to_list()
    assert y.tolist() == again[1].tolist()
    assert load(9, 0, 10, seed=1)[2][0].to_list() == x.to_list()


@each_problem
def test_sizes_are_uniform_and_do_not_tell_the_label(load, rule, label_of, depth):
    x, y = load(2000, 0, 0, bag_size=(2, 3))[0]
    for label in (0, 1):  # 500 of each size are expected, with a deviation of 16
        sizes = x.row_lengths().numpy()[y == label]
        np.testing.assert_allclose(np.bincount(sizes)[2:], 500, atol=80)


def test_what_images_say():
    z = ragged.from_nested_lists([[[0, 0], [0, 1], [2, 1]], [[2, 0], [2]], []], dtype="int64")
    assert points.offside_image_labels(z).to_list() == [[1, 0, 0], [2, 2], []]
    assert points.offside_labels(z).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("load", "arguments", "match"),
    [
        (points.load_offside, {"n_test": -3}, "Received: n_test=-3"),
        (points.load_offside, {"noise": -1}, "Received: noise=-1"),
        (points.load_offside, {"noise": np.nan}, "Received: noise=nan"),
        (points.load_offside, {"sub_bag_size": (3, 2)}, r"sub_bag_size=\(3, 2\)"),
        (points.load_zero_and_no_two, {"bag_size": (0, 2)}, r"bag_size=\(0, 2\)"),
        (points.load_three_level, {"sub_sub_bag_size": "a"}, "sub_sub_bag_size='a'"),
    ],
)
def test_bad_arguments(load, arguments, match):
    with pytest.raises(ValueError, match=match):
        load(**arguments)
