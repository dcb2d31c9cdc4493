"""Predictions and explanations of Parquet files, block by block, here or on Ray."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from keras_mmil._support.checks import check_int, positive_int
from keras_mmil._support.types import PathLike
from keras_mmil._version import __version__
from keras_mmil.distributed import engine
from keras_mmil.distributed.blocks import Block, Data, blocks_of, files_of
from keras_mmil.distributed.job import Job, digest_of
from keras_mmil.distributed.predictor import Predictor
from keras_mmil.distributed.served import paths_of
from keras_mmil.distributed.worker import Report, Work, Worker

__all__ = ["Outcome", "explain", "predict"]


@dataclass(frozen=True)
class Outcome:
    """What a folder of results holds.

    Attributes:
        folder: the folder.
        rows: how many there are.
        blocks: how many files.
        reports: of the blocks that were computed now, in their order; the others were there.
    """

    folder: Path
    rows: int
    blocks: int
    reports: tuple[Report, ...]

    def __str__(self) -> str:
        return (
            f"{self.rows:,} rows in {self.blocks:,} files in {self.folder}, "
            f"{len(self.reports):,} of them new"
        )


def predict(
    model_path: PathLike,
    data: Data,
    out: PathLike,
    *,
    keep: Sequence[str] = (),
    actors: int = 0,
    threads: int = 1,
    block_size: int = 1024,
    batch_size: int = 64,
    verbose: int = 1,
) -> Outcome:
    """Write what a model predicts of the rows of Parquet files to Parquet files.

    The unit of work is a block of rows of a file, the same whatever the number of actors; so the
    results are the same, bit by bit. Each block has a file of results, which is whole or absent.
    The same call continues where an earlier one ended: of whole files of the same job nothing is
    computed again. A row comes once, whatever ends meanwhile.

    Args:
        model_path: as of `Predictor`.
        data: Parquet files: a path, a pattern such as `"in/*.parquet"`, a folder, or a list of
            those. Their columns are those that `keras_mmil.io.write` writes, or are called like the
            inputs of the model; or they are the fields of the records that an estimator reads.
        out: folder to write to; made if it does not exist. It must be empty, or of the same job:
            of the same model, data and arguments, but for `actors`, `threads` and `verbose`.
        keep: columns to write beside the predictions, such as the key of a row.
        actors: number of processes that Ray starts, which each load the model once; with 0 this
            process works, without Ray. All of them need the files, as on a disk that they share.
        threads: of each actor, for which Ray reserves as many cores. Without actors TensorFlow is
            left as it is. Sums of other numbers of threads may differ in their last bits.
        block_size: number of rows of a block. Row groups of about this size are read fastest.
        batch_size: number of top-bags that the network computes at once.
        verbose: 1 for a progress bar, 0 for none.

    Returns:
        What the folder holds. The columns are those of `Predictor.predict_batch`.

    Raises:
        FileNotFoundError: if there is no such model, or no files.
        ImportError: if there are to be actors, and Ray is not installed.
        ValueError: if columns are missing, files damaged, or the folder is of another job. Where
            blocks fail, the others are computed first, and the message names the first that failed.
        RuntimeError: if an actor ends four times at the same block.

    Example:

    >>> distributed.predict("model.keras", "in/*.parquet", "out", keep=["id"], actors=8)
    """
    arguments = {"keep": keep, "batch_size": batch_size}
    settings = {"actors": actors, "threads": threads, "block_size": block_size, "verbose": verbose}
    return _run("predict", model_path, data, out, arguments, **settings)


def explain(
    model_path: PathLike,
    data: Data,
    out: PathLike,
    *,
    explainer: PathLike | None = None,
    label: str | None = None,
    keep: Sequence[str] = (),
    actors: int = 0,
    threads: int = 1,
    block_size: int = 1024,
    batch_size: int = 64,
    verbose: int = 1,
) -> Outcome:
    """Write why rows are of their classes: as `predict`, but with rules.

    Args:
        model_path, explainer, label: as of `Predictor`.
        data, out, keep, actors, threads, block_size, batch_size, verbose: as of `predict`.

    Returns:
        What the folder holds. The columns are those of `Predictor.explain_batch`; top-bags are
        called by their numbers in their files.

    Raises:
        FileNotFoundError, ImportError, ValueError: as `predict`; and if there are no rules.

    Example:

    >>> distributed.explain("model.keras", "in/*.parquet", "out", explainer="rules", keep=["id"])
    """
    arguments = {"keep": keep, "batch_size": batch_size, "label": label}
    arguments |= {"explainer": None if explainer is None else str(Path(explainer).absolute())}
    settings = {"actors": actors, "threads": threads, "block_size": block_size, "verbose": verbose}
    return _run("explain", model_path, data, out, arguments, **settings)


def _run(
    verb: str,
    model_path: PathLike,
    data: Data,
    out: PathLike,
    arguments: Mapping[str, Any],
    *,
    actors: int,
    threads: int,
    block_size: int,
    verbose: int,
) -> Outcome:
    actors, threads = check_int("actors", actors), positive_int("threads", threads)
    model_path = str(Path(model_path).absolute())
    predictor = Predictor(model_path, **arguments)
    files = files_of(data, predictor.columns)
    blocks = blocks_of(files, block_size)
    rules = arguments.get("explainer")
    content = {
        "verb": verb,
        "library": __version__,
        "model": digest_of(paths_of(model_path, rules, with_rules=verb == "explain")),
        "block_size": block_size,
        **{name: value for name, value in arguments.items() if name != "explainer"},
        "keep": predictor.keep,
        "files": [file.to_dict() for file in files],
    }
    job = Job(Path(out).absolute(), content)
    work = Work(job, verb, model_path, arguments)
    if verb == "explain":
        predictor.explainer  # where it cannot be loaded, nothing is to be made  # noqa: B018
    with engine.session(actors, threads):
        job.begin()
        left = [block for block in blocks if job.lacks(block)]
        if actors and left:
            reports = engine.work_on(work, left, min(actors, len(left)), threads)
        else:
            reports = map(Worker(work, predictor), left)
        done = tuple(_shown(reports, len(left), verbose))
    _check_all(done, blocks)
    job.end()
    rows = sum(block.rows for block in blocks)
    return Outcome(job.folder, rows, len(blocks), tuple(sorted(done, key=lambda each: each.number)))


def _shown(reports: Iterator[Report], n: int, verbose: int) -> Iterator[Report]:
    """The same reports, with a progress bar of blocks."""
    bar = keras.utils.Progbar(n, verbose=verbose, unit_name="block")
    for i, report in enumerate(reports, 1):
        yield report
        bar.update(i)


def _check_all(reports: Sequence[Report], blocks: Sequence[Block]) -> None:
    """Raise ValueError if some blocks failed."""
    failed = sorted((each for each in reports if each.error), key=lambda each: each.number)
    if failed:
        first = failed[0]
        raise ValueError(
            f"Expected blocks that can be read; {len(failed)} of {len(blocks)} cannot, and the "
            f"others are done. Received: {blocks[first.number]}: {first.error}"
        )
