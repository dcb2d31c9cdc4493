"""Linked tables beside PyTorch Geometric's heterogeneous layers: `python benchmarks/relations.py`.

A made-up shop of customers, orders, items and products, with numbers and categories. All learn to
predict the same field of the same customers, in batches of the same size, with layers of the same
size and the same aggregations, as many as keys lead from customers to products. Each runs in a
process of its own, and they take turns, one at a time: through steps on batches that were cut
beforehand, and through epochs with all that belongs to them: ours in `Model.fit`, theirs with the
loader. Accuracies are those on other customers after some epochs, from several seeds, and those of
`NestedClassifier` by default. Results go to `benchmarks/results/relations.json`.

Theirs needs `pip install torch_geometric`, and then `pip install --no-build-isolation torch_scatter
torch_sparse`, which takes a compiler half an hour.
"""

import argparse
import importlib
import json
import statistics
import sys
from dataclasses import dataclass

import numpy as np
from interleaved_timing import Worker, mark_memory, serve, take_turns

OURS, ESTIMATOR = "keras-mmil", "NestedClassifier"
COMPETITORS = {
    OURS: "nested_records.Trainer",
    "pyg-hetero": "heterogeneous.Rounds",
    "pyg-path": "heterogeneous.Path",
}
UNITS, BATCH, LEARNING_RATE = 32, 64, 2e-3
N_BATCHES, N_EPOCHS = 16, 5  # of a turn
AGGREGATIONS = ("max", "mean", "sum")


@dataclass(frozen=True)
class Shop:
    """Linked tables.

    Attributes:
        tables: columns of numbers or categories by name, by the name of the table; rows are
            numbered by "id".
        keys: as in `link`, from the table at the top outwards.
        target: column of the table at the top.
        n_train: the first rows of it are for training.
    """

    tables: dict[str, dict[str, np.ndarray]]
    top: str
    keys: tuple[tuple[str, str], ...]
    target: str
    n_train: int


