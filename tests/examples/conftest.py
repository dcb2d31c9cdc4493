"""The demo of the HTTP service, made once."""

import keras
import pytest
import tensorflow as tf
from service_client import Client

import keras_mmil
from service.demo import make_demo
from service.served import Served


@pytest.fixture(scope="session")
def demo_folder(tmp_path_factory):
    """The folder of its classifier."""
    tf.config.run_functions_eagerly(False)
    keras.utils.set_random_seed(0)
    folder = tmp_path_factory.mktemp("demo")
    make_demo(folder)
    return folder


@pytest.fixture(scope="session")
def estimator(demo_folder):
    return keras_mmil.NestedClassifier.load(demo_folder)


@pytest.fixture(scope="session")
def served(demo_folder):
    return Served.load(demo_folder)


@pytest.fixture(scope="module")
def client(served):
    with Client(served) as client:
        yield client
