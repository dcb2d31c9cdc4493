"""What an experiment writes to the folder of a run, besides rules and figures."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.files import atomic_write
from keras_mmil._support.types import PathLike, Tensors
from keras_mmil.bags import Bags, inputs_of
from keras_mmil.interpretation import Explainer
from keras_mmil.interpretation.plots import Maps, plot_clouds, plot_correspondence, plot_maps
from keras_mmil.interpretation.readout.part import Show, Shows
from keras_mmil.model import Model

__all__ = ["Report"]

_N_EXPLAINED, _N_DRAWN = 20, 8  # top-bags, clouds or rules
_N_AROUND = 500  # top-bags whose clouds show where a point would have to be absent


class Report:
    """The folder of a run, and what there is to write about.

    `Data.report` of an experiment calls those of the methods that make sense for its data. Files
    are written atomically. Where matplotlib is missing, pictures are left out with a message.

    Args:
        folder: of the run; it exists.
        model: the trained network.
        explainer: a fitted `Explainer` of it.
        x: the top-bags that its rules were fitted to.

    Attributes:
        folder, model, explainer, x: as above.
    """

    def __init__(
        self, folder: PathLike, model: Model, explainer: Explainer, x: Bags | Tensors
    ) -> None:
        self.folder = Path(folder)
        self.model = model
        self.explainer = explainer
        self.x = x

    def write(self, name: str, text: str) -> None:
        """Write a text file."""
        with atomic_write(self.folder / name) as part:
            part.write_text(text, encoding="utf-8")

    def draw(self, name: str, plot: Callable[..., object], *arguments: object) -> None:
        """Save a picture.

        Args:
            name: of the file.
            plot: function of `arguments` and the `path` to save to.
            arguments: of `plot`.
        """
        try:
            with atomic_write(self.folder / name) as part:
                plot(*arguments, path=part)
        except ImportError as error:  # matplotlib is an optional dependency
            print(f"{name} is left out. {error}")

    def model_for_texts(self, model: Model) -> None:
        """Save `text_model.keras`, which `keras-mmil explain` reads.

        Args:
            model: the trained network, for strings.
        """
        with atomic_write(self.folder / "text_model.keras") as part:
            model.save(part)

    def clusters(self, x: Bags | Tensors, show: Shows) -> None:
        """Write `clusters.md`: the instances and sub-bags that are typical of each cluster.

        Args:
            x: top-bags in which to look for them.
            show: what to call a member of `x`.
        """
        table = self.explainer.cluster_table(inputs_of(x), show=show)
        self.write("clusters.md", table.to_markdown() + "\n")

    def explanations(self, x: Bags | Tensors, show: Shows) -> None:
        """Write `explanations.txt`: why the first top-bags of `x` are labelled as they are.

        Args:
            x: top-bags.
            show: what to call a member of `x`.
        """
        some = ragged.take(inputs_of(x), slice(_N_EXPLAINED))
        explanations = self.explainer.explain(some, show)
        self.write("explanations.txt", "\n\n".join(map(str, explanations)) + "\n")

    def clouds(self, x: tf.RaggedTensor, show: Show) -> None:
        """Draw `clouds.png`: the first top-bags of `x`, with the points that fire their rules.

        Args:
            x: clouds of points in space, or bags of them.
            show: what to call a top-bag of `x`.
        """
        some, around = (ragged.take(x, slice(n)) for n in (_N_DRAWN, _N_AROUND))
        titles = [show((i,)) for i in range(ragged.n_top_bags(some))]
        self.draw("clouds.png", plot_clouds, self.explainer, some, around, titles)

    def maps(
        self,
        x: Bags | Tensors,
        *,
        of_top_bags: npt.ArrayLike,
        of_instances: npt.ArrayLike,
        members: str | None = None,
    ) -> None:
        """Draw maps of top-bags and instances that are places.

        They are `instance_clusters.png`, with the places in each cluster; `sub_bag_clusters.png`,
        with the number of sub-bags of each cluster, if there are sub-bags; `rules_match.png`, where
        each rule of the second class holds; and `rules_nearly.png`, how nearly it does elsewhere.

        Args:
            x: top-bags.
            of_top_bags: latitude and longitude of each, float [top-bags, 2].
            of_instances: those of the instances, by their ids, float [ids, 2].
            members: what the data call the members that are counted instead of the sub-bags, where
                top-bags hold several bags.
        """
        maps = Maps(self.explainer, inputs_of(x))
        clusters = maps.instances(len(np.asarray(of_instances)))
        self.draw("instance_clusters.png", plot_maps, of_instances, clusters)
        if len(self.explainer.clusters_) > 1:
            self.draw("sub_bag_clusters.png", plot_maps, of_top_bags, maps.members(members))
        matches, balances = maps.rules(self.explainer.classes_[1])
        for name, by_rule in {"rules_match.png": matches, "rules_nearly.png": balances}.items():
            some = dict(list(by_rule.items())[:_N_DRAWN])
            if some:  # there may be no rule for that class
                self.draw(name, plot_maps, of_top_bags, some)

    def sub_bags(
        self, x: Bags | Tensors, labels: tf.RaggedTensor, label_names: Sequence[str]
    ) -> None:
        """Write `sub_bags.txt` and `clusters.png`: the true labels of the sub-bags in each cluster.

        Args:
            x: top-bags.
            labels: true labels of their sub-bags, ints ≥ 0.
            label_names: names of these labels.
        """
        names: Mapping[str, Sequence[str]] = {"sub-bag": tuple(label_names)}
        description = self.explainer.describe(
            inputs_of(x), sub_bag_labels=labels, label_names=names
        )[1]
        self.write("sub_bags.txt", f"{description}\n")
        self.draw("clusters.png", plot_correspondence, description)
