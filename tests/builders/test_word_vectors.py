"""Word vectors: read from files written byte by byte, trained on tiny corpora, standardised."""

import re
import sys

import damage
import numpy as np
import pytest

from keras_mmil.builders import word_vectors
from keras_mmil.builders.corpus import Corpus

VOCABULARY = ("_", "<unknown>", "good", "bad", "né", "rare", "film")
# "_" and "<unknown>" are ids, whatever the file holds for words of that spelling.
ROWS = {
    "the": [9, 9, 9],
    "good": [1, 2, 3],
    "_": [5, 5, 5],
    "film": [0.5, -1, 2],
    "<unknown>": [7, 7, 7],
    "né": [-4, 0.25, 1e-3],
}


@pytest.fixture(autouse=True)
def _needs_gensim(request):
    if "monkeypatch" not in request.fixturenames:
        pytest.importorskip("gensim")


def as_text(rows):
    return "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows.items()).encode()


def as_binary(rows, end=b"\n"):
    parts = [f"{len(rows)} 3\n".encode()]
    for word, row in rows.items():
        parts += [word.encode(), b" ", np.array(row, "<f4").tobytes(), end]
    return b"".join(parts)


def assert_complete(vectors, known):
    """Words without a vector have the mean, and the padding is of no word's direction."""
    assert vectors.dtype == np.float32
    of_known = np.array([vectors[i] for i in known], float)
    for i in set(range(1, len(vectors))) - set(known):
        np.testing.assert_allclose(vectors[i], of_known.mean(axis=0), rtol=1e-5)
    lengths = np.sqrt((of_known**2).sum(axis=1))
    padding = np.sqrt((vectors[0].astype(float) ** 2).sum())
    assert padding > 0
    np.testing.assert_allclose(padding, lengths.mean(), rtol=1e-5)
    # No direction has smaller scalar products with the words than that of the last singular value.
    least = np.linalg.svd(of_known)[1][-1] if len(known) >= len(vectors[0]) else 0
    products = of_known @ vectors[0] / padding
    assert np.sqrt((products**2).sum()) <= least * (1 + 1e-4) + 1e-4
    assert not (vectors[1:] == vectors[0]).all(axis=1).any()


FILES = {
    "GloVe": (as_text(ROWS), False),
    "word2vec": (b"6 3\n" + as_text(ROWS), False),
    "binary": (as_binary(ROWS), True),
    "binary without line ends": (as_binary(ROWS, end=b""), True),
    "Windows": (as_text(ROWS).replace(b"\n", b"\r\n"), False),
}


# gensim leaves a file of GloVe's format open.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize(("content", "binary"), FILES.values(), ids=FILES)
def test_read(tmp_path, content, binary, capsys):
    path = tmp_path / "vectors"
    path.write_bytes(content)
    vectors = word_vectors.read(path, VOCABULARY, size=3, binary=binary)
    assert vectors.shape == (7, 3)
    for word in ("good", "né", "film"):
        np.testing.assert_array_equal(vectors[VOCABULARY.index(word)], np.float32(ROWS[word]))
    assert_complete(vectors, [2, 4, 6])
    assert capsys.readouterr().out == f"3 of 5 words have a vector in {path}\n"
    again = word_vectors.read(str(path), VOCABULARY, size=3, binary=binary, verbose=0)
    np.testing.assert_array_equal(again, vectors)
    assert capsys.readouterr().out == ""


