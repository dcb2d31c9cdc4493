"""Made-up reviews whose rule is known: texts for tests and examples without a download.

Each sentence is positive, negative or neutral by one adjective, which may be negated. A review is
positive iff it has more positive than negative sentences.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from keras_mmil.datasets import _sampling

__all__ = ["load_reviews"]

Texts: TypeAlias = tuple[list[str], npt.NDArray[np.int64]]

_THINGS = ("plot", "acting", "music", "story", "ending", "cast", "camera work", "dialogue")
_GOOD = ("good", "great", "wonderful", "funny", "clever", "moving")
_BAD = ("bad", "awful", "boring", "poor", "stupid", "weak")
_NEUTRAL = (
    "I saw it with {} friends.",
    "It runs for {} minutes.",
    "There are {} songs in it.",
    "It was made {} years ago.",
)
_JUDGEMENTS = ("The {} was {}{}.", "I found the {} {}{}.", "And the {} is {}{}!")


def load_reviews(
    n_train: int = 1000,
    n_valid: int = 300,
    n_test: int = 300,
    n_sentences: _sampling.Sizes = (1, 7),
    seed: int = 0,
) -> tuple[Texts, ...]:
    """Balanced sets of reviews.

    Args:
        n_train, n_valid, n_test: numbers of reviews; half of them, rounded down, are positive.
        n_sentences: smallest and largest number of sentences in a review, at least 1.
        seed: integer; the sizes of other sets have no effect on a set.

    Returns:
        `(texts_train, y_train), (texts_valid, y_valid), (texts_test, y_test)`: lists of str, and
        int64 arrays of labels 0 (negative) and 1 (positive).

    Raises:
        ValueError: if an argument is out of range.
    """
    _sampling.check_counts(n_train=n_train, n_valid=n_valid, n_test=n_test)
    _sampling.check_sizes(n_sentences=n_sentences)

    def draw_set(_: int, n: int, rng: np.random.Generator) -> Texts:
        y = rng.permutation(np.arange(n) % 2)
        return [_review(label, n_sentences, rng) for label in y], y

    return _sampling.sample_sets((n_train, n_valid, n_test), seed, draw_set)


def _review(label: int, n_sentences: _sampling.Sizes, rng: np.random.Generator) -> str:
    """A review of a given label, by rejection sampling."""
    while True:
        opinions = rng.choice([-1, 0, 1], size=rng.integers(*n_sentences, endpoint=True))
        if opinions.sum() != 0 and (opinions.sum() > 0) == label:
            return " ".join(_sentence(opinion, rng) for opinion in opinions)


def _sentence(opinion: int, rng: np.random.Generator) -> str:
    if opinion == 0:
        return rng.choice(_NEUTRAL).format(rng.integers(2, 120))
    is_negated = rng.random() < 0.4
    adjectives = _GOOD if (opinion > 0) != is_negated else _BAD
    negation = rng.choice(("not ", "never ")) if is_negated else ""
    return rng.choice(_JUDGEMENTS).format(rng.choice(_THINGS), negation, rng.choice(adjectives))
