"""Networks whose members are symbols: made from trained ones."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_mmil import ragged
from keras_mmil._support.checks import check_int, check_number, positive_int
from keras_mmil._support.types import Array, Config
from keras_mmil.layers import BagLayer, Symbols
from keras_mmil.model import Model
from keras_mmil.model.seeds import seeded
from keras_mmil.rules.fitting.cluster import Sampling, cluster, count_distinct, sizes_of
from keras_mmil.rules.network.capture import Network
from keras_mmil.rules.network.sources import InMemory, TopBags, top_bags
from keras_mmil.training.stopping import MIN_DELTA, EarlyStopping

__all__ = ["symbolize"]

_ROWS, _N_INIT = 100_000, 3  # of a bag-layer, and random starts, for k-means
# Losses that take probabilities, or numbers between labels, by the names and the classes of those
# that a model may have.
_SOFT_LOSSES: Mapping[str, str] = {
    "binary_crossentropy": "binary_crossentropy",
    "BinaryCrossentropy": "binary_crossentropy",
    "categorical_crossentropy": "categorical_crossentropy",
    "CategoricalCrossentropy": "categorical_crossentropy",
    "sparse_categorical_crossentropy": "categorical_crossentropy",
    "SparseCategoricalCrossentropy": "categorical_crossentropy",
    "mean_squared_error": "mean_squared_error",
    "mse": "mean_squared_error",
    "MeanSquaredError": "mean_squared_error",
}


def symbolize(
    model: keras.Model,
    x: TopBags,
    y: Any,
    k: int | Mapping[str, int] = 16,
    *,
    sample_weight: npt.ArrayLike | None = None,
    validation_data: tuple[Any, ...] | None = None,
    validation_split: float = 0.1,
    epochs: int = 60,
    batch_size: int | None = None,
    patience: int = 10,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    random_state: int = 0,
    verbose: int | str = "auto",
) -> Model:
    """A network like a trained one, in which members of bags are a few symbols.

    The representations in each bag-layer are clustered by k-means, and the bag-layer of the new
    network replaces them by the centroids: see `layers.Symbols`. So it says something else at
    first, and is trained on, until the validation loss no longer falls. If the loss is a
    cross-entropy of probabilities or the squared error, it learns the mean of the labels and the
    trained network's outputs; else the labels. An `Explainer` of the new network has nothing to
    cluster: its clusters are the symbols.

    Args:
        model: a trained, compiled functional model with bag-layers. It is left as it is.
        x: top-bags to train on: RaggedTensor, `Bags`, array or dict of inputs.
        y: their labels, an array as in `model.fit`.
        k: the number of symbols, or a dict from names of bag-layers to these; others then have
            none. No bag-layer has more symbols than different rows.
        sample_weight: as in `model.fit`.
        validation_data: as in `model.fit`; None to set `validation_split` of `x` aside.
        validation_split: the share of the top-bags, the last ones.
        epochs: maximum number of epochs.
        batch_size: as in `model.fit`.
        patience: number of epochs without a noticeably lower validation loss, after which training
            ends. The weights of the best epoch are kept.
        callbacks: as in `model.fit`.
        random_state: seed of k-means and of the training.
        verbose: as in `model.fit`.

    Returns:
        The new model, with the old one's optimizer (started anew), loss and metrics. Its history is
        `model.history`.

    Raises:
        TypeError, ValueError: as `Explainer.fit`; if the model is not compiled, has symbols
            already, or no such bag-layer; for grouped units, as in an estimator's network; or if
            there are no top-bags to train on, or to validate on.

    Example:

    >>> model.fit(x, y, validation_data=(x_valid, y_valid), epochs=100)
    >>> readable = symbolize(model, x, y, k=24, validation_data=(x_valid, y_valid))
    >>> explainer = Explainer().fit(readable, x, x_valid)
    """
    positive_int("epochs", epochs)
    check_int("random_state", random_state, 0, 2**32 - 1)
    stop = EarlyStopping(positive_int("patience", patience), MIN_DELTA)
    if not model.compiled:
        raise ValueError(f"Expected a compiled model. Received: model={model.name!r}")
    network = Network(model)
    numbers = _numbers(network.layers, k)
    weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
    data = x, np.asarray(y), weights
    if validation_data is None:
        share = check_number("validation_split", validation_split, 0, 1)
        n = ragged.n_top_bags(x)
        n_train = round(n * (1 - share))
        if not 0 < n_train < n:
            raise ValueError(
                "Expected top-bags to train on, and others to validate on. "
                f"Received: {n} top-bags, validation_split={validation_split!r}"
            )
        validation = ragged.take(data, slice(n_train, None))
        data = ragged.take(data, slice(n_train))
    else:
        validation = (*validation_data, None)[:3]
    with seeded(random_state):
        twin = _with_symbols(network.model, _codebooks(network, numbers, data[0], random_state))
        config = model.get_compile_config()
        if loss := _soft_loss(config["loss"]):
            outputs = model.predict(data[0], batch_size=batch_size, verbose=0)
            data = data[0], (_like(outputs, data[1]) + outputs) / 2, data[2]
            validation = validation[0], _like(outputs, validation[1]), validation[2]
            others = {"metrics": None, "weighted_metrics": None}  # these are for labels
            twin.compile_from_config(config | others | {"loss": loss})
        else:
            twin.compile_from_config(config)
        twin.fit(
            data[0],
            data[1],
            sample_weight=data[2],
            validation_data=validation,
            epochs=epochs,
            batch_size=batch_size,
            callbacks=[*callbacks, stop],
            verbose=verbose,
        )
        twin.compile_from_config(config)
    return twin


def _soft_loss(loss: Any) -> str | None:
    """The loss for probabilities, or numbers between labels, by a model's own; None if unknown."""
    if isinstance(loss, Mapping) and "class_name" in loss:  # as Keras saves it
        options = loss["config"]
        is_plain = not options.get("from_logits") and not options.get("label_smoothing")
        return _SOFT_LOSSES.get(loss["class_name"]) if is_plain else None
    return _SOFT_LOSSES.get(loss) if isinstance(loss, str) else None


