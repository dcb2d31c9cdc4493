"""A small classifier of made-up customers, to try the service with."""

from pathlib import Path

import keras_mmil
from keras_mmil import datasets
from keras_mmil.records import Schema

__all__ = ["CUSTOMER", "make_demo"]

# One who has sent electronics back, and has paid in time.
CUSTOMER = {
    "city": "Rome",
    "age": 41,
    "orders": [
        {"channel": "web", "paid_late": False, "items": [{"category": "books", "price": 12.5}]},
        {
            "channel": "shop",
            "paid_late": False,
            "items": [
                {"category": "electronics", "price": 99, "returned": True},
                {"category": "toys", "price": 7.95, "returned": False},
            ],
        },
    ],
}


_UNUSED = ("since", "newsletter", "orders.date", "orders.items.quantity", "orders.items.note")


def make_demo(folder: str | Path, n_customers: int = 1000, epochs: int = 8) -> None:
    """Train the classifier, learn its rules, and save both: some ten seconds.

    Args:
        folder: to save to.
        n_customers: to learn from.
        epochs: of training. With the defaults, the rules are those that the data were made by.
    """
    tables = datasets.synthetic.load_churn(n_customers, share_missing=0.05)
    schema = Schema.infer_tables(*tables)
    for path in _UNUSED:  # to be quick
        schema.drop(path)
    classifier = keras_mmil.NestedClassifier(
        schema=schema,
        units=16,
        learning_rate=0.01,
        epochs=epochs,
        batch_size=16,
        explainer={"max_clusters": 4},
        random_state=0,
    )
    classifier.fit(tables.tables, datasets.synthetic.churn.TARGET)
    classifier.fit_rules()
    classifier.save(folder)
