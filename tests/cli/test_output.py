"""What every run prints."""

import html

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_mmil import Explainer, Model
from keras_mmil.cli.output import print_figures, print_run
from keras_mmil.layers import BagLayer


def test_figures_are_printed_beside_the_share_of_the_most_frequent_class(capsys):
    metrics = {"test_accuracy": 0.9, "test_accuracy_majority": 0.75, "train_minutes": 1.25}
    print_figures(metrics, {"test_accuracy": 0.875}, dict.fromkeys(metrics, 0.01))
    assert capsys.readouterr().out.splitlines() == [
        "test_accuracy      90.00 % ± 1.00 %   (most frequent class: 75.00 %)   (paper: 87.50 %)",
        "train_minutes          1.2 ± 0.0",
    ]


@pytest.mark.filterwarnings("ignore:.*one class:UserWarning")
def test_constant_rules_are_called_so(tmp_path, capsys):
    """An untrained network says the same of every top-bag."""
    inputs = keras.Input((None, None, 2), ragged=True)
    x = BagLayer(2)(BagLayer(2)(inputs))
    output = keras.layers.Dense(1, "sigmoid", kernel_initializer="zeros", bias_initializer="ones")
    model = Model(inputs, output(x))
    points = np.random.default_rng(0).random((20, 2, 3, 2), np.float32)
    bags = tf.RaggedTensor.from_tensor(points, ragged_rank=2)
    explainer = Explainer(n_clusters=2, verbose=0).fit(model, bags, bags)
    print_run(explainer, explainer.evaluate(bags), {}, tmp_path)
    printed = capsys.readouterr().out
    assert f"Everything is in {tmp_path}; rules.txt" in printed
    (sentence,) = explainer.rules_.in_words()
    assert printed.startswith(f"\n{sentence}\n")
    assert sentence == "no finding: every top-bag is taken for 'positive', whatever it is"
    assert html.escape(sentence) in explainer.rules_._repr_html_()
    page = explainer.report(bags).html
    assert "<strong>No finding.</strong> The rules put every top-bag into one class" in page
    assert '<li class="rule"' not in page
    assert "The rules are CONSTANT: every top-bag is 'positive'." in printed
    assert "fidelity          100.00 %   (most frequent class: 100.00 %)" in printed
