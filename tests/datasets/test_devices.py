"""Articles as messy JSON: a small file, and the real one."""

import pytest

from keras_mmil.datasets import devices

NAME = "records/device_examples.json"


def test_load(data_folder):
    articles = [{"paper_id": "a", "abstract": None}, {"paper_id": "b", "refs": {"B1": {}}}]
    data_folder.write_json(NAME, articles)
    assert devices.load() == articles


def test_other_documents(data_folder):
    data_folder.write_json(NAME, [{"paper_id": "a"}, {"title": "b"}])
    with pytest.raises(ValueError, match=r"paper_id.*device_examples\.json with.* document 1"):
        devices.load()


@pytest.mark.data
def test_real(data_dir):
    articles = devices.load()
    assert len(articles) == 16
    assert all("bib_entries" in article for article in articles)
