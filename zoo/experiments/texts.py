"""The experiment "Sentiment Analysis"."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from keras_mmil._support.types import Array, Ints
from keras_mmil.builders.corpus import Corpus, look_up
from keras_mmil.datasets import imdb as imdb_data
from keras_mmil.datasets import synthetic
from keras_mmil.rules import Explainer
from keras_mmil.rules.explain.explanation import Show
from keras_mmil.rules.explain.texts import window_words
from keras_mmil.rules.report.renderers import Tokens
from keras_mmil.training import step_decay
from keras_mmil.zoo.experiments.catalogue import Entry
from keras_mmil.zoo.experiments.experiment import (
    Data,
    Experiment,
    Page,
    RuleData,
    RunWriter,
    Split,
    Words,
    at_most,
)
from keras_mmil.zoo.imdb import imdb_mil, imdb_mmil, with_text

__all__ = ["exemplify_words", "review_experiment"]

_N_MADE_UP = 500  # reviews
# The best on validation data for the number of rules; see docs/imdb.md.
_RULES: Mapping[str, Any] = {"metric": "sensitivity", "ccp_alpha": 2e-4}


def review_experiment(entry: Entry) -> Experiment:
    """The `Experiment` of an `Entry`."""
    in_sentences = entry.model == "mmil"
    return Experiment(
        **vars(entry),
        build=imdb_mmil if in_sentences else imdb_mil,
        load=partial(_load, in_sentences=in_sentences),
        batch_size=128,
        schedule=partial(step_decay, 1e-3, at=(7 / 12, 10 / 12)),
        explainer={**_RULES, "max_clusters": (14, 6)} if in_sentences else _RULES,
        called=("phrase", "sentence", "review") if in_sentences else ("phrase", "review"),
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

    def bags(x: tf.RaggedTensor) -> tf.RaggedTensor:
        return x if in_sentences else x.merge_dims(1, 2)

    parts: Sequence[tuple[tf.RaggedTensor, Ints]]
    vectors: int | Array
    rule_data: Callable[[], RuleData] | None = None
    if source == "opinions":
        parts, corpus = _opinions(seed, limit)
        vectors = len(corpus.vocabulary)
    else:
        reviews = imdb_data.prepare(limit)
        parts, corpus = reviews.parts(unlabelled=unlabelled, seed=seed), reviews.corpus
        vectors = reviews.word_vectors()
        rule_data = partial(_for_rules, reviews, seed, bags)
    train, valid, test = (Split(bags(x), y) for x, y in parts)
    words = Words(corpus.vocabulary, corpus.splitter)
    return Data(
        train=train,
        valid=valid,
        test=test,
        build_arguments={"vectors": vectors},
        page=lambda: Page(test.x, test.y, Tokens(test.x, corpus.vocabulary)),
        words=words,
        rule_data=rule_data,
        name_clusters=partial(exemplify_words, words=words),
        report=partial(_report, words=words),
    )


def _for_rules(
    reviews: imdb_data.Reviews, seed: int, bags: Callable[[tf.RaggedTensor], tf.RaggedTensor]
) -> RuleData:
    """Reviews for rules, which need no labels: half of them, and most for validation, have none."""
    train, valid, _ = reviews.rows(seed=seed)
    unlabelled = np.random.default_rng(seed).permutation(np.flatnonzero(reviews.labels < 0))
    n_valid = len(unlabelled) // 5
    fitted = np.concatenate([train, unlabelled[n_valid : n_valid + len(train)]])
    chosen_on = np.concatenate([valid, unlabelled[:n_valid]])
    return RuleData(*(bags(reviews.corpus.trigrams(rows)) for rows in (fitted, chosen_on)))


def _opinions(
    seed: int, limit: int | None
) -> tuple[Sequence[tuple[tf.RaggedTensor, Ints]], Corpus]:
    """Trigrams and labels for training, validation and test; and the training corpus."""
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


def exemplify_words(explainer: Explainer, x: tf.RaggedTensor, *, words: Words) -> None:
    """Give examples: phrases of reviews, and made-up sentences, since those of reviews are long."""
    explainer.exemplify(0, x, _shown(x, words))
    if len(explainer.clusters_) > 1:
        (texts, _), *_ = synthetic.load_reviews(n_train=_N_MADE_UP)
        corpus = Corpus.from_texts(texts, splitter=words.splitter, min_count=1, verbose=0)
        trigrams = corpus.trigrams()
        ids = look_up([token.encode() for token in corpus.vocabulary], words.vocabulary)
        made_up = trigrams.with_flat_values(tf.gather(ids, trigrams.flat_values))
        explainer.exemplify(1, made_up, _shown(made_up, words))


def _shown(x: tf.RaggedTensor, words: Words) -> Show:
    """What shows trigrams and sentences, without padding and unknown words."""
    show, odd = window_words(x, words.vocabulary), words.vocabulary[:2]
    return lambda at: " ".join(word for word in show(at).split() if word not in odd)


def _report(report: RunWriter, *, words: Words) -> None:
    """The network for strings, and words that are typical of the clusters."""
    report.model_for_texts(with_text(report.model, words.vocabulary, words.splitter))
    report.clusters(report.x, window_words(report.x, words.vocabulary))
