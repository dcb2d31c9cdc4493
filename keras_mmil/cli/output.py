"""What a run leaves in its folder, and what it prints."""

from keras_mmil import ragged
from keras_mmil._support.atomic import replacing
from keras_mmil._support.percent import percent
from keras_mmil.bags import inputs_of
from keras_mmil.interpretation import plots
from keras_mmil.interpretation.readout.text_spans import window_words
from keras_mmil.zoo.imdb import with_text

__all__ = ["print_figures", "print_run", "write_rules", "write_shown", "write_texts"]

_N_EXPLAINED, _N_DRAWN = 20, 8  # top-bags, clouds or rules
_RULES_DRAWN = "rules_match.png", "rules_nearly.png"
_NOT_FRACTIONS = ("train_minutes", "extract_seconds")


def write_rules(folder, explainer, metrics, description):
    """Write rules, figures and pictures.

    Args:
        folder: a `RunFolder`.
        explainer: a fitted `Explainer`.
        metrics: dict from metric to figure.
        description: what `explainer.describe` says of the validation data.
    """
    explainer.save(folder / "rules")
    folder.write_text("rules.txt", f"{explainer.rules_.text(all=True)}\n\n{description}\n")
    folder.write_json("metrics.json", metrics)
    _draw(plots.plot_grid, explainer, folder / "fidelity.png")
    if description[0].table is not None:
        _draw(plots.plot_correspondence, description[0], folder / "clusters.png")


def write_texts(folder, model, explainer, x, data):
    """Write the model for strings, and the texts that stand for the clusters.

    Args:
        folder: a `RunFolder`.
        model: the trained model, of windows over tokens.
        explainer: a fitted `Explainer`.
        x: top-bags in which to look for what stands for the clusters.
        data: the `Data`, with the vocabulary.
    """
    text_model = with_text(model, data.vocabulary, data.splitter)
    with replacing(folder / "text_model.keras") as part:
        text_model.save(part)
    _write_clusters(folder, explainer, x, window_words(x, data.vocabulary))


def write_shown(folder, explainer, shown):
    """Write what stands for the clusters, what they are by true labels, and some explanations.

    Args:
        folder: a `RunFolder`.
        explainer: a fitted `Explainer`.
        shown: a `Shown`.
    """
    x = inputs_of(shown.x)
    _write_clusters(folder, explainer, x, shown.show)
    explanations = explainer.explain(ragged.take(x, slice(_N_EXPLAINED)), shown.show)
    folder.write_text("explanations.txt", "\n\n".join(map(str, explanations)) + "\n")
    if shown.are_clouds:
        _draw(_plot_some_clouds, explainer, shown, folder / "clouds.png")
    if shown.places is not None:
        _draw_maps(explainer, x, shown.places, folder)
    if shown.sub_bag_labels is None:
        return
    labels, names = shown.sub_bag_labels, shown.label_names
    description = explainer.describe(x, sub_bag_labels=labels, label_names=names)
    folder.write_text("sub_bags.txt", f"{description[1]}\n")
    _draw(plots.plot_correspondence, description[1], folder / "clusters.png")


def _write_clusters(folder, explainer, x, show):
    table = explainer.cluster_table(x, show=show)
    folder.write_text("clusters.md", table.to_markdown() + "\n")


def _plot_some_clouds(explainer, shown, path):
    some, around = (ragged.take(shown.x, slice(n)) for n in (_N_DRAWN, 500))
    titles = [shown.show((i,)) for i in range(ragged.n_top_bags(some))]
    plots.plot_clouds(explainer, some, around, titles, path)


def _draw_maps(explainer, x, places, folder):
    """Maps of the clusters of instances, of what is in the top-bags, and of the rules."""
    of_top_bags, of_instances = places
    maps = plots.Maps(explainer, x)
    clusters = maps.instances(len(of_instances))
    _draw(plots.plot_maps, of_instances, clusters, folder / "instance_clusters.png")
    if len(explainer.levels_) > 1:
        _draw(plots.plot_maps, of_top_bags, maps.members(), folder / "sub_bag_clusters.png")
    for drawn, file in zip(maps.rules(explainer.classes_[1]), _RULES_DRAWN, strict=True):
        some = dict(list(drawn.items())[:_N_DRAWN])
        if some:  # there may be no rule for that class
            _draw(plots.plot_maps, of_top_bags, some, folder / file)


def _draw(plot, *arguments):
    *shown, path = arguments
    try:
        with replacing(path) as part:
            plot(*shown, part)
    except ImportError as error:  # matplotlib is not a dependency of the rest
        print(f"There is no {path.name}. {error}")


def print_run(explainer, metrics, paper, folder):
    """Print the rules that are needed, if there are any, and the figures beside the paper's."""
    where = f"\nEverything is in {folder.path}"
    if explainer is not None:
        clusters = ", ".join(f"{level.n_clusters} of {level.word}s" for level in explainer.levels_)
        fidelity, share = percent(explainer.fidelity_, 2), percent(explainer.majority_, 2)
        print(f"\n{explainer.rules_}\n\nClusters: {clusters}")
        print(f"Fidelity on validation data: {fidelity} (most frequent class: {share})\n")
        if explainer.rules_.constant is not None:
            print(f"The rules are CONSTANT: every top-bag is {explainer.rules_.constant!r}.\n")
        where += "; rules.txt there lists all rules"
    print_figures(metrics, paper)
    print(where)


def print_figures(metrics, paper, spreads=None):
    """Print figures, a line each; the share of the most frequent class beside what it belongs to.

    Args:
        metrics: dict from metric to figure. Under "<metric>_majority" is the share of the most
            frequent class, which constant rules, or a constant network, would have as that metric.
        paper: the paper's figures, by metric.
        spreads: standard deviations, by metric, if the figures are means.
    """
    for metric, figure in metrics.items():
        if metric.endswith("_majority"):
            continue
        line = f"{metric:16} {_text(metric, figure):>9}"
        if spreads is not None:
            line += f" ± {_text(metric, spreads[metric])}"
        if (share := metrics.get(f"{metric}_majority")) is not None:
            line += f"   (most frequent class: {percent(share, 2)})"
        if metric in paper:
            line += f"   (paper: {percent(paper[metric], 2)})"
        print(line)


def _text(metric, figure):
    return f"{figure:.1f}" if metric in _NOT_FRACTIONS else percent(figure, 2)
