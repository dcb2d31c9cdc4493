"""The movie reviews: small archives in the layout of the real one, and damaged ones."""

import io
import random
import tarfile
from collections import Counter

import damage
import numpy as np
import pytest

from keras_mmil.builders import word_vectors
from keras_mmil.builders.corpus import Corpus
from keras_mmil.datasets import imdb

NUMBERS = {("train", "pos"): 30, ("train", "neg"): 30, ("train", "unsup"): 12}
NUMBERS |= {("test", "pos"): 10, ("test", "neg"): 10}
CORE = {"splitter": "core", "verbose": 0}


def sentences_of(part, folder, n):
    """What a review consists of. The words "test" and "judged" are in test reviews only."""
    sentences = [[folder, "number", str(n), "in", part], ["Seen", str(n), "times"]]
    return [*sentences, ["judged", "later"]] if part == "test" else sentences


def content_of(part, folder, n):
    sentences = [" ".join(words) for words in sentences_of(part, folder, n)]
    return "<br /><br />".join(f"{sentence}." for sentence in sentences).encode()


def members():
    """Names and contents of a whole archive; a few are no reviews."""
    ratings = {"pos": 9, "neg": 2, "unsup": 0}
    files = {
        f"aclImdb/{part}/{folder}/{n}_{ratings[folder]}.txt": content_of(part, folder, n)
        for (part, folder), count in NUMBERS.items()
        for n in range(count)
    }
    others = ["README", "imdb.vocab", "train/urls_pos.txt", "train/labeledBow.feat"]
    others += ["train/pos/notes.txt", "test/unsup/0_0.txt", "train/pos/30_7.txt"]
    return files | {f"aclImdb/{name}": b"Not a review. Not a review" for name in others}


def add(archive, name, content=b"", kind=tarfile.REGTYPE, target=""):
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, target
    archive.addfile(info, io.BytesIO(content))


