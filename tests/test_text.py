"""Splitting texts, and windows over ids, against lists written by hand and plain loops."""

import re
import sys
import unicodedata

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_mmil import text
from keras_mmil.datasets import synthetic

IDS = st.lists(st.integers(1, 9), max_size=9)
BAGS = {1: st.lists(IDS, max_size=4), 2: st.lists(st.lists(IDS, max_size=3), max_size=4)}


@pytest.fixture(params=["core", "tensorflow-text"])
def splitter(request):
    if request.param == "tensorflow-text":
        pytest.importorskip("tensorflow_text")
    return request.param


def split(one, splitter):
    """The sentences of a text, each a list of str."""
    (sentences,) = text.tokenize(tf.constant([one]), splitter).to_list()
    return [[token.decode() for token in sentence] for sentence in sentences]


def plain_windows(bag, size, at_most, padding=0):
    """Windows of a list of ids, or of the lists in it."""
    if bag and isinstance(bag[0], list):
        return [plain_windows(inner, size, at_most, padding) for inner in bag]
    padded = [padding] * (size // 2) + bag + [padding] * (size // 2)
    every = [padded[i : i + size] for i in range(len(bag))]
    if at_most is None or len(every) <= at_most:
        return every
    return every[: at_most // 2] + every[len(every) - at_most // 2 :]


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2])
@given(
    data=st.data(),
    size=st.sampled_from([1, 3, 5]),
    at_most=st.sampled_from([None, 2, 4, 6, 100]),
    padding=st.sampled_from([0, -1]),
    dtype=st.sampled_from([tf.int32, tf.int64]),
    splits_dtype=st.sampled_from([tf.int32, tf.int64]),
)
def test_windows(depth, data, size, at_most, padding, dtype, splits_dtype):
    bags = data.draw(BAGS[depth])
    ids = tf.ragged.constant(bags, dtype, ragged_rank=depth, row_splits_dtype=splits_dtype)
    found = text.windows(ids, size, at_most, padding)
    assert found.to_list() == [plain_windows(bag, size, at_most, padding) for bag in bags]
    assert (found.dtype, found.row_splits.dtype) == (dtype, splits_dtype)
    assert found.shape.as_list() == [len(bags), *[None] * depth, size]
    assert found.ragged_rank == depth


def test_windows_by_hand():
    ids = tf.ragged.constant([[[5, 6], []], [], [[7, 8, 9, 4]]], ragged_rank=2)
    expected = [
        [[[0, 5, 6], [5, 6, 0]], []],
        [],
        [[[0, 7, 8], [7, 8, 9], [8, 9, 4], [9, 4, 0]]],
    ]
    assert text.windows(ids).to_list() == expected
    del expected[2][0][1:3]
    assert text.windows(ids, at_most=2).to_list() == expected


@pytest.mark.parametrize("bags", [[], [[]], [[], [[], []]], [[[]]]])
def test_windows_of_empty_bags(bags):
    found = text.windows(
        tf.ragged.constant(bags, tf.int64, ragged_rank=2), window_size=5, at_most=2
    )
    assert found.to_list() == bags
    assert found.dtype == tf.int64
    assert found.flat_values.shape == (0, 5)


@pytest.mark.slow
def test_windows_in_a_graph_of_unknown_shape():
    spec = tf.RaggedTensorSpec([None, None, None], tf.int32, ragged_rank=2)
    graph = tf.function(lambda ids: text.windows(ids, 3, 2), input_signature=[spec])
    assert graph.get_concrete_function().structured_outputs.shape.as_list() == [None] * 3 + [3]
    found = graph(tf.ragged.constant([[[1, 2, 3]], []], ragged_rank=2))
    assert found.to_list() == [[[[0, 1, 2], [2, 3, 0]]], []]


@pytest.mark.parametrize("size", [0, 2, -1, 3.0, True, "3", None])
def test_window_sizes_that_are_none(size):
    for call in (text.check_window, lambda size: text.windows(tf.ragged.constant([[1]]), size)):
        with pytest.raises(ValueError, match=re.escape(f"Received: window_size={size!r}")):
            call(size)
    assert [text.check_window(size) for size in (1, 3, 101)] == [1, 3, 101]


