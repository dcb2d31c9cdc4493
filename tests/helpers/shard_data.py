"""Data of each form that files hold, and what reads them back."""

import numpy as np
import tensorflow as tf

from keras_mmil import Bags, io, ragged

FORMATS = ("parquet", "tfrecord")
N = 23


def nested(n, depth, seed=0, inner=(), dtype="float32", most=3):
    """Nested bags, some of them empty, and the first and the last top-bag, too."""
    rng = np.random.default_rng(seed)
    sizes = [rng.integers(0, most + 1, n)]
    if n > 1:
        sizes[0][[0, -1]] = 0
    for _ in range(depth - 1):
        sizes.append(rng.integers(0, most + 1, sizes[-1].sum()))
    n_instances = sizes[-1].sum()
    return ragged.from_flat(values((n_instances, *inner), dtype, rng), sizes)


def values(shape, dtype, rng):
    """Any values of a dtype, also those that are not numbers."""
    if dtype == "string":
        texts = [b"", b"a text", "schön\n".encode(), b"\xff\x00\xfe", b"x" * 300]
        chosen = rng.integers(0, len(texts), shape)
        return np.array(texts, object)[chosen] if chosen.size else np.zeros(shape, "S1")
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith("float"):
        found = rng.normal(size=shape).astype(dtype)
        odd = np.array([np.nan, np.inf, -np.inf, -0.0], dtype)
        return np.where(rng.random(shape) < 0.1, rng.choice(odd, shape), found)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def bags(depth, n=N, seed=0):
    rng = np.random.default_rng(seed)
    x = nested(n, depth, seed, most=4)
    x = x.with_flat_values(rng.integers(0, 6, x.flat_values.shape[0]).astype("int32"))
    return Bags.from_ragged(x)


def labels(n=N, seed=1):
    return np.random.default_rng(seed).integers(0, 3, n)


# Arguments of `io.write`, by what they are.
FORMS = {
    "vectors": lambda: {"x": nested(N, 2, inner=(3,)), "y": labels()},
    "one level": lambda: {"x": nested(N, 1, dtype="float64")},
    "three levels": lambda: {"x": nested(N, 3, dtype="int64"), "y": labels()},
    "images": lambda: {"x": nested(N, 2, inner=(4, 5, 1), dtype="uint8"), "y": labels()},
    "strings in bags": lambda: {"x": nested(N, 2, dtype="string"), "y": labels()},
    "texts": lambda: {"x": [f"text {i} ä" for i in range(N)], "y": labels().tolist()},
    "dense": lambda: {"x": np.arange(N * 6, dtype="float32").reshape(N, 3, 2)},
    "bags": lambda: {"x": bags(2), "y": labels(), "sample_weight": np.linspace(0, 1, N)},
    "deep bags": lambda: {"x": bags(3), "y": labels()},
    "bags of one level": lambda: {"x": bags(1)},
    "dict": lambda: {
        "x": {"a.b[]": nested(N, 2, 3), "c": nested(N, 1, 4, (2,)), "d": np.arange(N)},
        "y": labels(),
    },
    "tuple": lambda: {"x": (nested(N, 2), np.arange(N))},
    "several outputs": lambda: {
        "x": nested(N, 2),
        "y": [labels(), nested(N, 1, 5)],
        "sample_weight": {"one": np.ones(N), "two": np.zeros(N)},
    },
    "one top-bag": lambda: {"x": nested(1, 2), "y": labels(1)},
    "nothing in it": lambda: {"x": nested(N, 2, most=0), "y": labels()},
}


def expected(x, y=None, sample_weight=None):
    """What batches of all the data hold, one after the other."""

    def tensors(part):
        if isinstance(part, Bags):
            return part.inputs
        if isinstance(part, dict):
            return {name: tensors(inner) for name, inner in part.items()}
        if isinstance(part, tuple) or (isinstance(part, list) and hasattr(part[0], "shape")):
            return tuple(tensors(inner) for inner in part)
        is_numbers = isinstance(part, list) and not isinstance(part[0], str)
        part = np.asarray(part) if is_numbers else part
        return part if tf.is_tensor(part) else tf.convert_to_tensor(part)

    parts = tuple(tensors(part) for part in (x, y, sample_weight) if part is not None)
    return parts[0] if len(parts) == 1 and not isinstance(parts[0], tuple) else parts


def written(folder, format="parquet", per_file=5, **arguments):
    io.write(folder, format=format, top_bags_per_file=per_file, verbose=0, **arguments)
    return folder


def joined(dataset):
    """The data in all batches of a Dataset."""
    return ragged.concat(list(dataset))


def assert_same(found, wanted):
    """Structure, dtypes, sizes of bags and values are equal, to the last bit."""
    tf.nest.assert_same_structure(found, wanted)
    for ours, theirs in zip(tf.nest.flatten(found), tf.nest.flatten(wanted), strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape.as_list() == theirs.shape.as_list()
        for one, two in zip(arrays(ours), arrays(theirs), strict=True):
            assert one.shape == two.shape
            same = one.tolist() == two.tolist() if one.dtype == object else bits(one) == bits(two)
            assert same


def arrays(tensor):
    splits = getattr(tensor, "nested_row_splits", ())
    return [getattr(tensor, "flat_values", tensor).numpy(), *[s.numpy() for s in splits]]


def bits(array):
    return array.astype("int64" if array.dtype.kind == "i" else array.dtype).tobytes()
