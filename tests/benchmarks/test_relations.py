"""The networks on linked tables that are timed: what they read, and that they learn."""

import collections

import pytest

# Of PyTorch Geometric: without pyg-lib, and of products, from which edges only lead away.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Using 'NeighborSampler' without"),
    pytest.mark.filterwarnings("ignore:There exist node types"),
]
SETTINGS = {
    "units": 8,
    "batch": 16,
    "aggregations": ("max", "mean", "sum"),
    "learning_rate": 1e-2,
    "seed": 0,
}


def rows_of(shop, name):
    columns = shop.tables[name]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_who_has_left(load_benchmark):
    shop = load_benchmark("relations").shop(400)
    bad = collections.Counter()
    orders, products = (rows_of(shop, name) for name in ("orders", "products"))
    for item in rows_of(shop, "items"):
        if item["price"] > 30 and products[item["product"]]["rating"] < 2.5:
            bad[orders[item["order"]]["customer"]] += 1
    wrong = [row["left"] != (bad[row["id"]] >= 2) for row in rows_of(shop, "customers")]
    assert 0.02 < sum(wrong) / len(wrong) < 0.08  # noise
    share = shop.tables["customers"]["left"].mean()
    assert 0.25 < share < 0.75


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["nested_records.Trainer", "heterogeneous.Rounds", "heterogeneous.Path"]
)
def test_all_learn(load_benchmark, name):
    if name.startswith("heterogeneous"):
        pytest.importorskip("torch_geometric")
        pytest.importorskip("torch_sparse")
    module, trainer = name.split(".")
    shop = load_benchmark("relations").shop(300)
    trained = getattr(load_benchmark(f"competitors.{module}"), trainer)(shop, **SETTINGS)
    batches = trained.batches(2)
    assert len(batches) == 2
    trained.step(batches[0])
    trained.epochs(25)
    share = shop.tables["customers"]["left"][200:].mean()
    assert trained.accuracy() > max(share, 1 - share) + 0.08


def test_batches_hold_all_that_keys_lead_to(load_benchmark):
    pytest.importorskip("torch_geometric")
    pytest.importorskip("torch_sparse")
    shop = load_benchmark("relations").shop(60)
    trained = load_benchmark("competitors.heterogeneous").Path(shop, **SETTINGS)
    for i, batch in enumerate(trained.batches(2)):
        customers = range(16 * i, 16 * (i + 1))
        assert batch["customers"].n_id.tolist() == [*customers]
        orders = {x["id"] for x in rows_of(shop, "orders") if x["customer"] in customers}
        assert {*batch["orders"].n_id.tolist()} == orders
        items = [x for x in rows_of(shop, "items") if x["order"] in orders]
        assert {*batch["items"].n_id.tolist()} == {x["id"] for x in items}
        assert {*batch["products"].n_id.tolist()} == {x["product"] for x in items}
        start, end = batch["products", "to", "items"].edge_index
        found = zip(batch["products"].n_id[start], batch["items"].n_id[end], strict=True)
        assert {(int(a), int(b)) for a, b in found} == {(x["product"], x["id"]) for x in items}
