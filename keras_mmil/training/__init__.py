"""Training aids."""

from keras_mmil.training.cross_validation import CrossValidation, cross_validate
from keras_mmil.training.resumable import Checkpoint, fit_resumable
from keras_mmil.training.schedules import cosine_decay, step_decay
from keras_mmil.training.virtual_adversarial import VirtualAdversarialModel

__all__ = [
    "Checkpoint",
    "CrossValidation",
    "VirtualAdversarialModel",
    "cosine_decay",
    "cross_validate",
    "fit_resumable",
    "step_decay",
]