GOOD = as_text(ROWS)
BAD_FILES = {
    "too wide": (GOOD, False, {"size": 4}, "of size 4. Received: {path} with size 3"),
    "too narrow, binary": (as_binary(ROWS), True, {"size": 2}, "of size 2. Received: {path}"),
    "no known word": (GOOD, False, {"vocabulary": ["_", "?", "x"]}, "{path} with none of them"),
    "only reserved words": (GOOD, False, {"vocabulary": ["_", "the"]}, "{path} with none of them"),
    "longer row": (GOOD + b"bad 1 2 3 4\n", False, {}, "Received: {path} ("),
    "shorter row": (GOOD + b"bad 1 2\n", False, {}, "Received: {path} ("),
    "no number": (GOOD + b"bad 1 2 x\n", False, {}, "Received: {path} ("),
    "fewer rows": (b"7 3\n" + GOOD, False, {}, "Received: {path} ("),
    "not finite": (GOOD + b"bad 1 nan 2\n", False, {}, "{path} with NaN or infinity"),
    "infinite": (GOOD + b"bad 1 inf 2\n", False, {}, "{path} with NaN or infinity"),
    "not UTF-8": (GOOD + b"b\xffd 1 2 3\n", False, {}, "Received: {path} ("),
    "prose": (b"This is not a file of vectors.\n", False, {}, "Received: {path} ("),
    "empty": (b"", False, {}, "Received: {path} ("),
    "empty, binary": (b"", True, {}, "Received: {path} ("),
    "truncated": (as_binary(ROWS)[:-6], True, {}, "Received: {path} ("),
    "text for binary": (GOOD, True, {}, "Received: {path} ("),
    "binary for text": (as_binary(ROWS), False, {}, "Received: {path} ("),
    "more rows": (b"5 3\n" + GOOD, False, {}, "6 lines instead of 5"),
    "byte-order mark": (b"\xef\xbb\xbf" + GOOD, False, {}, "Received: {path} (a byte-order mark"),
    "more than there is": (b"3000000000 3\n" + GOOD, True, {}, "3000000000 vectors of size 3 in"),
    "wider than there is": (b"6 3000000000\n" + GOOD, False, {}, "6 vectors of size 3000000000 in"),
    "more than any memory": (b"99999999999999 3\n" + GOOD, True, {}, "Received: {path} ("),
    "negative": (b"-6 3\n" + GOOD, False, {}, "Received: {path} ("),
}


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize(
    ("content", "binary", "arguments", "match"), BAD_FILES.values(), ids=BAD_FILES
)
def test_bad_files(tmp_path, content, binary, arguments, match):
    path = tmp_path / "vectors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(match.format(path=path))):
        word_vectors.read(
            path,
            **{"vocabulary": VOCABULARY, "size": 3, "binary": binary, "verbose": 0} | arguments,
        )


def test_missing_files(tmp_path):
    for binary in (False, True):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            word_vectors.read(tmp_path / "nowhere", VOCABULARY, binary=binary)