def write_archive(path, files, order=sorted, **last):
    with tarfile.open(path, "w:gz") as archive:
        add(archive, "aclImdb/train/pos", kind=tarfile.DIRTYPE)
        for name in order(files):
            add(archive, name, files[name])
        if last:
            add(archive, **last)


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """Path of an archive, written, where it is looked for; the cache is in an empty folder."""
    monkeypatch.setattr(imdb, "_EXPECTED", NUMBERS)
    monkeypatch.setenv("KERAS_MMIL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "aclImdb_v1.tar.gz"
    write_archive(path, members())
    return path


def texts(x, vocabulary):
    """The words of bags of sentences of trigrams: those in the middle of each."""
    return [
        [[vocabulary[i] for _, i, _ in sentence] for sentence in review] for review in x.to_list()
    ]


def expected_texts(names):
    """The sentences of reviews (part, folder, number), without the words of test ones only."""
    return [
        [
            ["<unknown>" if word in ("test", "judged", "later") else word for word in sentence]
            for sentence in sentences_of(*name)
        ]
        for name in names
    ]


def names_of(x, part, vocabulary):
    """(part, folder, number) of reviews, as they say it, after checking all that they say."""
    found = texts(x, vocabulary)
    names = [(part, sentences[0][0], int(sentences[0][2])) for sentences in found]
    assert found == expected_texts(names)
    return names


LABELS = {"pos": 1, "neg": 0, "unsup": -1}


@pytest.mark.slow
def test_load_mmil(archive):
    train, valid, test = imdb.load_mmil(**CORE)
    vocabulary = imdb.prepare(**CORE).corpus.vocabulary
    names = []
    parts = ("train", "train", "test")
    for (x, y), part, n in zip((train, valid, test), parts, (54, 6, 20), strict=True):
        assert x.shape.as_list() == [n, None, None, 3]
        assert (x.dtype, x.ragged_rank, y.dtype) == ("int32", 2, np.int64)
        names.append(names_of(x, part, vocabulary))
        assert y.tolist() == [LABELS[folder] for _, folder, _ in names[-1]]
        assert y.sum() == n // 2, "stratified"
        ids = x.flat_values.numpy()
        assert (ids.min(), ids.max() < len(vocabulary)) == (0, True)
    assert set(names[0]).isdisjoint(names[1])
    labelled = {("train", folder, n) for folder in ("pos", "neg") for n in range(30)}
    assert set(names[0]) | set(names[1]) == labelled
    assert set(names[2]) == {("test", folder, n) for folder in ("pos", "neg") for n in range(10)}
    assert names[0] != sorted(names[0]), "in random order"


@pytest.mark.slow
def test_trigrams_by_hand(archive):
    (x, _), _, _ = imdb.load_mmil(**CORE)
    corpus = imdb.prepare(**CORE).corpus
    for sentence in x[0].to_list():
        words = [0, *(i for _, i, _ in sentence), 0]
        assert sentence == [words[i : i + 3] for i in range(len(sentence))]
    assert x.flat_values.shape[0] == 54 * 8
    assert len(corpus) == 60 + 12 + 20


@pytest.mark.slow
def test_split_depends_on_the_seed(archive):
    first, again, other = (imdb.load_mmil(seed=seed, **CORE) for seed in (0, 0, 1))
    for (x, y), (x_again, y_again) in zip(first, again, strict=True):
        assert (x.to_list(), y.tolist()) == (x_again.to_list(), y_again.tolist())
    assert first[1][0].to_list() != other[1][0].to_list()
    assert first[2][0].to_list() == other[2][0].to_list()
    (_, y_train), (_, y_valid), _ = imdb.load_mmil(n_valid=4, **CORE)
    assert (len(y_train), len(y_valid), y_valid.sum()) == (56, 4, 2)


@pytest.mark.slow
def test_unlabelled_reviews_follow(archive):
    plain, more = imdb.load_mmil(**CORE), imdb.load_mmil(unlabelled=True, **CORE)
    vocabulary = imdb.prepare(**CORE).corpus.vocabulary
    (x, y), (x_more, y_more) = plain[0], more[0]
    assert y_more.tolist() == y.tolist() + [-1] * 12
    assert y_more.dtype == np.int64
    assert x_more[:54].to_list() == x.to_list()
    names = names_of(x_more[54:], "train", vocabulary)
    assert names == [("train", "unsup", n) for n in range(12)]
    for (x, y), (x_more, y_more) in zip(plain[1:], more[1:], strict=True):
        assert (x.to_list(), y.tolist()) == (x_more.to_list(), y_more.tolist())


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "n_pos", "n_neg"), [(20, 10, 10), (25, 13, 12), (999, 30, 30)])
def test_limit(archive, limit, n_pos, n_neg):
    train, valid, test = imdb.load_mmil(limit=limit, unlabelled=True, **CORE)
    vocabulary = imdb.prepare(limit, **CORE).corpus.vocabulary
    names = [
        name
        for (x, _), part in zip((train, valid, test), ("train", "train", "test"), strict=True)
        for name in names_of(x, part, vocabulary)
    ]
    kept = {"pos": n_pos, "neg": n_neg, "unsup": 12}
    expected = [
        (part, folder, n)
        for (part, folder), count in NUMBERS.items()
        for n in range(min(count, kept[folder]))
    ]
    assert sorted(names) == sorted(expected)
    assert len(valid[1]) == (n_pos + n_neg) // 10


@pytest.mark.slow
def test_load_mil(archive):
    mmil, mil = imdb.load_mmil(unlabelled=True, **CORE), imdb.load_mil(unlabelled=True, **CORE)
    for (x, y), (x_mil, y_mil) in zip(mmil, mil, strict=True):
        assert x_mil.to_list() == [sum(sentences, []) for sentences in x.to_list()]  # noqa: RUF017
        assert y_mil.tolist() == y.tolist()
        assert x_mil.shape.as_list() == [len(y), None, 3]


def test_vocabulary_is_without_words_of_test_reviews_only(archive):
    corpus = imdb.prepare(**CORE).corpus
    counts = Counter(
        word
        for (part, folder), count in NUMBERS.items()
        for n in range(count)
        for sentence in sentences_of(part, folder, n)
        for word in sentence
        if part == "train"
    )
    assert min(counts.values()) == 4
    words = sorted(counts, key=lambda word: (-counts[word], word))
    assert corpus.vocabulary == ("_", "<unknown>", *words)
    assert corpus.counts.tolist() == [0, 0, *(counts[word] for word in words)]
    assert not {"test", "judged", "Not", "review"} & set(words)


def fail(*_, **__):
    raise AssertionError("The archive is read again.")


