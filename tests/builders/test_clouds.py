"""Point clouds: normalised, rotated, sampled from surfaces, and read from files."""

import damage
import numpy as np
import pytest
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil.builders import clouds

RNG = np.random.default_rng(0)
SIZES = [4, 1, 0, 7]
POINTS = RNG.normal(3, 2, (12, 3)).astype("float32")
RAGGED = ragged.from_flat(POINTS, [SIZES])
DENSE = RNG.normal(-1, 5, (3, 20, 3))
CUBE = """OFF
# a cube of two times two times two
8 6 12
-1 -1 -1
1 -1 -1
1 1 -1
-1 1 -1
-1 -1 1
1 -1 1
1 1 1
-1 1 1
4 0 1 2 3
4 4 5 6 7
4 0 1 5 4
4 1 2 6 5
4 2 3 7 6
4 3 0 4 7
"""


def test_normalised_clouds_have_mean_0_and_variance_1():
    x = clouds.normalise(DENSE)
    assert x.dtype == np.float32
    np.testing.assert_allclose(x.mean(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose(x.std(axis=(1, 2)), 1, rtol=1e-5)
    for ours, cloud in zip(x, DENSE, strict=True):
        centred = cloud - cloud.mean(axis=0)
        np.testing.assert_allclose(ours, centred / centred.std(), rtol=1e-5, atol=1e-6)


def test_clouds_of_any_size_are_normalised_each():
    x = clouds.normalise(RAGGED)
    assert x.row_lengths().numpy().tolist() == SIZES
    for ours, cloud in zip(x, RAGGED, strict=True):
        if len(cloud) > 1:
            np.testing.assert_allclose(ours, clouds.normalise(cloud.numpy()[None])[0], rtol=1e-5)
    np.testing.assert_array_equal(x[1], [[0, 0, 0]])


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_equal_points_are_at_the_origin(value):
    np.testing.assert_array_equal(clouds.normalise(np.full((2, 10, 3), value)), 0)


@pytest.mark.parametrize("axis", "xyz")
def test_rotations(axis):
    x = clouds.rotations(DENSE, 5, axis)
    assert x.shape == (3, 5, 20, 3)
    assert x.dtype == np.float32
    np.testing.assert_allclose(x[:, 0], DENSE, rtol=1e-6)
    turned = DENSE
    for i in range(1, 5):  # by a fifth of a turn each
        turned = np.stack([turn_about(axis, cloud, np.pi * 2 / 5) for cloud in turned])
        np.testing.assert_allclose(x[:, i], turned, rtol=1e-4, atol=1e-4)


def turn_about(axis, points, angle):
    """Counter-clockwise, seen from the axis's positive end: by complex numbers."""
    i = "xyz".index(axis)
    first, second = points[:, (i + 1) % 3], points[:, (i + 2) % 3]
    turned = (first + 1j * second) * np.exp(1j * angle)
    out = np.empty_like(points)
    out[:, i], out[:, (i + 1) % 3], out[:, (i + 2) % 3] = points[:, i], turned.real, turned.imag
    return out


def test_rotations_of_clouds_of_any_size():
    x = clouds.rotations(RAGGED, 3)
    assert [lengths.tolist() for lengths in ragged.nested_lengths(x)] == [
        [3, 3, 3, 3],
        [4, 4, 4, 1, 1, 1, 0, 0, 0, 7, 7, 7],
    ]
    for ours, cloud in zip(x, RAGGED, strict=True):
        expected = clouds.rotations(cloud.numpy()[None], 3)[0]
        np.testing.assert_allclose(ours.to_tensor(shape=expected.shape), expected, rtol=1e-5)


@pytest.mark.parametrize("function", [clouds.normalise, lambda x: clouds.rotations(x, 2)])
@pytest.mark.parametrize(
    ("x", "match"),
    [
        (np.zeros((2, 3)), r"shape \(2, 3\)"),
        (np.zeros((2, 3, 2)), r"shape \(2, 3, 2\)"),
        ([[1.0, 2.0, 3.0]], "Received: list"),
        (np.array([[[0.0, np.nan, 0.0]]]), r"x\[0\]\[0\]\[1\]=nan"),
        (RAGGED / 0, r"x\[0\]\[0\]\[0\]="),
    ],
)
def test_no_clouds(function, x, match):
    with pytest.raises(ValueError, match=match):
        function(x)


@pytest.mark.parametrize(
    ("n", "axis", "match"), [(0, "z", "n_rotations=0"), (2.0, "z", "2.0"), (2, "w", "axis='w'")]
)
def test_rotations_errors(n, axis, match):
    with pytest.raises(ValueError, match=match):
        clouds.rotations(DENSE, n, axis)


def test_points_are_drawn_in_proportion_to_area():
    """A triangle and another of four times its area; and within one, uniformly."""
    vertices = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [10, 0, 0], [12, 0, 0], [10, 2, 0]]
    x = clouds.sample_surface(vertices, [[0, 1, 2], [3, 4, 5]], 20_000, seed=1)
    assert x.shape == (20_000, 3)
    first = x[x[:, 0] < 5]
    assert abs(len(first) / len(x) - 0.2) < 0.01
    assert (first[:, 0] + first[:, 1] <= 1 + 1e-6).all()
    np.testing.assert_allclose(first.mean(axis=0), [1 / 3, 1 / 3, 0], atol=0.01)
    np.testing.assert_allclose(first[:, :2].var(axis=0), 1 / 18, atol=0.003)
    again = clouds.sample_surface(vertices, [[0, 1, 2], [3, 4, 5]], 20_000, seed=1)
    np.testing.assert_array_equal(x, again)


@pytest.mark.parametrize(
    ("vertices", "triangles", "match"),
    [
        ([[0, 0, 0]], [[0, 0, 0]], "1 triangles of area 0"),
        ([[0, 0, 0]], np.zeros((0, 3), int), "0 triangles of area 0"),
        ([[0, 0, 0]], [[0, 0, 1]], "triangles from 0 to 1"),
        ([[0, 0, 0]], [[-1, 0, 0]], "triangles from -1 to 0"),
        ([[0, 0]], [[0, 0, 0]], r"vertices.shape=\(1, 2\)"),
        ([[0, 0, np.nan]], [[0, 0, 0]], "1 of them NaN"),
        ([[0, 0, 0]], [[0.0, 0, 0]], "dtype=float64"),
        ([[0, 0, 0]], [[0, 0]], r"triangles.shape=\(1, 2\)"),
    ],
)
def test_no_surface(vertices, triangles, match):
    with pytest.raises(ValueError, match=match):
        clouds.sample_surface(vertices, triangles, 10)


@pytest.mark.parametrize("text", [CUBE, CUBE.encode(), CUBE.replace("OFF\n", "OFF", 1)])
def test_read_off(text):
    if isinstance(text, str) and "OFF#" in text:
        text = text.replace("OFF# a cube of two times two times two\n", "OFF")  # as in ModelNet
    vertices, triangles = clouds.read_off(text)
    assert vertices.shape == (8, 3)
    assert triangles.shape == (12, 3)
    a, b, c = (vertices[triangles[:, i]] for i in range(3))
    areas = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
    np.testing.assert_allclose(areas, 2)  # halves of the faces
    x = clouds.sample_surface(vertices, triangles, 1000)
    np.testing.assert_allclose(np.abs(x).max(axis=1), 1, rtol=1e-6)


def test_read_off_of_triangles():
    vertices, triangles = clouds.read_off("OFF 3 2 0\n0 0 0 1 0 0 0 1 0\n3 0 1 2\n3 2 1 0\n")
    assert vertices.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert triangles.tolist() == [[0, 1, 2], [2, 1, 0]]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "begins with OFF. Received: ''"),
        ("PLY\n1 2 3", "'PLY 1 2 3'"),
        ("OFF", "as many as announced"),
        ("OFF 3 1", "as many as announced"),
        ("OFF 2 0 0\n0 0 0 1 0", "as many as announced"),
        ("OFF 1 1 0\n0 0 0\n", "as many as announced"),
        ("OFF 1 1 0\n0 0 0\n4 0 0 0\n", "as many as announced"),
        ("OFF 1 1 0\n0 0 0\n-1 0\n", "as many as announced"),
        ("OFF 1 1 0\n0 0 x\n3 0 0 0\n", "as many as announced"),
    ],
)
def test_no_off(text, match):
    with pytest.raises(ValueError, match=match):
        clouds.read_off(text)


