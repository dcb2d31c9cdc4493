"""Nested records with labels for benchmarks: each function returns them, and the label's path."""

import os
from pathlib import Path

import numpy as np

__all__ = [
    "churn",
    "instances",
    "molecules",
    "mutagenesis",
    "recipes",
    "sensors",
    "spending",
    "tickets",
]


def instances(name):
    """Bags of vectors as records: Musk1, Musk2 or Elephant."""
    data = np.load(Path(os.environ["KERAS_MMIL_DATA"], "mil", f"{name}.npz"))
    ends = np.cumsum(data["sizes"])
    names = [f"n{i}" for i in range(data["values"].shape[1])]
    bags = zip(ends - data["sizes"], ends, data["labels"], strict=True)
    return [
        {
            "label": str(label),
            "members": [dict(zip(names, x.tolist(), strict=True)) for x in data["values"][a:b]],
        }
        for a, b, label in bags
    ], "label"


def molecules(name, radius=1):
    """Molecules as bags of atoms with their bonds, and what is up to so many bonds away."""
    from keras_mmil.datasets import molecules

    return molecules.load(name, radius), "label"


def mutagenesis(target="mutagenic"):
    """188 molecules; targets may also be the numbers "logp" and "lumo"."""
    from keras_mmil.datasets import mutagenesis

    return mutagenesis.load(), target


def recipes():
    """2,500 recipes of 20 cuisines."""
    from keras_mmil.datasets import recipes

    return recipes.load(), "cuisine"


def churn(seed=0):
    """1,500 customers."""
    from keras_mmil.datasets.synthetic.churn import TARGET, load_churn
    from keras_mmil.records import link

    tables, top, keys = load_churn(1500, seed)
    return link(tables, top, keys).to_pylist(), TARGET


def spending(seed=0):
    """1,500 customers: what they spent on electronics that they kept, its noisy logarithm."""
    records, _ = churn(seed)
    noise = np.random.default_rng(seed).normal(0, 0.1, len(records))
    for record, error in zip(records, noise, strict=True):
        kept = sum(
            (item["price"] or 0.0) * (item["quantity"] or 0)
            for order in record["orders"]
            for item in order["items"]
            if item["category"] == "electronics" and not item["returned"]
        )
        record["spending"] = float(np.log1p(kept) + error)
    return records, "spending"


def tickets(seed=0, share_flipped=0.05):
    """1,200 tickets."""
    from keras_mmil.datasets.synthetic.tickets import TARGET, load_tickets

    return load_tickets(seed=seed, share_flipped=share_flipped), TARGET


def sensors(seed=0, share_flipped=0.05):
    """1,000 machines."""
    from keras_mmil.datasets.synthetic.sensors import TARGET, load_sensors

    return load_sensors(seed=seed, share_flipped=share_flipped), TARGET
