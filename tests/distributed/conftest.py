"""A saved network, its data in files, and its rules, which all tests of batch work share."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from bag_forms import BATCH, compressed_model, packed

from keras_mmil import io

N, N_VALID = 100, 60


def with_ids(folder, prefix):
    """The same files with a column `id`, which no two rows share."""
    start = 0
    for path in sorted(folder.glob("*.parquet")):
        table = pa.parquet.read_table(path)
        ids = [f"{prefix}{i}" for i in range(start, start + len(table))]
        start += len(table)
        # As other programs write them: without checksums, in row groups of odd sizes.
        table = table.append_column("id", pa.array(ids))
        pa.parquet.write_table(table, folder.parent / "in" / path.name, row_group_size=13)


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """A network on `Bags`: files of 48, 48 and 4 top-bags, others for validation, and arguments."""
    folder = tmp_path_factory.mktemp("saved")
    model, x, x_valid = compressed_model(), packed(0, N), packed(1, N_VALID)
    model.save(folder / "model.keras")
    io.write(folder / "data", x, top_bags_per_file=48, verbose=0)
    io.write(folder / "valid", x_valid, verbose=0)
    io.write(folder / "one_file", x, verbose=0)
    (folder / "in").mkdir()
    with_ids(folder / "data", "row ")
    threshold = float(np.median(model.predict(x, verbose=0)))
    arguments = {
        "max_clusters": 3,
        "batch_size": BATCH,
        "target": (0, threshold),
        "ccp_alpha": 0,
        "verbose": 0,
    }
    return SimpleNamespace(
        folder=folder,
        model_path=folder / "model.keras",
        model=model,
        x=x,
        x_valid=x_valid,
        arguments=arguments,
    )


@pytest.fixture(scope="session")
def rules(saved):
    """The folder of its rules, and the explainer."""
    from keras_mmil.rules import Explainer

    explainer = Explainer(**saved.arguments).fit(saved.model, saved.x, saved.x_valid)
    explainer.save(saved.folder / "rules")
    return saved.folder / "rules", explainer
