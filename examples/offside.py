"""Offside or not? The paper's example, from data to rules.

A situation is a top-bag of camera images, and an image is a bag of players. A player is behind, in
front, or unclear. An image says offside if all its players are behind, not offside if some player
is in front, and otherwise nothing. The referee calls offside if some image says offside and none
says not offside. The network is given only the calls, and sees each player as a point in the
plane. The rules extracted from it are those above.

    python examples/offside.py [--quick]
"""

import sys

import keras

import keras_mmil
from keras_mmil import datasets

QUICK = "--quick" in sys.argv

keras.utils.set_random_seed(0)
train, valid, test = datasets.synthetic.load_offside(
    n_train=60 if QUICK else 1000, instance_labels=True
)
(x_train, y_train, _), (x_valid, y_valid, players_valid), (x_test, y_test, _) = train, valid, test

situations = keras.Input((None, None, 2), ragged=True)  # (situations, (images), (players), 2)
x = keras_mmil.layers.BagLayer(16)(situations)  # (situations, (images), 16)
x = keras_mmil.layers.BagLayer(16)(x)  # (situations, 16)
outputs = keras.layers.Dense(1, activation="sigmoid")(x)
model = keras_mmil.Model(situations, outputs)
model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, epochs=2 if QUICK else 20, batch_size=20, verbose=0)
accuracy = model.evaluate(x_test, y_test, verbose=0, return_dict=True)["accuracy"]

explainer = keras_mmil.Explainer(
    max_clusters=3 if QUICK else 6, class_names=("not offside", "offside"), verbose=0
).fit(model, x_train, x_valid)

# Here the true kinds of players and images are known, so the clusters can be named after them.
kinds = {
    "instance": ("player behind", "player in front", "unclear player"),
    "sub-bag": ("clearly not offside", "clearly offside", "unclear"),
}
images_valid = datasets.synthetic.offside_image_labels(players_valid)
description = explainer.describe(x_valid, players_valid, images_valid, label_names=kinds)
print(description, "\n")
explainer.rename(0, word="player").rename(1, word="image").rename(2, word="situation")
for level in description:
    explainer.rename(level.level, level.majority_names)

print(explainer.rules_, "\n")
found = explainer.evaluate(x_test, y_test)
print(f"accuracy of the network  {accuracy:7.2%}")
print(f"accuracy of the rules    {found['accuracy']:7.2%}")
print(f"    most frequent class  {found['accuracy_majority']:7.2%}")
print(f"fidelity of the rules    {found['fidelity']:7.2%}")
print(f"    most frequent class  {found['fidelity_majority']:7.2%}", "\n")

offside = int(y_test.argmax())
print("Why is this situation offside?")
print(explainer.explain(x_test[offside : offside + 1])[0])
