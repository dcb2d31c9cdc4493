"""A network that reads tokens, with fewer of them: those that rarely decide become unknown."""

import dataclasses
import functools
import itertools

import numpy as np
import tensorflow as tf

from keras_mmil.zoo.experiments.experiment import RuleData, Words
from keras_mmil.zoo.experiments.texts import exemplify_words

__all__ = ["effects", "fewer", "prune"]

N_SPECIAL = 2  # padding and unknown
UNKNOWN = 1
FEWEST = 500  # tokens that are tried, and twice as many by every second step


def effects(model, x, batch_size=128):
    """How much each token does: the change of all outputs if it were unknown, to first order.

    Args:
        model: that of the experiment "imdb", whose first layer is the table of `word_vectors`.
        x: RaggedTensor of ids.
        batch_size: of texts whose outputs are added up; of rare tokens, one text of a batch at most
            has them, so that their effects do not cancel.

    Returns:
        float64 [tokens], sums of the absolute changes of each batch.
    """
    table = model.get_layer("word_vectors").embeddings.value
    to_unknown = (table[UNKNOWN] - table).numpy()
    found = np.zeros(len(to_unknown))
    for start in range(0, x.nrows(), batch_size):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(table)
            total = tf.reduce_sum(model(x[start : start + batch_size], training=False))
        gradient = tape.gradient(total, table)
        ids = gradient.indices.numpy()
        change = np.abs((gradient.values.numpy() * to_unknown[ids]).sum(axis=1))
        np.add.at(found, ids, change)
    return found


def fewer(model, data, allowed):
    """The fewest tokens, of 500 × √2ⁿ that do most, with which hardly any class changes.

    Accuracy on some thousand texts is too noisy to choose by: it is equal by chance early on.

    Args:
        model: the trained network.
        data: `Data` of the experiment.
        allowed: the share of validation data whose class may be another.

    Returns:
        The ids to keep, in order, with padding and unknown; all if none fewer are enough.
    """
    n_tokens = len(data.words.vocabulary)
    by_effect = np.argsort(-effects(model, data.train.x)[N_SPECIAL:], kind="stable") + N_SPECIAL
    classes = decided(model, data.valid.x, np.arange(n_tokens))
    sizes = (int(FEWEST * 2 ** (step / 2)) for step in itertools.count())
    for n in itertools.takewhile(lambda n: n < n_tokens - N_SPECIAL, sizes):
        kept = np.sort(np.append(np.arange(N_SPECIAL), by_effect[:n]))
        as_unknown = np.where(np.isin(np.arange(n_tokens), kept), np.arange(n_tokens), UNKNOWN)
        changed = (decided(model, data.valid.x, as_unknown) != classes).mean()
        print(
            f"{n:7,} tokens: other classes for {changed:.2%} of validation data, {allowed:.2%} may"
        )
        if changed <= allowed:
            return kept
    return np.arange(n_tokens)


def decided(model, x, new_ids):
    """The class of each text where each id is replaced by another: bool [texts]."""
    return model.predict(replaced(x, new_ids), batch_size=128, verbose=0)[:, 0] > 0.5


def prune(experiment, model, data, allowed):
    """A network for fewer tokens, and the data for it.

    Args:
        experiment: the `Experiment`.
        model, data, allowed: as of `fewer`.
    """
    kept = fewer(model, data, allowed)
    new_ids = np.full(len(data.words.vocabulary), UNKNOWN)
    new_ids[kept] = np.arange(len(kept))
    words = Words([data.words.vocabulary[i] for i in kept], data.words.splitter)
    table, *others = model.get_weights()
    pruned = experiment.build(**{**data.build_arguments, "vectors": table[kept]})
    pruned.set_weights([table[kept], *others])

    def part(given):
        return given and given._replace(x=replaced(given.x, new_ids))

    def rule_data():
        return RuleData(*(replaced(x, new_ids) for x in data.for_rules()))

    parts = {name: part(getattr(data, name)) for name in ("train", "valid", "test", "rule_test")}
    parts |= {"words": words, "name_clusters": functools.partial(exemplify_words, words=words)}
    return pruned, dataclasses.replace(data, **parts, rule_data=rule_data)


def replaced(x, new_ids):
    """Bags of ids, each replaced by another."""
    return x.with_flat_values(tf.gather(tf.constant(new_ids, tf.int32), x.flat_values))
