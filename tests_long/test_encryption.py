"""Encrypted memories: what is on the disk, which keys open them, and what each wrong key is told."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import pickle
import sqlite3
import stat
import sys
from contextlib import closing
from dataclasses import asdict
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.test_memory_residue import MARKERS, plain, secret, turns
from tests_long.worlds import fast_config, file_of, make_sessions

from memforest import ConfigError, MemForest, load_default_config
from memforest.errors import (
    CorruptStoreError,
    ForeignStoreError,
    InputError,
    SomeUsersFailedError,
    StoreKeyError,
    StoreLockedError,
)
from memforest.memory.blocking import UserMemory
from memforest.protection import Key
from memforest.store import connections, files
from memforest.store.database import Database
from memforest.store.directory import file_name

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
HEX = KEY.hex()
encrypted = pytest.mark.skipif(
    find_spec("sqlcipher3") is None, reason="the extra [encrypted] is not installed"
)


def a_forest(folder: Path, key: Any = KEY, **settings: Any) -> MemForest:
    """Return a forest with the word-overlap embedder and a key."""
    return MemForest(folder, fast_config(key=key, busy_timeout_s=0.2, **settings))


def fill(folder: Path, key: Any = KEY, *users: str) -> None:
    """Make the memories of some users."""
    with a_forest(folder, key) as forest:
        for user in users or ("nora",):
            forest.ingest_session(user, "s", turns(secret(1)))


def bytes_beside(folder: Path) -> bytes:
    """Return everything that the files of a directory hold, in lower case."""
    return b"\0".join(path.read_bytes() for path in sorted(folder.iterdir())).lower()


def answers(memory: UserMemory) -> list[str]:
    """Return the quotes that answer a question."""
    return [one.quote for one in memory.search("What did Nora buy for her cousin?").evidence]


def test_the_key_of_a_file_is_that_of_rfc_5869() -> None:
    """HKDF-SHA256 of key and salt: made here from the letters of the RFC, with hashlib alone."""
    from hashlib import sha256

    def hmac(key: bytes, text: bytes) -> bytes:
        key = key.ljust(64, b"\0")
        inner = sha256(bytes(k ^ 0x36 for k in key) + text).digest()
        return sha256(bytes(k ^ 0x5C for k in key) + inner).digest()

    made = Key(KEY).of_file(b"salt")
    assert made.raw == hmac(hmac(b"salt", KEY), b"memforest file key v1\x01")
    assert made.check == hmac(hmac(b"salt", KEY), b"memforest key check v1\x01")[:16].hex()
    assert made != Key(KEY).of_file(b"tlas") != Key(OTHER).of_file(b"salt")


def test_a_key_may_be_given_in_several_forms() -> None:
    """Bytes, their hexadecimal digits, or a function that returns either, are one key."""
    made = [Key(one).of_file(b"s") for one in (KEY, HEX, HEX.upper() + "\n", lambda: KEY, lambda: HEX)]
    assert set(made) == {Key(KEY).of_file(b"s")}
    assert Key.of(None) is None
    assert (Key(KEY) == Key(HEX), Key(KEY) == Key(OTHER), hash(Key(KEY)) == hash(Key(HEX))) == (
        True,
        False,
        True,
    )


@each("wrong", [b"", KEY[:31], HEX[:-1], HEX[:62], "correct horse battery staple " * 3, "", 7, bytes, [1]])
def test_what_is_no_key_is_refused_and_not_shown(wrong: Any) -> None:
    """The message says what to give and how to make it, and does not repeat what was given."""
    for setting in (wrong, lambda: wrong):
        with pytest.raises(ConfigError, match="token_hex") as caught:
            Key.of_file(Key(setting), b"salt")
        assert not isinstance(wrong, (str, bytes)) or not wrong or repr(wrong)[2:-1] not in str(caught.value)
    with pytest.raises(ConfigError, match="token_hex"):
        fast_config(key=wrong)


def test_no_output_shows_a_key(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the configuration nor a file's key does so, printed, as a mapping, or wrong in another setting."""
    config = fast_config(key=KEY)
    shown = [
        repr(config),
        str(asdict(config)),
        repr(Key(KEY).of_file(b"s")),
        repr(Key(lambda: KEY)),
        caplog.text,
    ]
    with pytest.raises(ConfigError) as caught:
        fast_config(key=KEY, top_k="x")
    shown.append(repr(caught.value))
    for text in shown:
        assert HEX not in text
        assert repr(KEY)[2:20] not in text
        assert Key(KEY).of_file(b"s").raw.hex() not in text
    assert pickle.loads(pickle.dumps(Key(KEY))) == Key(KEY)


