"""What writes files, and is killed: each with what it leaves, as far as that is trusted."""

import hashlib
import http.server
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import data_formats
import numpy as np
import saved_formats
import tensorflow as tf
from damage import plain
from shard_data import bags, joined, labels
from trainable_networks import make_data, make_model

from keras_mmil import NestedClassifier, io
from keras_mmil._support.archives import load_network
from keras_mmil._support.files import atomic_write
from keras_mmil.datasets import imdb, social
from keras_mmil.datasets._io import files
from keras_mmil.records import Schema
from keras_mmil.rules import Explainer
from keras_mmil.training import Checkpoint

__all__ = ["ACTIONS", "Action"]


@dataclass(frozen=True)
class Action:
    """Something that writes files.

    Attributes:
        name: of the action.
        prepare: writes what is there before, to a folder.
        ready: makes what the action needs, and returns the function without arguments to kill.
        found: what is in the folder, as its readers trust it.
    """

    name: str
    prepare: Callable[[Path], None]
    ready: Callable[[Path], Callable[[], Any]]
    found: Callable[[Path], Any]


# Saves over what was saved before ---------------------------------------------------------------


def _save_network(folder, model):
    with atomic_write(folder / "model.keras") as part:
        model.save(part)


def prepare_network(folder):
    _save_network(folder, make_model())


def ready_network(folder):
    model = make_model()
    model.set_weights([weight + 1 for weight in model.get_weights()])
    return lambda: _save_network(folder, model)


def found_network(folder):
    return [weight.tolist() for weight in load_network(folder / "model.keras").get_weights()]


def _fitted(folder, k):
    model, (x, _) = load_network(folder / "model.keras"), make_data()
    return Explainer(n_clusters=k, target=(0, 0.5), verbose=0).fit(model, x)


def prepare_explainer(folder):
    make_model().save(folder / "model.keras")
    _fitted(folder, 2).save(folder / "rules")


def ready_explainer(folder):
    explainer = _fitted(folder, 3)
    return lambda: explainer.save(folder / "rules")


def found_explainer(folder):
    found = Explainer.load(folder / "rules", load_network(folder / "model.keras"))
    return [found.n_clusters_, found.rules_.text(all=True)]


def ready_estimator(folder):
    found = NestedClassifier.load(folder / "estimator")
    found.history_ = {"loss": [0.5]}
    found.model_.set_weights([np.ones_like(weight) for weight in found.model_.get_weights()])
    found._explainers = {}
    return lambda: found.save(folder / "estimator")


def prepare_schema(folder):
    Schema.infer(saved_formats._records()[:5]).save(folder / "schema.json")


def ready_schema(folder):
    schema = Schema.infer(saved_formats._records() * 20)
    return lambda: schema.save(folder / "schema.json")


# New files --------------------------------------------------------------------------------------


def prepare_nothing(folder):
    pass


def ready_shards(format):
    def ready(folder):
        x, y = bags(2, 400), labels(400)
        options = {"format": format, "top_bags_per_file": 40, "resume": True, "verbose": 0}
        return lambda: io.write(folder / "shards", x, y, **options)

    return ready


def found_shards(folder):
    try:
        dataset = io.read(folder / "shards", 100)
    except FileNotFoundError:
        return None
    except ValueError as error:
        if "written to their end" in str(error):
            return None
        raise
    return plain(tf.nest.map_structure(saved_formats._listed, joined(dataset)))


def ready_checkpoint(folder):
    model, (x, y) = make_model(), make_data()

    def act():
        found = Checkpoint(folder / "run", seconds=0.0)
        trained = found.restore() or model
        n = len(found.history)
        trained.fit(
            x,
            y,
            validation_data=(x, y),
            epochs=4,
            initial_epoch=n,
            shuffle=False,
            callbacks=[found],
            verbose=0,
        )

    return act


def found_checkpoint(folder):
    found = Checkpoint(folder / "run")
    model = found.restore()
    if model is None or len(found.history) < 4:
        return None  # a part of the training
    losses = [{k: x for k, x in epoch.items() if k != "seconds"} for epoch in found.history]
    best = load_network(found.best_path).get_weights()
    return [losses, [w.tolist() for w in (*model.get_weights(), *best)]]


# Caches and downloads ---------------------------------------------------------------------------


def prepare_networks(folder):
    (folder / "data").mkdir()
    data_formats.make_graphs("COLLAB", data_formats._GRAPHS)(folder / "data")


def cached(name):
    """What the cache holds of files of a name, by its own reader; None if there is nothing."""
    return sorted((files.cache_folder()).glob(name))


def found_networks(folder):
    return [data_formats.load_networks(folder) for _ in cached("collab*")] or None


def prepare_reviews(folder):
    (folder / "data").mkdir()
    data_formats.make_reviews(folder / "data")


def ready_reviews(folder):
    imdb._EXPECTED = data_formats._REVIEWS
    return lambda: imdb.prepare(splitter="core", verbose=0)


def found_reviews(folder):
    imdb._EXPECTED = data_formats._REVIEWS
    found = [imdb._read(path) for path in cached("imdb*/reviews.npz")]
    return [plain(each.corpus.ids()) for each in found] or None


_CONTENT = np.random.default_rng(0).bytes(2**20)
_CHECKSUM = f"sha256:{hashlib.sha256(_CONTENT).hexdigest()}"


class _Slow(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(_CONTENT)))
        self.end_headers()
        for start in range(0, len(_CONTENT), 2**16):
            self.wfile.write(_CONTENT[start : start + 2**16])
            time.sleep(0.003)

    def log_message(self, *_):
        pass


def ready_download(folder):
    os.environ.pop("KERAS_MMIL_DATA", None)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/big.bin"
    return lambda: files.find("some/big.bin", url, _CHECKSUM)


def found_download(folder):
    os.environ.pop("KERAS_MMIL_DATA", None)
    path = files.find_local("some/big.bin")
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


ACTIONS = [
    Action("network", prepare_network, ready_network, found_network),
    Action("explainer", prepare_explainer, ready_explainer, found_explainer),
    Action(
        "estimator", saved_formats.make_estimator, ready_estimator, saved_formats.load_estimator
    ),
    Action("schema", prepare_schema, ready_schema, saved_formats.load_schema),
    *(
        Action(f"shards-{format}", prepare_nothing, ready_shards(format), found_shards)
        for format in ("parquet", "tfrecord")
    ),
    Action("checkpoint", prepare_nothing, ready_checkpoint, found_checkpoint),
    Action(
        "cache-networks",
        prepare_networks,
        lambda folder: lambda: social.load("COLLAB"),
        found_networks,
    ),
    Action("cache-reviews", prepare_reviews, ready_reviews, found_reviews),
    Action("download", prepare_nothing, ready_download, found_download),
]