@pytest.mark.slow
def test_second_call_reads_the_cache(archive, tmp_path, monkeypatch):
    first = imdb.load_mmil(**CORE)
    monkeypatch.setattr(imdb, "read_archive", fail)
    for (x, y), (x_again, y_again) in zip(first, imdb.load_mmil(**CORE), strict=True):
        assert (x.to_list(), y.tolist()) == (x_again.to_list(), y_again.tolist())
    (folder,) = (tmp_path / "keras" / "datasets").iterdir()
    assert imdb.prepare(**CORE).folder == folder
    (folder / "reviews.npz").unlink()  # which is written last
    for limit in (None, 20):
        with pytest.raises(AssertionError, match="read again"):
            imdb.load_mmil(limit=limit, **CORE)
    assert list(archive.parent.iterdir()) == [archive], "nothing is written beside it"


@pytest.mark.slow
def test_order_in_the_archive_does_not_matter(archive, tmp_path):
    first = imdb.load_mmil(unlabelled=True, **CORE), imdb.prepare(**CORE)
    files = {f"./{name}": content for name, content in members().items()}
    write_archive(archive, files, order=lambda x: random.Random(0).sample(sorted(x), len(x)))
    again = imdb.load_mmil(unlabelled=True, **CORE), imdb.prepare(**CORE)
    assert first[1].folder != again[1].folder
    assert first[1].corpus.vocabulary == again[1].corpus.vocabulary
    for (x, y), (x_again, y_again) in zip(first[0], again[0], strict=True):
        assert (x.to_list(), y.tolist()) == (x_again.to_list(), y_again.tolist())