def _like(outputs: Array, y: npt.ArrayLike) -> Array:
    """Labels [n] or [n, 1] as the outputs [n, m] that would be right: of classes, one-hot."""
    y = np.asarray(y)
    if y.size == len(y) and outputs.shape[1] > 1:
        return np.eye(outputs.shape[1], dtype=outputs.dtype)[y.reshape(-1).astype(int)]
    return y.reshape(len(y), -1).astype(outputs.dtype)


def _numbers(layers: Sequence[BagLayer], k: int | Mapping[str, int]) -> dict[str, int]:
    """The number of symbols of each bag-layer that is to have some, by its name."""
    names = [layer.name for layer in layers]
    found = dict(k) if isinstance(k, Mapping) else dict.fromkeys(names, k)
    if unknown := [name for name in found if name not in names]:
        raise ValueError(f"Expected names of bag-layers among {names}. Received: {unknown[0]!r}")
    if taken := [layer.name for layer in layers if layer.symbols is not None]:
        raise ValueError(f"Expected a model without symbols. Received: some in {taken}")
    return {name: positive_int("k", number) for name, number in found.items()}


def _codebooks(
    network: Network, numbers: Mapping[str, int], x: TopBags, seed: int
) -> dict[str, tuple[Array, Array]]:
    """Centroids of the rows of each bag-layer, and the shares of the rows that they stand for."""
    step = Sampling(_ROWS, seed, [None] * len(network.layers))
    source = top_bags(x, network, None)
    if not isinstance(source, InMemory):
        raise TypeError(f"Expected top-bags in memory. Received: x of type {type(x).__name__}")
    (sampled,) = source.run(step, network, lambda: None)
    samples = sampled.rows()
    ks = [
        (count_distinct(sample.rows, numbers[layer.name]) or 1,) if layer.name in numbers else ()
        for layer, sample in zip(network.layers, samples, strict=True)
    ]
    found = cluster(samples, ks, seed=seed, n_init=_N_INIT, n_jobs=None, on_done=lambda: None)
    codebooks = {}
    for layer, sample, of_layer in zip(network.layers, samples, found, strict=True):
        for centroids in of_layer.values():  # one, or none
            sizes = sizes_of(sample, centroids)
            codebooks[layer.name] = centroids, sizes / max(sizes.sum(), 1)
    return codebooks


def _with_symbols(model: keras.Model, codebooks: Mapping[str, tuple[Array, Array]]) -> Model:
    """A copy of a model with symbols in some bag-layers."""

    def clone(layer: keras.Layer) -> keras.Layer:
        config: Config = layer.get_config()
        if layer.name in codebooks:
            centroids, _ = codebooks[layer.name]
            symbols = Symbols(len(centroids), warm_up=0, dtype=layer.dtype_policy)
            config["symbols"] = keras.saving.serialize_keras_object(symbols)
        return type(layer).from_config(config)

    # Keras would compile the copy of a compiled model, and `compile` without metrics keeps the old.
    plain = Model(model.input, model.output, name=model.name)
    twin: Model = keras.models.clone_model(plain, clone_function=clone)
    for old, new in zip(model.layers, twin.layers, strict=True):
        own = {id(x) for x in new.symbols.weights} if old.name in codebooks else set()
        rest = [x for x in new.weights if id(x) not in own]
        for variable, value in zip(rest, old.weights, strict=True):
            variable.assign(value)
        if old.name in codebooks:
            new.symbols.set_codebook(*codebooks[old.name])
    return twin
