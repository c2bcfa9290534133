"""Schemas of released versions never change: a store that was made with one would be refused."""

import sqlite3
from contextlib import closing
from hashlib import sha256

from headgate.log.database import MIGRATIONS

SCHEMAS = [
    "654fc68db9a4",
    "1fc9d3200bb2",
    "fafc02510c4d",
    "ed47923e4ca2",
    "f020d3dbd48d",
    "6fc21f7393fc",
    "4860e8c7a8a2",
    "8fc4d0007fcb",
]
"""A digest of the schema after each migration. A new migration adds one at the end."""


def test_each_migration_makes_the_schema_that_it_always_made() -> None:
    made = []
    with closing(sqlite3.connect(":memory:")) as db:
        for migration in MIGRATIONS:
            migration(db)
            rows = db.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
            made.append(sha256(repr(sorted(rows, key=str)).encode()).hexdigest()[:12])
    assert made == SCHEMAS
