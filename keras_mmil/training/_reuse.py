"""Models that are built again and again, and compiled by TensorFlow only once."""

import re
import warnings

from keras_mmil.functional.graph import all_layers, seed_generators

__all__ = ["forget", "new_model"]

# The model of each process, by what it is for.
_model_of = {}


def forget():
    """Let the model go that is kept."""
    _model_of.clear()


def new_model(build, of):
    """A model as `build` makes it, but compiled by TensorFlow only once.

    That takes longer than some epochs, and the memory it takes is never given back: from the second
    time on, the first model gets the initial values of a new one.
    """
    model = build()
    used = _model_of.get(of)
    if used is None or not _are_alike(model, used):
        _model_of.clear()
        _model_of[of] = model
        return model
    model.optimizer.build(model.trainable_variables)
    for olds, news in (
        (used.weights, model.weights),
        (used.optimizer.variables, model.optimizer.variables),
        (_states(used), _states(model)),
    ):
        for old, new in zip(olds, news, strict=True):
            old.assign(new)
    return used


def _are_alike(model, used):
    """Whether what was compiled of one model is right for another, too, whatever their weights."""
    if any(hasattr(layer, "adapt") for layer in all_layers(model)):
        return False  # what such layers learned may be constants, which no configuration tells
    architecture = _architecture(model)
    return architecture is not None and architecture == _architecture(used)


def _architecture(model):
    """A model's configuration, without the numbers in automatic names; None if it has none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of lambdas, which nobody is going to load again
            return re.sub(r'(?<=[a-z])_\d+"', '"', model.to_json())
    except (NotImplementedError, TypeError, ValueError):
        return None


def _states(model):
    return [generator.state for generator in seed_generators(model)]
