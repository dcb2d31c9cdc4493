"""Bags of bags of digits, checked against loops over them and against the images' sources."""

import numpy as np
import pytest
from scipy.ndimage import zoom
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from keras_mmil import ragged
from keras_mmil.datasets import mnist


def load(*counts, **arguments):
    return mnist.load_mmil(*counts, source="digits", instance_labels=True, **arguments)


@pytest.fixture(scope="module")
def sets():
    return load(301, 60, 200)


def is_positive(sub_bag):
    return 7 in sub_bag and 3 not in sub_bag


def as_rows(images):
    return {image.tobytes() for image in images.numpy()}


def test_form(sets):
    for n, (x, y, z) in zip((301, 60, 200), sets, strict=True):
        assert x.shape.as_list() == [n, None, None, 28, 28]
        assert (x.dtype, x.row_splits.dtype, x.ragged_rank) == ("uint8", "int64", 2)
        assert z.shape.as_list() == [n, None, None]
        assert (y.shape, y.dtype) == ((n,), np.int64)
        for ours, theirs in zip(x.nested_row_splits, z.nested_row_splits, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert (x.flat_values.numpy().min(), x.flat_values.numpy().max()) == (0, 255)


@pytest.mark.slow
def test_labels_follow_the_rule_and_are_balanced(sets):
    for _, y, z in sets:
        digits = z.to_list()
        assert y.tolist() == [int(any(map(is_positive, bag))) for bag in digits]
        assert y.sum() == len(y) // 2
        assert len(set(np.flatnonzero(y) % 2)) == 2, "in random order"
        found = mnist.sub_bag_labels(z).to_list()
        assert found == [[int(is_positive(sub_bag)) for sub_bag in bag] for bag in digits]
        np.testing.assert_array_equal(mnist.top_bag_labels(z), y)


def test_rule_on_empty_bags():
    z = ragged.from_nested_lists([[], [[]], [[7], [3, 7]], [[7, 3]]], depth=2, dtype="uint8")
    assert mnist.sub_bag_labels(z).to_list() == [[], [0], [1, 0], [0]]
    assert mnist.top_bag_labels(z).tolist() == [0, 0, 1, 0]


def test_sizes_are_uniform_and_do_not_tell_the_label():
    (_, y, z), _, _ = load(3000, 0, 0, bag_size=(1, 3), sub_bag_size=(2, 5))
    sub_bags, digits = ragged.nested_lengths(z)
    for label in (0, 1):  # 500 top-bags of each size are expected, with a deviation of 18
        counts = np.bincount(sub_bags[y == label], minlength=4)
        np.testing.assert_allclose(counts[1:], 500, atol=90)
    assert set(digits) == {2, 3, 4, 5}
    label_of_sub_bag = np.repeat(y, sub_bags)
    means = [digits[label_of_sub_bag == label].mean() for label in (0, 1)]
    np.testing.assert_allclose(means, 3.5, atol=0.1)  # with a deviation of 0.02


@pytest.mark.slow
def test_images_are_those_of_the_digits(sets):
    source = load_digits()
    # Bilinear interpolation between the centres of the pixels, as SciPy has it.
    grid = {"order": 1, "mode": "nearest", "grid_mode": True}
    scaled = np.stack([zoom(image, 3.5, **grid) for image in source.images]) * 255 / 16
    nearest = KNeighborsClassifier(1).fit(scaled.reshape(len(scaled), -1), source.target)
    x, _, z = sets[2]
    images = x.flat_values.numpy().reshape(-1, 28 * 28)
    assert nearest.kneighbors(images)[0].max() < 28 * 0.51  # each pixel is rounded
    np.testing.assert_array_equal(nearest.predict(images), z.flat_values)


def test_sets_share_no_image(sets):
    train, valid, test = (as_rows(x.flat_values) for x, _, _ in sets)
    assert not train & valid
    assert not train & test
    assert not valid & test
    assert len(train) > 0.98 * 0.6 * 1797, "all images are drawn from, 4.5 times each"


@pytest.mark.slow
def test_the_same_for_the_same_seed():
    for first, again in zip(load(5, 3, 9), load(40, 3, 9), strict=True):
        if len(first[1]) == len(again[1]):
            assert first[0].to_list() == again[0].to_list()
            assert first[1].tolist() == again[1].tolist()
    _, _, (x, _) = mnist.load_mmil(5, 3, 9, source="digits")
    assert x.to_list() == first[0].to_list()
    assert load(5, 3, 9, seed=1)[2][2].to_list() != first[2].to_list()


@pytest.mark.parametrize(("n", "n_positive"), [(0, 0), (1, 0), (2, 1)])
def test_few_top_bags(n, n_positive):
    (x, y, z), _, _ = load(n, 0, 0, bag_size=(1, 1), sub_bag_size=(1, 1))
    assert x.shape.as_list() == [n, None, None, 28, 28]
    assert y.sum() == n_positive
    assert sum(z.flat_values.numpy() == 7) == n_positive


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"n_train": -1}, "Received: n_train=-1"),
        ({"n_valid": 2.5}, "Received: n_valid=2.5"),
        ({"bag_size": (2, 1)}, r"Received: bag_size=\(2, 1\)"),
        ({"sub_bag_size": (0, 3)}, r"an empty bag cannot be positive.*sub_bag_size=\(0, 3\)"),
        ({"sub_bag_size": 3}, "Received: sub_bag_size=3"),
        ({"bag_size": (1, 2.5)}, r"Received: bag_size=\(1, 2.5\)"),
        ({"source": "letters"}, r"\['digits', 'mnist'\]. Received: source='letters'"),
    ],
)
def test_bad_arguments(arguments, match):
    with pytest.raises(ValueError, match=match):
        mnist.load_mmil(**{"n_train": 2, "n_valid": 2, "n_test": 2, "source": "digits"} | arguments)


