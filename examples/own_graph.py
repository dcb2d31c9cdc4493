"""Your own graph: predict from friendships who joins which club when a club splits.

The graph is networkx's karate club: 34 people, the friendships between them, and the club that each
joined after a dispute. A person is the bag of their friends and themselves, each of whom is the bag
of their own friends; the only feature of a person is their number.

    python examples/own_graph.py [--quick]
"""

import sys

import keras
import networkx
import numpy as np
import tensorflow as tf

import keras_mmil
from keras_mmil.builders import graphs

QUICK = "--quick" in sys.argv

graph = networkx.karate_club_graph()  # any networkx graph
people = list(graph)
clubs = sorted({graph.nodes[person]["club"] for person in people})  # "Mr. Hi" and "Officer"
y = np.array([clubs.index(graph.nodes[person]["club"]) for person in people])

friends = graphs.neighbourhoods(graph)  # (34, (members)) of numbers of nodes, in the graph's order
x = tf.gather(friends, friends)  # (34, (members), (members))

keras.utils.set_random_seed(0)
order = np.random.default_rng(0).permutation(len(people))
train, test = order[:17], order[17:]

inputs = keras_mmil.layers.bag_inputs(depth=2)
ids, of_person, of_people = keras_mmil.layers.Distinct()(inputs)
h = keras_mmil.layers.BagLayer(16, aggregation="mean", vocabulary_size=len(people))(ids, *of_person)
h = keras_mmil.layers.BagLayer(16, aggregation="mean")(h, *of_people)  # (people, 16)
model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(h))
model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
model.fit(tf.gather(x, train), y[train], epochs=2 if QUICK else 60, batch_size=4, verbose=0)
accuracy = model.evaluate(tf.gather(x, test), y[test], verbose=0, return_dict=True)["accuracy"]
print(f"accuracy of the network on the {len(test)} others: {accuracy:.2%}")

explainer = keras_mmil.Explainer(n_clusters=2, class_names=clubs, verbose=0).fit(
    model, tf.gather(x, train), tf.gather(x, train)
)
found = explainer.evaluate(tf.gather(x, test), y[test])
share = found["accuracy_majority"]
print(f"accuracy of the rules: {found['accuracy']:.2%} (most frequent class: {share:.2%})\n")
print(explainer.rules_, "\n")

wrong = test[(model.predict(tf.gather(x, test), verbose=0)[:, 0] > 0.5) != y[test]]
print(f"wrong about {[people[i] for i in wrong]}\n")

case = test[:1]
bags = tf.gather(x, case)


def show(position):
    """The person at a place in the bags."""
    number = case[0] if len(position) == 1 else friends[case[0]][position[1]].numpy()
    if len(position) == 3:
        number = bags[position].numpy()
    return f"person {people[number]}"


print(explainer.explain(bags, show)[0])
