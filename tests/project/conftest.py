"""How the documentation is run in every run of the tests."""

import pytest


@pytest.fixture
def one_epoch(monkeypatch):
    """Let a page or a notebook train for one epoch, if it is not for two, and without graphs."""
    import tensorflow as tf  # tests of the packaging do without

    import keras_mmil

    fit = keras_mmil.Model.fit

    def short(self, *data, epochs=1, **arguments):
        is_eager = tf.config.functions_run_eagerly()
        tf.config.run_functions_eagerly(True)
        try:
            return fit(self, *data, epochs=epochs if epochs <= 2 else 1, **arguments)
        finally:
            tf.config.run_functions_eagerly(is_eager)

    monkeypatch.setattr(keras_mmil.Model, "fit", short)
