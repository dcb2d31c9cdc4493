"""The lines about Spark in the documentation, executed where Spark and Java are."""

import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from bag_forms import plain_model, vectors

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


@pytest.fixture
def spark(tmp_path, monkeypatch):
    """A session of Spark, whose workers find this package."""
    sql = pytest.importorskip("pyspark.sql", reason="needs Spark: pip install pyspark")
    if shutil.which("java") is None:
        pytest.skip("needs Java, which Spark runs on")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PAGE.parents[1]), *sys.path]))
    monkeypatch.chdir(tmp_path)  # also Java's
    builder = sql.SparkSession.builder.master("local[2]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:PySpark does not yet:FutureWarning")
def test_predictions_by_spark(spark):
    model, x = plain_model(), vectors(n=40)
    model.save("model.keras")
    Path("in").mkdir()
    table = pa.table({"id": pa.array(range(40), pa.int64()), "x": x.to_list(), "other": [0] * 40})
    for i in range(3):
        pa.parquet.write_table(table.slice(15 * i, 15), f"in/{i}.parquet")
    (code,) = re.findall(
        r"^```python no-run\n((?:(?!```).)*mapInArrow.*?)^```$",
        PAGE.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    exec(compile(code, str(PAGE), "exec"), {"spark": spark, "__name__": "scale"})
    found = pa.parquet.read_table("out").sort_by("id")
    assert found["id"].to_pylist() == list(range(40))
    expected = model.predict(x, verbose=0)[:, 0]
    np.testing.assert_allclose(found["prediction"].to_numpy(), expected, rtol=1e-5, atol=1e-6)
