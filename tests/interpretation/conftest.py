"""An explainer of a network whose rules are known, which many tests look at."""

import keras
import pytest
from digit_networks import explainer, plain_model, random_ids, vectors
from record_networks import churn_model, fit_and_name, random_customers


@pytest.fixture(scope="session")
def digit_model():
    return plain_model()


@pytest.fixture(scope="session")
def digit_ids():
    return random_ids(120)


@pytest.fixture(scope="session")
def digit_explainer(digit_model, digit_ids):
    return explainer().fit(digit_model, vectors(digit_ids), vectors(random_ids(60, seed=1)))


@pytest.fixture(scope="session")
def customers():
    return random_customers(200)


@pytest.fixture(scope="session")
def churn_explainer(customers):
    """Of records with fields and two branches of bags; clusters are called by their meanings."""
    keras.utils.set_random_seed(0)  # this may come before the seeds of the first test
    return fit_and_name(churn_model(), customers)
