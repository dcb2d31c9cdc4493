"""Finding, downloading and caching files of data sets; the downloads are from local servers."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import damage
import numpy as np
import pytest
import scipy.sparse as sparse

from keras_mmil.datasets._io import files

CONTENT = b"bags of bags" * 1000
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
MD5 = f"md5:{hashlib.md5(CONTENT).hexdigest()}"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Keras's cache in an empty folder, and no local data."""
    monkeypatch.delenv("KERAS_MMIL_DATA", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    return tmp_path / "keras" / "datasets"


@pytest.fixture
def serve():
    """Function that serves CONTENT over HTTP, declared to be of `length`, and returns the URL."""
    servers = []

    def start(length):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200 if self.path == "/file" else 404)
                self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(CONTENT)

            def log_message(self, *_):
                pass

        servers.append(HTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}/file"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_the_local_folder_comes_first(cache, tmp_path, monkeypatch):
    (tmp_path / "a.bin").write_bytes(CONTENT)
    monkeypatch.setenv("KERAS_MMIL_DATA", str(tmp_path))
    assert files.find("a.bin") == tmp_path / "a.bin"


def test_nothing_is_downloaded_when_there_is_a_local_folder(cache, tmp_path, monkeypatch, serve):
    monkeypatch.setenv("KERAS_MMIL_DATA", str(tmp_path))
    with pytest.raises(
        FileNotFoundError, match=r"a\.bin.*It is there\. Received: KERAS_MMIL_DATA="
    ):
        files.find("a.bin", serve(len(CONTENT)), instructions="It is there.")
    assert not cache.exists()


def test_download_once(cache, serve):
    url = serve(len(CONTENT))
    path = files.find("folder/a.bin", url, SHA256)
    assert path == cache / "folder" / "a.bin"
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    path.write_bytes(b"there")
    assert files.find("folder/a.bin", url, SHA256).read_bytes() == b"there"


def test_default_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("KERAS_MMIL_DATA", raising=False)
    monkeypatch.delenv("KERAS_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"\.keras.datasets.a\.bin, which cannot be"):
        files.find("a.bin")


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"checksum": f"sha256:{'0' * 64}"}, ValueError, f"sha256:0+ of http.*Received: {SHA256}"),
        ({"checksum": f"md5:{'0' * 32}"}, ValueError, f"md5:0+ of http.*Received: {MD5}"),
        ({"missing": 5}, FileNotFoundError, r"a\.bin.*ended 5 bytes early.*Put the file there"),
        ({"path": "/elsewhere"}, FileNotFoundError, r"a\.bin.*404.*By mail\."),
    ],
)
def test_bad_downloads_leave_nothing(cache, serve, change, error, match):
    url = serve(len(CONTENT) + change.get("missing", 0)) + change.get("path", "")
    with pytest.raises(error, match=match):
        files.find("a.bin", url, change.get("checksum", SHA256), "By mail.")
    assert list(cache.iterdir()) == []


def test_offline(cache):
    with pytest.raises(
        FileNotFoundError, match=r"datasets.a\.bin.*could not download it from http"
    ):
        files.find("a.bin", "http://127.0.0.1:9/a.bin")


def test_cached_files_are_plain_npz(tmp_path):
    arrays = {"a": np.arange(5), "b": np.array(["x", "é"])}
    files.write_arrays(tmp_path / "a.npz", arrays)
    with np.load(tmp_path / "a.npz") as found:
        assert {name: found[name].tolist() for name in found} == damage.plain(arrays)
    content = (tmp_path / "a.npz").read_bytes()
    assert content[-64:].decode() == hashlib.sha256(content[:-64]).hexdigest()


@pytest.mark.parametrize(
    "pointers",
    [
        [0, 2, 1, 2],
        [0, 2, 2, 0],  # of which SciPy checks nothing, as there are no members
        [0, 2**62, 2**62, -(2**62 + 2**61)],  # differences overflow
    ],
)
def test_matrices_whose_pointers_decrease(pointers):
    matrix = sparse.csr_array((np.ones(2, bool), [0, 1], [0, 1, 2, 2]), shape=(3, 3))
    files.check_csr(matrix)
    matrix.indptr = np.array(pointers)
    with pytest.raises(ValueError, match=r"pointer|indptr"):
        files.check_csr(matrix)
