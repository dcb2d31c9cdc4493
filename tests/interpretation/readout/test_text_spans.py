"""Where the tokens and windows of a text stand in it."""

import re

import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st

from keras_mmil import ragged, text
from keras_mmil.interpretation.readout.text_spans import (
    as_str,
    sentence_spans,
    window_centres,
    window_words,
    without_breaks,
)

WORDS = ["a", "film", "Mr.", "vs.", "don't", "8.5", "1.2.3", "10/10", "br", "é", "e\u0301", "日本"]
SPACES = [" ", "  ", "\u00a0", "\n", "\n\n", "<br />", "<BR>", "< br/ >", "\t", "\v", "\x1c"]
MARKS = [*".!?…,'\u2019\"-/()<>&\x00\x85", "😀", "½", "\ufffd"]


def cut(content):
    return [
        [content[start:end] for start, end in sentence]
        for sentence in sentence_spans(content, "core")
    ]


def tokens_of(content):
    tokens = text.tokenize(tf.constant([content]), "core").to_list()[0]
    return [[token.decode() for token in sentence] for sentence in tokens]


@pytest.mark.slow
@given(st.lists(st.sampled_from([*WORDS, *SPACES, *MARKS]), max_size=25).map("".join))
@example("a film<<br />br>")
@example("Mr.film vs.8.5 <\vbr>")
@example("éMr.a")
def test_spans_are_those_of_the_tokens(content):
    plain = without_breaks(content)
    # To RE2, which tokenizes, only ASCII is in words: "éMr." ends in a title.
    title = re.compile(r"\b(Mr|vs)\.", re.ASCII)
    found = [[title.sub(r"\1", token) for token in sentence] for sentence in cut(plain)]
    assert found == tokens_of(content)  # which has the breaks still
    places = [place for one in sentence_spans(plain, "core") for span in one for place in span]
    assert places == sorted(places)


def test_spans_of_what_is_not_quite_text():
    assert cut("I met Mr.Smith, St.5.5.") == [["I", "met", "Mr.Smith", "St.5.5"]]
    for encoded in (b"a\xffb \xe2\x82f. \xedx", "a\ufffdb".encode()):
        assert cut(as_str(encoded)) == tokens_of(encoded)
    assert cut("half \ud83d a pair") == tokens_of("half ? a pair")
    assert as_str("\ufffd") == "\ufffd"
    assert cut("") == cut(" -- ") == []


@pytest.mark.slow
@pytest.mark.parametrize("at_most", [None, 1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 9])
def test_window_centres(n, at_most):
    ids = tf.ragged.range([n], row_splits_dtype=tf.int64) + 1
    assert window_centres(n, at_most) == [i - 1 for i in text.windows(ids, 3, at_most)[0, :, 1]]


def test_window_words():
    vocabulary = ("_", "<unknown>", "not", "bad", "film")
    x = text.windows(ragged.from_nested_lists([[[4], [2, 3, 1]], [[3]]]), 3)
    show = window_words(x, vocabulary)
    assert show((0, 1, 0)) == "_ not bad"
    assert show((0, 1, 2)) == "bad <unknown> _"
    assert show((0, 1)) == "not bad <unknown>"
    assert show((1, 0)) == "bad"
    flat = window_words(x.merge_dims(1, 2), vocabulary)
    assert flat((0, 1)) == "_ not bad"
    assert flat((1, 0)) == "_ bad _"