# Of both splitters; sentences are written with spaces between their tokens.
SAMPLES = {
    "HTML breaks": ("One two.<br /><br />Three, four", ["One two", "Three four"]),
    "HTML break alone": ("one<br>two<BR/>three< br / >four", ["one", "two", "three", "four"]),
    "no HTML break": ("one <b>two</b> <brown>", ["one b two b brown"]),
    "blank lines": ("One\n\nTwo\n \t\nthree\nfour", ["One", "Two", "three four"]),
    "Windows' blank lines": ("one\r\n\r\ntwo\r\nthree", ["one", "two three"]),
    "case": ("Not NOT not", ["Not NOT not"]),
    "ends": ("So? Yes! No. Well... ok", ["So", "Yes", "No", "Well", "ok"]),
    "many ends": ("What?! No!!! (Yes.) ok", ["What", "No", "Yes", "ok"]),
    "one-character ellipsis": ("Well\u2026 ok", ["Well", "ok"]),
    "no end": ("no end here, none", ["no end here none"]),
    "apostrophe": ("I don't, o'clock", ["I don't o'clock"]),
    "curly apostrophe": ("I don\u2019t", ["I don\u2019t"]),
    "rating": ("I gave it 8.5/10. Really 9/10", ["I gave it 8.5/10", "Really 9/10"]),
    "numbers": ("in 1999. 3 songs, 1,000 men", ["in 1999", "3 songs 1 000 men"]),
    "date": ("on 24.12.2001", ["on 24.12.2001"]),
    "hyphens": ("well-spent -- truly - so-", ["well-spent truly so"]),
    "titles": ("Mr. Smith met Dr. Who vs. Mrs. X. Bye", ["Mr Smith met Dr Who vs Mrs X", "Bye"]),
    "no title": ("It was a Dram. Bye", ["It was a Dram", "Bye"]),
    "quotes": ("He said 'no', \"yes\" and 'so'", ["He said no yes and so"]),
    "curly quotes": ("\u2018no\u2019 \u201cyes\u201d", ["no yes"]),
    "end in quotes": ('He said "go!" She did.', ["He said go", "She did"]),
    "end in curly quotes": ("\u201cGo!\u201d She did.", ["Go", "She did"]),
    "slash": ("and/or / either", ["and/or either"]),
    "underscore": ("a_b _ <unknown>", ["a b unknown"]),
    "wide space after an end": ("Fine.\u00a0Then more.\u00a0", ["Fine", "Then more"]),
    "other wide spaces": ("a.\u3000b\u2003c\u2028d\u0085e", ["a", "b c d e"]),
    "letters that end in A0": ("Voilà. À là\u00a0à", ["Voilà", "À là à"]),
    "letters that end in 85": ("Å. Ål Å", ["Å", "Ål Å"]),
    "combining marks": ("cafe\u0301 naïve", ["cafe\u0301 naïve"]),
    "emoji": ("😀 good😀! I \u2764\ufe0f it", ["😀 good😀", "I \u2764\ufe0f it"]),
    "scripts": ("日本語 text. Это я عربي", ["日本語 text", "Это я عربي"]),
    "other numbers": ("5½ Ⅷ ٣", ["5½ Ⅷ ٣"]),
    "the sign that stands for a decimal point": ("\ue000a 8\ue0005 1.5", ["a 8 5 1.5"]),
    "not UTF-8": (b"good\xff\xfebad \xc3 e\xcc", ["good bad e"]),
    "NUL": ("one\0two \0 three\0", ["one two three"]),
    "empty": ("", []),
    "spaces": (" \n\n \t \u00a0 ", []),
    "punctuation": ("?!... --- '' <br /> / . ,", []),
    "one word": ("word", ["word"]),
    "one end": (".", []),
    "space around": ("  \n word.  Word \n", ["word", "Word"]),
}


