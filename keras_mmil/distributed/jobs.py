"""Predictions and explanations of Parquet files, block by block, in a folder of results."""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import keras
import pyarrow as pa
import pyarrow.parquet
import tensorflow as tf

from keras_mmil._support.checks import check_int, positive_int
from keras_mmil._support.digests import checksum_of_file, checksum_of_json
from keras_mmil._support.files import atomic_write, part_of, remove_abandoned
from keras_mmil._support.state import read_state, write_state
from keras_mmil._support.types import Config, PathLike
from keras_mmil._version import __version__
from keras_mmil.distributed.blocks import Block, Data, blocks_of, files_of, read
from keras_mmil.distributed.engine import Pool
from keras_mmil.distributed.predictor import Predictor, paths_of
from keras_mmil.io.parquet import WRITTEN

__all__ = ["BlockReport", "Outcome", "explain", "predict"]

# Programs that read a folder of Parquet files ignore names that begin so.
_NAME = "_job.json"
_FORMAT = "keras-mmil batch job"
_VERSION = 2
_KEY = b"keras-mmil"  # in the metadata of each file
# Errors that data may cause. Such an error of one block does not end the others.
_ERRORS = (KeyError, OSError, TypeError, ValueError, tf.errors.OpError)


@dataclass(frozen=True)
class BlockReport:
    """What became of a block.

    Attributes:
        number: of the block.
        rows: number of rows that were written.
        error: why none were; empty where there was no error.
        started, finished: times, in seconds since 1970.
        process: id of the process.
    """

    number: int
    rows: int
    error: str
    started: float
    finished: float
    process: int


@dataclass(frozen=True)
class Outcome:
    """What a folder of results holds.

    Attributes:
        folder: the folder.
        rows: number of rows.
        blocks: number of files.
        reports: of the blocks that this call computed, in their order; the others were there.
    """

    folder: Path
    rows: int
    blocks: int
    reports: tuple[BlockReport, ...]

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
    """Write what a model predicts for the rows of Parquet files to Parquet files.

    The unit of work is a block of rows of a file, whatever the number of actors; so the results are
    the same, bit by bit. Each block has a file of results, which is whole or absent. The same call
    continues where an earlier one ended, and computes only what is missing: no row comes twice.

    Args:
        model_path: same as in `Predictor`.
        data: Parquet files: a path, a pattern such as `"in/*.parquet"`, a folder, or a list of
            those. Their columns are those that `keras_mmil.io.write` writes, or have the names of
            the inputs of the model; or they are the fields of the records that an estimator reads.
        out: folder to write to, which is made if it does not exist. It must be empty, or hold the
            same job: the same model, data and arguments, except `actors`, `threads` and `verbose`.
        keep: columns to write beside the predictions, such as the key of a row.
        actors: number of processes that Ray starts, which each load the model once; with 0 this
            process works, without Ray. All of them need access to the files.
        threads: of each actor, for which Ray reserves as many cores. Without actors TensorFlow is
            left as it is. Sums with other numbers of threads may differ in their last bits.
        block_size: number of rows in a block. Row groups of about this size are read fastest.
        batch_size: number of top-bags that the network computes at once.
        verbose: 1 for a progress bar, 0 for none.

    Returns:
        What the folder holds. The columns are those of `Predictor.predict_batch`.

    Raises:
        FileNotFoundError: if there is no such model, or there are no files.
        ImportError: if there are to be actors, and Ray is not installed.
        ValueError: if columns are missing, files damaged, or the folder holds another job. Where
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
    """Write why rows are in their classes: as `predict`, but with rules.

    Args:
        model_path, explainer, label: same as in `Predictor`.
        data, out, keep, actors, threads, block_size, batch_size, verbose: same as in `predict`.

    Returns:
        What the folder holds. The columns are those of `Predictor.explain_batch`; top-bags are
        named by their row numbers in their files.

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
    here = _BlockWorker(job, verb, predictor)
    load = partial(_load_worker, job, verb, model_path, arguments)
    with Pool(load, actors, threads) as pool:
        job.begin()
        left = [block for block in blocks if job.is_missing(block)]
        bar = keras.utils.Progbar(len(left), verbose=verbose, unit_name="block")
        reports: list[BlockReport] = []
        for report in pool.map(left, here=here, in_order=False):
            reports.append(report)
            bar.update(len(reports))
    reports.sort(key=lambda report: report.number)
    if failed := [report for report in reports if report.error]:
        raise ValueError(
            f"Expected blocks that can be read; {len(failed)} of {len(blocks)} cannot, and the "
            f"others are done. Received: {blocks[failed[0].number]}: {failed[0].error}"
        )
    job.end()
    return Outcome(job.folder, sum(block.rows for block in blocks), len(blocks), tuple(reports))


