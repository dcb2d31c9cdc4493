"""Movie reviews as bags of sentences of trigrams (paper, "Sentiment Analysis").

The Large Movie Review Dataset: 25,000 reviews for training and 25,000 for test, half of them
positive, and 50,000 without a label.

Reference: Maas et al., Learning Word Vectors for Sentiment Analysis, 2011.
"""

import gzip
import re
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from sklearn.model_selection import train_test_split

from keras_mmil._support.checks import positive_int
from keras_mmil._support.types import Ints, PathLike
from keras_mmil.builders import word_vectors
from keras_mmil.builders.corpus import Corpus
from keras_mmil.datasets._io import files

__all__ = ["Reviews", "load_mil", "load_mmil", "load_word_vectors", "prepare"]

_NAME = "aclImdb_v1.tar.gz"
_URL = f"https://ai.stanford.edu/~amaas/data/sentiment/{_NAME}"
_CHECKSUM = "md5:7c2ac02c03563afcf9b574c7e56c153a"  # the published one
_REVIEW = re.compile(r"(?:\./)?aclImdb/(train|test)/(pos|neg|unsup)/(\d+)_\d+\.txt")
_LABELS = {"neg": 0, "pos": 1, "unsup": -1}
_EXPECTED = {("train", "pos"): 12_500, ("train", "neg"): 12_500, ("train", "unsup"): 50_000}
_EXPECTED |= {("test", "pos"): 12_500, ("test", "neg"): 12_500}
_LONGEST = 2**20  # bytes of a review
_FEWEST = 20  # a tenth of them is held out: one of each label at least
_TRUNCATED = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile)
_VERSION = 2  # of what is cached