def test_rotations_of_ragged_and_dense_clouds_agree():
    dense = clouds.rotations(DENSE, 4, "y")
    as_ragged = clouds.rotations(tf.RaggedTensor.from_tensor(DENSE), 4, "y")
    np.testing.assert_allclose(as_ragged.to_tensor(), dense, rtol=1e-6)


# Damaged files ----------------------------------------------------------------------------------

SURFACE = "OFF\n4 2 5\n0 0 0\n2 0 0\n2 2 1\n0 2 1\n3 0 1 2\n3 0 2 3\n"


def test_damaged_surfaces(tmp_path):
    path = tmp_path / "a.off"
    path.write_text(SURFACE)

    def read():
        try:
            return damage.plain(clouds.read_off(path.read_bytes()))
        except ValueError as error:  # which is of a text
            raise ValueError(f"{path}: {error}") from error

    damage.check_files([path], read, is_checked=False)


@pytest.mark.parametrize(
    "text",
    [
        "OFF 999999999999 1 0\n0 0 0",
        "OFF -1 0 0\n",
        "OFF 3 -1 0\n0 0 0 1 0 0 0 1 0",
        SURFACE + "3 0 1 3",
    ],
)
def test_surfaces_that_do_not_say_what_they_hold(text):
    with pytest.raises(ValueError, match="as many as announced"):
        clouds.read_off(text)
