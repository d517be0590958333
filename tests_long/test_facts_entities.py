"""Which entity a name means: keys, aliases, and what is never joined."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, file_of, said
from tests_long.worlds import rows as found

from memforest import MemForest
from memforest.reading.canonical import EntityBook
from memforest.records import EntityKind
from memforest.store import facts as rows
from memforest.store.connections import Tx
from memforest.store.database import Database, ensure_schema
from memforest.text import entity_key


class Book(EntityBook):
    """One that stores each entity at once, and can say whom names mean."""

    def participant(self, name: str) -> int | None:
        """Store a speaker."""
        row = super().participant(name)
        self.write()
        return row

    def entity(self, name: str, kind: EntityKind, occurrence: int | None = None) -> int | None:
        """Store an entity."""
        row = super().entity(name, kind, occurrence)
        self.write()
        return row

    def stored(self, names: Sequence[str]) -> list[int]:
        """Return the entities that are stored under the names' own keys."""
        keys = [key for name in names if (key := entity_key(name)) is not None]
        there = rows.entities_with_keys(self._tx, keys)
        return [there[key].row for key in keys if key in there]


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Tx]:
    """A write transaction on an empty memory."""
    db = Database(tmp_path / "m.db")
    ensure_schema(db)
    with db.write() as open_tx:
        yield open_tx
    db.close()


def test_surface_forms_of_one_name_meet(tx: Tx) -> None:
    """Accents, case and a possessive make no new entity."""
    book = Book(tx)
    assert book.entity("José García", "person") == book.entity("jose garcia's", "unknown")


@pytest.mark.parametrize("name", ["李小龙", "Ελένη", "Дмитрий", "नेहा", "สมชาย", "김민수"])
def test_names_of_every_script_have_entities(tx: Tx, name: str) -> None:
    """A name in any script is keyed, and found again."""
    book = Book(tx)
    row = book.entity(name, "person")
    assert row is not None
    assert Book(tx).stored([name]) == [row]


def test_first_name_means_the_one_participant_who_has_it(tx: Tx) -> None:
    """The name "Ana" is Ana Ruiz while only one participant is called so."""
    book = Book(tx)
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
    book = Book(tx)
    melanie = book.participant("Melanie")
    book.participant("Caroline")
    assert book.entity("Mel", "person") == melanie


@pytest.mark.parametrize(
    ("participants", "name"), [(["Ana Ruiz", "Ana Soto"], "Ana"), (["Anna"], "Ann"), (["Alan"], "Al")]
)
def test_doubtful_short_forms_are_entities_of_their_own(tx: Tx, participants: list[str], name: str) -> None:
    """Two candidates, a name that is one letter shorter, or two letters: never joined."""
    book = Book(tx)
    known = {book.participant(one) for one in participants}
    assert book.entity(name, "person") not in known


def test_full_names_are_never_joined(tx: Tx) -> None:
    """The names "Maria" and "Mariana" stay two people, in either order of appearance."""
    book = Book(tx)
    assert book.entity("Maria", "person") != book.entity("Mariana", "person")


def test_a_mentioned_person_becomes_a_participant_when_they_speak(tx: Tx) -> None:
    """The entity stays, with its facts; only its kind and its tree change."""
    book = Book(tx)
    mentioned = book.entity("Tom", "person")
    assert book.participant("Tom") == mentioned
    assert mentioned is not None
    entity = rows.entity_with_row(tx, mentioned)
    assert entity.kind == "participant"


def test_names_without_letters_are_no_entities(tx: Tx) -> None:
    """Punctuation alone names nobody, but a speaker is kept even so."""
    book = Book(tx)
    assert book.entity("—", "unknown") is None
    assert book.participant("👍") is not None


def test_the_speaker_of_this_session_is_meant_before_anybody_of_another(tx: Tx) -> None:
    """A short form is that of who speaks here; in another session, where Melissa speaks, the same one is hers."""
    first, second = Book(tx), Book(tx)
    melanie, melissa = first.participant("Melanie"), second.participant("Melissa")
    assert first.entity("Mel", "person") == melanie
    assert second.entity("Mel", "person") == melissa
    nobody = Book(tx).entity("Mel", "person")
    assert nobody not in (None, melanie, melissa)
    assert first.entity("Mel", "person") == melanie


def test_a_speaker_is_told_by_the_whole_name_first(tx: Tx) -> None:
    """Where Mel and Melanie both speak, "Mel" is Mel, however one is written."""
    book = Book(tx)
    melanie, mel = book.participant("Melanie"), book.participant("Mel")
    assert melanie != mel
    assert book.entity("mel's", "unknown") == mel
    assert book.entity("Melanie", "thing") == melanie
    assert book.participant("MEL") == mel


def test_the_surest_kind_of_an_entity_counts(tx: Tx) -> None:
    """Whatever order mentions come in; a mention never makes a participant, and speaking does."""
    kinds: list[tuple[EntityKind, EntityKind, str]] = [
        ("unknown", "person", "person"),
        ("person", "unknown", "person"),
        ("participant", "unknown", "unknown"),
        ("participant", "place", "place"),
    ]
    for number, (one, other, expected) in enumerate(kinds):
        for order, pair in enumerate(((one, other), (other, one))):
            name, book = f"Name{number}{order}", Book(tx)
            row = book.entity(name, pair[0])
            assert book.entity(name, pair[1]) == row
            assert row is not None
            assert rows.entity_with_row(tx, row).kind == expected
            assert Book(tx).participant(name) == row
            assert rows.entity_with_row(tx, row).kind == "participant"
            assert Book(tx).entity(name, "place") == row
            assert rows.entity_with_row(tx, row).kind == "participant"


def test_looking_for_names_makes_none(tx: Tx) -> None:
    """In their order, those that are known; neither unknown ones nor what names nobody, and no alias."""
    book = Book(tx)
    ana, oslo = book.participant("Ana Ruiz"), book.entity("Oslo", "place")
    assert Book(tx).stored(["OSLO", "Ana", "—", "Rome", "ana ruiz"]) == [oslo, ana]
    assert Book(tx).stored([]) == []
    assert [row[0] for row in tx.execute("SELECT count(*) FROM entity")] == [2]


def test_a_label_is_the_first_way_a_name_was_written(tx: Tx) -> None:
    """Later forms, and what the speaker is called then, do not change it."""
    book = Book(tx)
    row = book.entity("José García", "person")
    assert book.entity("JOSE GARCIA", "person") == book.participant("jose garcía") == row
    assert row is not None
    assert (rows.entity_with_row(tx, row).label, rows.entity_with_row(tx, row).key) == (
        "José García",
        "jose garcia",
    )
