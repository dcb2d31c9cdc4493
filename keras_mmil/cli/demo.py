"""Own data in a minute: made-up customers in tables, and what `keras-mmil train` does with them."""

import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from keras_mmil._support.files import atomic_write, locked
from keras_mmil.cli.options import RunOptions
from keras_mmil.cli.train import train
from keras_mmil.cli.train_options import TrainOptions
from keras_mmil.datasets.synthetic import churn

__all__ = ["demo"]

_CUSTOMERS, _EPOCHS = 2000, 40  # about a minute


def demo(options: RunOptions) -> None:
    """Write made-up customers to tables, do what `keras-mmil train` does, and explain one customer.

    Args:
        options: as for `run`. The folder of an earlier demo is replaced, unless it is to be
            resumed.
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
    _, labels = found.estimator.schema_.read(found.data.records, churn.TARGET)
    test = found.data.split.test
    first = test[np.argmax(labels[test])]
    explainer, x = (
        found.estimator.explainer_,
        found.estimator.schema_.read(found.data.take(np.array([first])), without=churn.TARGET),
    )
    print("\nWhy the first customer of the test that has churned has done so, by the rules:\n")
    print(explainer.explain(x, lambda place: str(first if len(place) == 1 else place[-1]))[0])
    run, shop = shlex.quote(str(out)), shlex.quote(str(folder))
    print(f"""
What to type next:
  keras-mmil predict {run} {shop} --explain   # of all customers, and why
  keras-mmil export {run} --to sql   # the rules as a query
and for data of your own, a file of JSON, Parquet or CSV, or a folder of linked tables:
  keras-mmil train FILE --target FIELD
  keras-mmil train FOLDER --target FIELD --key orders.customer=customers.id
  keras-mmil predict runs/FILE-FIELD-seed0 NEW_FILE --explain""")
