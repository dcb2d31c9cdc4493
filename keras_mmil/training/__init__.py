"""Training aids."""

from keras_mmil.training.checkpoint import Checkpoint
from keras_mmil.training.resumable import fit_resumable
from keras_mmil.training.schedules import cosine_decay, piecewise_constant
from keras_mmil.training.virtual_adversarial import VirtualAdversarialModel

__all__ = [
    "Checkpoint",
    "VirtualAdversarialModel",
    "cosine_decay",
    "fit_resumable",
    "piecewise_constant",
]
