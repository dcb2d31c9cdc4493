"""What an experiment of the paper consists of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from keras_mmil.model import Model
from keras_mmil.training import cosine_decay
from keras_mmil.zoo.experiments.catalogue import Entry

__all__ = ["Data", "Experiment", "ReadOn", "Shown", "at_most"]


@dataclass(frozen=True, eq=False)
class Shown:
    """Top-bags in which to look for what clusters stand for, and some to be explained.

    Attributes:
        x: top-bags with their members in the order in which `show` knows them; the test set.
        show: function from the position of an instance, sub-bag or top-bag in `x` to str.
        sub_bag_labels: true labels of the sub-bags of `x`, ints ≥ 0 nested like it, or None.
        label_names: dict from "sub-bag" to names of these labels.
        are_clouds: whether the innermost bags are clouds of points in space, to be drawn.
        places: latitudes and longitudes of the top-bags of `x`, and of the instances by their ids,
            where these are places to be mapped; else None.
    """

    x: object
    show: Callable[[tuple], str]
    sub_bag_labels: object = None
    label_names: Mapping[str, tuple] = field(default_factory=dict)
    are_clouds: bool = False
    places: tuple | None = None


@dataclass(frozen=True, eq=False)
class ReadOn:
    """Top-bags to read rules on.

    Attributes:
        x: those to learn them on.
        x_valid: those to choose among them.
        test: (x, y) of those to judge them by; None for the test set.
    """

    x: object
    x_valid: object
    test: tuple | None = None


@dataclass(frozen=True, eq=False)
class Data:
    """The data of an experiment.

    Attributes:
        train, valid, test: triples (x, y, z) of top-bags, their labels, and the labels of their
            instances (None where nobody knows them). In `train` a label of -1 stands for none.
        build_arguments: what the model's builder has to know of them.
        vocabulary: the token of each id, where the instances are windows over tokens; else None.
        splitter: what found the sentences of these texts.
        whole: (x, y) of all top-bags, where they are to be cross-validated; else None.
        class_names: names of the classes, where they are the data's; else None.
        shown: function without arguments that makes a `Shown`, where people can be shown what the
            clusters are made of; else None.
        read_on: function without arguments that makes a `ReadOn`; None to read rules on those of
            `train` that have labels, and those of `valid`.
        explainer: arguments of the `Explainer` that depend on the data, such as its target.
    """

    train: tuple
    valid: tuple
    test: tuple
    build_arguments: Mapping[str, object] = field(default_factory=dict)
    vocabulary: tuple | None = None
    splitter: str | None = None
    whole: tuple | None = None
    class_names: tuple | None = None
    shown: Callable[[], Shown] | None = None
    read_on: Callable[[], ReadOn] | None = None
    explainer: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Experiment(Entry):
    """One experiment of the paper: its `Entry` in the catalogue, and how to run it.

    Attributes:
        build: function of `Data.build_arguments` that returns a compiled `Model`.
        load: function of `seed`, `limit` (at most so many top-bags in each part), `source`,
            `unlabelled` (whether there shall be top-bags without label) that returns `Data`.
        batch_size: of the training.
        metric: that of the compiled model by which it is judged.
        patience: epochs after which a training ends that has not lowered the validation loss; None
            for never.
        keeps_best: whether the network of the lowest validation loss is kept; else the last one is,
            and the validation data are for the rules alone.
        schedule: function from the number of epochs to the learning rate of each epoch; None for
            the model's own rate.
        explainer: arguments of the `Explainer` that reads its rules.
        class_names: names of the classes of top-bags.
        check_rules: function of a fitted `Explainer`, top-bags and their instance labels that
            returns whether the rules are the ones by which the data were made; or None.
    """

    build: Callable[..., Model]
    load: Callable[..., Data]
    batch_size: int
    metric: str = "accuracy"
    patience: int | None = None
    keeps_best: bool = True
    schedule: Callable[[int], Callable] | None = lambda epochs: cosine_decay(0.001, epochs)
    explainer: Mapping[str, object] = field(default_factory=dict)
    class_names: tuple[str, ...] = ("negative", "positive")
    check_rules: Callable[..., bool] | None = None

    def learning_rate(self, epochs):
        """Function from the epoch, of so many, to its learning rate; None for the model's own."""
        return None if self.schedule is None else self.schedule(epochs)


def at_most(limit, **sizes):
    """Numbers of top-bags by argument, none above a limit, if there is one."""
    return {name: size if limit is None else min(size, limit) for name, size in sizes.items()}
