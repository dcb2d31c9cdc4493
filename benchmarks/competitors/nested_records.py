"""Our network on linked tables as nested records."""

import keras
import pyarrow as pa

from keras_mmil import NestedClassifier, ragged
from keras_mmil.records import Schema, link, records_model

__all__ = ["Trainer", "of_estimator"]


class Trainer:
    """A network of `records_model`.

    Args:
        shop: of `relations.py`.
        units: of each layer and aggregation.
        batch: its size.
        aggregations: of the bag-layers.
        learning_rate: of Adam.
        seed: int.
    """

    def __init__(self, shop, units, batch, aggregations, learning_rate, seed):
        train, test = nested(shop)
        schema = Schema.infer(train)
        self._batch = batch
        self._train, self._test = (schema.read(x, target=shop.target) for x in (train, test))
        keras.utils.set_random_seed(seed)
        self._model = records_model(
            schema,
            shop.target,
            units=units,
            aggregation=aggregations,
            learning_rate=learning_rate,
            seed=seed,
        )
        self.n_parameters = sum(
            weight.shape.num_elements() for weight in self._model.trainable_weights
        )

    def batches(self, n):
        """The first batches of the records for training."""
        parts = (
            slice(start, start + self._batch) for start in range(0, n * self._batch, self._batch)
        )
        return [ragged.take(self._train, part) for part in parts]

    def step(self, batch):
        """Train on a batch."""
        self._model.train_on_batch(*batch)

    def epochs(self, n):
        """Train on all records, shuffled, n times."""
        self._model.fit(*self._train, batch_size=self._batch, epochs=n, verbose=0)

    def accuracy(self):
        """That on other records."""
        x, y = self._test
        found = self._model.predict(x, verbose=0)
        return float(((found > 0.5).reshape(-1) == (y.reshape(-1) > 0.5)).mean())


def of_estimator(shop, seed):
    """The accuracy of a `NestedClassifier` with its defaults on other records."""
    train, test = nested(shop)
    classifier = NestedClassifier(random_state=seed, verbose=0).fit(train, shop.target)
    return float(classifier.score(test, shop.target))


def nested(shop):
    """The records for training, and the others."""
    tables = {name: pa.table(columns) for name, columns in shop.tables.items()}
    records = link(tables, shop.top, shop.keys)
    return records[: shop.n_train], records[shop.n_train :]
