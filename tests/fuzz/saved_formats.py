"""Formats that the library writes itself: shards, records, schemas, networks, rules and runs."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import tensorflow as tf
from damage import plain
from data_formats import sha256
from harness import Format
from seals import reseal
from shard_data import bags, joined, labels, nested, written
from trainable_networks import make_data, make_model

from keras_mmil import NestedClassifier, io
from keras_mmil._support.archives import load_network
from keras_mmil.cli import finished_run as runs
from keras_mmil.records import Schema
from keras_mmil.rules import Explainer
from keras_mmil.training import Checkpoint
from keras_mmil.training.cross_validation import FoldLog

__all__ = ["FORMATS"]


# Shards -----------------------------------------------------------------------------------------


def make_shards(format):
    def make(folder):
        x = {**bags(2).inputs, "images": nested(23, 1, inner=(2, 2), dtype="uint8")}
        written(folder / "shards", format, per_file=8, x=x, y=labels())

    return make


def load_shards(folder):
    """All data, as lists; the errors of a Dataset are ValueErrors here."""
    try:
        found = joined(io.read(folder / "shards", 16))
    except tf.errors.InvalidArgumentError as error:
        if "Traceback" in error.message:
            raise
        raise ValueError(error.message) from error
    return plain(tf.nest.map_structure(_listed, found))


def _listed(part):
    return part.to_list() if hasattr(part, "to_list") else part.numpy().tolist()


def seal_shards(path):
    def change(manifest):
        for shard in manifest["shards"]:
            if path.name == shard["file"]:
                shard |= {"bytes": path.stat().st_size, "sha256": sha256(path.read_bytes())}

    reseal(path.with_name("manifest.json"), change)


# Records ----------------------------------------------------------------------------------------


def _records():
    rng = np.random.default_rng(0)
    kinds = ["toy", "book", "food"]
    return [
        {
            "id": i,
            "paid": bool(i % 2),
            "seen": f"2020-01-{i + 1:02d}",
            "note": "ein schöner Text" if i % 3 else None,
            "items": [{"kind": kinds[k], "price": k * 1.5} for k in rng.integers(0, 3, i % 4)],
        }
        for i in range(12)
    ]


def make_records(ending):
    def make(folder):
        path, found = folder / f"orders.{ending}", _records()
        if ending == "parquet":
            pa.parquet.write_table(pa.Table.from_pylist(found), path, row_group_size=5)
        elif ending == "json":
            path.write_text(json.dumps(found, indent=1))
        elif ending == "tsv":
            rows = [list(found[0])[:-1], *([x or "" for x in each.values()][:-1] for each in found)]
            path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
        else:
            content = "".join(json.dumps(each) + "\n" for each in found).encode()
            with pa.output_stream(str(path), compression=_PACKED.get(path.suffix)) as file:
                file.write(content.decode().encode("utf-16") if "16" in ending else content)

    return make


_PACKED = {".gz": "gzip", ".zst": "zstd"}


def make_partitions(folder):
    """Parquet files in folders such as paid=true, whose names are all that says so."""
    table = pa.Table.from_pylist(_records())
    pa.dataset.write_dataset(
        table,
        folder / "orders",
        format="parquet",
        partitioning=["paid"],
        partitioning_flavor="hive",
    )


def load_records(ending=None):
    def load(folder):
        path = folder / ("orders" if ending is None else f"orders.{ending}")
        schema = Schema.infer(path)
        return [str(schema), {name: _listed(x) for name, x in schema.read(path).items()}]

    return load


def make_schema(folder):
    Schema.infer(_records()).save(folder / "schema.json")


def load_schema(folder):
    schema = Schema.load(folder / "schema.json")
    return [str(schema), repr(schema._profile), repr(schema._links)]


# Networks and rules -----------------------------------------------------------------------------


def make_network(folder):
    make_model().save(folder / "model.keras")


def load_weights(folder):
    model = load_network(folder / "model.keras")
    return [json.dumps(model.get_config()), *(w.tolist() for w in model.get_weights())]


def make_rules(folder):
    model = make_model()
    model.save(folder / "model.keras")
    x, _ = make_data()
    Explainer(max_clusters=3, target=(0, 0.5), verbose=0).fit(model, x).save(folder / "rules")


_MODELS = {}


def load_rules(folder):
    if not _MODELS:
        _MODELS["model"] = load_network(folder / "model.keras")
    found = Explainer.load(folder / "rules", _MODELS["model"])
    return [found.get_params(), found.grid_, found.rules_.text(all=True), found.classes_]


def seal_rules(path):
    about = {}
    manifest = path.with_name("manifest.json")
    if path.suffix == ".npz":
        digest = sha256(path.read_bytes())
        path = path.rename(path.with_name(f"arrays-{digest[:16]}.npz"))
        about = {"arrays": {"file": path.name, "sha256": digest}}
    reseal(manifest, about)


def make_estimator(folder):
    records = [*_records(), *_records(), *_records()]
    truth = np.array([bool(record["items"]) for record in records])
    for record in records:
        del record["id"], record["seen"]
    found = NestedClassifier(effort="low", units=3, epochs=1, random_state=0, validation_split=0.0)
    found.fit(records, truth)
    found.explainer_  # noqa: B018 - it is fitted and saved, too
    found.save(folder / "estimator")


def load_estimator(folder):
    found = NestedClassifier.load(folder / "estimator")
    weights = [weight.tolist() for weight in found.model_.get_weights()]
    rules = found.rules_.text() if found._explainers else None
    fitted = [plain(getattr(found, name)) for name in found.fitted]
    return [found.get_params(), str(found.schema_), found.history_, fitted, weights, rules]


def seal_estimator(path):
    state = next(each / "estimator.json" for each in path.parents if each.name == "estimator")

    def change(content):
        if path != state:
            name = path.relative_to(state.parent / content["folder"]).as_posix()
            content["files"][name] = sha256(path.read_bytes())

    reseal(state, change)


# Trainings and runs -----------------------------------------------------------------------------


def make_checkpoint(folder):
    model, (x, y) = make_model(), make_data()
    callbacks = [Checkpoint(folder, seconds=0.0)]
    model.fit(x, y, validation_data=(x, y), epochs=2, callbacks=callbacks, verbose=0)


def load_checkpoint(folder):
    checkpoint = Checkpoint(folder)
    model = checkpoint.restore()
    if model is None:
        return "nothing"
    return [
        checkpoint.history,
        [w.numpy().tolist() for w in (*model.weights, *model.optimizer.variables)],
    ]


def make_run(folder):
    settings = {"experiment": "x", "seed": 0, "limit": None, "source": None, "adversarial": False}
    (folder / "settings.json").write_text(json.dumps(settings))
    make_rules(folder)
    np.save(folder / "trained_on.npy", np.arange(5, dtype=np.uint64))


class _Experiment:
    """Stands for an experiment whose data take no time."""

    def load(self, **arguments):
        return arguments


def load_run(folder):
    runs.registry = {"x": _Experiment()}
    found = runs.finished_run(folder)
    return [found.data, found.explainer.rules_.text(), found.trained_on.tolist()]


_SETTINGS = {"epochs": 1, "data": "abc"}


def make_folds(folder):
    log = FoldLog(folder, _SETTINGS, 1, 2, verbose=0)
    for fold in range(2):
        log.add((0, fold), {"accuracy": 0.5, "seconds": 1.5})


def load_folds(folder):
    log = FoldLog(folder, _SETTINGS, 1, 2)
    log.read()
    return repr(sorted(log.done.items()))


_RECORD_ERRORS = (ValueError, TypeError)
FORMATS = [
    *(
        Format(
            f"shards-{format}",
            make_shards(format),
            load_shards,
            n=15,
            is_checked=True,
            seal=seal_shards,
            errors=errors,
            names=names,
        )
        for format, errors, names in (
            ("parquet", (ValueError,), ""),
            # Where the checksums of the manifest are right, TensorFlow's own are not; and where the
            # manifest itself is wrong, TensorFlow names the part of the data.
            (
                "tfrecord",
                (ValueError, tf.errors.DataLossError),
                "corrupted record|truncated record|Key: x/",
            ),
        )
    ),
    *(
        Format(f"records-{e}", make_records(e), load_records(e), errors=_RECORD_ERRORS)
        for e in ("jsonl", "jsonl.gz", "json", "parquet")
    ),
    *(
        Format(f"records-{e}", make_records(e), load_records(e), errors=_RECORD_ERRORS, n=100)
        for e in ("jsonl.zst", "utf-16.jsonl", "tsv")
    ),
    Format("records-folders", make_partitions, load_records(), errors=_RECORD_ERRORS, n=100),
    Format("schema", make_schema, load_schema),
    Format("keras", make_network, load_weights, n=80),
    Format(
        "explainer",
        make_rules,
        load_rules,
        is_checked=True,
        seal=seal_rules,
        damaged=r"manifest.*|arrays.*",
        errors=(ValueError, FileNotFoundError),  # as a forged manifest may name any file
    ),
    Format(
        "estimator",
        make_estimator,
        load_estimator,
        n=40,
        is_checked=True,
        seal=seal_estimator,
        names="estimator",
        errors=(ValueError, FileNotFoundError),
    ),
    Format("checkpoint", make_checkpoint, load_checkpoint, n=50, damaged=r"epoch.*|history.*"),
    Format("run", make_run, load_run, n=50),
    Format("folds", make_folds, load_folds),
]
