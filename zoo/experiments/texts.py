"""The experiment "Sentiment Analysis"."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from keras_mmil._support.types import Array, Ints
from keras_mmil.builders.corpus import Corpus
from keras_mmil.datasets import imdb as imdb_data
from keras_mmil.datasets import synthetic
from keras_mmil.interpretation.readout.text_spans import window_words
from keras_mmil.interpretation.report.texts import Tokens
from keras_mmil.training import piecewise_constant
from keras_mmil.zoo.experiments.catalogue import Entry
from keras_mmil.zoo.experiments.experiment import Data, Experiment, Part, Words, at_most
from keras_mmil.zoo.experiments.page import Page
from keras_mmil.zoo.experiments.report import Report
from keras_mmil.zoo.imdb import imdb_mil, imdb_mmil, with_text

__all__ = ["review_experiment"]

# Of those tried, the best on validation data for the number of rules; see docs/imdb.md.
_RULES: Mapping[str, Any] = {"metric": "sensitivity", "ccp_alpha": 5e-4}


def review_experiment(entry: Entry) -> Experiment:
    """The `Experiment` of an `Entry`."""
    in_sentences = entry.model == "mmil"
    return Experiment(
        **vars(entry),
        build=imdb_mmil if in_sentences else imdb_mil,
        load=partial(_load, in_sentences=in_sentences),
        batch_size=128,
        schedule=_schedule,
        explainer={**_RULES, "max_clusters": (10, 6)} if in_sentences else _RULES,
    )


def _load(
    *,
    in_sentences: bool,
    seed: int = 0,
    limit: int | None = None,
    source: str = "imdb",
    unlabelled: bool = False,
) -> Data:
    """Reviews as bags of sentences of trigrams, or as bags of trigrams."""
    parts: Sequence[tuple[tf.RaggedTensor, Ints]]
    vectors: int | Array
    if source == "opinions":
        parts, corpus = _opinions(seed, limit)
        vectors = len(corpus.vocabulary)
    else:
        reviews = imdb_data.prepare(limit)
        parts, corpus = reviews.parts(unlabelled=unlabelled, seed=seed), reviews.corpus
        vectors = reviews.word_vectors()
    train, valid, test = (Part(x if in_sentences else x.merge_dims(1, 2), y) for x, y in parts)
    words = Words(corpus.vocabulary, corpus.splitter)
    return Data(
        train=train,
        valid=valid,
        test=test,
        build_arguments={"vectors": vectors},
        page=lambda: Page(test.x, test.y, Tokens(test.x, corpus.vocabulary)),
        words=words,
        report=partial(_report, words=words),
    )


def _opinions(
    seed: int, limit: int | None
) -> tuple[Sequence[tuple[tf.RaggedTensor, Ints]], Corpus]:
    """Trigrams and labels for training, validation and test; and the corpus for training."""
    parts = synthetic.load_reviews(
        n_train=at_most(limit, 1000),
        n_valid=at_most(limit, 300),
        n_test=at_most(limit, 300),
        seed=seed,
    )
    corpus = Corpus.from_texts(parts[0][0], splitter="core", verbose=0)
    others = (Corpus.from_texts(texts, like=corpus, verbose=0) for texts, _ in parts[1:])
    corpora = zip((corpus, *others), parts, strict=True)
    return [(each.trigrams(), y) for each, (_, y) in corpora], corpus


def _report(report: Report, *, words: Words) -> None:
    """The network for strings, and the words that are typical of the clusters."""
    report.model_for_texts(with_text(report.model, words.vocabulary, words.splitter))
    report.clusters(report.x, window_words(report.x, words.vocabulary))


def _schedule(epochs: int) -> Callable[[int], float]:
    """A tenth of the rate after 7 twelfths of the epochs, and of that after 10 twelfths."""
    begins = (0, math.ceil(epochs * 7 / 12), math.ceil(epochs * 10 / 12))
    return piecewise_constant(dict(zip(begins, (1e-3, 1e-4, 1e-5), strict=True)))
