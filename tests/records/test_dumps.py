"""Dumps of MySQL: as servers write them, and rows in many forms against those that were written."""

import datetime
import gzip
import random
import re
import warnings
from decimal import Decimal

import pytest

from keras_mmil.records import Schema, dumps, from_database, link
from keras_mmil.records.database import Database, is_database, is_dump

# In the form of mariadb-dump 10.19 and mysqldump 8.0: triggers, views, comments with statements.
BANK = r"""/*M!999999\- enable the sandbox mode */
-- MySQL dump 10.13  Distrib 8.0.40, for Linux (x86_64); it's a test
--
/*!40101 SET NAMES utf8mb4 */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `bank` /*!40100 DEFAULT CHARACTER SET utf8 */;
USE `bank`;
DROP TABLE IF EXISTS `account`;
CREATE TABLE `account` (
  `account_id` int(11) NOT NULL DEFAULT 0,
  `Client` mediumint(8) unsigned DEFAULT NULL COMMENT 'PRIMARY KEY (`x`), FOREIGN KEY; it''s',
  `opened` date DEFAULT NULL, -- , `not a column` int
  PRIMARY KEY (`account_id`), UNIQUE KEY `k` (`Client`),
  FULLTEXT KEY `f` (`opened`(10)),
  CONSTRAINT `client (fk)` FOREIGN KEY (`client`) REFERENCES `Client` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8 COMMENT='a; b' /*!50100 PARTITION BY (x) */;
LOCK TABLES `account` WRITE;
/*!40000 ALTER TABLE `account` DISABLE KEYS */;
INSERT INTO `account` VALUES (2,1,'1995-03-24'),(1,2,'0000-00-00'),(5,NULL,NULL);
/*!40000 ALTER TABLE `account` ENABLE KEYS */;
UNLOCK TABLES;
DELIMITER ;;
/*!50003 CREATE*/ /*!50003 TRIGGER t BEFORE INSERT ON account
FOR EACH ROW BEGIN SET @x = 'a;'; END */;;
DELIMITER ;
CREATE TABLE `client` (
  `id` int NOT NULL AUTO_INCREMENT,
  `name` varchar(20) CHARACTER SET utf8mb4 DEFAULT NULL,
  `kind` enum('a,b','it''s)','c') DEFAULT 'c',
  `is_owner` bit(1) DEFAULT NULL,
  `flags` bit(12) DEFAULT NULL,
  `rate` decimal(6,2) NOT NULL DEFAULT 0.00,
  `exact` decimal(50,30) DEFAULT NULL,
  `share` double unsigned DEFAULT NULL,
  `seen` timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),
  `photo` longblob DEFAULT NULL,
  `place` point DEFAULT NULL,
  `large` bigint(20) unsigned DEFAULT NULL,
  `about` json DEFAULT NULL CHECK (json_valid(`about`)),
  `born` year DEFAULT NULL,
  `twice` double GENERATED ALWAYS AS ((`rate` * 2)) STORED,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB;
INSERT INTO `client` (`id`, `name`, `kind`, `is_owner`, `flags`, `rate`, `exact`, `share`, `seen`,
  `photo`, `place`, `large`, `about`, `born`) VALUES
(1,'Jörg; \'B\'\n(\\)','a,b',_binary '<01>',_binary '<01><0c>',-9.50,0.5,1.5e-30,
'2024-01-05 10:00:00',_binary '<ff>\0\'\\',NULL,18446744073709551615,'{\"a\": [1, 2]}',1999),
(2,NULL,'it\'s)',b'0',0x0FFF,0.00,NULL,NULL,'2024-01-05 10:00:00.25',0x00ff,_binary '\0',0,'',NULL),
(3,'NULL','c',NULL,NULL,12.00,-1,2,'1999-12-31 23:59:59','','',NULL,NULL,2000);
/*!50001 CREATE VIEW `v` AS SELECT 1 AS `id`*/;
CREATE TABLE `order` (`id` int, `account` int, `to` int, `code` char(4), `paid` date);
INSERT INTO bank.`order` VALUES (1,5,2,'0x41','2024-02-00'),(2,9,2,'b\'1\'','2024-02-01');
CREATE TABLE `nothing` (`id` int);
ALTER TABLE `order`
  ADD PRIMARY KEY (`id`), ADD KEY `to` (`to`),
  ADD CONSTRAINT `order_to` FOREIGN KEY (`to`) REFERENCES `bank`.`account` (`account_id`);
-- Dump completed on 2024-01-05""".encode()
BANK = re.sub(rb"<(..)>", lambda match: bytes.fromhex(match[1].decode()), BANK)

