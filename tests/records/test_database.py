"""Databases: SQLite, and PostgreSQL where a server can be started."""

import datetime
import warnings
from decimal import Decimal

import pytest
import sqlalchemy
from sqlalchemy import Column, ForeignKey, ForeignKeyConstraint, Table

from keras_mmil.records import Schema, from_database, link
from keras_mmil.records.database import Database, write_table

DAY = datetime.date(2024, 1, 5)
ROWS = {
    "customers": [
        {"id": 3, "city": "Rome", "left": True, "referred_by": None},
        {"id": 1, "city": "Oslo", "left": False, "referred_by": 3},
        {"id": 2, "city": None, "left": None, "referred_by": 3},
    ],
    "orders": [
        {"shop": "a", "number": 1, "customer": 3, "placed": DAY, "total": Decimal("9.50")},
        {"shop": "a", "number": 2, "customer": 1, "placed": DAY, "total": Decimal("1.25")},
        {"shop": "b", "number": 1, "customer": 3, "placed": None, "total": None},
    ],
    "items": [
        {"shop": "a", "number": 1, "product_id": 7, "price": 1.5, "picture": b"\x00"},
        {"shop": "b", "number": 1, "product_id": 8, "price": 2.5, "picture": None},
        {"shop": "b", "number": 1, "product_id": None, "price": 3.5, "picture": None},
    ],
    "products": [{"id": 8, "kind": "book"}, {"id": 7, "kind": "toy"}],
    "returns": [],
    "logs": [{"line": "x"}],
}
KEYS = [
    ("customers.referred_by", "customers.id"),
    (("items.shop", "items.number"), ("orders.shop", "orders.number")),
    ("orders.customer", "customers.id"),
    ("returns.product", "products.id"),
]
PROPOSED = [("items.product_id", "products.id")]


def fill(engine):
    """Make the tables, with keys that are composite, to the table itself, or not declared."""
    text, whole = sqlalchemy.String(20), sqlalchemy.Integer
    meta = sqlalchemy.MetaData()
    Table(
        "customers",
        meta,
        Column("id", whole, primary_key=True),
        Column("city", text),
        Column("left", sqlalchemy.Boolean),
        Column("referred_by", whole, ForeignKey("customers.id")),
    )
    Table(
        "orders",
        meta,
        Column("shop", text, primary_key=True),
        Column("number", whole, primary_key=True),
        Column("customer", whole, ForeignKey("customers.id")),
        Column("placed", sqlalchemy.Date),
        Column("total", sqlalchemy.Numeric(8, 2)),
    )
    Table(
        "items",
        meta,
        Column("shop", text),
        Column("number", whole),
        Column("product_id", whole),
        Column("price", sqlalchemy.Float),
        Column("picture", sqlalchemy.LargeBinary),
        ForeignKeyConstraint(["shop", "number"], ["orders.shop", "orders.number"]),
    )
    Table("products", meta, Column("id", whole, primary_key=True), Column("kind", text))
    Table("returns", meta, Column("product", whole, ForeignKey("products.id")))
    Table("logs", meta, Column("line", text))
    meta.create_all(engine)
    with engine.begin() as connection:
        for table in meta.sorted_tables:
            if rows := ROWS[table.name]:
                connection.execute(table.insert(), rows)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    """The URL of a filled database."""
    if request.param == "sqlite":
        found = f"sqlite:///{tmp_path / 'shop.db'}"
    else:
        found = request.getfixturevalue("postgres")
    engine = sqlalchemy.create_engine(found)
    meta = sqlalchemy.MetaData()
    meta.reflect(engine, resolve_fks=False)
    meta.drop_all(engine)  # of the test before
    fill(engine)
    engine.dispose()
    return found


def expected(is_sqlite):
    """The tables as a database returns them: in the order of their keys, without bytes."""
    tables = {name: [dict(row) for row in rows] for name, rows in ROWS.items()}
    tables["returns"] = {"product": []}
    for name in ("customers", "products"):
        tables[name].sort(key=lambda row: row["id"])
    for row in tables["items"]:
        del row["picture"]
    for row in tables["orders"] if is_sqlite else ():  # which has neither dates nor decimals
        row["placed"] = row["placed"] and str(row["placed"])
        row["total"] = row["total"] and float(row["total"])
    del tables["logs"]
    return tables


def test_records_are_those_of_the_tables(url):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from_database(url, "customers")
    assert [str(each.message).partition(": ")[0] for each in caught] == [
        "Bytes are not read",
        "Keys that the database does not declare",
        "No key leads to logs",
        "Not followed (with hops=0), as they lead back to a table",
    ]
    assert {each.filename for each in caught} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tables = expected(url.startswith("sqlite"))
        for hops in (0, 1):
            found = from_database(url, "customers", hops=hops).to_pylist()
            assert found == link(tables, "customers", KEYS + PROPOSED, hops=hops).to_pylist()
        found = from_database(url, "customers", at_most=1, seed=3).to_pylist()
        assert found == link(tables, "customers", KEYS + PROPOSED, at_most=1, seed=3).to_pylist()
        records = from_database(url, "orders", tables=["items", "orders"])
    assert records.to_pylist()[2]["items"][1]["price"] == 3.5
    schema = Schema.infer(records)
    assert (schema["total"].kind, schema["placed"].kind) == ("number", "time")


def test_an_engine_and_own_keys(url):
    engine = sqlalchemy.create_engine(url)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        records = from_database(engine, "products", keys=PROPOSED, orphans="drop")
        found = Database.read(engine)
    engine.dispose()
    said = [str(each.message) for each in caught]
    assert said[1].startswith("No key leads to customers, ")
    assert said[2].startswith("1 of 3 rows of 'items' refer to no row of 'products'")
    assert [len(record["items"]) for record in records.to_pylist()] == [1, 1]
    assert sorted(found.declared, key=str) == sorted(KEYS, key=str)
    assert found.proposed == tuple(PROPOSED)


def test_views(url):
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("create view norths as select id from customers"))
    records = from_database(engine, "norths", tables=["norths"])
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("drop view norths"))
    engine.dispose()
    assert len(records) == 3


def test_refused(url, tmp_path):
    with pytest.raises(KeyError, match=r"tables among .*Received: 'people'"):
        from_database(url, "customers", tables=["people"])
    with pytest.raises(ValueError, match="database with tables"):
        from_database(f"sqlite:///{tmp_path / 'new.db'}", "customers")
    keys = [("items.number", "products.id")]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Bytes")
        with pytest.raises(ValueError, match="3 of 3 rows of 'items' refer to no row of 'product"):
            from_database(url, "products", keys=keys, tables=["products", "items"])


def test_rows_are_written_all_or_none(url):
    rows = [{"id": i, "p": i / 3, "is": i > 1, "why": "because"} for i in range(3)]
    assert write_table(url, "found", rows) == 3
    found = Database.read(url, ["found"]).tables["found"]
    assert {name: array.to_pylist() for name, array in found.items()} == {
        name: [row[name] for row in rows] for name in rows[0]
    }
    with pytest.raises(ValueError, match=r"new table. Received: 'found'"):
        write_table(url, "found", rows)

    def broken():
        yield rows[0]
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_table(url, "others", broken())
    engine = sqlalchemy.create_engine(url)
    assert not sqlalchemy.inspect(engine).has_table("others")
    engine.dispose()
