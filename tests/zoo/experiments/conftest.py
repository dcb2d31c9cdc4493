"""What the tests of experiments share."""

from unittest.mock import create_autospec

import pytest

from keras_mmil.zoo.experiments import Report


@pytest.fixture
def reported():
    """Function from `Data` to a `Report` that notes how the experiment calls it."""

    def call(data):
        report = create_autospec(Report, instance=True)
        data.report(report)
        return report

    return call