TIME = datetime.datetime(2024, 1, 5, 10)
EXPECTED = {
    "account": {
        "account_id": [2, 1, 5],
        "Client": [1, 2, None],
        "opened": [datetime.date(1995, 3, 24), None, None],
    },
    "client": {
        "id": [1, 2, 3],
        "name": ["Jörg; 'B'\n(\\)", None, "NULL"],
        "kind": ["a,b", "it's)", "c"],
        "is_owner": [True, False, None],
        "flags": [0x10C, 0xFFF, None],
        "rate": [Decimal("-9.5"), Decimal(0), Decimal(12)],
        "exact": [Decimal("0.5"), None, Decimal(-1)],
        "share": [1.5e-30, None, 2.0],
        "seen": [
            TIME,
            TIME + datetime.timedelta(milliseconds=250),
            datetime.datetime(1999, 12, 31, 23, 59, 59),
        ],
        "large": [2**64 - 1, 0, None],
        "about": ['{"a": [1, 2]}', "", None],
        "born": [1999, None, 2000],
    },
    "order": {
        "id": [1, 2],
        "account": [5, 9],
        "to": [2, 2],
        "code": ["0x41", "b'1'"],
        "paid": ["2024-02-00", "2024-02-01"],
    },
    "nothing": {"id": []},
}
DECLARED = (("account.Client", "client.id"), ("order.to", "account.account_id"))


@pytest.fixture
def bank(tmp_path):
    path = tmp_path / "bank.sql"
    path.write_bytes(BANK)
    return path


@pytest.mark.parametrize("chunk", [2**24, 1])
@pytest.mark.filterwarnings("ignore:(Bytes|Generated|Dates)")
def test_tables_as_a_server_writes_them(bank, chunk, monkeypatch):
    monkeypatch.setattr(dumps, "_CHUNK", chunk)
    found = Database.read(bank)
    assert {
        name: {column: array.to_pylist() for column, array in columns.items()}
        for name, columns in found.tables.items()
    } == EXPECTED
    assert found.names == [*EXPECTED]
    assert (found.declared, found.proposed) == (DECLARED, ())
    types = {name: str(array.type) for name, array in found.tables["client"].items()}
    assert types["id"] == "int64"
    assert types["large"] == "uint64"
    assert types["exact"] == "decimal256(50, 30)"
    packed = bank.with_suffix(".sql.gz")
    packed.write_bytes(gzip.compress(BANK))
    some = Database.read(packed, ["nothing", "client"])
    assert some.tables == {name: found.tables[name] for name in ("client", "nothing")}
    assert some.names == found.names
    assert some.declared == ()
    with pytest.raises(KeyError, match=r"among account, client.*Received: 'clients'"):
        Database.read(packed, ["clients"])


def test_records_of_a_dump(bank):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        records = from_database(bank, "account")
    assert [str(each.message).partition(": Failed")[0] for each in caught] == [
        "Bytes are not read: client.photo, client.place",
        "Generated columns without values are not read: client.twice",
        "Dates are read as texts: order.paid",
        "No key leads to nothing: not read",
    ]
    assert {each.filename for each in caught} == {__file__}
    tables = {name: EXPECTED[name] for name in ("account", "client", "order")}
    assert records.to_pylist() == link(tables, "account", DECLARED).to_pylist()
    schema = Schema.infer(records)
    assert schema["order"].type == "bag"
    assert schema["opened"].kind in ("time", "constant")


def literal(value, rng):
    """A value as MySQL would read it, in one of several forms."""
    if value is None:
        return rng.choice(["NULL", "null"])
    if not isinstance(value, str):
        return repr(value)
    escaped = {"\\": "\\\\", "\0": "\\0", "\n": "\\n", "\r": "\\r", "\x1a": "\\Z", '"': '\\"'}
    ones = rng.choice(["''", "\\'"])
    text = "".join(ones if x == "'" else escaped.get(x, x) for x in value)
    return rng.choice(["", "", "_utf8mb4 "]) + f"'{text}'"


