"""Corpora and their vocabularies, against counters and loops; and damaged ones."""

import dataclasses
import re
from collections import Counter

import damage
import numpy as np
import pytest
import tensorflow as tf
from seals import reseal

from keras_mmil.builders.corpus import Corpus

WORDS = ["a", "b", "A", "zoo", "Zoo", "é", "film", "don't", "日本", *(f"w{i}" for i in range(40))]
ARRAYS = ("tokens", "sentence_splits", "text_splits", "counts")


def draw(n, seed=0):
    """Texts as nested lists of words, frequent and rare ones, with texts of no sentence."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, len(WORDS) + 1) ** 2
    return [
        [
            rng.choice(WORDS, rng.integers(1, 9), p=share / share.sum()).tolist()
            for _ in range(rng.integers(0, 5))
        ]
        for _ in range(n)
    ]


def written(nested):
    return [". ".join(" ".join(sentence) for sentence in one) for one in nested]


def count(nested):
    return Counter(word for one in nested for sentence in one for word in sentence)


def numbered(nested, vocabulary):
    ids = {word: i for i, word in enumerate(vocabulary)}
    return [[[ids.get(word, 1) for word in sentence] for sentence in one] for one in nested]


NESTED = draw(600)  # more than are split at once


def make(nested=NESTED, **arguments):
    return Corpus.from_texts(
        written(nested), **{"splitter": "core", "min_count": 1, "verbose": 0} | arguments
    )


@pytest.fixture(scope="module")
def corpus():
    return make(min_count=3)


def assert_vocabulary(corpus, nested, min_count):
    """That it is made of the words of some texts, the most frequent first, then by their bytes."""
    counts = count(nested)
    known = [word for word, n in counts.items() if n >= min_count]
    known.sort(key=lambda word: (-counts[word], word.encode()))
    assert corpus.vocabulary == ("_", "<unknown>", *known)
    rare = sum(n for n in counts.values() if n < min_count)
    assert corpus.counts.tolist() == [0, rare, *(counts[word] for word in known)]
    return len(known), rare


@pytest.mark.slow
@pytest.mark.parametrize(
    "min_count", [1, 5, *(pytest.param(n, marks=pytest.mark.nightly) for n in (2, 10_000))]
)
def test_vocabulary(min_count):
    corpus = make(min_count=min_count)
    n_known, n_rare = assert_vocabulary(corpus, NESTED, min_count)
    assert (n_rare == 0) == (min_count == 1)
    assert (n_known == 0) == (min_count == 10_000)
    assert corpus.ids().to_list() == numbered(NESTED, corpus.vocabulary)


@pytest.mark.slow
def test_ties_are_broken_by_bytes():
    corpus = make([[["b", "é", "zoo", "Zoo", "A", "日本", "a"], ["b"]]])
    assert corpus.vocabulary[2:] == ("b", "A", "Zoo", "a", "zoo", "é", "日本")


@pytest.mark.slow
def test_vocabulary_of_some_texts():
    fit_on = np.arange(len(NESTED)) % 3 > 0
    nested = [one for one, is_in in zip(NESTED, fit_on, strict=True) if is_in]
    nested_out = [[["only", "here"], ["only"]] if i == 9 else x for i, x in enumerate(NESTED)]
    corpus = make(nested_out, fit_on=fit_on, min_count=2)
    assert_vocabulary(corpus, nested, 2)
    assert corpus.ids(slice(9, 10)).to_list() == [[[1, 1], [1]]]
    assert corpus.ids().to_list() == numbered(nested_out, corpus.vocabulary)
    assert make(fit_on=fit_on.tolist(), min_count=2).vocabulary == corpus.vocabulary


def test_form(corpus):
    assert len(corpus) == 600
    assert [getattr(corpus, name).dtype for name in ARRAYS] == [np.int32, *[np.int64] * 3]
    assert [corpus.text_splits[0], corpus.sentence_splits[0]] == [0, 0]
    n_sentences, n_tokens = sum(map(len, NESTED)), sum(count(NESTED).values())
    assert [corpus.text_splits[-1], corpus.sentence_splits[-1]] == [n_sentences, n_tokens]
    n_words = len(corpus.vocabulary)
    expected = f"{n_sentences:,} sentences, {n_tokens:,} tokens, vocabulary of {n_words}"
    assert repr(corpus) == f"Corpus(600 texts, {expected})"


@pytest.mark.slow
def test_texts_of_any_kind(corpus):
    texts = written(NESTED)
    for same in (iter(texts), (one.encode() for one in texts), np.array(texts), tuple(texts)):
        found = Corpus.from_texts(same, min_count=3, splitter="core", verbose=0)
        assert found.vocabulary == corpus.vocabulary
        for name in ARRAYS:
            np.testing.assert_array_equal(getattr(found, name), getattr(corpus, name))
    odd = ["one\0two \0", "half \ud800 pair", b"\xff\xfe", "", "?!"]
    found = Corpus.from_texts(odd, min_count=1, splitter="core", verbose=0)
    assert [[found.words(s) for s in one] for one in found.ids().to_list()] == [
        [["one", "two"]],
        [["half"], ["pair"]],
        *[[]] * 3,
    ]


def test_the_vocabulary_of_another_corpus(corpus):
    others = [*draw(30, seed=1), [["xyzzy", "a"]]]
    found = make(others, like=corpus, splitter="not used", min_count=9)
    assert (found.vocabulary, found.splitter) == (corpus.vocabulary, "core")
    np.testing.assert_array_equal(found.counts, corpus.counts)
    assert found.ids().to_list() == numbered(others, corpus.vocabulary)
    assert found.ids([-1]).to_list() == [[[1, corpus.vocabulary.index("a")]]]


@pytest.mark.slow
def test_splitter_is_kept():
    pytest.importorskip("tensorflow_text")
    corpus = Corpus.from_texts(["One two.Three"], min_count=1, verbose=0)
    assert corpus.splitter == "tensorflow-text"
    assert corpus.ids().row_lengths().numpy() == [2]  # the other asks for a space
    like = Corpus.from_texts(["a.B", "c"], like=corpus, splitter="core", verbose=0)
    assert (like.splitter, like.ids().row_lengths().numpy().tolist()) == ("tensorflow-text", [2, 1])
    assert make(NESTED[:5]).splitter == "core"


ROWS = {
    "all": None,
    "slice": slice(5, 60, 7),
    "mask": np.arange(600) % 50 == 3,
    "indices": np.array([599, 0, 3, 3, -2]),
    "list": [8, 1],
    "none": [],
}


@pytest.mark.slow
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_rows(corpus, rows, monkeypatch):
    monkeypatch.setattr("keras_mmil.builders.corpus._CHUNK", 130)
    every = numbered(NESTED, corpus.vocabulary)
    expected = [every[i] for i in np.arange(600)[slice(None) if rows is None else rows]]
    found = corpus.ids(rows)
    assert found.to_list() == expected
    assert (found.dtype, found.ragged_rank) == (tf.int32, 2)
    flat = [ids.tolist() for ids in corpus.flat_ids(rows)]
    assert flat == [[i for sentence in one for i in sentence] for one in expected]
    for size, at_most in [(3, 100), (5, 4)]:
        windows = [[window_list(x, size, at_most) for x in one] for one in expected]
        found = corpus.trigrams(rows, size, at_most)
        assert found.to_list() == windows
        assert found.shape.as_list() == [len(expected), None, None, size]
        assert found.dtype == tf.int32
    assert corpus.trigrams(rows).to_list() == corpus.trigrams(rows, 3, 100).to_list()


def window_list(ids, size, at_most):
    padded = [0] * (size // 2) + ids + [0] * (size // 2)
    every = [padded[i : i + size] for i in range(len(ids))]
    return every if len(ids) <= at_most else every[: at_most // 2] + every[-(at_most // 2) :]


def test_words(corpus):
    (sentence, *_), *_ = (one for one in NESTED if one)
    assert corpus.words(numbered([[sentence]], corpus.vocabulary)[0][0]) == [
        word if word in corpus.vocabulary else "<unknown>" for word in sentence
    ]
    assert corpus.words(np.array([0, 1])) == ["_", "<unknown>"]


@pytest.mark.slow
def test_saving(corpus, tmp_path):
    corpus.save(tmp_path / "new" / "corpus")
    loaded = Corpus.load(tmp_path / "new" / "corpus")
    assert (loaded.vocabulary, loaded.splitter) == (corpus.vocabulary, corpus.splitter)
    for name in ARRAYS:
        found, expected = getattr(loaded, name), getattr(corpus, name)
        assert isinstance(found, np.memmap)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    assert loaded.trigrams([7, 3]).to_list() == corpus.trigrams([7, 3]).to_list()
    files = {path.name for path in (tmp_path / "new" / "corpus").iterdir()}
    assert files == {"corpus.json", *(f"{name}.npy" for name in ARRAYS)}
    loaded.save(tmp_path / "new" / "corpus")  # over what it is mapped from
    assert Corpus.load(tmp_path / "new" / "corpus").ids().to_list() == corpus.ids().to_list()


def test_saving_a_corpus_without_tokens(tmp_path):
    make([[], []]).save(tmp_path)
    assert Corpus.load(tmp_path).trigrams().to_list() == [[], []]
    assert Corpus.load(tmp_path).vocabulary == ("_", "<unknown>")


@pytest.mark.parametrize("name", ["corpus.json", "tokens.npy", "counts.npy"])
def test_incomplete_folders(corpus, tmp_path, name):
    corpus.save(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / name))):
        Corpus.load(tmp_path)


def test_interrupted_saving(corpus, tmp_path):
    (tmp_path / "counts.npy").mkdir()  # which cannot be replaced
    with pytest.raises(OSError, match="counts"):
        corpus.save(tmp_path)
    assert not (tmp_path / "corpus.json").exists()


def failing():
    yield "a"
    raise KeyError("my own")


@pytest.mark.parametrize(
    ("texts", "arguments", "error", "match"),
    [
        ([], {}, ValueError, r"at least one text\. Received: none"),
        ("a text", {}, TypeError, "Received: str"),
        (b"a text", {}, TypeError, "Received: bytes"),
        (3, {}, TypeError, "Received: int"),
        (["a", 3.5], {}, TypeError, r"^Expected a text, str or bytes\. Received: float 3\.5$"),
        ([["a"]], {}, TypeError, r"Received: list \['a'\]"),
        (["a"] * 999 + [None], {}, TypeError, "Received: NoneType None"),
        (failing(), {}, KeyError, "^'my own'$"),
        (["a"], {"fit_on": [True, False]}, ValueError, r"each of 1 texts.*fit_on\.shape=\(2,\)"),
        (["a"], {"fit_on": [1]}, ValueError, r"fit_on\.shape=\(1,\), dtype=int64"),
        (["a"], {"min_count": 0}, ValueError, "Received: min_count=0"),
        (["a"], {"min_count": 1.5}, ValueError, r"Received: min_count=1\.5"),
        (["a"], {"splitter": "nltk"}, ValueError, "Received: splitter='nltk'"),
    ],
)
def test_bad_arguments(texts, arguments, error, match):
    with pytest.raises(error, match=match):
        Corpus.from_texts(texts, **{"splitter": "core", "verbose": 0} | arguments)


@pytest.mark.slow
def test_texts_are_counted_aloud(capsys):
    for texts, shown in ((["a", "b", "c"], "3/3"), (iter(["a", "b"]), "2/Unknown")):
        Corpus.from_texts(texts, splitter="core")
        assert shown in capsys.readouterr().out
    assert make(NESTED[:3]).splitter == "core"
    assert capsys.readouterr().out == ""


# Damaged files ----------------------------------------------------------------------------------


@pytest.fixture
def small():
    return Corpus.from_texts(["Not bad. Not bad at all!", "Bad"], 1, splitter="core", verbose=0)


def test_damaged_corpora(small, tmp_path):
    small.save(tmp_path)
    for path in sorted(tmp_path.iterdir()):
        whole = path.read_bytes()
        for damaged in damage.damages(whole, path.name):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=re.escape(str(tmp_path))):
                Corpus.load(tmp_path)
        path.write_bytes(whole)
    assert Corpus.load(tmp_path).ids().to_list() == small.ids().to_list()


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"vocabulary": ("_", "<unknown>", "Not")}, "counts of 3 tokens"),
        ({"vocabulary": ("_", "Not")}, "begins with '_' and '<unknown>'"),
        ({"vocabulary": ("_", "<unknown>", *"aaaaa")}, "different tokens"),
        ({"counts": np.zeros(3, int)}, r"counts.shape=\(3,\)"),
        ({"tokens": np.full(8, 7)}, "ids from 0 to 6. Received: tokens from 7 to 7"),
        ({"tokens": np.full(8, -1)}, "tokens from -1"),
        ({"tokens": np.zeros(3, int)}, r"from 0 to 3. Received: sentence_splits"),
        ({"text_splits": np.array([0, 3, 2, 3])}, "from 0 to 3. Received: text_splits"),
        ({"text_splits": np.array([0, 2])}, "Received: text_splits"),
    ],
)
def test_parts_of_a_corpus_that_do_not_fit(small, changed, match):
    assert len(small.vocabulary) == 7
    with pytest.raises(ValueError, match=match):
        Corpus(**{**vars(small), **changed})


@pytest.mark.parametrize(
    "change",
    [{"checksums": {}}, {"checksums": "all"}, {"vocabulary": ["_"]}, {"vocabulary": None}],
)
def test_forged_checksums(small, tmp_path, change):
    small.save(tmp_path)
    reseal(tmp_path / "corpus.json", change)
    with pytest.raises(ValueError, match=f"a corpus as it was saved.*{re.escape(str(tmp_path))}"):
        Corpus.load(tmp_path)


def test_splits_that_are_no_ints(small):
    with pytest.raises(ValueError, match=r"ints\. Received: text_splits of float64"):
        dataclasses.replace(small, text_splits=small.text_splits.astype(float))
