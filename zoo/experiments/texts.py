"""The experiment "Sentiment Analysis"."""

from dataclasses import replace

from keras_mmil.builders.corpus import Corpus
from keras_mmil.datasets import imdb as imdb_data
from keras_mmil.datasets import synthetic
from keras_mmil.training import piecewise_constant
from keras_mmil.zoo.experiments.experiment import Data, Experiment, at_most
from keras_mmil.zoo.imdb import imdb_mil, imdb_mmil

__all__ = ["review_experiment"]


def _load_reviews(seed=0, limit=None, source="imdb", unlabelled=False):
    """Bags of sentences of trigrams."""
    if source == "opinions":
        return _load_opinions(seed, limit)
    reviews = imdb_data.prepare(limit)
    return Data(
        *((*part, None) for part in reviews.parts(unlabelled=unlabelled, seed=seed)),
        {"vectors": reviews.word_vectors()},
        reviews.corpus.vocabulary,
        reviews.corpus.splitter,
    )


def _load_opinions(seed, limit):
    sizes = at_most(limit, n_train=1000, n_valid=300, n_test=300)
    parts = synthetic.load_reviews(**sizes, seed=seed)
    train = Corpus.from_texts(parts[0][0], splitter="core", verbose=0)
    others = (Corpus.from_texts(texts, like=train, verbose=0) for texts, _ in parts[1:])
    pairs = zip((train, *others), parts, strict=True)
    labelled = ((corpus.trigrams(), y, None) for corpus, (_, y) in pairs)
    size = len(train.vocabulary)
    return Data(*labelled, {"vectors": size}, train.vocabulary, train.splitter)


def _load_flat_reviews(**arguments):
    """Bags of trigrams."""
    data = _load_reviews(**arguments)
    parts = {name: getattr(data, name) for name in ("train", "valid", "test")}
    flat = {name: (x.merge_dims(1, 2), *labels) for name, (x, *labels) in parts.items()}
    return replace(data, **flat)


# Of those tried, the best on validation data for the number of rules; see docs/imdb.md.
_READING = {"metric": "sensitivity", "ccp_alpha": 5e-4}
_OF_MODEL = {
    "mmil": {
        "build": imdb_mmil,
        "load": _load_reviews,
        "explainer": {**_READING, "max_clusters": (10, 6)},
    },
    "mil": {"build": imdb_mil, "load": _load_flat_reviews, "explainer": _READING},
}


def review_experiment(entry):
    """The `Experiment` of an `Entry`."""
    return Experiment(
        **vars(entry),
        **_OF_MODEL[entry.model],
        batch_size=128,
        schedule=_cut_twice,
    )


def _cut_twice(epochs):
    return piecewise_constant({0: 1e-3, 7: 1e-4, 10: 1e-5})