Pair: TypeAlias = tuple[tf.RaggedTensor, npt.NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Reviews:
    """The reviews, split into sentences and tokens.

    Attributes:
        corpus: a `Corpus` of all reviews, with the vocabulary of the training and unlabelled ones.
        labels: 1 positive, 0 negative, -1 unlabelled; int8 [reviews].
        is_test: bool [reviews].
        folder: of the cache.

    Raises:
        ValueError: if there is not one label for each text.
    """

    corpus: Corpus
    labels: npt.NDArray[np.int8]
    is_test: npt.NDArray[np.bool_]
    folder: Path

    def __post_init__(self) -> None:
        shapes = {self.labels.shape, self.is_test.shape}
        if shapes != {(len(self.corpus),)} or not set(np.unique(self.labels)) <= {-1, 0, 1}:
            raise ValueError(
                f"Expected labels -1, 0 and 1 of {len(self.corpus)} reviews. "
                f"Received: labels.shape={self.labels.shape}, is_test.shape={self.is_test.shape}"
            )

    def rows(
        self, n_valid: int = 2500, unlabelled: bool = False, seed: int = 0
    ) -> tuple[Ints, Ints, Ints]:
        """Indices of the training, validation and test reviews.

        Args:
            n_valid: number of reviews for validation (random, stratified), at most a tenth of the
                labelled ones.
            unlabelled: whether to append the unlabelled reviews to those for training.
            seed: of the random split.
        """
        positive_int("n_valid", n_valid)
        labelled = np.flatnonzero((self.labels >= 0) & ~self.is_test)
        train, valid = train_test_split(
            labelled,
            test_size=min(n_valid, len(labelled) // 10),
            stratify=self.labels[labelled],
            random_state=seed,
        )
        if unlabelled:
            train = np.concatenate([train, np.flatnonzero(self.labels < 0)])
        return train, valid, np.flatnonzero(self.is_test)

    def parts(
        self, n_valid: int = 2500, unlabelled: bool = False, seed: int = 0
    ) -> tuple[Pair, ...]:
        """Training, validation and test reviews as bags, with labels; see `load_mmil`."""
        return tuple(
            (self.corpus.trigrams(rows), self.labels[rows].astype(np.int64))
            for rows in self.rows(n_valid, unlabelled, seed)
        )

    def word_vectors(
        self, size: int = 100, seed: int = 0, verbose: int = 1
    ) -> npt.NDArray[np.float32]:
        """Vectors of the vocabulary; see `load_word_vectors`."""
        shape = len(self.corpus.vocabulary), size

        def train() -> npt.NDArray[np.float32]:
            return word_vectors.train(self.corpus, ~self.is_test, size, seed=seed, verbose=verbose)

        def read(path: Path) -> npt.NDArray[np.float32]:
            vectors = files.read_arrays(path, ["vectors"])["vectors"]
            if vectors.shape != shape or not np.isfinite(vectors).all():
                raise ValueError(f"Expected finite vectors {shape}. Received: {vectors.shape}")
            return vectors

        def write(path: Path, vectors: npt.NDArray[np.float32]) -> None:
            files.write_arrays(path, {"vectors": vectors})

        path = self.folder / f"word2vec-{size}-{seed}.npz"
        vectors = files.cached(path, make=train, read=read, write=write)
        return word_vectors.standardize(vectors, self.corpus.counts)


def load_mmil(
    limit: int | None = None,
    n_valid: int = 2500,
    unlabelled: bool = False,
    seed: int = 0,
    splitter: str | None = None,
    verbose: int = 1,
) -> tuple[Pair, ...]:
    """Reviews as bags of sentences of trigrams, with their labels.

    The first call splits the reviews and caches the result (about two minutes).

    Args:
        limit: greatest number of training and of test reviews, and half that of unlabelled ones;
            None for all.
        n_valid: number of reviews for validation, at most a tenth of those for training.
        unlabelled: whether to append the unlabelled reviews, with label -1, to those for training.
        seed: of the random split.
        splitter: of texts into sentences: "tensorflow-text" (the default) or "core".
        verbose: 1 for progress bars, 0 for none.

    Returns:
        `(x_train, y_train), (x_valid, y_valid), (x_test, y_test)`: `x` an int32 RaggedTensor
        `[B, (sentences), (trigrams), 3]` of word ids, `y` an int64 array `[B]` of labels 0
        (negative) and 1 (positive).

    Raises:
        FileNotFoundError: if the archive is not there and cannot be downloaded.
        ValueError: if it is truncated or damaged.
    """
    return prepare(limit, splitter, verbose).parts(n_valid, unlabelled, seed)


def load_mil(
    limit: int | None = None,
    n_valid: int = 2500,
    unlabelled: bool = False,
    seed: int = 0,
    splitter: str | None = None,
    verbose: int = 1,
) -> tuple[Pair, ...]:
    """Same as `load_mmil`, with reviews as bags of trigrams `[B, (trigrams), 3]`."""
    pairs = load_mmil(limit, n_valid, unlabelled, seed, splitter, verbose)
    return tuple((x.merge_dims(1, 2), y) for x, y in pairs)


def load_word_vectors(
    limit: int | None = None,
    size: int = 100,
    splitter: str | None = None,
    seed: int = 0,
    verbose: int = 1,
) -> npt.NDArray[np.float32]:
    """Word vectors, trained on the training and unlabelled reviews, and standardised.

    The first call trains and caches them (about seven minutes on two cores).

    Args:
        limit, splitter, verbose: as for `load_mmil`.
        size: dimension of a vector.
        seed: of the initial vectors.

    Returns:
        float32 [vocabulary, size]; see `word_vectors.train` and `word_vectors.standardize`.
    """
    return prepare(limit, splitter, verbose).word_vectors(size, seed, verbose)


def prepare(limit: int | None = None, splitter: str | None = None, verbose: int = 1) -> Reviews:
    """Read the archive and split the reviews, or read the result of an earlier call."""
    positive_int("limit", limit, optional=True)
    if limit is not None and limit < _FEWEST:
        raise ValueError(f"Expected at least {_FEWEST} reviews. Received: limit={limit}")
    splitter = splitter or "tensorflow-text"
    archive = find_archive()
    key = f"imdb-{files.short_digest(archive)}-{splitter}-{limit or 'all'}-v{_VERSION}"
    folder = files.cache_folder() / key
    return files.cached(
        folder / "reviews.npz",
        make=lambda: _split(archive, limit, splitter, folder, verbose),
        read=_read,
        write=_write,
    )


def find_archive() -> Path:
    """Path of the archive, which is downloaded if it is not there."""
    return files.find(_NAME, _URL, _CHECKSUM, instructions=f"It is {_URL}.")


def read_archive(path: PathLike, limit: int | None = None) -> Iterator[tuple[str, str, int, bytes]]:
    """Yields (part, folder, number, bytes) of each review, with names as in the archive.

    Raises ValueError if the archive is truncated, damaged or incomplete, or has links or paths that
    lead out of it. For `limit`, see `load_mmil`.
    """
    numbers: dict[tuple[str, str], set[int]] = {key: set() for key in _EXPECTED}  # that were read
    wanted = dict(_EXPECTED)
    if limit is not None:
        shares = {"pos": limit - limit // 2, "neg": limit // 2, "unsup": 2 * limit}
        wanted = {key: min(n, shares[key[1]]) for key, n in wanted.items()}
    try:
        with gzip.open(path) as unzipped, tarfile.open(fileobj=unzipped, mode="r:") as archive:
            for member in archive:
                match = _REVIEW.fullmatch(_checked_name(member, path))
                if not match or not member.isfile():
                    continue
                part, folder, number = match.groups()
                if (part, folder) not in wanted or int(number) >= wanted[part, folder]:
                    continue
                if int(number) in numbers[part, folder]:
                    raise ValueError(f"Expected each review once. Received: {path} with {match[0]}")
                numbers[part, folder].add(int(number))
                content = archive.extractfile(member)
                assert content is not None  # as it is of a file
                yield part, folder, int(number), content.read()
                if limit is not None and all(len(numbers[key]) == wanted[key] for key in wanted):
                    break
            while unzipped.read(2**20):  # up to the checksum at the end
                pass
    except _TRUNCATED as error:
        raise ValueError(
            f"Expected the whole archive {_NAME}; delete it and get it again. "
            f"Received: {path} ({error})"
        ) from error
    n_read = {key: len(some) for key, some in numbers.items()}
    if n_read != wanted:
        raise ValueError(f"Expected {wanted} reviews. Received: {path} with {n_read}")


def _checked_name(member: tarfile.TarInfo, path: PathLike) -> str:
    name = member.name
    if member.issym() or member.islnk() or member.isdev():
        raise ValueError(f"Expected files and folders only. Received: {path} with link {name!r}")
    if name.startswith("/") or ".." in name.split("/"):
        raise ValueError(
            f"Expected paths within the archive. Received: {path} with a file {name!r}"
        )
    if member.size > _LONGEST and _REVIEW.fullmatch(name):
        raise ValueError(
            f"Expected reviews of at most {_LONGEST} bytes. "
            f"Received: {path} with {name!r} of {member.size}"
        )
    return name


def _split(archive: Path, limit: int | None, splitter: str, folder: Path, verbose: int) -> Reviews:
    """The `Reviews` of an archive, to be cached in a folder."""
    reviews = sorted(read_archive(archive, limit))  # whatever the order of the archive
    parts, labels, _, texts = zip(*reviews, strict=True)
    is_test = np.array(parts) == "test"
    corpus = Corpus.from_texts(texts, fit_on=~is_test, splitter=splitter, verbose=verbose)
    return Reviews(corpus, np.array([_LABELS[label] for label in labels], np.int8), is_test, folder)


def _read(path: Path) -> Reviews:
    """The `Reviews` of a cached file and the corpus beside it."""
    labels = files.read_arrays(path, ["labels", "is_test"])
    return Reviews(Corpus.load(path.parent), **labels, folder=path.parent)


def _write(path: Path, reviews: Reviews) -> None:
    reviews.corpus.save(path.parent)
    # Last, as its presence means that the rest is complete.
    files.write_arrays(path, {"labels": reviews.labels, "is_test": reviews.is_test})