class _BlockWorker:
    """Computes the results of blocks, and writes them."""

    def __init__(self, job: "Job", verb: str, predictor: Predictor) -> None:
        self._job, self._verb, self._predictor = job, verb, predictor
        if verb == "explain":
            predictor.explainer  # so that errors come now  # noqa: B018

    def __call__(self, _: None, block: Block) -> BlockReport:
        started, error = time.time(), ""
        try:
            batch = read(block, self._predictor.columns)
            if self._verb == "explain":
                results = self._predictor.explain_batch(batch, first=block.start)
            else:
                results = self._predictor.predict_batch(batch)
            self._job.write(block, results)
        except _ERRORS as caught:
            error = str(caught) or repr(caught)
        rows = 0 if error else block.rows
        return BlockReport(block.number, rows, error, started, time.time(), os.getpid())


def _load_worker(
    job: "Job", verb: str, model_path: str, arguments: Mapping[str, Any]
) -> _BlockWorker:
    return _BlockWorker(job, verb, Predictor(model_path, **arguments))


@dataclass(frozen=True)
class Job:
    """Results of blocks, each in a Parquet file of its own, which is whole or absent.

    `content` is all that the results depend on, for JSON.
    """

    folder: Path
    content: Config

    @property
    def digest(self) -> str:
        """The SHA-256 of `content`."""
        return checksum_of_json(self.content)

    def begin(self) -> None:
        """Make the folder, or check that it holds the same job; else ValueError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / _NAME
        if path.exists():
            self._check_same(path)
            return
        held = [each.name for each in self.folder.iterdir() if part_of(each) is None]
        if held:
            raise ValueError(
                f"Expected a new or empty folder. Received: {self.folder} with {sorted(held)[:3]}"
            )
        self._write(is_complete=False)

    def end(self) -> None:
        """Note that all results are there."""
        self._write(is_complete=True)
        remove_abandoned(self.folder / _NAME)

    def path_of(self, block: Block) -> Path:
        """The file with the results of a block."""
        return self.folder / f"block-{block.number:06d}.parquet"

    def write(self, block: Block, results: pa.RecordBatch) -> None:
        """Write the results of a block; those that may be there are replaced."""
        about = json.dumps({"job": self.digest, **block.to_dict()})
        schema = results.schema.with_metadata({_KEY: about.encode()})
        with (
            atomic_write(self.path_of(block)) as part,
            pa.parquet.ParquetWriter(part, schema, **WRITTEN) as file,
        ):
            file.write_batch(results.cast(schema))

    def is_missing(self, block: Block) -> bool:
        """Whether the results of a block are absent, damaged, or of another job.

        The file is read, and its pages are compared with their checksums.
        """
        path = self.path_of(block)
        if not path.exists():
            return True
        with contextlib.suppress(pa.ArrowException, OSError, ValueError):
            with pa.parquet.ParquetFile(path, page_checksum_verification=True) as file:
                about = json.loads((file.schema_arrow.metadata or {}).get(_KEY, b"null"))
                rows = sum(map(len, file.iter_batches()))
            # The folder of the data may be another one.
            expected = {"job": self.digest, **block.to_dict(), "file": None}
            is_ours = isinstance(about, dict) and {**about, "file": None} == expected
            return not (is_ours and rows == block.rows)
        return True

    def _write(self, is_complete: bool) -> None:
        content = {"complete": is_complete, "job": self.content}
        write_state(self.folder / _NAME, _FORMAT, _VERSION, content)

    def _check_same(self, path: Path) -> None:
        known: Config = dict(read_state(path, _FORMAT, _VERSION).get("job", {}))
        differing = sorted(
            name
            for name in known.keys() | self.content.keys()
            if known.get(name) != self.content.get(name)
        )
        if differing:
            shown = ", ".join(f"{name}={_brief(self.content.get(name))}" for name in differing)
            raise ValueError(
                f"Expected the job that {self.folder} holds, to continue, or another folder. "
                f"Received: {shown} instead of "
                f"{', '.join(_brief(known.get(name)) for name in differing)}"
            )


def digest_of(files: Iterable[Path]) -> str:
    """The SHA-256 of the names and contents of files."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name} {checksum_of_file(path)}\n".encode())
    return digest.hexdigest()


def _brief(value: object) -> str:
    text = repr(value)
    if isinstance(value, Sequence) and not isinstance(value, str) and len(text) > 60:
        return f"{len(value)} others"
    return text if len(text) <= 60 else f"{text[:57]}…"
