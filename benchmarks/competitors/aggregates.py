"""Flat learners: aggregates of all paths of nested records, and classifiers or regressors on these.

Of each path there are the number of members and of values, the share missing, the number of
different values, moments of numbers and times, counts of frequent categories, and of words in
texts. Numbers in texts are numbers.
"""

import datetime
from collections import Counter, defaultdict

import numpy as np

__all__ = ["LEARNERS", "REGRESSORS", "Aggregates"]

_MOST = 50  # categories or words of a path
_LONG = 20  # letters, from which a text is one of words


class Aggregates:
    """Turns records into vectors, float32, NaN where there are none.

    Args:
        without: the name of a field to leave out.
    """

    def __init__(self, without=None):
        self._without = without

    def fit(self, records):
        """Choose columns by training records."""
        found = [self._values(record) for record in records]
        texts = defaultdict(Counter)  # of each path, in how many records a word is
        for values in found:
            for path, (_, some) in values.items():
                words = {word for x in some if isinstance(x, str) for word in _words(x)}
                texts[path].update(words)
        self._words = {
            path: {word: i for i, (word, n) in enumerate(counts.most_common(_MOST)) if n > 1}
            for path, counts in texts.items()
        }
        self._paths = list(dict.fromkeys(path for values in found for path in values))
        return self

    def transform(self, records):
        """Vectors of the chosen columns."""
        return np.array([self._vector(self._values(record)) for record in records], np.float32)

    def _values(self, record):
        """Of each path, the number of places and the values there are."""
        found = defaultdict(lambda: [0, []])

        def visit(part, path):
            if isinstance(part, dict):
                for key, inner in part.items():
                    if (path, key) != ("", self._without):
                        visit(inner, f"{path}.{key}")
            elif isinstance(part, list | tuple):
                found[f"{path} size"][1].append(len(part))
                for inner in part:
                    visit(inner, f"{path}[]")
            else:
                found[path][0] += 1
                if part is not None:
                    found[path][1].append(_plain(part))

        visit(record, "")
        return found

    def _vector(self, values):
        columns = []
        for path in self._paths:
            n, some = values.get(path, (0, []))
            numbers = [float(x) for x in some if not isinstance(x, str)]
            moments = [np.nan] * 5
            if numbers:
                of = np.mean, np.min, np.max, np.std, np.sum
                moments = [each(numbers) for each in of]
            counts = np.zeros(len(self._words.get(path, ())))
            for text in (x for x in some if isinstance(x, str)):
                for word in _words(text):
                    if word in self._words[path]:
                        counts[self._words[path][word]] += 1
            missing = 1 - len(some) / n if n else np.nan
            columns += [n, len(set(some)), missing, *moments, *counts, *(counts / max(n, 1))]
        return columns


def _plain(x):
    """A number or a text; texts of numbers and times are numbers."""
    if isinstance(x, datetime.datetime):
        return x.timestamp()
    if not isinstance(x, str):
        return x
    try:
        return float(x)
    except ValueError:
        try:
            return datetime.datetime.fromisoformat(x).timestamp()
        except ValueError:
            return x


def _words(text):
    return set(text.lower().split()) if len(text) > _LONG else {text}


def _trees(name):
    def made(seed):
        from sklearn import ensemble

        return _filled(getattr(ensemble, name)(500, random_state=seed, n_jobs=1))

    return made


def _scaled(seed, model):
    from sklearn.preprocessing import QuantileTransformer

    scaled = QuantileTransformer(n_quantiles=100, output_distribution="normal", random_state=seed)
    return _filled(scaled, model)


def _logistic(seed):
    from sklearn.linear_model import LogisticRegression

    return _scaled(seed, LogisticRegression(C=0.1, max_iter=2000))


def _ridge(seed):
    from sklearn.linear_model import RidgeCV

    return _scaled(seed, RidgeCV(np.logspace(-1, 4, 11)))


def _tree(seed):
    from sklearn.tree import DecisionTreeClassifier

    return _filled(DecisionTreeClassifier(max_leaf_nodes=20, random_state=seed))


def _boosting(seed):
    import lightgbm

    return lightgbm.LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1)


def _majority(seed):
    from sklearn.dummy import DummyClassifier

    return DummyClassifier()


def _boosting_of_numbers(seed):
    import lightgbm

    return lightgbm.LGBMRegressor(random_state=seed, n_jobs=1, verbose=-1)


def _filled(*steps):
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline

    return make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), *steps)


LEARNERS = {
    "majority": _majority,
    "random forest": _trees("RandomForestClassifier"),
    "extra trees": _trees("ExtraTreesClassifier"),
    "logistic regression": _logistic,
    "tree": _tree,
    "LightGBM": _boosting,
}
REGRESSORS = {
    "random forest": _trees("RandomForestRegressor"),
    "extra trees": _trees("ExtraTreesRegressor"),
    "ridge": _ridge,
    "LightGBM": _boosting_of_numbers,
}
