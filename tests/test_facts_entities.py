"""Which entity a name means: keys, aliases, and what is never joined."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.worlds import fast_config, file_of, said
from tests.worlds import rows as found

from memforest import MemForest
from memforest.facts.entities import EntityBook
from memforest.store import facts as rows
from memforest.store import migrations
from memforest.store.db import Database
from memforest.store.tx import Tx


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Tx]:
    """A write transaction on an empty memory."""
    db = Database(tmp_path / "m.db")
    migrations.apply(db, datetime(2024, 1, 1, tzinfo=timezone.utc))
    with db.write() as open_tx:
        yield open_tx
    db.close()


def test_surface_forms_of_one_name_meet(tx: Tx) -> None:
    """Accents, case and a possessive make no new entity."""
    book = EntityBook(tx)
    assert book.entity("José García", "person") == book.entity("jose garcia's", "unknown")


@pytest.mark.parametrize("name", ["李小龙", "Ελένη", "Дмитрий", "नेहा", "สมชาย", "김민수"])
def test_names_of_every_script_have_entities(tx: Tx, name: str) -> None:
    """A name in any script is keyed, and found again."""
    book = EntityBook(tx)
    row = book.entity(name, "person")
    assert row is not None
    assert EntityBook(tx).find([name]) == [row]


def test_first_name_means_the_one_participant_who_has_it(tx: Tx) -> None:
    """The name "Ana" is Ana Ruiz while only one participant is called so."""
    book = EntityBook(tx)
    ana = book.participant("Ana Ruiz")
    assert book.entity("Ana", "person") == ana


def test_an_alias_stands_for_as_long_as_something_is_called_so(tmp_path: Path) -> None:
    """A nickname that only an overwritten session used is gone with it; one that another uses stays."""
    turns = {
        "one": said("I bought a tent.", "Alexan lives in Zorbville.", speaker="Alexandria"),
        "two": said("I like tea.", "Alexan lives in Oslo.", speaker="Alexandria", day=2),
    }
    with MemForest(tmp_path, fast_config()) as forest:
        for name, spoken in turns.items():
            forest.ingest_session("u", name, spoken)
        assert found(file_of(tmp_path), "SELECT key FROM alias") == [("alexan",)]
        forest.ingest_session("u", "one", said("I sold a tent.", speaker="Alexandria"), replace=True)
        assert found(file_of(tmp_path), "SELECT key FROM alias") == [("alexan",)]
        forest.ingest_session("u", "two", said("I like coffee.", speaker="Alexandria", day=2), replace=True)
        assert found(file_of(tmp_path), "SELECT key FROM alias") == []
        assert forest.query("u", "Where does Alexan live?").plan.entities == ()
        assert forest.user("u").verify().ok


def test_whom_an_alias_means_does_not_depend_on_the_order_of_arrival(tmp_path: Path) -> None:
    """Two sessions mean two people by "Mel": it stands for the one who was called so first."""
    sessions = [("a", "Melanie", 1), ("b", "Melissa", 2)]
    meant = []
    for number, order in enumerate((sessions, sessions[::-1])):
        with MemForest(tmp_path / str(number), fast_config()) as forest:
            for name, speaker, day in order:
                forest.ingest_session("u", name, said("Mel lives in Oslo.", speaker=speaker, day=day))
        file = file_of(tmp_path / str(number))
        meant.append(found(file, "SELECT a.key, e.key FROM alias a JOIN entity e ON e.id = a.entity"))
    assert meant == [[("mel", "melanie")]] * 2


def test_short_form_means_the_one_participant_it_starts(tx: Tx) -> None:
    """The form "Mel" is Melanie."""
    book = EntityBook(tx)
    melanie = book.participant("Melanie")
    book.participant("Caroline")
    assert book.entity("Mel", "person") == melanie


@pytest.mark.parametrize(
    ("participants", "name"), [(["Ana Ruiz", "Ana Soto"], "Ana"), (["Anna"], "Ann"), (["Alan"], "Al")]
)
def test_doubtful_short_forms_are_entities_of_their_own(tx: Tx, participants: list[str], name: str) -> None:
    """Two candidates, a name that is one letter shorter, or two letters: never joined."""
    book = EntityBook(tx)
    known = {book.participant(one) for one in participants}
    assert book.entity(name, "person") not in known


def test_full_names_are_never_joined(tx: Tx) -> None:
    """The names "Maria" and "Mariana" stay two people, in either order of appearance."""
    book = EntityBook(tx)
    assert book.entity("Maria", "person") != book.entity("Mariana", "person")


def test_a_mentioned_person_becomes_a_participant_when_they_speak(tx: Tx) -> None:
    """The entity stays, with its facts; only its kind and its tree change."""
    book = EntityBook(tx)
    mentioned = book.entity("Tom", "person")
    assert book.participant("Tom") == mentioned
    assert mentioned is not None
    entity = rows.entity_with_row(tx, mentioned)
    assert entity.kind == "participant"


def test_names_without_letters_are_no_entities(tx: Tx) -> None:
    """Punctuation alone names nobody, but a speaker is kept even so."""
    book = EntityBook(tx)
    assert book.entity("—", "unknown") is None
    assert book.participant("👍") is not None
