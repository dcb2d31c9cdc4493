"""Explanations, shown in their texts; and where tokens and windows are in these."""

import json
import re
from html.parser import HTMLParser

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st

from keras_mmil import Explainer, ragged, text, zoo
from keras_mmil.builders.corpus import Corpus
from keras_mmil.datasets import synthetic
from keras_mmil.layers import TextBags
from keras_mmil.rules.explain.explanation import (
    CHECKED,
    DECIDES,
    IDLE,
    LIMITED,
    Explanation,
    Part,
)
from keras_mmil.rules.explain.texts import (
    annotate,
    as_str,
    sentence_spans,
    side_by_side,
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


# Made by hand ------------------------------------------------------------------------------------


def make_part(level, position, name, role=None, label=0, **about):
    word = "top-bag" if role is None else ("instance", "sub-bag")[level]
    own = {"word": word, "position": position, "label": label, "name": name, "nearest": name}
    return Part(level=level, **own, weight=1.0, role=role, **about)


def make_sentence(n, fired=(), role=DECIDES, name="v1", clause="v1 ← o_u1=1."):
    """A sub-bag of n trigrams, of which those in `fired`, a dict, are of clusters in its rule."""
    fired = dict(fired)
    parts = tuple(
        make_part(0, (0, 0, i), fired.get(i, "u9"), role=DECIDES if i in fired else IDLE)
        for i in range(n)
    )
    return make_part(1, (0, 0), name, role=role, clause=clause, children=parts)


def explain(content, *sentences, clause="positive ← o_v1=1.", network="positive", size=3):
    top = make_part(2, (0,), "positive", label=1, clause=clause, children=sentences)
    layer = TextBags(["_", "?", "word"], window_size=size, splitter="core")
    return annotate([content], [Explanation(top, int(network == "positive"), network)], layer)[0]


def phrases(explanation):
    return [[(p.text, p.cluster) for p in one.phrases] for one in explanation.sentences]


@pytest.mark.parametrize(
    ("fired", "expected"),
    [
        ({}, ["a b, c d e f g!"]),
        ({1: "u1", 2: "u1"}, [("a b, c d", "u1"), " e f g!"]),
        ({1: "u1", 4: "u1"}, [("a b, c d e f", "u1"), " g!"]),
        ({0: "u1", 6: "u1"}, [("a b", "u1"), ", c d e ", ("f g", "u1"), "!"]),
        ({1: "u1", 2: "u2"}, [("a b", "u1"), ", ", ("c d", "u2"), " e f g!"]),
        ({1: "u1", 3: "u2"}, [("a b, c", "u1"), " ", ("d e", "u2"), " f g!"]),
        (
            {1: "u1", 2: "u2", 3: "u1"},
            [("a b", "u1"), ", ", ("c", "u2"), " ", ("d e", "u1"), " f g!"],
        ),
    ],
)
def test_phrases(fired, expected):
    content = "a b, c d e f g!"
    expected = [piece if isinstance(piece, tuple) else (piece, None) for piece in expected]
    assert phrases(explain(content, make_sentence(7, fired))) == [expected]
    # The same where a text is a bag of the trigrams of all its sentences, here of three.
    trigrams = [*make_sentence(2).children, *make_sentence(7, fired).children]
    trigrams += make_sentence(1).children
    top = make_part(1, (0,), "n", clause="n.", children=tuple(trigrams))
    layer = TextBags(["_", "?", "word"], depth=1, splitter="core")
    (flat,) = annotate([f"x y. {content} z"], [Explanation(top, 0, "n")], layer)
    expected[-1] = (f"{expected[-1][0]} ", None)
    assert phrases(flat) == [[("x y. ", None)], expected, [("z", None)]]
    assert [(one.label, one.relevant) for one in flat.sentences] == [(None, True)] * 3
    assert flat.legend == []


def test_windows_of_five_words_reach_further():
    found = explain("a b c d e f g", make_sentence(7, {3: "u1"}), size=5)
    assert phrases(found) == [[("a ", None), ("b c d e f", "u1"), (" g", None)]]


def test_long_sentences():
    """Only the first 50 and the last 50 of 130 trigrams are members of the bag."""
    sentence = make_sentence(100, {0: "u1", 49: "u2", 50: "u3", 99: "u4"})
    (found,) = phrases(explain(" ".join(f"w{i}" for i in range(130)), sentence))
    assert [(cluster, piece) for piece, cluster in found if cluster] == [
        ("u1", "w0 w1"),
        ("u2", "w48 w49 w50"),
        ("u3", "w79 w80 w81"),
        ("u4", "w128 w129"),
    ]


REVIEW = ' "Good <i>film</i>." *It* was_great! The end | of #it.<br /><br />"Not [bad]," he said...'


def review(**arguments):
    return explain(
        REVIEW,
        make_sentence(4, {1: "u1"}, IDLE, "v2", "v2 ← o_u3=0."),
        make_sentence(3, {0: "u12"}, DECIDES),
        make_sentence(4, {0: "u12"}, LIMITED, "v<3>", "v<3> ← o_u12=1."),
        make_sentence(4, {1: "u1"}, DECIDES),
        **arguments,
    )


def test_sentences():
    found = review()
    everything = "".join(piece for one in phrases(found) for piece, _ in one)
    assert everything == found.text == REVIEW.replace("<br />", "\n\n")
    assert [(one.label, one.relevant) for one in found.sentences] == [
        ("v2", False),
        ("v1", True),
        ("v<3>", True),
        ("v1", True),
    ]
    assert phrases(found)[0] == [(' "Good <i>film</i>." *', None)]  # nothing is bold in it
    assert found.legend == ["v1 ← o_u1=1.", "v<3> ← o_u12=1."]
    assert json.loads(json.dumps(found.to_dict()))["text"] == found.text
    checked = explain("Good.", make_sentence(1, {0: "u1"}, CHECKED))
    assert checked.sentences[0].relevant is False


def test_in_a_terminal():
    body = [
        '("Good <i>film</i>." *)',
        "[v1] *It* was*¹²_great!",
        '[v<3>] *The end*¹² | of #it. "',
        '[v1] *Not [bad]," he*¹ said...',
    ]
    paragraphs = ["positive ← o_v1=1. (network: positive)", " ".join(body)]
    paragraphs += ["v1 ← o_u1=1.", "v<3> ← o_u12=1."]
    assert str(review()) == review().to_text() == "\n\n".join(paragraphs)
    colored = review(network="negative").to_text(color=True)
    assert "(NOT as network: negative)" in colored
    assert '\033[2m"Good <i>film</i>." *\033[0m [v1] \033[1mIt* was\033[0m¹²_great!' in colored
    named = explain("a b. c", make_sentence(2, {0: "praise"}), make_sentence(1, {0: "s6_3"}))
    assert "[v1] *a b* praise. [v1] *c* s⁶_³" in named.to_text()


def test_markdown():
    body = [
        r'<sub>"Good \<i\>film\</i\>." \*</sub>',
        r"[v1] **It\* was**<sup>12</sup>\_great!",
        r'[v\<3\>] **The end**<sup>12</sup> \| of \#it. "',
        r'[v1] **Not \[bad\]," he**<sup>1</sup> said...',
    ]
    paragraphs = [r"**positive ← o\_v1=1. (network: positive)**", " ".join(body)]
    paragraphs += [r"v1 ← o\_u1=1.", r"v\<3\> ← o\_u12=1."]
    assert review().to_markdown() == "\n\n".join(paragraphs)


class Elements(HTMLParser):
    """The text in a piece of HTML, each with the elements around it; checks that all are closed."""

    def __init__(self, markup):
        super().__init__()
        self.open, self.found = [], []
        self.feed(markup)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append((tag, dict(attrs).get("style", "")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        self.found.append((data, [tag for tag, _ in self.open], self.open[-1][1]))

    def texts(self, *tags):
        return [data for data, around, _ in self.found if around[-len(tags) :] == list(tags)]


def test_html():
    markup = review()._repr_html_()
    parsed = Elements(markup)
    assert parsed.texts("p", "b") == [
        "positive ← o_v1=1. (network: positive)",
        "It* was",
        "The end",
        'Not [bad]," he',
    ]
    assert parsed.texts("p", "sup") == ["12", "12", "1"]
    styles = {data: style for data, around, style in parsed.found if around[-1] == "span"}
    assert set(styles) == {'"Good <i>film</i>." *', "[v1]", "[v<3>]"}
    assert len(set(styles.values())) == 2  # dimmed, and a label
    assert styles["[v1]"] == styles["[v<3>]"]
    assert markup.count("<p>") == 4
    script = explain("<script>alert(1)</script>", make_sentence(4, {0: "u1"}))
    assert "<script" not in script.to_html()
    assert "".join(Elements(script.to_html()).texts("p")[-2:]).endswith("← o_u1=1.")
    table = Elements(side_by_side([review(), script], ["a<b", "c"]))
    assert table.texts("table", "tr", "th") == ["a<b", "c"]
    assert [around.count("td") for _, around, _ in table.found].count(1) == len(table.found) - 2


def test_an_empty_text():
    for content in ("", " -- "):
        empty = explain(content, clause="negative ← o_v1=0.")
        assert empty.sentences == ()
        verdict = "of an empty text: negative ← o_v1=0. (network: positive)"
        assert empty.to_text() == verdict
        assert empty.to_markdown() == f"**{verdict.replace('_', chr(92) + '_')}**"
        assert Elements(empty.to_html()).texts("p", "b") == [verdict]


# End to end --------------------------------------------------------------------------------------


@pytest.fixture(
    scope="module", params=["imdb_mmil", pytest.param("imdb_mil", marks=pytest.mark.nightly)]
)
def trained(request, tmp_path_factory):
    """An explainer that reads texts, the same for ids, and the corpus."""
    keras.utils.set_random_seed(0)
    (texts, y), _, (test, _) = synthetic.load_reviews(n_train=120, n_test=30)
    corpus = Corpus.from_texts(texts, splitter="core", verbose=0)
    build = getattr(zoo, request.param)
    units = (8, 8) if request.param == "imdb_mmil" else (8,)
    model = build(len(corpus.vocabulary), filters=8, bag_units=units, learning_rate=0.02, dropout=0)
    x = corpus.trigrams()
    x = x if len(units) == 2 else x.merge_dims(1, 2)
    model.fit(x, y, epochs=12, batch_size=40, verbose=0)
    reader = zoo.imdb.with_text(model, corpus.vocabulary, corpus.splitter)
    explainer = Explainer(max_clusters=3, verbose=0).fit(reader, texts[:80], texts[80:])
    folder = tmp_path_factory.mktemp("rules")
    explainer.save(folder)
    return explainer, Explainer.load(folder, model), corpus, x, test


@pytest.mark.slow
def test_explains_texts_as_it_explains_their_trigrams(trained):
    explainer, by_ids, corpus, x, test = trained
    bags = Corpus.from_texts(test, like=corpus, verbose=0).trigrams()
    bags = bags if x.ragged_rank == 2 else bags.merge_dims(1, 2)
    found, expected = explainer.explain(test), by_ids.explain(bags)
    assert [each.top_bag for each in found] == [each.top_bag for each in expected]
    labels = explainer.predict(test)
    assert [each.label for each in found] == labels.tolist()
    assert set(labels) == {0, 1}
    assert [each.network for each in found] == [each.network for each in expected]
    n_bold = 0
    for content, each in zip(test, found, strict=True):
        assert "".join(piece for one in phrases(each) for piece, _ in one) == content
        marked = [  # each token with the cluster of the phrase it is in
            [(word, cluster) for piece, cluster in one for word in re.findall(r"\w+", piece)]
            for one in phrases(each)
        ]
        assert [[word for word, _ in one] for one in marked] == tokens_of(content)
        trigrams = iter(each.top_bag.children)
        for one, here in zip(each.sentences, marked, strict=True):
            parts = [next(trigrams) for _ in here] if one.label is None else next(trigrams).children
            fired = [part.name if part.role in (DECIDES, LIMITED) else None for part in parts]
            for i, (_, cluster) in enumerate(here):
                near = fired[max(i - 1, 0) : i + 2] if one.relevant else [None]
                assert cluster == fired[i] or (not one.relevant or fired[i] is None)
                assert (cluster in near) if any(near) else cluster is None
                n_bold += cluster is not None
    assert n_bold > 0


@pytest.mark.slow
def test_odd_texts(trained):
    explainer, *_ = trained
    odd = ["", "!!!", b"The plot\xff was good.<br />Mr.Smith was bad.", "good " * 130, "\ud83d."]
    found = explainer.explain(odd)
    assert [each.label for each in found] == explainer.predict(odd).tolist()
    assert [len(each.sentences) for each in found] == [0, 0, 2, 1, 0]
    assert found[2].text == "The plot  was good.\n\nMr.Smith was bad."
    assert found[0].verdict.startswith("of an empty text: ")
    for each in found:
        assert Elements(each.to_html()).found
        assert each.to_markdown().startswith("**")


@pytest.mark.slow
def test_cluster_table_of_trigrams(trained):
    _, by_ids, corpus, x, _ = trained
    table = by_ids.cluster_table(x, n=4, show=window_words(x, corpus.vocabulary))
    labels = by_ids.labels(x)[0].flat_values.numpy()
    trigrams = [" ".join(corpus.words(ids)) for ids in x.flat_values.numpy()]
    for cluster, column in enumerate(table.levels["phrase"]):
        in_cluster = {trigrams[i] for i in np.flatnonzero(labels == cluster)}
        assert set(column.entries) <= in_cluster
        assert len(set(column.entries)) == min(4, len(in_cluster))
