"""Your own ids: reviews as bags of sentences, which are bags of words.

The reviews are synthetic: a review recommends if one of its sentences praises without a negation.
Words are ids, so equal words and equal sentences of a batch are computed once, however often they
occur: `Bags` finds them, and the layer `Distinct` passes each of them to the network once.

    python examples/own_ids.py [--quick]
"""

import sys

import keras
import numpy as np

import keras_mmil
from keras_mmil import Bags, ragged
from keras_mmil.layers import BagLayer, Distinct, bag_inputs

QUICK = "--quick" in sys.argv
N_REVIEWS = 150 if QUICK else 1500
WORDS = ["great", "lovely", "not", "hardly", "the", "a", "it", "was", "room", "food", "sea", "bed"]
PRAISE, NEGATION = {"great", "lovely"}, {"not", "hardly"}


def make_reviews(n, rng):
    """Nested lists of ids of words, and labels."""
    reviews = [
        [rng.choice(len(WORDS), rng.integers(2, 6)).tolist() for _ in range(rng.integers(1, 5))]
        for _ in range(n)
    ]

    def recommends(sentence):
        words = {WORDS[i] for i in sentence}
        return bool(words & PRAISE) and not words & NEGATION

    return reviews, np.array([any(map(recommends, review)) for review in reviews]).astype(int)


keras.utils.set_random_seed(0)
reviews, y = make_reviews(N_REVIEWS, np.random.default_rng(0))
bags = Bags.from_ragged(ragged.from_nested_lists(reviews))
print(bags)
test_size = N_REVIEWS // 4
sizes = [N_REVIEWS - 2 * test_size, test_size, test_size]
x_train, x_valid, x_test = bags.split(sizes)
y_train, _, y_test = ragged.split(y, sizes)

inputs = bag_inputs(depth=2, dtype="int64")
ids, sentences, documents = Distinct()(inputs)
# An id stands for a one-hot vector. For features of words, put an Embedding here instead.
x = BagLayer(16, vocabulary_size=len(WORDS))(ids, *sentences)  # (distinct sentences, 16)
x = BagLayer(16)(x, *documents)  # (reviews, 16)
model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, epochs=2 if QUICK else 20, batch_size=20, verbose=0)
accuracy = model.evaluate(x_test, y_test, verbose=0, return_dict=True)["accuracy"]
share = max(y_test.mean(), 1 - y_test.mean())
print(f"accuracy of the network {accuracy:.2%} (most frequent class: {share:.2%})")
plain = model(x_test.to_ragged())
print(f"largest difference on plain bags {np.abs(plain - model(x_test)).max():.1g}\n")

explainer = keras_mmil.Explainer(max_clusters=3 if QUICK else 5, verbose=0)
explainer.fit(model, x_train, x_valid)
print(explainer.rules_.text())
found = explainer.evaluate(x_test)
fidelity, share = found["fidelity"], found["fidelity_majority"]
print(f"fidelity {fidelity:.2%} (most frequent class: {share:.2%})\n")
for name in explainer.clusters_[0].names:
    found = explainer.representatives(x_test, "u", name, n=len(WORDS))
    words = [WORDS[x_test.bags[tuple(word.position)]] for word in found]
    print(f"{name}: {', '.join(words)}")
