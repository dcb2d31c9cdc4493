"""Reading trained networks of bag-layers as symbolic rules."""

from keras_mmil.interpretation.explainer import Explainer

__all__ = ["Explainer"]
