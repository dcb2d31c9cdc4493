"""Your own texts: from a list of labelled strings to predictions and their reasons.

The reviews here are synthetic (`datasets.synthetic`): positive iff more of their sentences
praise than blame, where a "not" turns praise into blame. Use your own lists instead.

    python examples/own_texts.py [--quick]
"""

import sys
import tempfile
from pathlib import Path

import keras

import keras_mmil
from keras_mmil import datasets, zoo
from keras_mmil.builders.corpus import Corpus

QUICK = "--quick" in sys.argv

keras.utils.set_random_seed(0)
(texts, y), (texts_valid, y_valid), (texts_test, y_test) = datasets.synthetic.load_reviews(
    n_train=60 if QUICK else 2000
)

# Sentences of trigrams of ids. Where it is installed, "tensorflow-text" finds sentences better.
corpus = Corpus.from_texts(texts, splitter="core", verbose=0)
print(corpus)
# Here the network learns word vectors. With more texts, train them on all that you have, labelled
# or not: vectors = builders.word_vectors.train(corpus)
vectors = len(corpus.vocabulary)
model = zoo.imdb_mmil(vectors, filters=50, bag_units=(50, 50), learning_rate=0.003)
model.fit(corpus.trigrams(), y, epochs=2 if QUICK else 15, batch_size=32, verbose=0)

# From here on, the model takes strings.
model = zoo.imdb.with_text(model, corpus.vocabulary, corpus.splitter)
accuracy = model.evaluate(texts_test, y_test, verbose=0, return_dict=True)["accuracy"]
share = max(y_test.mean(), 1 - y_test.mean())
print(f"accuracy of the network {accuracy:.2%} (most frequent class: {share:.2%})\n")

explainer = keras_mmil.Explainer(max_clusters=3 if QUICK else 6, verbose=0)
explainer.fit(model, texts, texts_valid)
print(explainer.rules_.text())
found = explainer.evaluate(texts_test)
fidelity, share = found["fidelity"], found["fidelity_majority"]
print(f"fidelity {fidelity:.2%} (most frequent class: {share:.2%})\n")

mine = [
    "The music was not bad. I saw it with 5 friends. The story is wonderful, the cast was great!"
]
print(explainer.explain(mine)[0], "\n")

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "reviews.keras"
    model.save(path)  # one file, with the vocabulary
    again = keras.models.load_model(path)  # in a fresh process: `import keras_mmil` first
    print(f"probability that it is positive: {again.predict(mine, verbose=0)[0, 0]:.3f}")
