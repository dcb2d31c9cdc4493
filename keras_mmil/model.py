"""A functional Keras model for nested bags."""

import keras
import tensorflow as tf

from keras_mmil.bags import Bags
from keras_mmil.inputs import check_inputs, complete_inputs
from keras_mmil.layers.graph import mark_cloned_inputs
from keras_mmil.layers.grouping import depth_of
from keras_mmil.layers.normalisation import check_normalisation
from keras_mmil.ragged import n_top_bags

__all__ = ["Model"]


@keras.saving.register_keras_serializable("keras_mmil")
class Model(keras.Model):
    """A functional `keras.Model` that reads nested bags, plain or compressed.

    Built as `keras.Model(inputs, outputs)` is, from ragged `keras.Input`s: a single one, or the
    dict of `layers.bag_inputs`. In the latter case the same model takes a bare RaggedTensor of ids
    [batch, (n₁), …, (n_K)], a `Bags`, or the dict `Bags.inputs` with any of its optional entries.

    Raises ValueError for a `BatchNormalization` between `Distinct` and a bag-layer. `fit`,
    `evaluate`, `predict` and the like check their data first: nesting depth, labels as many
    as top-bags, and no NaN or infinity.

    Example:

    >>> bags = keras.Input((None, None, 4), ragged=True)
    >>> x = keras_mmil.layers.BagLayer(8)(bags)
    >>> x = keras_mmil.layers.BagLayer(8)(x)
    >>> model = keras_mmil.Model(bags, keras.layers.Dense(1, activation="sigmoid")(x))
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        check_normalisation(self)

    def __call__(self, inputs, *args, **kwargs):
        """Call the model on a RaggedTensor, `Bags`, or the dict of its inputs."""
        return super().__call__(complete_inputs(inputs, self._inputs_struct), *args, **kwargs)

    def _run_through_graph(self, inputs, operation_fn=lambda operation: operation, call_fn=None):
        if operation_fn.__module__ == keras.models.clone_model.__module__:
            mark_cloned_inputs(inputs, self.inputs)
        return super()._run_through_graph(inputs, operation_fn=operation_fn, call_fn=call_fn)

    def fit(self, x=None, y=None, *args, validation_data=None, **kwargs):
        """`keras.Model.fit`, which also takes `Bags`, and checks the data first."""
        if validation_data is not None and not isinstance(validation_data, tf.data.Dataset):
            validation_x, *rest = keras.utils.unpack_x_y_sample_weight(validation_data)
            validation_x = self._checked(validation_x, rest[0], "validation_data")
            validation_data = (validation_x, *(r for r in rest if r is not None))
        x = self._checked(x, y)
        return super().fit(x, y, *args, validation_data=validation_data, **kwargs)

    def evaluate(self, x=None, y=None, *args, **kwargs):
        """`keras.Model.evaluate`, which also takes `Bags`, and checks the data first."""
        return super().evaluate(self._checked(x, y), y, *args, **kwargs)

    def predict(self, x, *args, **kwargs):
        """`keras.Model.predict`, which also takes `Bags`, and checks the data first."""
        return super().predict(self._checked(x), *args, **kwargs)

    def train_on_batch(self, x, y=None, *args, **kwargs):
        """`keras.Model.train_on_batch`, which also takes `Bags`, and checks the data first."""
        return super().train_on_batch(self._checked(x, y), y, *args, **kwargs)

    def test_on_batch(self, x, y=None, *args, **kwargs):
        """`keras.Model.test_on_batch`, which also takes `Bags`, and checks the data first."""
        return super().test_on_batch(self._checked(x, y), y, *args, **kwargs)

    def predict_on_batch(self, x):
        """`keras.Model.predict_on_batch`, which also takes `Bags`, and checks the data first."""
        return super().predict_on_batch(self._checked(x))

    def export(self, filepath, format="tf_saved_model", verbose=None, **kwargs):
        """Write a SavedModel which TensorFlow loads and serves without this package.

        The loaded object's `serve` takes a RaggedTensor; where the model has optional inputs,
        `serve_compressed` takes the dict of all of them.

        Args:
            filepath: folder to write to.
            format: "tf_saved_model"; Keras's other formats know no ragged tensors.
            verbose: whether to print what was written.

        Raises:
            ValueError: for another format, if the model has ragged inputs.
        """
        if not any(x.ragged for x in self.inputs):
            super().export(filepath, format=format, verbose=verbose, **kwargs)
            return
        if format != "tf_saved_model" or kwargs:
            raise ValueError(
                "Expected format='tf_saved_model' and no further arguments, for a model with "
                f"ragged inputs. Received: format={format!r}, {kwargs}"
            )
        archive = keras.export.ExportArchive()
        archive.track(self)
        for name, serve in self._endpoints().items():
            serve.get_concrete_function()  # Keras takes its signature from the trace
            archive.add_endpoint(name, serve)
        archive.write_out(filepath, verbose=True if verbose is None else verbose)

    @property
    def _default_save_signature(self):
        """The function TensorFlow saves with the model; Keras's has a dense signature."""
        return self._endpoints()["serve"]

    def _endpoints(self):
        """Functions to serve, by name."""
        if not isinstance(self._inputs_struct, dict):
            return {"serve": self._serving(keras.tree.map_structure(_spec_of, self._inputs_struct))}
        specs = {name: _spec_of(x) for name, x in self._inputs_struct.items()}
        endpoints = {"serve": self._serving(specs["bags"])}
        if len(specs) > 1:
            endpoints["serve_compressed"] = self._serving(specs)
        return endpoints

    def _serving(self, specs):
        return tf.function(lambda inputs: self(inputs), input_signature=[specs])

    def _checked(self, x, y=None, argument="x"):
        """Raise a clear error where `x` or `y` does not fit; turn `Bags` into their inputs."""
        is_data = isinstance(x, (Bags, dict, list, tuple, str, bytes)) or hasattr(x, "shape")
        if not is_data:
            return x  # a Dataset or generator, which only Keras can look into
        x = check_inputs(x, self._inputs_struct, argument)
        if hasattr(y, "shape") and len(y) != (n := n_top_bags(x)):
            raise ValueError(
                f"Expected one label for each of {n} top-bags. "
                f"Received: {len(y)} labels, y.shape={tuple(y.shape)}"
            )
        return x


def _spec_of(x):
    if not x.ragged:
        return tf.TensorSpec(x.shape, x.dtype, name=x.name)
    return tf.RaggedTensorSpec(x.shape, x.dtype, ragged_rank=depth_of(x.shape) - 1)
