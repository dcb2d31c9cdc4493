"""Batch work on Parquet files in blocks: predictions, explanations and rules, here or on Ray."""

from keras_mmil.distributed.jobs import Outcome, explain, predict
from keras_mmil.distributed.predictor import Predictor
from keras_mmil.distributed.rules import fit_rules

__all__ = ["Outcome", "Predictor", "explain", "fit_rules", "predict"]
