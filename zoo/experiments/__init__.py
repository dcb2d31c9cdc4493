"""The paper's experiments: the data, how to train, and what to report."""

from keras_mmil.zoo.experiments.experiment import Data, Experiment, Part, RuleData
from keras_mmil.zoo.experiments.report import Report

__all__ = ["Data", "Experiment", "Part", "Report", "RuleData"]