def test_the_key_comes_from_the_environment() -> None:
    """MEMFOREST_KEY is read; an argument goes over it; what is no key, empty for one, is refused and not passed over."""
    assert load_default_config(environ={"MEMFOREST_KEY": HEX}).key == Key(KEY)
    assert load_default_config(environ={"MEMFOREST_KEY": HEX}, key=OTHER).key == Key(OTHER)
    assert load_default_config(environ={"MEMFOREST_KEY": HEX}, key=None).key is None
    assert load_default_config(environ={}).key is None
    for wrong in ("", " ", "hunter2"):
        with pytest.raises(ConfigError) as caught:
            load_default_config(environ={"MEMFOREST_KEY": wrong})
        assert "hunter2" not in str(caught.value)


def test_a_file_of_settings_takes_no_key(tmp_path: Path) -> None:
    """It is copied, shown and committed; the message does not repeat the key."""
    file = tmp_path / "memforest.toml"
    file.write_text(f'key = "{HEX}"\n')
    with pytest.raises(ConfigError) as caught:
        load_default_config(file=file)
    assert HEX not in str(caught.value)


def test_without_the_extra_a_key_is_refused_with_the_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is made, least of all an unencrypted one; without a key nothing is missed."""
    monkeypatch.setattr(connections, "find_spec", lambda _: None)
    with pytest.raises(ConfigError):
        a_forest(folder)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "sqlcipher3.dbapi2", None)
    connections._cipher.cache_clear()
    with pytest.raises(ConfigError):
        Database(folder / "a-b.db", key=Key(KEY))
    assert list(folder.iterdir()) == []
    fill(folder, None)


@encrypted
def test_nothing_readable_is_on_the_disk(folder: Path) -> None:
    """No word, name, id or key is in any file, while the memory is open, after replacements, and closed; answers come."""
    with a_forest(folder) as forest:
        forest.register_user("nora-7f3", display_name="Zorblattina")
        for number in range(3):
            forest.ingest_session(
                "nora-7f3", f"session-{number}", turns(secret(number)), metadata={"place": "Vrukkam"}
            )
        forest.ingest_session("nora-7f3", "session-0", turns(plain(5)), replace=True)
        forest.flush()
        assert forest.user("nora-7f3").repair().ok
        forest.user("nora-7f3").add("The weather was fine.")
        log = file_of(folder).with_name(f"{file_of(folder).name}-wal")
        assert log.stat().st_size > 0
        open_bytes = bytes_beside(folder)
        assert any(MARKERS[0] in quote for quote in answers(forest.user("nora-7f3")))
    own = Key(KEY).of_file(files.read(file_of(folder)).salt).raw  # type: ignore[union-attr]
    words = (*MARKERS, "weather", "apple", "session-0", "nora-7f3", "tomas", "sqlite format", HEX, own.hex())
    for held in (open_bytes, bytes_beside(folder)):
        assert [word for word in words if word.lower().encode() in held] == []
        assert KEY not in held
        assert own not in held


@encrypted
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no file modes")
def test_salts_are_for_their_owner_alone(folder: Path) -> None:
    """Whatever the umask, and again at the next opening if somebody has let others in."""
    before = os.umask(0)
    try:
        fill(folder)
    finally:
        os.umask(before)
    salt = files.salt_file(file_of(folder))
    assert {stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()} == {0o600}
    salt.chmod(0o644)
    fill(folder)
    assert stat.S_IMODE(salt.stat().st_mode) == 0o600


@encrypted
def test_each_memory_has_a_key_of_its_own(folder: Path) -> None:
    """From its own salt: with another one's a file cannot be read, and it says which file to mend."""
    fill(folder, KEY, "nora", "tomas")
    nora, tomas = (folder / file_name(user) for user in ("nora", "tomas"))
    whole = files.salt_file(nora).read_bytes()
    assert files.read(nora) != files.read(tomas)
    files.salt_file(nora).write_bytes(files.salt_file(tomas).read_bytes())
    with a_forest(folder) as forest:
        with pytest.raises(StoreKeyError):
            forest.query("nora", "x")
        assert forest.list_users() == ["tomas"]
        files.salt_file(nora).write_bytes(whole)
        assert forest.list_users() == ["nora", "tomas"]
        assert answers(forest.user("nora"))


