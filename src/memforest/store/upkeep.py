"""Work on a memory's file as a whole: purging it after a deletion, copying, removing and encrypting it.

`copy_database` uses SQLite's online backup, which copies page by page through its bounded page cache. Inside a read
transaction all pages are of one state, so no writer makes it begin anew.
Source: https://www.sqlite.org/backup.html, https://www.sqlite.org/wal.html.

`recrypt` encrypts a memory's file, decrypts it, or gives it another key. The file is copied to a new one beside it.
The copy is compared with it row by row, and takes its place by a renaming. At any moment there is a whole file under
its name, and its salt says what that may be (`memforest.store.files`). Meanwhile nobody else has the file open:
SQLite's exclusive lock is held, which no other connection in any process lets be taken. In the end the bytes of the old
file are overwritten. After a crash the same call finishes what is left. Whoever waits for the lock has the old file open, and
finds it overwritten; see `Database._open_writer`.
Sources: https://www.zetetic.net/sqlcipher/sqlcipher-api/#sqlcipher_export, https://www.sqlite.org/howtocorrupt.html
section 4.1 (why no log may be left beside a file that is renamed).
"""

from __future__ import annotations

import json
import os
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path

from memforest.errors import CorruptStoreError, ForeignStoreError, StoreKeyError, StoreLockedError
from memforest.protection import FileKey, Key
from memforest.store import files
from memforest.store.connections import (
    Connection,
    Tx,
    connect,
    errors,
    library,
    mapped_errors,
    not_a_database,
    pragma_key,
    sqlite_damage,
    transaction,
)
from memforest.store.database import APPLICATION_ID, CLOSE_TIMEOUT_MS, GATE, Database
from memforest.store.derived import unpack_text
from memforest.store.files import (
    MAGIC,
    DatabaseFile,
    Salt,
    beside,
    identity_of,
    make_own,
    raw_files,
    read_log,
    refuse_link,
    remove_files,
    scrub,
    sync,
    uri_of,
)
from memforest.store.sessions import damaged_turns
from memforest.store.transfer import holds_something
from memforest.text import fold

ROUNDS = 3
"""Times that the log is emptied, if others go on writing meanwhile."""


def purge(db: Database) -> tuple[bool, bool]:
    """Fold the log into the file and empty it, so that what was deleted is in neither.

    A build that does not overwrite what it frees has the file written anew instead. Returns whether this one overwrites
    ("secure_delete" is on), and whether a reader still holds the log.
    Source: https://www.sqlite.org/pragma.html#pragma_secure_delete.

    Raises:
        StoreClosedError: if the database was closed.
        StoreWriteError: if there is no room for the copy.
    """
    with db.maintained() as conn:
        secure = conn.execute("PRAGMA secure_delete").fetchone()[0] == 1
        (waits,) = conn.execute("PRAGMA busy_timeout").fetchone()
        conn.execute(f"PRAGMA busy_timeout = {CLOSE_TIMEOUT_MS}")
        try:
            if not secure:
                conn.execute("VACUUM")
            db.unfinished = not any(_folded(db, conn) for _ in range(ROUNDS))
        finally:
            conn.execute(f"PRAGMA busy_timeout = {waits}")
        return secure, db.unfinished


def _folded(db: Database, conn: Connection) -> bool:
    """Empty the log, and overwrite the gaps of the pages that were in it; return whether that was done.

    All pages are looked at where the log does not tell which have changed since the last time: it was begun anew
    meanwhile, or another connection has written just now.
    """
    # `data_version` is another number when another connection has written.
    of_data = "PRAGMA data_version"
    version, log = conn.execute(of_data).fetchone(), read_log(db.path)
    known = log is not None and log[0] == db.next_salt
    db.next_salt = None
    if conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        return False
    # Pages that are written back from memory would bring their gaps along.
    conn.execute("PRAGMA shrink_memory")
    with transaction(conn, writes=True):
        if read_log(db.path) is not None:
            return False  # somebody was quicker
        known = known and version == conn.execute(of_data).fetchone()
        scrubbed = scrub(db.path, log[1] if known and log is not None else None)
        if scrubbed:  # so that every other connection reads the pages anew too
            conn.execute("UPDATE meta SET value = value WHERE key = 'generation'")
        # From here on a restart has nothing to finish.
        written = conn.execute("DELETE FROM meta WHERE key = 'sweep' AND value = '2'").rowcount or scrubbed
    version = conn.execute(of_data).fetchone()
    if written and conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        return False
    if log is not None and version == conn.execute(of_data).fetchone():
        db.next_salt = (log[0] + (2 if written else 1)) % (1 << 32)
    return True


