"""Training aids."""

from keras_mmil.training.checkpoint import Checkpoint
from keras_mmil.training.resumable import cosine_decay, fit_resumable

__all__ = ["Checkpoint", "cosine_decay", "fit_resumable"]
