"""Your own table: patients with visits, at each of which measurements are taken.

The table is synthetic: a patient is at risk if some visit has a measurement with fever and none
with a low pulse. The rules are learned from the labels of patients; the meaning of their clusters
is read from the measurements in them.

    python examples/own_table.py [--quick]
"""

import sys

import keras
import numpy as np

import keras_mmil
from keras_mmil import builders, ragged

QUICK = "--quick" in sys.argv
N_PATIENTS = 150 if QUICK else 1200


def make_table(n_patients, rng):
    """A dict of columns, a row for each measurement; a pandas DataFrame would do as well."""
    visits = rng.integers(1, 5, n_patients)  # of each patient
    patient = np.repeat(np.arange(n_patients), visits)
    measurements = rng.integers(2, 6, len(patient))  # of each visit
    visit = np.repeat(np.arange(len(patient)), measurements)
    patient = patient[visit]
    kind = rng.choice(["normal", "fever", "low pulse"], len(visit), p=[0.6, 0.2, 0.2])
    temperature = np.where(kind == "fever", 39.0, 36.8) + 0.3 * rng.standard_normal(len(kind))
    pulse = np.where(kind == "low pulse", 45.0, 75.0) + 4.0 * rng.standard_normal(len(kind))

    has_fever = np.bincount(visit, kind == "fever") > 0
    has_low_pulse = np.bincount(visit, kind == "low pulse") > 0
    at_risk = np.bincount(patient, (has_fever & ~has_low_pulse)[visit]) > 0
    return {
        "patient": patient,
        "visit": visit,
        "temperature": temperature,
        "pulse": pulse,
        "at_risk": at_risk[patient].astype(int),
    }


keras.utils.set_random_seed(0)
table = make_table(N_PATIENTS, np.random.default_rng(0))
features = ["temperature", "pulse"]
x, y, patients = builders.tables.from_table(table, ["patient", "visit"], features, label="at_risk")
test_size = N_PATIENTS // 4
train, valid, test = ragged.split(
    (x, y, patients), [N_PATIENTS - 2 * test_size, test_size, test_size], seed=0
)

# Measurements have different units: scale them to mean 0 and variance 1 first.
scale = keras.layers.Normalization()
scale.adapt(train[0].flat_values)
bags = keras.Input(x.shape[1:], ragged=True)  # (patients, (visits), (measurements), 2)
h = keras_mmil.layers.InstanceWise(scale)(bags)
h = keras_mmil.layers.BagLayer(16)(h)  # (patients, (visits), 16)
h = keras_mmil.layers.BagLayer(16)(h)  # (patients, 16)
model = keras_mmil.Model(bags, keras.layers.Dense(1, activation="sigmoid")(h))
model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
model.fit(train[0], train[1], epochs=2 if QUICK else 30, batch_size=20, verbose=0)
accuracy = model.evaluate(test[0], test[1], verbose=0, return_dict=True)["accuracy"]

explainer = keras_mmil.Explainer(
    max_clusters=3 if QUICK else 5,
    class_names=("healthy", "at_risk"),
    feature_names=features,
    verbose=0,
).fit(model, train[0], valid[0])
found = explainer.evaluate(test[0], test[1])
print(f"accuracy of the network {accuracy:.2%}")
print(f"accuracy of the rules   {found['accuracy']:.2%}")
print(f"    most frequent class {found['accuracy_majority']:.2%}\n")
print(explainer.rules_, "\n")

clusters = explainer.labels(valid[0])[0].flat_values.numpy()  # of each measurement
measurements = valid[0].flat_values.numpy()
for cluster, name in enumerate(explainer.clusters_[0].names):
    mean = measurements[clusters == cluster].mean(axis=0)
    means = ", ".join(f"{f} {m:.1f}" for f, m in zip(features, mean, strict=True))
    print(f"{name}: {np.mean(clusters == cluster):.0%} of the measurements, on average {means}")

case = int(test[1].argmax())
print(f"\nPatient {test[2][case]}:")
print(explainer.explain(test[0][case : case + 1])[0])
