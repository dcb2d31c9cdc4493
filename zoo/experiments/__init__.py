"""The paper's experiments: the data, how to train, and what to report."""

from keras_mmil.zoo.experiments.experiment import Data, Experiment, RuleData, RunWriter, Split

__all__ = ["Data", "Experiment", "RuleData", "RunWriter", "Split"]
