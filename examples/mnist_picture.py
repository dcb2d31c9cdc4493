"""A positive and a negative top-bag of handwritten digits, as in the paper's figure.

A sub-bag is positive (solid, green) if it holds a 7 and no 3; a top-bag if it holds a positive
sub-bag.

    python examples/mnist_picture.py [FILE.png] [--quick]

The digits are those included in scikit-learn. For MNIST's, use `source="mnist"`, which is
downloaded once, or read from the folder named by KERAS_MMIL_DATA.
"""

import sys

import numpy as np
from matplotlib import pyplot as plt

from keras_mmil import datasets
from keras_mmil.rules import plot_top_bag

path = next((a for a in sys.argv[1:] if a.endswith(".png")), "top_bags.png")

_, _, (x, y, digits) = datasets.mnist.load_mmil(
    n_train=2, n_valid=2, n_test=20, source="digits", instance_labels=True
)
sub_bag_labels = datasets.mnist.sub_bag_labels(digits)
figure, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
for ax, label in zip(axes, (1, 0), strict=True):
    i = int(np.flatnonzero(y == label)[0])
    plot_top_bag(x[i], sub_bag_labels[i], ax=ax)
    ax.set_title(("negative", "positive")[label])
figure.savefig(path, dpi=100)
print(f"wrote {path}")
