"""What a network is said to be trained on: the records for validation choose its weights."""

from types import SimpleNamespace

import numpy as np

from keras_mmil.cli.trained_run import TrainedRun

EXPLAINER = SimpleNamespace(hashes=lambda x: np.asarray(x, np.uint64))


def test_of_own_data():
    schema = SimpleNamespace(read=lambda records, without: records)
    estimator = SimpleNamespace(explainer_=EXPLAINER, schema_=schema)
    data = SimpleNamespace(split=([1, 2], [3], [4, 5]), take=lambda part: part, target="y")
    assert TrainedRun(estimator, data).trained_on.tolist() == [1, 2, 3]