def test_rows_in_many_forms(tmp_path, monkeypatch):
    monkeypatch.setattr(dumps, "_CHUNK", 999)
    monkeypatch.setattr(dumps, "_BATCH", 555)
    rng = random.Random(0)
    pieces = [*"ab'\\\n\r\0\x1a\"`;,()#%_ -日", "--", "-- ", "/*", "*/", "NULL", "),(", "''", "\t"]
    rows = [
        (
            i,
            rng.choice([None, "".join(rng.choices(pieces, k=rng.randrange(9)))]),
            rng.choice([None, rng.uniform(-1, 1), 1e300, -2.5e-9]),
            rng.choice(["", "".join(rng.choices(pieces, k=3))]),
        )
        for i in range(600)
    ]
    names, lines = ["id", "a`b", "x", "c;"], ["CREATE TABLE `t(` (`id` int, `a``b` text,"]
    lines += ["`x` double, `c;` varchar(9)); # it's"]
    left = list(rows)
    while left:
        some = [left.pop(0) for _ in range(min(len(left), rng.choice([1, 1, 7, 40])))]
        order, listed = [0, 1, 2, 3], ""
        if rng.random() < 0.3:
            rng.shuffle(order)
            listed = " (" + ", ".join("`" + names[i].replace("`", "``") + "`" for i in order) + ")"
        space = rng.choice(["", "", " ", "\n\t"])
        tuples = (f",{space}".join(literal(row[i], rng) for i in order) for row in some)
        values = f",{space}".join(f"({each}{space})" for each in tuples)
        verb = rng.choice(["INSERT INTO", "insert into", "INSERT  IGNORE INTO", "REPLACE INTO"])
        lines.append(f"{verb} `t(`{listed} VALUES{space}{values}{space};")
    path = tmp_path / "t.sql"
    path.write_text("\n".join(lines), encoding="utf-8")
    found = Database.read(path).tables["t("]
    assert [*found] == names
    assert [*zip(*(array.to_pylist() for array in found.values()), strict=True)] == rows
    utf_16 = tmp_path / "u.sql"  # of PowerShell
    utf_16.write_text("\n".join(lines), encoding="utf-16")
    assert Database.read(utf_16).tables["t("] == found


START = "CREATE TABLE t (a int,\n b text NOT NULL DEFAULT 'x', c date);\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a dump with tables"),
        ("-- \n" + START + "SELECT\n 1;", r"MySQL's dumps. Received: SELECT 1, in line 4 of"),
        ("PRAGMA foreign_keys=OFF;", "PRAGMA"),  # of SQLite, where \ is an ordinary character
        (START + "COPY t (a) FROM stdin;", "COPY"),  # of PostgreSQL
        (START + "INSERT INTO t SELECT * FROM u;", "INSERT INTO t SELECT"),
        ("CREATE TABLE t LIKE u;", "CREATE TABLE t LIKE u"),
        (
            START + "\nINSERT INTO t VALUES (1,'',NULL),\n(NOW(),'','');",
            r"NOW\(\),','\), in line 4",
        ),
        (START + "INSERT INTO t VALUES (1,\"a\",'');", r"rows of literals. Received: \(1,\"a\",'"),
        (START + "INSERT INTO t VALUES (1,'a' 'b','');", "rows of literals"),
        (START + "INSERT INTO t VALUES (1,'','') ON DUPLICATE KEY UPDATE a=1;", "ON DUPLICATE"),
        (START + "INSERT INTO t VALUES (1,2);", r"types of 't'.*Expected 3 columns.*in line 3 of"),
        (START + "INSERT INTO t VALUES ('x','',NULL);", r"invalid value 'x', in line 3 of"),
        (START + "INSERT INTO t (a,c) VALUES (1,NULL);", "values of a, b, c. Received: INSERT"),
        (START + "INSERT INTO t (a,b,c,d) VALUES (1,'',NULL,1);", "values of a, b, c. "),
        ("INSERT INTO t VALUES (1);", "CREATE TABLE before its rows"),
        (START + START, "different names"),
        (
            START + "INSERT INTO t VALUES (1,'','');\nDROP TABLE IF EXISTS `t`;" + START,
            "one database",
        ),
        (
            START + "INSERT INTO t VALUES (1,'a;\n",
            r"complete statements. Received: INSERT .* line 3",
        ),
        ("DELIMITER ;;\nCREATE TRIGGER x; END;;\n", "complete statements"),
        ("/*!40101 SET NAMES latin1 */;\n" + START, "UTF-8. Received: SET NAMES latin1, in line 1"),
        ("SET NAMES 'cp1250';\n" + START, "UTF-8"),
    ],
)
def test_refused(text, message, tmp_path):
    path = tmp_path / "t.sql"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        from_database(path, "t")


def test_damaged_files(tmp_path, monkeypatch):
    (tmp_path / "t.sql").write_bytes(START.encode() + b"INSERT INTO t VALUES (1,'\xff',NULL);")
    with pytest.raises(ValueError, match="invalid UTF8 data, in line 3"):
        Database.read(tmp_path / "t.sql")
    packed = gzip.compress(BANK)
    (tmp_path / "t.sql.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(
        ValueError, match=r"a complete dump. Received: .*t.sql.gz: .*line 1 or later"
    ):
        Database.read(tmp_path / "t.sql.gz")
    monkeypatch.setenv("KERAS_MMIL_RECORD_MB", "1")
    (tmp_path / "t.sql.gz").write_bytes(gzip.compress(b" " * 2**22))
    with pytest.raises(ValueError, match="packed"):
        Database.read(tmp_path / "t.sql.gz")


def test_names_of_dumps():
    assert is_dump("a/b.sql")
    assert is_dump("b.sql.gz")
    assert not is_dump("sqlite:///b.sql")
    assert is_database("sqlite:///b.sql")
    assert not is_database("b.json")
    assert not is_database(None)