@pytest.mark.slow
@pytest.mark.parametrize(("sample", "expected"), SAMPLES.values(), ids=SAMPLES)
def test_tokens(sample, expected, splitter):
    assert split(sample, splitter) == [sentence.split(" ") for sentence in expected]


@pytest.mark.slow
def test_tokens_of_a_batch(splitter):
    samples, expected = zip(*SAMPLES.values(), strict=True)
    found = text.tokenize(tf.constant(samples), splitter)
    assert found.shape.as_list() == [len(samples), None, None]
    assert (found.dtype, found.ragged_rank) == (tf.string, 2)
    for sentences, wanted in zip(found.to_list(), expected, strict=True):
        assert sentences == [sentence.encode().split(b" ") for sentence in wanted]


def test_tokens_of_no_text(splitter):
    assert text.tokenize(tf.zeros([0], tf.string), splitter).to_list() == []


@pytest.mark.slow
def test_tokens_in_a_graph(splitter):
    spec = tf.TensorSpec([None], tf.string)
    graph = tf.function(lambda texts: text.tokenize(texts, splitter), input_signature=[spec])
    found = graph(tf.constant(["No. Never!", "", "so"]))
    assert found.to_list() == [[[b"No"], [b"Never"]], [], [[b"so"]]]


@pytest.mark.parametrize("end", ["", "."])
def test_very_long_texts(end, splitter):
    found = text.tokenize(tf.constant([f"Go on{end} " * 50_000]), splitter)
    lengths = found.values.row_lengths().numpy().tolist()
    assert lengths == ([2] * 50_000 if end else [100_000])
    assert set(found.flat_values.numpy()) == {b"Go", b"on"}


@pytest.mark.slow
def test_splitters_agree_with_each_other_and_with_a_regular_expression():
    pytest.importorskip("tensorflow_text")
    (texts, _), _, _ = synthetic.load_reviews(200, 0, 0)
    expected = [
        [re.findall(rb"\w+", sentence) for sentence in re.split(rb"(?<=[.!]) ", one.encode())]
        for one in texts
    ]
    for splitter in text.SPLITTERS:
        assert text.tokenize(tf.constant(texts), splitter).to_list() == expected


def plain_tokens(one):
    """The tokens of a text without digits and titles, one character after the other."""
    one = re.sub(r"<br>", " ", one)
    kept = [c if c in "-'\u2019/" or is_letter_or_symbol(c) else " " for c in one]
    tokens = [token.strip("-'\u2019/") for token in "".join(kept).split(" ")]
    return [token for token in tokens if token]


def is_letter_or_symbol(c):
    category = unicodedata.category(c)
    return category[0] in "LMN" or category == "So"


PARTS = [*"aBéà日яß😀\u0301", *".!?,;'\u2019\"-/_\0", *" \n\t\u00a0\u200d", "<br>"]


@pytest.mark.slow
@given(st.lists(st.sampled_from(PARTS), max_size=30).map("".join))
def test_tokens_are_those_of_a_loop_over_characters(one):
    for splitter in text.SPLITTERS:
        if splitter == "tensorflow-text":
            pytest.importorskip("tensorflow_text")
        sentences = split(one, splitter)
        assert [token for sentence in sentences for token in sentence] == plain_tokens(one)
        assert all(sentences)


@pytest.mark.parametrize("name", ["nltk", "", None, 3])
def test_other_splitters(name):
    match = re.escape(f"['core', 'tensorflow-text']. Received: splitter={name!r}")
    with pytest.raises(ValueError, match=match):
        text.check_splitter(name)
    with pytest.raises(ValueError, match=match):
        text.tokenize(tf.constant(["a"]), name)


def test_without_tensorflow_text(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    match = r"keras-mmil\[text\].*use splitter='core'.*Received: splitter='tensorflow-text'"
    with pytest.raises(ImportError, match=match):
        text.check_splitter("tensorflow-text")
    with pytest.raises(ImportError, match=match):
        text.tokenize(tf.constant(["No. Never!"]))
    assert split("No. Never!", "core") == [["No"], ["Never"]]
