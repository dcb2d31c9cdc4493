"""A functional Keras model for nested bags."""

import keras
import tensorflow as tf

from keras_mmil.bags import Bags
from keras_mmil.layers.grouping import depth_of
from keras_mmil.ragged import check_finite

__all__ = ["Model"]


@keras.saving.register_keras_serializable("keras_mmil")
class Model(keras.Model):
    """A functional `keras.Model` that reads nested bags, plain or compressed.

    Built as `keras.Model(inputs, outputs)` is, from ragged `keras.Input`s: a single one, or the
    dict of `layers.bag_inputs`. In the latter case the same model takes a bare RaggedTensor of ids
    [batch, (n₁), …, (n_K)], a `Bags`, or the dict `Bags.inputs` with any of its optional entries.

    `fit`, `evaluate` and `predict` check their data first: nesting depth, labels as many as
    top-bags, and no NaN or infinity.

    Example:

    >>> bags = keras.Input((None, None, 4), ragged=True)
    >>> x = keras_mmil.layers.BagLayer(8)(bags)
    >>> x = keras_mmil.layers.BagLayer(8)(x)
    >>> model = keras_mmil.Model(bags, keras.layers.Dense(1, activation="sigmoid")(x))
    """

    def __call__(self, inputs, *args, **kwargs):
        """Call the model on a RaggedTensor, `Bags`, or the dict of its inputs."""
        return super().__call__(self._complete(inputs), *args, **kwargs)

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
        return super().predict(self._checked(x, None), *args, **kwargs)

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

    def _complete(self, inputs):
        """Bring inputs into the structure of the model's: missing optional entries are None."""
        if isinstance(inputs, Bags):
            inputs = inputs.inputs
        if not isinstance(self._inputs_struct, dict):
            return inputs
        if not isinstance(inputs, dict):
            inputs = {"bags": inputs}
        unknown = inputs.keys() - self._inputs_struct.keys()
        if unknown:
            raise ValueError(
                f"Expected inputs among {sorted(self._inputs_struct)}. Received: {sorted(unknown)}"
            )
        return {name: inputs.get(name) for name in self._inputs_struct}

    def _checked(self, x, y, argument="x"):
        """Raise a clear error where `x` or `y` does not fit; turn `Bags` into their inputs."""
        if isinstance(x, Bags):
            x = x.inputs
        if isinstance(x, (list, str)):
            raise ValueError(
                f"Expected {argument} to be a RaggedTensor, Bags, array or Dataset; "
                "`keras_mmil.ragged.from_nested_lists` makes the first of nested lists. "
                f"Received: {argument} of type {type(x).__name__}"
            )
        tensors = x if isinstance(x, dict) else {argument: x}
        expected = self._inputs_struct
        for name, tensor in tensors.items():
            if not hasattr(tensor, "shape"):
                return x  # a Dataset or generator, which only Keras can look into
            spec = expected.get(name, expected["bags"]) if isinstance(expected, dict) else expected
            self._check_tensor(name, tensor, spec)
            if y is not None and hasattr(y, "shape") and len(y) != tensor.shape[0]:
                raise ValueError(
                    f"Expected one label for each of {tensor.shape[0]} top-bags. "
                    f"Received: {len(y)} labels, y.shape={tuple(y.shape)}"
                )
        return x

    def _check_tensor(self, name, tensor, spec):
        if isinstance(spec, keras.KerasTensor) and len(tensor.shape) != len(spec.shape):
            raise ValueError(
                f"Expected shape {spec.shape} for {name}, bags nested {depth_of(spec.shape) - 1} "
                f"times. Received: {name}.shape={tuple(tensor.shape)}"
            )
        if tensor.shape[0] == 0:
            raise ValueError(
                f"Expected at least one top-bag. Received: {name}.shape={tuple(tensor.shape)}"
            )
        dtype = tf.as_dtype(tensor.dtype)
        if dtype == tf.string:
            if spec.dtype != "string":
                raise ValueError(f"Expected numbers for {name}. Received: {name}.dtype=string")
        else:
            check_finite(tensor, name)


def _spec_of(x):
    if not x.ragged:
        return tf.TensorSpec(x.shape, x.dtype, name=x.name)
    return tf.RaggedTensorSpec(x.shape, x.dtype, ragged_rank=depth_of(x.shape) - 1)
