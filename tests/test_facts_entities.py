"""Which entity a name means: keys, aliases, and what is never joined."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from memforest.facts.entities import EntityBook
from memforest.store import facts as rows
from memforest.store import migrations
from memforest.store.db import Database, Tx


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
    """The name "Ana" is Ana Ruiz while only one participant is called so; the alias is kept."""
    book = EntityBook(tx)
    ana = book.participant("Ana Ruiz")
    assert book.entity("Ana", "person") == ana
    assert ("ana", ana) in rows.names(tx)


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
    assert (entity.kind, entity.active) == ("participant", True)


def test_names_without_letters_are_no_entities(tx: Tx) -> None:
    """Punctuation alone names nobody, but a speaker is kept even so."""
    book = EntityBook(tx)
    assert book.entity("—", "unknown") is None
    assert book.participant("👍") is not None