def vacuum(db: Database) -> None:
    """Write the file anew without its unused pages.

    Source: https://www.sqlite.org/lang_vacuum.html; a crash leaves the file as it was.

    Raises:
        StoreLockedError: if another process is at work on it.
        StoreWriteError: if there is no room for the copy.
    """
    with db.maintained() as conn:
        conn.execute("VACUUM")


def remove(db: Database) -> int:
    """Delete a file with its log while nobody else writes to it, and close it; return how many files there were.

    Whoever else has it open gets a `StoreReplacedError` at the next call.

    Raises:
        StoreLockedError: if another process is writing for longer than the time-out.
        StoreWriteError: if a file cannot be deleted; on Windows, while another process has it open.
    """
    removed = 0
    with db.maintained() as conn, transaction(conn, writes=True):
        if sys.platform != "win32":  # there an open file cannot be deleted
            removed = remove_files(db.path)
    db.close()
    with mapped_errors(db.path):
        return removed or remove_files(db.path)


ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be")
CHANCE_BYTES = 8
"""What takes less stands in the random bytes of an encrypted file by chance: a word of four letters in one of 700 files of 400 kB."""


def forms(text: str) -> frozenset[str]:
    """Return how a text may be written: as it is, in other cases and normal forms, folded, and as JSON escapes it."""
    made = {text, fold(text)}
    made |= {unicodedata.normalize(form, one) for form in ("NFC", "NFD", "NFKC") for one in tuple(made)}
    made |= {
        changed for one in tuple(made) for changed in (one.lower(), one.upper(), one.title(), one.casefold())
    }
    made |= {json.dumps(one)[1:-1] for one in tuple(made)}
    return frozenset(one for one in made if one)


def bytes_with(path: Path, texts: Sequence[str]) -> Iterator[tuple[int, str, int]]:
    """Yield (which text, file name, byte) of the first place of each text in each file of a memory, in any form and encoding.

    An encrypted file shows nothing but by chance: what takes less than 8 bytes is not looked for in it.

    Raises:
        OSError: if a file cannot be read.
    """
    wanted = [{one.encode(name).lower() for one in forms(text) for name in ENCODINGS} for text in texts]
    for name, raw in raw_files(path):
        if name == path.name and not raw.startswith(MAGIC):  # it comes first
            wanted = [{needle for needle in needles if len(needle) >= CHANCE_BYTES} for needles in wanted]
        lower = raw.lower()
        for at, needles in enumerate(wanted):
            places = [place for needle in needles if (place := lower.find(needle)) >= 0]
            if places:
                yield at, name, min(places)


