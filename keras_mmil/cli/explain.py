"""Texts, explained by trained runs."""

from collections.abc import Sequence
from pathlib import Path

from keras_mmil._support.archives import load_network
from keras_mmil._support.types import PathLike
from keras_mmil.cli.run_folder import read_settings
from keras_mmil.interpretation import Explainer
from keras_mmil.interpretation.readout.text_explanation import side_by_side

__all__ = ["explain"]


def explain(runs: Sequence[PathLike], texts: Sequence[str], *, form: str, color: bool) -> str:
    """Explain texts by one run, or by several side by side.

    Args:
        runs: folders that `run` has written.
        texts: to be explained.
        form: "terminal", "markdown" or "html".
        color: whether the terminal shows bold and dim.

    Raises:
        FileNotFoundError: if a folder holds no run on texts.
    """
    by_run = [_explainer(run).explain(texts) for run in runs]
    titles = [read_settings(run)["experiment"] for run in runs]
    if form == "html":
        tables = "\n".join(side_by_side(row, titles) for row in zip(*by_run, strict=True))
        return f'<!doctype html>\n<meta charset="utf-8">\n<title>Explanations</title>\n{tables}'
    shown = []
    for row in zip(*by_run, strict=True):
        for title, explanation in zip(titles, row, strict=True):
            text = explanation.to_markdown() if form == "markdown" else explanation.to_text(color)
            heading = f"### {title}" if form == "markdown" else f"--- {title}"
            shown.append(f"{heading}\n\n{text}" if len(runs) > 1 else text)
    return "\n\n".join(shown)


def _explainer(run: PathLike) -> Explainer:
    path = Path(run) / "text_model.keras"
    if not path.is_file():
        raise FileNotFoundError(
            "Expected the folder of a finished run on texts, such as `keras-mmil run imdb` makes. "
            f"Received: {run}"
        )
    return Explainer.load(Path(run) / "rules", load_network(path))