# By rounding, some of these differ from their mean.
@pytest.mark.parametrize("constant", [8, 0.1, 1.7, -3.3])
def test_standardize(constant):
    rng = np.random.default_rng(0)
    vectors = rng.normal(3, [1, 5, 0.1, 2], (9, 4)).astype(np.float32)
    vectors[1:, 3] = constant
    counts = np.array([0, 4, 1, 7, 0, 2, 30, 1, 5])
    occurrences = np.array([vectors[i] for i in range(9) for _ in range(counts[i])], float)
    mean, deviation = occurrences.mean(axis=0), occurrences.std(axis=0)
    found = word_vectors.standardize(vectors, counts)
    assert (found.shape, found.dtype) == ((9, 4), np.float32)
    np.testing.assert_allclose(
        found[1:, :3], (vectors[1:, :3] - mean[:3]) / deviation[:3], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(found[1:, 3], 0, atol=1e-6)
    standardised = np.array([found[i] for i in range(9) for _ in range(counts[i])])
    np.testing.assert_allclose(standardised.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(standardised.std(axis=0), [1, 1, 1, 0], atol=1e-5)
    varied = word_vectors.standardize(vectors[:, :3], counts)
    assert_complete(varied, [*range(1, 9)])


def topics(n_texts=150, min_count=2):
    """Texts of two topics, whose words never meet; each text has one word that occurs once."""
    rng = np.random.default_rng(0)
    words = np.array([[f"{topic}{i}" for i in range(6)] for topic in ("tea", "sea")])
    texts = [f"{' '.join(rng.choice(words[i % 2], 12))} once{i}" for i in range(n_texts)]
    return Corpus.from_texts(texts, min_count=min_count, splitter="core", verbose=0)


TRAIN = {"size": 8, "window": 4, "workers": 1, "verbose": 0}


def test_train():
    corpus = topics()
    vectors = word_vectors.train(corpus, epochs=30, **TRAIN)
    n = len(corpus.vocabulary)
    assert vectors.shape == (n, 8) == (14, 8)
    assert np.isfinite(vectors).all()
    assert_complete(vectors, range(1, n))
    unit = vectors / np.sqrt((vectors**2).sum(axis=1, keepdims=True))
    topic = np.array([word[0] for word in corpus.vocabulary])
    alike = [[unit[i] @ unit[j] for j in range(2, n) if topic[i] == topic[j]] for i in range(2, n)]
    apart = [[unit[i] @ unit[j] for j in range(2, n) if topic[i] != topic[j]] for i in range(2, n)]
    assert np.mean(alike) > np.mean(apart) + 0.2


def test_train_on_some_texts():
    corpus = topics()
    is_tea = np.arange(len(corpus)) % 2 == 0
    vectors = word_vectors.train(corpus, rows=is_tea, epochs=1, **TRAIN)
    known = [i for i, word in enumerate(corpus.vocabulary) if i == 1 or word.startswith("tea")]
    assert len(known) == 7
    assert_complete(vectors, known)
    assert len(np.unique(vectors[known], axis=0)) == 7, "id 1 has a vector of its own"
    indices = word_vectors.train(corpus, rows=np.flatnonzero(is_tea), epochs=1, **TRAIN)
    np.testing.assert_array_equal(indices, vectors)


def test_train_without_unknown_words():
    corpus = topics(n_texts=40, min_count=1)
    vectors = word_vectors.train(corpus, epochs=1, **TRAIN)
    assert len(vectors) == 2 + 12 + 40
    assert_complete(vectors, range(2, len(vectors)))


def test_train_depends_on_the_seed():
    corpus = topics(n_texts=20)
    first, again, other = (
        word_vectors.train(corpus, epochs=1, seed=seed, **TRAIN) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3


def test_train_on_two_threads(capsys):
    corpus = topics(n_texts=20)
    vectors = word_vectors.train(corpus, size=8, epochs=3, workers=2)
    assert np.isfinite(vectors).all()
    assert_complete(vectors, range(1, 14))
    assert "3/3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"size": 0}, "Received: size=0"),
        ({"window": 2.5}, r"Received: window=2\.5"),
        ({"epochs": 0}, "Received: epochs=0"),
        ({"rows": []}, r"at least one token\. Received: none"),
        ({"rows": [1, 3]}, r"at least one token\. Received: none"),
    ],
)
def test_bad_arguments(arguments, match):
    corpus = Corpus.from_texts(["a b", "", "c", "?"], splitter="core", verbose=0)
    with pytest.raises(ValueError, match=match):
        word_vectors.train(corpus, **arguments)


def test_without_gensim(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "gensim", None)
    corpus = Corpus.from_texts(["a b"], splitter="core", verbose=0)
    for call in (
        lambda: word_vectors.train(corpus),
        lambda: word_vectors.read(tmp_path / "vectors", VOCABULARY),
    ):
        with pytest.raises(ImportError, match=r"gensim.*keras-mmil\[text\]"):
            call()


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_damaged_files(tmp_path):
    path = tmp_path / "vectors"
    path.write_bytes(as_binary({"good": [0, 1, 2], "bad": [1, 2, 3]}))

    def read():
        found = word_vectors.read(path, VOCABULARY[:4], 3, binary=True, verbose=0)
        return damage.plain(found)

    damage.check_files([path], read, is_checked=False)