def refused(folder: Path, key: Any, said: str) -> None:
    """Check that no verb works with a key, that each says so, and that the files stay as they were."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with a_forest(folder, key) as forest:
        for verb in (
            lambda: forest.query("nora", "x"),
            lambda: forest.ingest_session("nora", "s2", turns(plain(1))),
            lambda: forest.register_user("nora"),
            lambda: forest.user("nora").verify(),
        ):
            with pytest.raises(StoreKeyError, match=said):
                verb()
        assert forest.has_user("nora")
        found = forest.survey()
        assert found.users == ()
        [(file, error)] = [(one.file, one.error) for one in found.unreadable]
        assert file == file_name("nora")
        with pytest.raises(StoreKeyError, match=said):
            raise error
        with pytest.raises(SomeUsersFailedError, match=said):
            forest.resume()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@encrypted
def test_another_key_is_refused(folder: Path) -> None:
    """It is told before the file is touched, and the right key works as before."""
    fill(folder)
    refused(folder, OTHER, "encrypted with another key than the one configured")
    with a_forest(folder, lambda: HEX) as forest:
        assert answers(forest.user("nora"))


@encrypted
def test_no_key_is_refused(folder: Path) -> None:
    """The message names the setting."""
    fill(folder)
    refused(folder, None, "is encrypted, and no key is configured; set MEMFOREST_KEY")


@encrypted
def test_a_key_for_an_unencrypted_memory_is_refused(folder: Path) -> None:
    """The message names the command that encrypts it; nothing is encrypted by the way."""
    fill(folder, None)
    refused(folder, KEY, "is not encrypted, and a key is configured; `memforest key set`")
    with a_forest(folder, None) as forest:
        assert answers(forest.user("nora"))


@encrypted
def test_a_salt_that_is_gone_is_told(folder: Path) -> None:
    """Without it no key opens the memory, also a copy of it; with it the memory is as it was."""
    fill(folder)
    salt = files.salt_file(file_of(folder))
    kept = salt.read_bytes()
    files.erase(file_of(folder))
    assert not salt.exists()
    refused(folder, KEY, "its salt file .* is not there; put it back")
    salt.write_bytes(kept)
    with a_forest(folder) as forest:
        assert answers(forest.user("nora"))


@encrypted
def test_a_failed_import_leaves_the_salt_that_was_there(folder: Path) -> None:
    """It may be that of a backup, which nothing else opens; one that was made for the memory goes with it."""
    fill(folder / "a")
    path, export = file_of(folder / "a"), folder / "x.jsonl"
    kept = files.read(path)
    with a_forest(folder / "a") as forest:
        forest.user("nora").export(export)
    path.unlink()
    cut = export.read_bytes().rpartition(b'{"record":"end"')[0]
    assert cut
    for name, left in (("a", [files.salt_file(path).name]), ("b", [])):
        with a_forest(folder / name) as forest, pytest.raises(InputError):
            forest.user("nora").import_(BytesIO(cut))
        assert [one.name for one in (folder / name).iterdir()] == left
    assert files.read(path) == kept


@encrypted
@pytest.mark.parametrize(
    "damage", [b"", b"{}", b"[1]", b"\xff\xfe", b'{"salt": "zz", "keys": [], "plain": false}', b"[" * 9000]
)
def test_a_damaged_salt_is_told(folder: Path, damage: bytes) -> None:
    """It is a file like any other, and may hold anything."""
    fill(folder)
    files.salt_file(file_of(folder)).write_bytes(damage)
    for key in (KEY, None):
        refused(folder, key, "the salt file .* is damaged; put a copy of it back")


@encrypted
def test_other_programs_files_are_told_from_ours(folder: Path) -> None:
    """A key makes no claim to what is none of ours."""
    fill(folder)
    with closing(sqlite3.connect(folder / "their-own.db")) as conn:
        conn.execute("CREATE TABLE t (a)")
    with a_forest(folder) as forest:
        found = forest.survey()
        assert found.users == ("nora",)
        assert [type(one.error) for one in found.unreadable] == [ForeignStoreError]


@encrypted
def test_damage_to_an_encrypted_file_is_damage(folder: Path) -> None:
    """A page that was changed is not read as something else; the message says so."""
    with a_forest(folder) as forest:
        for session_id, said in make_sessions(3, sessions=4):
            forest.ingest_session("nora", session_id, said)
    path = file_of(folder)
    held = bytearray(path.read_bytes())
    for page in range(2, len(held) // 4096):
        held[page * 4096 + 100] ^= 1
    path.write_bytes(held)
    with a_forest(folder) as forest, pytest.raises(CorruptStoreError, match="damaged"):
        forest.user("nora").list()


@encrypted
def test_a_file_that_another_made_unencrypted_meanwhile_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that make one memory at once, with a key and without, one gets an error; the other's memory stays readable."""
    made = files.make

    def overtaken(path: Path, key: Key) -> Any:
        monkeypatch.undo()
        salt = made(path, key)
        kept = files.salt_file(path).rename(folder / "aside")
        fill(folder, None)
        kept.rename(files.salt_file(path))
        return salt

    monkeypatch.setattr(files, "make", overtaken)
    with a_forest(folder) as forest, pytest.raises(StoreKeyError):
        forest.ingest_session("nora", "s", turns(secret(1)))
    with a_forest(folder, None) as forest:
        assert answers(forest.user("nora"))


