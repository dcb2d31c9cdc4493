"""Serve a trained network with TensorFlow alone.

`model.save` writes a file that needs this package to load; `model.export` writes a SavedModel that
TensorFlow loads without it. It takes ragged tensors, or dense ones, as TensorFlow Serving requires.
The second half of this script runs in a separate process, which never imports keras_mmil.

    python examples/export_and_serve.py [--quick]
"""

import subprocess
import sys
import tempfile

import keras

import keras_mmil
from keras_mmil import datasets

QUICK = "--quick" in sys.argv
SERVE = """
import sys, tensorflow as tf
served = tf.saved_model.load(sys.argv[1])
behind, in_front = [1.0, 0.0], [-0.5, 0.9]
situations = [[[behind, behind], [behind]], [[behind, in_front], [behind]]]
x = tf.ragged.constant(situations, ragged_rank=2, inner_shape=(2,))
for probability in served.serve(x).numpy()[:, 0]:
    print(f"offside with probability {probability:.3f}")

# The same as dense tensors, as a client of TensorFlow Serving sends them: the players, which of
# them form a group, and which groups form a situation.
outputs = served.signatures["serving_default"](
    situations_values=tf.constant([behind, behind, behind, behind, in_front, behind]),
    situations_row_splits_1=tf.constant([0, 2, 3, 5, 6], tf.int64),
    situations_row_splits_0=tf.constant([0, 2, 4], tf.int64),
)
assert abs(outputs["offside"].numpy() - served.serve(x).numpy()).max() < 1e-6
assert "keras_mmil" not in sys.modules
"""

keras.utils.set_random_seed(0)
(x, y), _, _ = datasets.synthetic.load_offside(n_train=100 if QUICK else 1000)
bags = keras.Input((None, None, 2), ragged=True, name="situations")
h = keras_mmil.layers.BagLayer(16)(bags)
h = keras_mmil.layers.BagLayer(16)(h)
offside = keras.layers.Dense(1, activation="sigmoid", name="offside")(h)
model = keras_mmil.Model(bags, offside)
model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
model.fit(x, y, epochs=2 if QUICK else 20, batch_size=20, verbose=0)

with tempfile.TemporaryDirectory() as folder:
    model.export(folder, verbose=False)
    subprocess.run([sys.executable, "-c", SERVE, folder], check=True)