def shop(n=3000, seed=0):
    """Customers, who have left if two of their items, or more, were dear and of bad products."""
    random = np.random.default_rng(seed)
    n_orders = random.geometric(0.25, n)
    customer = np.repeat(np.arange(n), n_orders)
    order = np.repeat(np.arange(len(customer)), random.geometric(0.4, len(customer)))
    n_items, n_products = len(order), 200
    rating = random.uniform(1, 5, n_products)
    price, product = random.gamma(2, 15, n_items), random.integers(0, n_products, n_items)
    n_bad = np.bincount(customer[order], (price > 30) & (rating[product] < 2.5), minlength=n)
    tables = {
        "customers": {
            "id": np.arange(n),
            "age": random.integers(18, 80, n),
            "city": random.choice(["Athens", "Berlin", "Lisbon", "Oslo", "Paris", "Rome"], n),
            "left": (n_bad >= 2) ^ (random.random(n) < 0.05),
        },
        "orders": {
            "id": np.arange(len(customer)),
            "customer": customer,
            "channel": random.choice(["app", "phone", "shop", "web"], len(customer)),
            "discount": random.gamma(1, 5, len(customer)),
        },
        "items": {
            "id": np.arange(n_items),
            "order": order,
            "product": product,
            "price": price,
            "quantity": random.integers(1, 6, n_items),
        },
        "products": {
            "id": np.arange(n_products),
            "kind": random.choice([f"kind {i}" for i in range(12)], n_products),
            "rating": rating,
            "weight": random.gamma(2, 1, n_products),
        },
    }
    keys = (
        ("orders.customer", "customers.id"),
        ("items.order", "orders.id"),
        ("items.product", "products.id"),
    )
    return Shop(tables, "customers", keys, "left", 2 * n // 3)


def main():
    """Measure what the command line says, print a line each, and record it."""
    options = parse(sys.argv[1:])
    if options.worker:
        work(*options.worker, options)
        return
    from records import write  # it loads TensorFlow, which workers of others must not

    names = [OURS, *(name for name in options.competitors if name != OURS)]
    records = [*compare("step", names, options), *compare("epoch", names, options)]
    if not options.dry:
        write("relations", records, ("model", "variant", "metric", "reference"))


def parse(arguments):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--competitors", nargs="+", choices=COMPETITORS, default=list(COMPETITORS))
    parser.add_argument("--customers", type=int, default=3000, help="two thirds are for training")
    parser.add_argument("--rounds", type=int, default=8, help="turns of each competitor")
    parser.add_argument("--epochs", type=int, default=30, help="before accuracies are measured")
    parser.add_argument("--seeds", type=int, default=3, help="trainings for accuracies")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def compare(what, names, options):
    """Records of steps, or of epochs and accuracies."""
    from records import ratios

    sizes = ("--customers", options.customers, "--epochs", options.epochs, "--seeds", options.seeds)
    # Started one after another, so that starting disturbs nobody.
    workers = {name: Worker(__file__, "--worker", name, what, *sizes) for name in names}
    take_turns(list(workers.values()), options.rounds)
    shared = {"experiment": "relations", "variant": f"{options.customers} customers"}
    ours, records = workers[OURS], []
    for name, worker in workers.items():
        n = worker.first["n"]
        found = ratios(ours.seconds, worker.seconds)
        milliseconds = [min(each.seconds) / n * 1000 for each in (ours, worker)]
        print(
            f"{what:5} {name:12} {milliseconds[1]:8.1f} ms   {worker.peak_gb:5.2f} GB   "
            f"ours/theirs: min/min {found['ratio']:.3f}, median {found['median_ratio']:.3f}   "
            f"{ {key: x for key, x in worker.first.items() if key != 'n'} }",
            flush=True,
        )
        if name != OURS:
            records.append(
                {
                    **shared,
                    "model": "shop",
                    "metric": f"{what}_ratio",
                    "reference": name,
                    "mean": found["ratio"],
                    "median": found["median_ratio"],
                    "runs": options.rounds,
                    "ms": round(milliseconds[0], 2),
                    "reference_ms": round(milliseconds[1], 2),
                    "peak_gb": round(ours.peak_gb, 3),
                    "reference_peak_gb": round(worker.peak_gb, 3),
                }
            )
    if what == "epoch":
        found = {name: workers[name].first["accuracies"] for name in names}
        of_others = {"majority": ours.first["majority"], "seeds": options.seeds}
        for name, accuracies in found.items():
            records += accuracy(name, accuracies, {**shared, "epochs": options.epochs}, **of_others)
        estimator = Worker(__file__, "--worker", OURS, "estimator", *sizes)
        estimator.close()
        print(ESTIMATOR, estimator.first, flush=True)
        records += accuracy(ESTIMATOR, estimator.first["accuracies"], shared, **of_others)
    return records


def accuracy(name, accuracies, shared, majority, seeds):
    """Records of the accuracies from several seeds, and of the most frequent class."""
    about = {**shared, "model": name, "reference": "", "runs": seeds}
    std = statistics.stdev(accuracies) if seeds > 1 else 0.0
    mean = {"mean": statistics.mean(accuracies), "std": std}
    return [
        {**about, "metric": "test_accuracy", **mean},
        {**about, "metric": "test_accuracy_majority", "mean": majority},
    ]


def work(name, what, options):
    """What a competitor's process does: a turn is a step on each batch, or some epochs."""
    module_name, trainer = COMPETITORS[name].split(".")
    module = importlib.import_module(f"competitors.{module_name}")
    make, data = getattr(module, trainer), shop(options.customers)
    if what == "estimator":
        print(
            json.dumps({"accuracies": [module.of_estimator(data, i) for i in range(options.seeds)]})
        )
        return
    settings = {
        "units": UNITS,
        "batch": BATCH,
        "aggregations": AGGREGATIONS,
        "learning_rate": LEARNING_RATE,
    }
    mark = mark_memory()
    if what == "step":
        trained = make(data, **settings, seed=0)
        batches = trained.batches(min(N_BATCHES, data.n_train // BATCH))

        def turn():
            for batch in batches:
                trained.step(batch)

        turn()  # every batch once, before anything is timed
        serve(turn, mark, n=len(batches), parameters=trained.n_parameters)
        return
    accuracies = []
    for seed in range(options.seeds):
        trained = make(data, **settings, seed=seed)
        trained.epochs(options.epochs)
        accuracies.append(trained.accuracy())
    share = data.tables[data.top][data.target][data.n_train :].mean()
    shares = {"accuracies": accuracies, "majority": float(max(share, 1 - share))}
    serve(lambda: trained.epochs(N_EPOCHS), mark, n=N_EPOCHS, **shares)


if __name__ == "__main__":
    main()