def ingest_some(folder: str, number: int) -> None:
    """Write sessions of one process."""
    with MemForest(folder, fast_config(key=KEY)) as forest:
        for session_id, said in make_sessions(number, sessions=6):
            forest.ingest_session("nora", f"{number}-{session_id}", said)
            forest.query("nora", "Where does Ana live?")


@encrypted
@pytest.mark.timeout(120)
def test_processes_share_an_encrypted_memory(folder: Path) -> None:
    """Two that begin a memory at once get one salt, and lose and double nothing."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.starmap(ingest_some, [(str(folder), number) for number in (1, 2)])
    with a_forest(folder) as forest:
        stored = {one.session_id: one.turns for one in forest.user("nora").sessions()}
        said = {f"{n}-{name}": len(texts) for n in (1, 2) for name, texts in make_sessions(n, sessions=6)}
        assert stored == said
        assert forest.user("nora").verify().ok
    assert len(list(folder.glob("*-salt*"))) == 1


@encrypted
@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_a_forked_process_opens_it_anew(folder: Path) -> None:
    """No connection crosses a fork, whichever library it is of."""
    with a_forest(folder) as forest:
        forest.ingest_session("nora", "s", turns(secret(1)))
        context = multiprocessing.get_context("fork")
        child = context.Process(target=ingest_some, args=(str(folder), 4))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert len(forest.user("nora").sessions()) == 7
        assert forest.user("nora").verify().ok


@encrypted
def test_a_locked_memory_is_told_as_such(folder: Path) -> None:
    """SQLCipher's errors are classes of its own, and mean the same."""
    fill(folder)
    with (
        closing(Database(file_of(folder), key=Key(KEY))) as db,
        db.write(),
        a_forest(folder) as forest,
        pytest.raises(StoreLockedError),
    ):
        forest.register_user("nora", display_name="Nora M.")


@encrypted
def test_it_is_read_where_nothing_may_be_written(folder: Path) -> None:
    """A look at an encrypted file leaves no trace beside it."""
    fill(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    db = Database(file_of(folder), readonly=True, key=Key(KEY))
    with db.read() as tx:
        assert tx.execute("SELECT count(*) FROM turn").fetchone() == (4,)
    db.close()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@encrypted
def test_wrong_keys_leave_no_lines_on_standard_error(
    folder: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """SQLCipher writes about each page that a key does not fit, unless it is told not to; nothing is logged either."""
    fill(folder, KEY, "nora", "tomas")
    files.salt_file(folder / file_name("nora")).write_bytes(
        files.salt_file(folder / file_name("tomas")).read_bytes()
    )
    with a_forest(folder) as forest, caplog.at_level(logging.ERROR, "memforest"):
        assert forest.list_users() == ["tomas"]
    assert capfd.readouterr().err == ""


@encrypted
def test_results_tell_nothing_of_the_key(folder: Path) -> None:
    """Nor does a file that cannot be opened, as JSON."""
    fill(folder)
    with a_forest(folder, OTHER) as forest:
        told = json.dumps(forest.survey().to_dict()) + repr(forest.survey())
    with a_forest(folder) as forest:
        told += json.dumps(forest.user("nora").stats().to_dict()) + json.dumps(
            forest.query("nora", "x").to_dict()
        )
    own = Key(KEY).of_file(files.read(file_of(folder)).salt)  # type: ignore[union-attr]
    assert [text for text in (HEX, OTHER.hex(), own.raw.hex()) if text in told] == []
