"""Checksums, against the ones that are published for SHA-256."""

from keras_mmil._support.digests import checksum_of_file, checksum_of_json


def test_checksums_of_files(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert checksum_of_file(tmp_path / "abc") == expected


def test_checksums_of_json_do_not_depend_on_the_order_of_keys():
    # Of the text {"a": 1, "b": [2]}, by sha256sum.
    expected = "ae8a9a50524642753023cd4de34447191a8651989979c60bbcc5b0eeebb6e1dc"
    assert checksum_of_json({"a": 1, "b": [2]}) == expected
    assert checksum_of_json({"b": [2], "a": 1}) == expected
    assert checksum_of_json({"a": 1, "b": [3]}) != expected
