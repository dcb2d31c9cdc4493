"""Nested records in, predictions and rules out, in the style of scikit-learn."""

from keras_mmil.estimators.classifier import NestedClassifier
from keras_mmil.estimators.leaks import Leak, find_leaks
from keras_mmil.estimators.regressor import NestedRegressor

__all__ = ["Leak", "NestedClassifier", "NestedRegressor", "find_leaks"]
