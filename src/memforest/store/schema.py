"""The schema of a file: made whole when the file is new, and the only one that is read.

`PRAGMA user_version` has its number (https://www.sqlite.org/pragma.html#pragma_user_version). Nothing has been released, so a
file of another schema is refused and not upgraded.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING

from memforest.errors import SchemaVersionError
from memforest.store.tx import Tx

if TYPE_CHECKING:
    from memforest.store.db import Database

VERSION = 1
"""Of the schema in `schema.sql`; a change of that file is another number."""

_END = re.compile(r";\n+(?!\s|END;)")
"""The end of a statement; those inside of a trigger are indented, or stand before its END."""


def version(tx: Tx) -> int:
    """Return the number of a file's schema; 0 when it has none yet."""
    return int(tx.execute("PRAGMA user_version").fetchone()[0])


def require_schema(tx: Tx, name: str) -> None:
    """Refuse a file of another schema.

    Raises:
        SchemaVersionError: if the file `name` has another schema than this version's.
    """
    if (found := version(tx)) != VERSION:
        raise SchemaVersionError(
            f"{name!r} has schema {found} and this memforest reads schema {VERSION} alone; "
            "export it with the version that wrote it, and import that here"
        )


def make_schema(tx: Tx) -> None:
    """Make all tables, indexes and triggers of an empty file, within the transaction."""
    text = files("memforest.store").joinpath("schema.sql").read_text(encoding="utf-8")
    for statement in _END.split(text):
        tx.execute(statement)
    tx.execute(f"PRAGMA user_version = {VERSION}")


def ensure_schema(db: Database) -> None:
    """Make the schema of a new file, and refuse a file of another one, now and in later transactions.

    Raises:
        SchemaVersionError: if the file has another schema.
        StoreWriteError: if the file is new and cannot be written.
    """
    with db.read() as tx:
        is_new = version(tx) == 0 and tx.execute("SELECT 1 FROM sqlite_master").fetchone() is None
    if is_new:
        with db.write() as tx:
            if version(tx) == 0:
                make_schema(tx)
    db.expect_schema()
