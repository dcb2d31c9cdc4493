"""What aggregating representations can do that aggregating outputs cannot.

A bag is positive if it holds a 0 and no 2. The network of Ramon and De Raedt (2000) computes a
number for each instance and takes their smooth maximum, which every further instance can only
increase: if {0} is positive, so is {0, 2}. A bag-layer aggregates vectors, in which one component
may count for the class and another against it; the next layer weighs the two.

    python examples/mil_zero_and_no_two.py [--quick]
"""

import sys

import keras

import keras_mmil
from keras_mmil import datasets, zoo

QUICK = "--quick" in sys.argv

(x_train, y_train), (x_valid, _), (x_test, y_test) = datasets.synthetic.load_zero_and_no_two(
    n_train=60 if QUICK else 1000
)
for build in (zoo.output_level_mil, zoo.representation_level_mil):
    keras.utils.set_random_seed(0)
    model = build(features=2)
    model.fit(x_train, y_train, epochs=2 if QUICK else 15, batch_size=20, verbose=0)
    accuracy = model.evaluate(x_test, y_test, verbose=0, return_dict=True)["accuracy"]
    print(f"{model.name:26} accuracy {accuracy:7.2%}")
share = max(y_test.mean(), 1 - y_test.mean())
print(f"{'most frequent class':26}          {share:7.2%}")

explainer = keras_mmil.Explainer(max_clusters=3 if QUICK else 6, verbose=0)
explainer.fit(model, x_train, x_valid)
print("\nThe latter, read as rules:\n")
print(explainer.rules_.text())
