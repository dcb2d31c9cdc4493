"""Scientific articles as messy JSON: nulls, empty texts, and objects whose keys are ids.

Source: the example of a schema in JsonGrinder.jl (`device_examples.json`), made of CORD-19.
"""

from keras_mmil.datasets._io import files

__all__ = ["load"]


def load() -> list[files.Document]:
    """The 16 articles, as they are in the file.

    Returns:
        List of dicts, which all have `paper_id`.

    Raises:
        FileNotFoundError: if the file `records/device_examples.json` is not there.
        ValueError: if it is damaged, or a document lacks `paper_id`.
    """
    path = files.find(
        "records/device_examples.json",
        instructions="It is of https://github.com/CTUAvastLab/JsonGrinder.jl.",
    )
    return files.read_array(path, lambda each: "paper_id" in each, "articles with paper_id")