def test_word_vectors(archive, monkeypatch):
    pytest.importorskip("gensim")
    reviews = imdb.prepare(**CORE)
    vectors = imdb.load_word_vectors(size=4, **CORE)
    assert (vectors.shape, vectors.dtype) == ((len(reviews.corpus.vocabulary), 4), np.float32)
    occurrences = np.concatenate(
        [vectors[ids] for ids in reviews.corpus.flat_ids(~reviews.is_test)]
    )
    np.testing.assert_allclose(occurrences.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(occurrences.std(axis=0), 1, atol=1e-4)
    monkeypatch.setattr(word_vectors, "train", fail)
    np.testing.assert_array_equal(imdb.load_word_vectors(size=4, **CORE), vectors)


def assert_refused(archive, match):
    before = {path: path.read_bytes() for path in archive.parents[1].rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=match) as info:
        imdb.load_mmil(**CORE)
    assert str(archive) in str(info.value)
    after = {path: path.read_bytes() for path in archive.parents[1].rglob("*") if path.is_file()}
    assert after == before
    assert not (archive.parents[1] / "keras").exists()


DAMAGES = {
    "empty": lambda data: b"",
    "not gzip": lambda data: b"not a gzip file" * 100,
    "header only": lambda data: data[:12],
    "half": lambda data: data[: len(data) // 2],
    "without the last byte": lambda data: data[:-1],
    "without the checksum": lambda data: data[:-8],
    "another byte": lambda data: data[:700] + bytes([data[700] ^ 255]) + data[701:],
    "another checksum": lambda data: data[:-6] + bytes([data[-6] ^ 255]) + data[-5:],
}


@pytest.mark.parametrize("change", DAMAGES.values(), ids=DAMAGES)
def test_damaged_archives(archive, change):
    archive.write_bytes(change(archive.read_bytes()))
    assert_refused(archive, r"whole archive aclImdb_v1\.tar\.gz; delete it and get it again\.")


@pytest.mark.parametrize(
    "last",
    [
        {"name": "../evil.txt", "content": b"evil"},
        {"name": "aclImdb/../../evil.txt", "content": b"evil"},
        {"name": "/evil.txt", "content": b"evil"},
        {"name": "aclImdb/train/pos/../../../../29_7.txt", "content": b"evil"},
        {"name": "aclImdb/link", "kind": tarfile.SYMTYPE, "target": "/etc/passwd"},
        {"name": "aclImdb/train/pos/1_7.txt", "kind": tarfile.LNKTYPE, "target": "aclImdb/README"},
        {"name": "aclImdb/fifo", "kind": tarfile.FIFOTYPE},
        {"name": "aclImdb/train/pos/30_9.txt", "content": bytes(10_001)},
    ],
    ids=lambda last: last["name"],
)
def test_archives_that_hold_what_they_should_not(archive, monkeypatch, last):
    monkeypatch.setattr(imdb, "_LONGEST", 10_000)
    write_archive(archive, members(), **last)
    assert_refused(archive, f"Received: .* with .*'{last['name']}'")


@pytest.mark.parametrize("limit", [None, 20])
def test_missing_reviews(archive, limit):
    files = members()
    del files["aclImdb/test/neg/3_2.txt"]
    write_archive(archive, files)
    match = r"Expected \{.*\('test', 'neg'\): 10\} reviews\. Received: .*\('test', 'neg'\): 9\}"
    with pytest.raises(ValueError, match=match):
        imdb.load_mmil(limit=limit, **CORE)
    assert_refused(archive, match)


def test_bad_arguments(archive):
    for limit in (0, -1, 2.5, 19):
        with pytest.raises(ValueError, match=f"Received: limit={limit}"):
            imdb.load_mmil(limit=limit, **CORE)
    with pytest.raises(ValueError, match="Received: splitter='nltk'"):
        imdb.load_mmil(splitter="nltk", verbose=0)
    archive.unlink()
    with pytest.raises(FileNotFoundError, match=r"aclImdb_v1\.tar\.gz.*It is https://ai\.stanford"):
        imdb.load_mmil(**CORE)


@pytest.mark.parametrize("arguments", [{}, {"limit": 2}])
def test_damaged_files(archive, arguments):
    def read():
        return [list(row) for row in imdb.read_archive(archive, **arguments)]

    damage.check_files([archive], read, is_checked=True)


@pytest.fixture
def load():
    """Function that reads the reviews of the archive, as lists."""

    def load():
        reviews = imdb.prepare(**CORE)
        return [damage.plain(x) for x in (reviews.corpus.ids(), reviews.labels, reviews.is_test)]

    return load


@pytest.mark.slow
@pytest.mark.nightly  # the fuzz tests damage caches, too
def test_damaged_caches_are_made_anew(archive, load, tmp_path):
    damage.check_caches(tmp_path / "keras", load, n_files=6, n=1)


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["full", "no folder"])
def test_caches_that_cannot_be_written(archive, load, reason, tmp_path, monkeypatch):
    damage.check_unwritable_cache(tmp_path / "keras", load, reason, monkeypatch)


@pytest.fixture
def corpus():
    return Corpus.from_texts(["Not bad. Not bad at all!", "Bad"], 1, **CORE)


def test_reviews_with_the_labels_of_others(corpus, tmp_path):
    with pytest.raises(ValueError, match=r"of 2 reviews\. Received: labels.shape=\(3,\)"):
        imdb.Reviews(corpus, np.zeros(3, np.int8), np.zeros(2, bool), tmp_path)


def test_word_vectors_are_cached_with_checksums(corpus, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    made = []

    def train(*_, **__):
        made.append(rng.random((7, 4)).astype(np.float32))
        return made[-1]

    monkeypatch.setattr(word_vectors, "train", train)
    reviews = imdb.Reviews(corpus, np.zeros(2, np.int8), np.zeros(2, bool), tmp_path)
    first, again = reviews.word_vectors(4), reviews.word_vectors(4)
    np.testing.assert_array_equal(first, again)
    (path,) = tmp_path.glob("word2vec-4-0.npz")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="word2vec-4-0.npz is damaged"):
        assert not np.array_equal(reviews.word_vectors(4), first)
    assert len(made) == 2


@pytest.mark.slow
@pytest.mark.data
def test_the_real_archive(data_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    sets = imdb.load_mmil(limit=100, **CORE)
    vocabulary = imdb.prepare(100, **CORE).corpus.vocabulary
    for (x, y), n in zip(sets, (90, 10, 100), strict=True):
        assert (x.shape[0], len(y), y.sum()) == (n, n, n // 2)
        ids = x.flat_values.numpy()
        assert 0 <= ids.min() <= ids.max() < len(vocabulary)
        sizes = x.row_lengths().numpy()
        assert 1 <= sizes.min() < sizes.mean() < 40
    assert {"the", "movie", "don't"} < set(vocabulary)
