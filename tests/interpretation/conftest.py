"""An explainer of a network whose rules are known, which many tests look at."""

import pytest
from digit_networks import explainer, plain_model, random_ids, vectors


@pytest.fixture(scope="session")
def digit_model():
    return plain_model()


@pytest.fixture(scope="session")
def digit_ids():
    return random_ids(120)


@pytest.fixture(scope="session")
def digit_explainer(digit_model, digit_ids):
    return explainer().fit(digit_model, vectors(digit_ids), vectors(random_ids(60, seed=1)))
