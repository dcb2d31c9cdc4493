"""The paper's experiments: what to build, what to load, and which figures to reach."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from keras_mmil.datasets import imdb as imdb_data
from keras_mmil.datasets import mnist as mnist_data
from keras_mmil.datasets import opinions
from keras_mmil.datasets.text import Corpus
from keras_mmil.model import Model
from keras_mmil.training import cosine_decay, piecewise_constant
from keras_mmil.zoo.imdb import imdb_mil, imdb_mmil
from keras_mmil.zoo.mnist import matches_generating_rule, mnist_mmil

__all__ = ["Data", "Experiment", "registry"]


@dataclass(frozen=True, eq=False)
class Data:
    """The data of an experiment.

    Attributes:
        train, valid, test: triples (x, y, z) of top-bags, their labels, and the labels of their
            instances (None where nobody knows them). In `train` a label of -1 stands for none.
        build_arguments: what the model's builder has to know of them.
        vocabulary: the token of each id, where the instances are windows over tokens; else None.
        splitter: what found the sentences of these texts.
    """

    train: tuple
    valid: tuple
    test: tuple
    build_arguments: Mapping[str, object] = field(default_factory=dict)
    vocabulary: tuple | None = None
    splitter: str | None = None


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper.

    Attributes:
        name: of the experiment, and of its results.
        title: one line for people.
        build: function of `Data.build_arguments` that returns a compiled `Model`.
        load: function of `seed`, `limit` (top-bags in each part, None for all), `source` and
            `unlabelled` (whether there shall be top-bags without label) that returns `Data`.
        sources: where the data may come from; the first is the paper's.
        epochs, batch_size: of the training.
        schedule: function from the number of epochs to the learning rate of each epoch.
        model: "mmil" or "mil".
        adversarial: arguments of `training.VirtualAdversarialModel`, where the experiment can be
            run with virtual adversarial training; else None.
        explainer: arguments of the `Explainer` that reads its rules.
        paper: the paper's figures by metric, as fractions.
        class_names: names of the classes of top-bags.
        check_rules: function of a fitted `Explainer`, top-bags and their instance labels that
            returns whether the rules are the ones by which the data were made; or None.
    """

    name: str
    title: str
    build: Callable[..., Model]
    load: Callable[..., Data]
    sources: tuple[str, ...]
    epochs: int
    batch_size: int
    schedule: Callable[[int], Callable] = lambda epochs: cosine_decay(0.001, epochs)
    model: str = "mmil"
    adversarial: Mapping[str, object] | None = None
    explainer: Mapping[str, object] = field(default_factory=dict)
    paper: Mapping[str, float] = field(default_factory=dict)
    class_names: tuple[str, ...] = ("negative", "positive")
    check_rules: Callable[..., bool] | None = None

    @property
    def key(self):
        """Key in the registry: the name, and the model if it is not the one of bags of bags."""
        return self.name if self.model == "mmil" else f"{self.name}-{self.model}"


def _load_mnist(seed=0, limit=None, source="mnist", unlabelled=False):
    sizes = _at_most(limit, n_train=5000, n_valid=1000, n_test=5000)
    return Data(*mnist_data.load_mmil(**sizes, source=source, seed=seed, instance_labels=True))


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
    sizes = _at_most(limit, n_train=1000, n_valid=300, n_test=300)
    parts = opinions.load_texts(**sizes, seed=seed)
    train = Corpus.from_texts(parts[0][0], splitter="core", verbose=0)
    others = (Corpus.from_texts(texts, like=train, verbose=0) for texts, _ in parts[1:])
    pairs = zip((train, *others), parts, strict=True)
    labelled = ((corpus.trigrams(), y, None) for corpus, (_, y) in pairs)
    size = len(train.vocabulary)
    return Data(*labelled, {"vectors": size}, train.vocabulary, train.splitter)


def _at_most(limit, **sizes):
    return {name: size if limit is None else min(size, limit) for name, size in sizes.items()}


def _load_flat_reviews(**arguments):
    """Bags of trigrams."""
    data = _load_reviews(**arguments)
    parts = {name: getattr(data, name) for name in ("train", "valid", "test")}
    flat = {name: (x.merge_dims(1, 2), *labels) for name, (x, *labels) in parts.items()}
    return replace(data, **flat)


_REVIEWS = {
    "name": "imdb",
    "sources": ("imdb", "opinions"),
    "epochs": 12,
    "batch_size": 128,
    "schedule": lambda epochs: piecewise_constant({0: 1e-3, 7: 1e-4, 10: 1e-5}),
    "adversarial": {"layer": "word_vectors", "epsilon": 0.3},
}

# Of those tried, the best on validation data for the number of rules; see docs/imdb.md.
_READING = {"metric": "sensitivity", "ccp_alpha": 5e-4}

registry = {
    experiment.key: experiment
    for experiment in [
        Experiment(
            name="mnist",
            title="bags of bags of digits: positive iff a sub-bag holds a 7 and no 3",
            build=mnist_mmil,
            load=_load_mnist,
            sources=("mnist", "digits"),
            epochs=100,
            batch_size=20,
            paper={"test_accuracy": 0.9842, "rule_accuracy": 0.9818, "fidelity": 0.9916},
            check_rules=matches_generating_rule,
        ),
        Experiment(
            title="movie reviews as bags of sentences of trigrams: positive or negative",
            build=imdb_mmil,
            load=_load_reviews,
            explainer={**_READING, "max_clusters": (10, 6)},
            paper={"test_accuracy": 0.9218, "rule_accuracy": 0.8749, "fidelity": 0.9040},
            **_REVIEWS,
        ),
        Experiment(
            title="movie reviews as bags of trigrams: positive or negative",
            build=imdb_mil,
            load=_load_flat_reviews,
            model="mil",
            explainer=_READING,
            paper={"test_accuracy": 0.9141, "rule_accuracy": 0.8637, "fidelity": 0.8810},
            **_REVIEWS,
        ),
    ]
}
