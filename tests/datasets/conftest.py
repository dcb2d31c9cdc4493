"""What the tests of loaders share."""

import json
import zipfile

import pytest


class Folder:
    """A folder of data sets, to write small files in their forms to.

    Attributes:
        path: of the folder.
    """

    def __init__(self, path):
        self.path = path

    def write(self, name, text):
        file = self.path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def write_json(self, name, documents):
        return self.write(name, json.dumps(documents))

    def write_lines(self, name, documents):
        return self.write(name, "".join(json.dumps(each) + "\n" for each in documents))

    def write_graphs(self, name, files):
        """An archive in the form of the TU collection; `files` are lines by part."""
        path = self.path / "tu" / f"{name}.zip"
        path.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for part, lines in files.items():
                archive.writestr(f"{name}/{name}_{part}.txt", "".join(f"{x}\n" for x in lines))
        return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder that the loaders read; their cache is in its folder `keras`."""
    monkeypatch.setenv("KERAS_MMIL_DATA", str(tmp_path))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    return tmp_path


@pytest.fixture
def data_folder(folder):
    """The same as a `Folder`."""
    return Folder(folder)