def rows_with(tx: Tx, texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield (which text, table and column) of the columns in which a text stands: also in summaries, which are compressed, and JSON."""
    folded = [fold(text) for text in texts]
    for place, values in _columns(tx):
        left = dict(enumerate(folded))
        for value in values:
            said = fold(value)
            for at in [at for at, text in left.items() if text and text in said]:
                del left[at]
                yield at, place
            if not left:
                break


def _columns(tx: Tx) -> Iterator[tuple[str, Iterator[str]]]:
    tables = tx.column(
        """SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND strict ORDER BY name"""
    )
    for table in tables:
        for _, column, kind, *_ in tx.execute(f'PRAGMA table_info("{table}")').fetchall():
            if kind == "TEXT":
                rows = tx.execute(f'SELECT "{column}" FROM "{table}" WHERE "{column}" IS NOT NULL').fetchall()
                yield f"{table}.{column}", (_plain(row[0]) for row in rows)
    rows = tx.execute("SELECT text FROM artifact").fetchall()
    yield "artifact.text", (unpack_text(row[0]) for row in rows)


def _plain(value: str) -> str:
    """Return a text; of JSON with escapes, what it says."""
    if value[:1] not in "[{" or "\\u" not in value:
        return value
    try:
        return json.dumps(json.loads(value), ensure_ascii=False)
    except ValueError:
        return value


PAGES = 1_024
"""Pages that are copied in one step, between which an end is looked for: 4 MiB."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy holds, and which of its turns are damaged, as they are in the original."""

    sessions: int
    turns: int
    facts: int
    damaged: tuple[str, ...]


def copy_database(db: Database, target: Path, check: Callable[[], None]) -> Copied:
    """Copy a database into an empty file, and check the copy against what was copied.

    Args:
        db: the original.
        target: an empty file; it is encrypted with the key of the original.
        check: called between steps; what it raises ends the copy.

    Raises:
        CorruptStoreError: if the original is damaged, or the copy is not what it should be.
        StoreError: if the one cannot be read or the other not be written.
    """
    with db.read() as tx:
        contents = _contents(tx)
        copy_of = DatabaseFile(target, readonly=False, key=db.file.key)
        with mapped_errors(target), closing(copy_of.connect(0.0)) as copy:
            tx.backup(copy, pages=PAGES, progress=lambda *_: check())
    copied = Database(target, readonly=True, key=db.file.key)
    try:
        with copied.read() as tx:
            if (found := sqlite_damage(tx)) is not None:
                raise CorruptStoreError(f"{db.path.name!r} is damaged, and no backup was made: {found}")
            if _contents(tx) != contents:
                raise CorruptStoreError(
                    f"the copy of {db.path.name!r} differs from the original; check the disk"
                )
            damaged = tuple(one.name for one in damaged_turns(tx).values())
    finally:
        copied.close()
    return Copied(*contents[:3], damaged)


def _contents(tx: Tx) -> tuple[int, int, int, bytes]:
    """Return how many sessions, turns and facts a memory holds, and one digest over the digests of its turns."""
    whole = blake2b(digest_size=16)
    for row, digest in tx.execute("SELECT id, digest FROM turn ORDER BY id"):
        whole.update(b"%d:%b" % (row, digest))
    sessions, turns, facts = (
        int(tx.value(f"SELECT count(*) FROM {one}")) for one in ("session", "turn", "fact")
    )
    return sessions, turns, facts, whole.digest()


def discard_unwritten(path: Path, key: Key | None = None, *, salt: bool = False) -> bool:
    """Delete the file of a memory to which nothing was ever written, if there is one, and return whether there was.

    The lock that is held meanwhile is had only when nobody else has the file open.
    Source: https://www.sqlite.org/pragma.html#pragma_locking_mode.

    Args:
        path: the file.
        key: of an encrypted one.
        salt: whether its salt goes too, as it was made with the file; one that was there before may be a backup's.

    Raises:
        StoreLockedError: if another process has it open.
        StoreError: if it cannot be read.
    """
    if not path.exists():
        return False
    with mapped_errors(path):
        with closing(DatabaseFile(path, readonly=False, key=key).connect(0.0)) as conn:
            conn.execute("PRAGMA locking_mode = exclusive")
            if holds_something(conn):
                return False
            conn.execute("PRAGMA journal_mode = delete")
            if salt:  # first, as in `remove_files`: a file that is made later must not be encrypted with it
                files.erase(path)
            if sys.platform != "win32":
                path.unlink()
        if sys.platform == "win32":  # which deletes no file that is open
            path.unlink()
    return True


RETRY_S = 0.01


_Key = FileKey | None
"""What a file is encrypted with; None for an unencrypted one."""


def recrypt(path: Path, have: Key | None, want: Key | None, *, timeout_s: float) -> bool:
    """Give a memory's file another key, or its first, or none; return whether anything was to do.

    Args:
        path: the file.
        have: its key; None for an unencrypted file.
        want: its key from now on; None for an unencrypted file.
        timeout_s: how long to wait for others who have it open.

    Raises:
        StoreKeyError: if the file is encrypted with neither key.
        StoreLockedError: if somebody else has it open.
        StoreError: if it cannot be read or written, is damaged or not ours. It is as it was then.
        ConfigError: if SQLCipher is not installed.
    """
    library(encrypted=True)
    deadline = time.monotonic() + timeout_s
    with GATE.inside(), mapped_errors(path):
        for one in (path, files.salt_file(path)):
            refuse_link(one)
        while True:
            seen = files.read(path), identity_of(path)
            try:
                return _recrypt(path, seen[0], have, want, deadline)
            except (StoreKeyError, ForeignStoreError):
                # Another process may have done the same meanwhile.
                if (files.read(path), identity_of(path)) == seen:
                    raise


def _recrypt(path: Path, found: Salt | None, have: Key | None, want: Key | None, deadline: float) -> bool:
    salt = found or Salt(files.new_salt(), plain=True)
    old, new = (None if one is None else one.of_file(salt.salt) for one in (have, want))
    ways = _ways(path, salt, old, new)
    after = Salt(salt.salt, () if new is None else (new.check,), plain=new is None)
    if ways[0] == new and path.exists() and salt == after and not files.unfinished(path):
        # Nothing is to do if the file is what is wanted, as the likeliest way opens it; nothing is written here.
        with suppress(*errors()), closing(connect(path, 0, new)) as conn:
            if conn.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
                return False
    with _alone(path, ways, found, deadline) as (conn, way), ExitStack() as copies:
        # Another process may have just come to its end.
        if way == new and salt == after and not files.unfinished(path):
            return False
        if way != new:
            both = Salt(
                salt.salt, tuple(key.check for key in (old, new) if key is not None), plain=None in (old, new)
            )
            files.write(path, both)
            _copy(path, conn, way, new, copies)
            _switch(path, new, conn, copies)
        if found is not None or new is not None:
            files.write(path, after)
        _wipe(path)
    return True


def _ways(path: Path, salt: Salt, old: _Key, new: _Key) -> list[_Key]:
    """Return the keys that a file may be encrypted with, by its salt and the given keys, the likelier first.

    Raises:
        StoreKeyError: if it is encrypted with neither key.
    """
    ways: list[_Key] = [way for way in (new, old) if way is not None and way.check in salt.checks]
    if None in (old, new) and (salt.plain or ways):
        # A plain file may have been put beside the salt of an encrypted one.
        ways.insert(0 if salt.plain else len(ways), None)
    if not ways:
        raise StoreKeyError(
            f"{path.name!r} is not encrypted; `memforest key set` encrypts it"
            if salt.plain
            else f"{path.name!r} is encrypted with another key than the one given, or {path.name}-salt is the salt of "
            "another memory; give its key, or put its own salt file back"
        )
    return ways


@contextmanager
def _alone(
    path: Path, ways: list[_Key], salt: Salt | None, deadline: float
) -> Iterator[tuple[Connection, _Key]]:
    """Hold the file's exclusive lock, with an empty log: nobody else can read or write it.

    Args:
        path: the file.
        ways: what it may be by its salt.
        salt: its salt, which must be the same under the lock.
        deadline: when to give up, of the monotonic clock.

    Yields:
        The connection that holds it, and what the file is.

    Raises:
        StoreLockedError: if somebody else has it open for longer than the time-out.
    """
    while True:
        before = identity_of(path)
        conn, way = _opened(path, ways)
        with closing(conn):
            try:
                conn.execute("PRAGMA application_id").fetchone()
                [[mode]] = conn.execute(
                    "PRAGMA journal_mode = DELETE"
                ).fetchall()  # the log is folded into the file
                conn.execute("BEGIN EXCLUSIVE")
            except errors() as exc:
                if "is locked" not in str(exc):
                    raise
                mode = ""
            if mode == "delete":
                # Who was waited for may have put another file here.
                if (identity_of(path), files.read(path)) != (before, salt):
                    raise StoreKeyError(f"{path.name!r} was given another key meanwhile; run this again")
                yield conn, way
                return
        if time.monotonic() >= deadline:
            raise StoreLockedError(
                f"{path.name!r} is in use by another forest or process; close it there and run this again"
            )
        time.sleep(RETRY_S)


def _opened(path: Path, ways: list[_Key]) -> tuple[Connection, _Key]:
    """Return a connection to a file, and which of the ways opens it.

    Raises:
        StoreKeyError: if none does.
        ForeignStoreError: if it is another program's.
    """
    if not path.exists():
        raise ForeignStoreError(f"there is no file {path.name!r}")
    for way in ways:
        conn = connect(path, 0, way)
        try:
            conn.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
            if conn.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
                return conn, way
        except errors() as exc:
            if "is locked" in str(exc):
                return conn, way  # which one it is shows when it is not locked any more
            conn.close()
            if not not_a_database(exc):
                raise
            continue
        conn.close()
        raise ForeignStoreError(f"{path.name!r} is another program's database; use another directory")
    raise StoreKeyError(
        f"{path.name!r} cannot be read with the key that fits {path.name}-salt: that is the salt of another memory, or the "
        "file is damaged; put its own salt file back, or restore the file from a backup. If giving it another key was "
        "interrupted, run that again"
    )


def _copy(path: Path, conn: Connection, old: _Key, new: _Key, kept: ExitStack) -> None:
    """Write a copy of a file beside it, as it is to be, and compare it.

    Args:
        path: the file.
        conn: the connection that holds its lock.
        old: what it is.
        new: what the copy is to be.
        kept: closes connections that must stay open as long as the lock is needed. Where another library holds that, as for
            an unencrypted file, closing ours would drop it (https://www.sqlite.org/howtocorrupt.html section 2.2).

    Raises:
        CorruptStoreError: if they are not the same.
    """
    copy = beside(path, "-new")
    files.overwrite(copy)
    make_own(copy)
    try:
        with ExitStack() as own:
            both = _attached(copy, new, path, old, kept if old is None else own)
            both.execute("PRAGMA journal_mode = OFF").fetchall()
            both.execute("PRAGMA synchronous = OFF")
            both.execute("SELECT sqlcipher_export('main', 'old')").fetchall()
            for name in ("application_id", "user_version"):
                both.execute(f"PRAGMA {name} = {conn.execute(f'PRAGMA {name}').fetchone()[0]:d}")
            again = _attached(copy, new, path, old, kept if old is None else own)
            if (different := _difference(again)) is not None:  # read from the disk, not what was just written
                raise CorruptStoreError(
                    f"{path.name!r}: its copy differs in {different}; run `memforest maintain verify`, or restore it from a backup"
                )
        sync(copy)
    except BaseException:
        kept.close()
        with suppress(OSError):  # the next call does it; this error must not mask the first
            files.overwrite(copy)
        raise


def _attached(copy: Path, new: _Key, path: Path, old: _Key, closes: ExitStack) -> Connection:
    """Open a copy with the file that it is of beside it, as the schema ``old``.

    Both are opened by SQLCipher, which reads unencrypted files too. It takes no locks on the old one: ours is held.
    """
    module = library(encrypted=True)
    both: Connection = module.connect(copy, uri=True, isolation_level=None)
    closes.callback(both.close)
    if new is not None:
        both.execute(f"PRAGMA key = {pragma_key(new)}").fetchall()
    key = "" if old is None else pragma_key(old).strip('"')
    both.execute("ATTACH ? AS old KEY ?", (uri_of(path, unchanging=True), key))
    return both


def _difference(both: Connection) -> str | None:
    """Return where a copy differs from what it is of; None when it is the same."""
    listed = "SELECT type, name, tbl_name, sql FROM {}.sqlite_schema ORDER BY type, name"
    schema = both.execute(listed.format("old")).fetchall()
    if both.execute(listed.format("main")).fetchall() != schema:
        return "its schema"
    both.text_factory = bytes  # also what is no UTF-8
    for kind, name, _, sql in schema:
        if kind != "table" or sql.startswith("CREATE VIRTUAL"):
            continue
        table = '"{}"'.format(name.replace('"', '""'))
        rows = (both.execute(f"SELECT * FROM {where}.{table}") for where in ("old", "main"))
        if any(one != other for one, other in zip_longest(*rows)):
            return f"the table {name}"
    return None


def _switch(path: Path, new: _Key, conn: Connection, kept: ExitStack) -> None:
    """Put the copy in the place of the file, which stays beside it under another name until it is wiped.

    The new file is locked as the old one is, so that nobody else finishes what is under way here.
    """
    copy, old = beside(path, "-new"), beside(path, "-old")
    old.unlink(missing_ok=True)
    with suppress(OSError):  # a file system without links; then the old bytes are not overwritten
        os.link(path, old)
    if sys.platform == "win32":  # no file that is open can be renamed there
        kept.close()
        conn.close()
    else:
        held = kept.enter_context(closing(connect(copy, 0, new)))
        held.execute("BEGIN EXCLUSIVE")
    copy.replace(path)
    sync(path.parent)


def _wipe(path: Path) -> None:
    """Overwrite and remove the old file, and whatever an interrupted call has left."""
    files.remove_unfinished(path)
    files.overwrite(beside(path, "-new"))
    old = beside(path, "-old")
    if old.exists() and old.samefile(path):  # interrupted before the switch: another name of the file itself
        old.unlink()
    files.overwrite(old)
    sync(path.parent)
