"""Demos: made-up customers in tables, and pictures of digits in bags of bags."""

import dataclasses
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from keras_mmil import ragged
from keras_mmil._support.files import atomic_write, locked
from keras_mmil.cli.options import RunOptions, TrainOptions
from keras_mmil.cli.run import run
from keras_mmil.cli.train import train
from keras_mmil.datasets.synthetic import churn
from keras_mmil.zoo.experiments.registry import registry

__all__ = ["demo", "demo_of_digits"]

_CUSTOMERS, _EPOCHS = 2000, 40  # about a minute
# About two minutes of training on two cores.
_TOP_BAGS, _EPOCHS_OF_DIGITS = 2000, 25


def demo(options: RunOptions) -> None:
    """Write made-up customers to tables, do what `keras-mmil train` does, and explain one customer.

    The folder of an earlier demo is replaced, unless it is to be resumed.
    """
    print("Made-up customers in three linked tables: customers, their orders, the items in these.")
    print("A customer has churned iff some order holds electronics that were returned, and no")
    print("order was paid late. The network is only told who has churned, and the rules that are")
    print("read from it should say why. This takes about a minute and a half on two cores.\n")
    out = Path(options.out or "runs/demo")
    with locked(out):  # the tables are the run's, too
        _demo(options, out)


def _demo(options: RunOptions, out: Path) -> None:
    tables, _, keys = churn.load_churn(_CUSTOMERS, options.seed)
    folder = out / "shop"
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        with atomic_write(folder / f"{name}.csv") as part:
            pyarrow.csv.write_csv(pa.table(table), part)
    of_keys = [part for key in keys for part in ("--key", "=".join(key))]
    command = ["keras-mmil", "train", str(folder), "--target", churn.TARGET, *of_keys]
    print(f"$ {shlex.join(command)} --out {shlex.quote(str(out))}\n")
    found = train(
        TrainOptions(
            data=str(folder),
            target=churn.TARGET,
            keys=list(keys),
            epochs=options.epochs or _EPOCHS,
            seed=options.seed,
            limit=options.limit,
            max_clusters=options.max_clusters,
            out=str(out),
            resume=options.resume,
            replace=True,
            verbose=options.verbose,
        )
    )
    estimator, test = found.estimator, found.data.split.test
    _, labels = estimator.schema_.read(found.data.records, churn.TARGET)
    first = test[np.argmax(labels[test])]
    (explanation,) = estimator.explain(found.data.take(np.array([first])))
    print("\nWhy the first customer of the test that has churned has done so, by the rules:\n")
    print(explanation)
    run_folder, shop = shlex.quote(str(out)), shlex.quote(str(folder))
    print(f"""
What to type next:
  keras-mmil predict {run_folder} {shop} --explain   # of all customers, and why
  keras-mmil export {run_folder} --to sql   # the rules as a query
and for data of your own, a file of JSON, Parquet or CSV, or a folder of linked tables:
  keras-mmil train FILE --target FIELD
  keras-mmil train FOLDER --target FIELD --key orders.customer=customers.id
  keras-mmil predict runs/FILE-FIELD-seed0 NEW_FILE --explain""")


def demo_of_digits(options: RunOptions) -> None:
    """Run the MNIST experiment on scikit-learn's digits, and explain one top-bag.

    The folder of an earlier demo is replaced, unless it is to be resumed.
    """
    print("Bags of bags of digits. The outer bag is positive iff one in it holds a 7 and no 3;")
    print("nobody tells the network which digit is which, nor which inner bag is positive.")
    print("This takes about four minutes on two cores.\n")
    experiment = dataclasses.replace(
        registry["mnist"], epochs=_EPOCHS_OF_DIGITS, paper={}, explainer={"metric": "sensitivity"}
    )
    limit = _TOP_BAGS if options.limit is None else options.limit
    options = dataclasses.replace(
        options,
        source="digits",
        folds=0,
        limit=limit,
        out=options.out or "runs/demo-digits",
        replace=True,
    )
    explainer, (x, y, digits), _ = run(experiment, options)
    # For type checkers: the options ask for rules, and the labels of digits are known.
    assert explainer is not None
    assert digits is not None
    print("\nClusters of images are named by the digits that most of their images show:")
    print(explainer.describe(x, digits)[0])
    print("\nThe rules:")
    for sentence in explainer.rules_.in_words():
        print(f"  {sentence}")
    positive = int(y.argmax())
    print("\nWhy the first positive top-bag of the test set is positive. What it holds, which the")
    print(f"network was never told: {digits[positive].to_list()}\n")
    print(explainer.explain(ragged.take(x, [positive]))[0])