def write_mnist(path, **changes):
    arrays = {
        "x_train": np.zeros((60_000, 28, 28), np.uint8),
        "y_train": np.arange(60_000, dtype=np.uint8) % 10,
        "x_test": np.zeros((10_000, 28, 28), np.uint8),
        "y_test": np.arange(10_000, dtype=np.uint8) % 10,
    }
    np.savez_compressed(path / "mnist.npz", **arrays | changes)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"x_test": np.zeros((9, 28, 28))}, r"`x_test` of shape \(10000, 28, 28\) in .*mnist\.npz"),
        (
            {"y_test": np.full(10_000, 11)},
            r"0 and 9 as `y_test` in .*mnist\.npz. Received: dtype=int64.*max=11",
        ),
        ({"y_test": np.zeros(10_000)}, "`y_test`.*dtype=float64"),
        ({"y_test": np.full(10_000, -1)}, "`y_test`.*min=-1"),
        ({"y_test": np.full(10_000, "a")}, r"mnist\.npz\. Received: dtype=<U1$"),
    ],
)
def test_files_that_are_not_mnist(folder, changes, match):
    write_mnist(folder, **changes)
    with pytest.raises(ValueError, match=match):
        mnist.load_mmil(2, 2, 2)


def test_corrupt_or_missing_mnist(folder):
    with pytest.raises(FileNotFoundError, match=r"mnist\.npz.*It is https://.*KERAS_MMIL_DATA="):
        mnist.load_mmil(2, 2, 2)
    (folder / "mnist.npz").write_bytes(b"not a zip file")
    with pytest.raises(
        ValueError, match=r"delete the file and get it again. Received: .*mnist\.npz"
    ):
        mnist.load_mmil(2, 2, 2)


@pytest.mark.slow
@pytest.mark.data
def test_mnist(data_dir):
    with np.load(data_dir / "mnist.npz") as file:
        arrays = dict(file)
    train_counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(arrays["y_train"]).tolist() == train_counts
    digit_of = {
        part: {
            x.tobytes(): y for x, y in zip(arrays[f"x_{part}"], arrays[f"y_{part}"], strict=True)
        }
        for part in ("train", "test")
    }
    sets = mnist.load_mmil(200, 100, 150, instance_labels=True)
    for part, (x, y, z) in zip(("train", "train", "test"), sets, strict=True):
        found = [digit_of[part][image.tobytes()] for image in x.flat_values.numpy()]
        np.testing.assert_array_equal(found, z.flat_values)
        assert y.tolist() == [int(any(map(is_positive, bag))) for bag in z.to_list()]
    assert not as_rows(sets[0][0].flat_values) & as_rows(sets[1][0].flat_values)
