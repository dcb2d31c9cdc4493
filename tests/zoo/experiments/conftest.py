"""What the tests of experiments share."""

from unittest.mock import create_autospec

import pytest

from keras_mmil.zoo.experiments import RunWriter


@pytest.fixture
def reported():
    """Function from `Data` to a `RunWriter` that notes how the experiment calls it."""

    def call(data):
        report = create_autospec(RunWriter, instance=True)
        data.report(report)
        return report

    return call
