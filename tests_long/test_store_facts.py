"""Facts, what was said of them where, and whom they name: rows come back as they were written, and shrink where they repeat."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each
from tests_long.stored import (
    add_mention,
    add_state,
    chunk_of,
    empty_memory,
    put_entities,
    put_entity,
    put_fact,
    put_session,
    say,
    value,
)

from memforest.reading.canonical import fact_identity
from memforest.records import State
from memforest.store import facts
from memforest.store.connections import Connection
from memforest.store.facts import KINDS, FactRow, add_facts
from memforest.write.reword import without_occurrences

ODD = 'Zoë \U0001f98a says "it\'s" \x1f\n{0} %s'


def fact(**values: object) -> FactRow:
    """Return a fact with every value another than its default."""
    given = {
        "row": 0, "fact_id": "f", "text": ODD, "speaker": "Ána", "start_ms": -5, "end_ms": 9, "precision": "day",
        "negated": True, "said_ms": 7, "tie": "s\x1f1", "topics": ("möbel", "work"), "stored_ms": 8, **values,
    }  # fmt: skip
    return FactRow(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed", [{}, {"start_ms": None, "end_ms": None}, {"negated": False, "topics": ()}]
)
def test_a_fact_comes_back_as_it_was_written(tx: Connection, changed: dict[str, object]) -> None:
    """By row, by its id, and among all; in the order in which facts were stored."""
    written = [fact(fact_id=name, **changed) for name in ("z", "a")]
    ids = add_facts(tx, written)
    expected = [fact(fact_id=name, row=row, **changed) for name, row in zip("za", ids, strict=True)]
    assert list(facts.iter_facts(tx)) == expected
    assert facts.facts_with_ids(tx, [ids[1], 999]) == {ids[1]: expected[1]}
    assert facts.fact_by_id(tx, "a") == expected[1]
    assert facts.fact_by_id(tx, "b") is None


def test_what_is_left_of_a_fact_joins_the_one_that_it_says_though_that_has_nothing_else_left(
    tx: Connection,
) -> None:
    """Both lose what they were known by at once; what was merged with one of them stays."""
    _, turns = put_session(tx, texts=("Ana paints.", "Ana paints a lot.", "Ana paints a lot."))
    said = {text: fact_identity(text, None, None) for text in ("Ana paints.", "Ana paints a lot.")}
    first, second = (put_fact(tx, identity, text) for text, identity in said.items())
    own = say(tx, first, turns[0])
    merged = say(tx, first, turns[1], text="Ana paints a lot.")
    other = say(tx, second, turns[2], text="Ana paints a lot.")
    lessened = without_occurrences(tx, {own[1]: first, other[1]: second})
    assert lessened.left == {second}
    assert [one.text for one in facts.iter_facts(tx)] == ["Ana paints a lot."]
    assert [one.row for one in facts.occurrences(tx, [second])[second]] == [merged[1]]


@each(("start", "end", "key"), [(None, None, 7), (3, None, 3), (3, 9, 3), (0, 5, 0), (3, 1, 3)])
def test_a_fact_stands_where_it_states_or_else_where_it_was_said(
    start: int | None, end: int | None, key: int
) -> None:
    """A time of 0 is a time."""
    assert fact(start_ms=start, end_ms=end).leaf_key == (key, "s\x1f1")


def test_a_deleted_fact_takes_with_it_what_hangs_on_it(tx: Connection) -> None:
    """Occurrences with their turns, mentions, states and its wording; nothing of another fact."""
    _, [turn] = put_session(tx)
    gone, stays = put_fact(tx, "f1"), put_fact(tx, "f2")
    [bob] = put_entities(tx, "bob")
    for one in (gone, stays):
        where = say(tx, one, turn)
        add_mention(tx, where, bob, "subject")
        add_state(tx, where, bob, State("bob", "home", "Oslo"))
        tx.execute("INSERT INTO derived_wording VALUES (?, x'00')", (one,))
    facts.delete_fact(tx, gone)
    for table in ("fact", "occurrence", "occurrence_turn", "mention", "state", "derived_wording"):
        assert value(tx, f"SELECT count(*) FROM {table}") == 1
    assert [one.row for one in facts.iter_facts(tx)] == [stays]
    assert facts.entity_facts(tx, (bob,)) == [stays]


@pytest.mark.parametrize(
    ("text", "quote", "tie", "alone"),
    [("Ana paints.", "Hi.", "f", True), ("Ana draws.", "Hi", "g", True), ("", "", "", True), ("Ana paints.", "Hi.", "f", False)],
)  # fmt: skip
def test_an_occurrence_reads_alike_whether_its_words_were_stored_or_not(
    tx: Connection, text: str, quote: str, tie: str, alone: bool
) -> None:
    """What the fact or its only turn says already is not stored again; a quote of several turns always is."""
    _, turns = put_session(tx, texts=["Hi.", "Ho."])
    row = put_fact(tx, tie="f")
    said = turns[:1] if alone else turns
    ref = say(tx, row, *said, text=text, quote=quote, tie=tie, topics=("a", ODD), cosine=0.5)
    [found] = facts.occurrences(tx, [row])[row]
    assert (found.text, found.quote, found.tie, found.turns) == (text, quote, tie, tuple(said))
    assert (found.row, found.fact, found.chunk) == (ref[1], row, chunk_of(tx, turns[0]))
    assert (found.topics, found.cosine, found.speaker, found.said_ms) == (("a", ODD), 0.5, "Ana", 0)
    kept = tx.execute("SELECT text IS NULL, quote IS NULL, tie IS NULL FROM occurrence").fetchone()
    assert kept == (text == "Ana paints.", quote == "Hi." and alone, tie == "f")


def test_occurrences_stand_in_the_order_in_which_they_were_said(tx: Connection) -> None:
    """By time, then by tie, be that its own or the fact's; a fact without any has an empty list."""
    _, [turn] = put_session(tx)
    row, silent = put_fact(tx, tie="m"), put_fact(tx, "silent")
    made = [
        say(tx, row, turn, said_ms=at, tie=tie)[1] for at, tie in ((5, "a"), (1, "z"), (1, "m"), (1, "b"))
    ]
    found = facts.occurrences(tx, [row, silent])
    assert [one.row for one in found[row]] == [made[3], made[2], made[1], made[0]]
    assert found[silent] == []
    assert facts.occurrences(tx, []) == {}


def test_turns_of_an_occurrence_are_in_order_whatever_order_they_came_in(tx: Connection) -> None:
    """As they are rows of a table without one."""
    _, turns = put_session(tx, texts=["a", "b", "c"])
    row = put_fact(tx)
    say(tx, row, *reversed(turns))
    assert facts.occurrences(tx, [row])[row][0].turns == tuple(turns)


def test_a_restated_fact_leaves_its_occurrences_as_they_read(tx: Connection) -> None:
    """Those that had the fact's words keep them as their own; those that say the new ones give theirs up."""
    _, turns = put_session(tx, texts=["Hi.", "Ho.", "He."])
    row, other = put_fact(tx, text="old", tie="1"), put_fact(tx, "g", text="old", tie="1")
    for turn, text, tie in zip(turns, ("old", "new", "third"), ("1", "2", "3"), strict=True):
        say(tx, row, turn, text=text, tie=tie)
    say(tx, other, turns[0], text="old", tie="1")
    before = facts.occurrences(tx, [row, other])
    renamed = fact(row=row, fact_id="h", text="new", tie="2", topics=("x",), said_ms=1000, speaker="Bob")
    facts.restate(tx, renamed)
    assert facts.occurrences(tx, [row, other]) == before
    assert tx.execute("SELECT text, tie FROM occurrence WHERE fact = ? ORDER BY id", (row,)).fetchall() == [
        ("old", "1"), (None, None), ("third", "3"),
    ]  # fmt: skip
    assert value(tx, "SELECT count(*) FROM occurrence WHERE fact = ? AND text IS NULL", other) == 1
    now = facts.facts_with_ids(tx, [row])[row]
    assert (now.fact_id, now.text, now.speaker, now.topics, now.said_ms, now.tie) == (
        "h", "new", "Bob", ("x",), 1000, "2",
    )  # fmt: skip
    assert (now.start_ms, now.negated, now.stored_ms) == (None, False, 0)  # these no restatement touches


def test_what_a_chunk_tells_comes_with_its_facts(tx: Connection) -> None:
    """In order, however often the chunk says them; those of other chunks are not among them."""
    _, turns = put_session(tx, texts=["a", "b", "c"], chunk=2)
    rows = [put_fact(tx, name) for name in "xyz"]
    for row, turn in ((rows[1], 0), (rows[0], 0), (rows[1], 1), (rows[2], 2)):
        say(tx, row, turns[turn])
    first, last = (chunk_of(tx, turns[at]) for at in (0, 2))
    assert list(facts.occurrences_in(tx, [first]).values()) == [rows[0], rows[1], rows[1]]
    assert list(facts.occurrences_in(tx, [last, 999]).values()) == rows[2:]


@pytest.mark.parametrize("order", [*permutations(("unknown", "person", "place", "thing"))])
def test_the_surest_kind_counts_whichever_came_first(tx: Connection, order: Sequence[str]) -> None:
    """A row stays the same one, with the name it had first."""
    rows = {put_entity(tx, "oslo", f"Oslo {kind}", kind) for kind in order}  # type: ignore[arg-type]
    [found] = facts.entities(tx).values()
    assert rows == {found.row}
    assert (found.kind, found.label) == ("place", f"Oslo {order[0]}")


@settings(max_examples=30)
@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6))
def test_of_any_kinds_the_first_in_the_list_of_kinds_is_kept(kinds: list[str]) -> None:
    """That is who speaks, then places and firms, then persons."""
    tx = empty_memory()
    for kind in kinds:
        put_entity(tx, "x", "X", kind)  # type: ignore[arg-type]
    assert next(iter(facts.entities(tx).values())).kind == min(kinds, key=KINDS.index)
    tx.close()


def test_an_entity_is_found_by_its_key_before_an_alias(tx: Connection) -> None:
    """An alias that is another entity's own key never hides that; one that is not there is None."""
    mel, melanie = put_entities(tx, "mel", "melanie")
    tx.execute("INSERT INTO alias VALUES ('mel', ?), ('m', ?)", (melanie, melanie))
    by_key = {key: facts.entity_by_key(tx, key) for key in ("mel", "m", "melanie", "me", "")}
    assert {key: one and one.row for key, one in by_key.items()} == {
        "mel": mel, "m": melanie, "melanie": melanie, "me": None, "": None,
    }  # fmt: skip
    assert facts.entities_with_keys(tx, ["m"]).get("m") is None
    assert facts.entity_with_row(tx, mel).label == "Mel"
    with pytest.raises(KeyError, match="77"):
        facts.entity_with_row(tx, 77)
    assert {one.key for one in facts.entities(tx).values()} == {"mel", "melanie"}


def test_who_is_named_by_nothing_and_takes_no_part_is_told(tx: Connection) -> None:
    """Of those that were asked for; a participant stays though nothing names them, until demoted."""
    _, [turn] = put_session(tx)
    named, gone, other = put_entities(tx, "named", "gone", "other")
    speaker = put_entity(tx, "ana", "Ana", "participant")
    add_mention(tx, say(tx, put_fact(tx), turn), named, "other")
    assert facts.unnamed(tx, [speaker, gone, named]) == [gone]
    facts.demote(tx, speaker)
    assert facts.unnamed(tx, [speaker, gone, named]) == [gone, speaker]
    facts.drop_entities(tx, [gone, speaker])
    assert list(facts.entities(tx)) == [named, other]


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["speaker", "subject", "object", "other"]), min_size=1, max_size=6))
def test_every_role_in_which_an_entity_is_named_is_kept(roles: list[str]) -> None:
    """Once, whatever the order; roles of another occurrence of the fact count too."""
    tx = empty_memory()
    _, [turn] = put_session(tx)
    row = put_fact(tx)
    bob, eve = put_entities(tx, "bob", "eve")
    places = say(tx, row, turn), say(tx, row, turn)
    for n, role in enumerate(roles):
        add_mention(tx, places[n % 2], bob, role)
    add_mention(tx, places[0], eve, "object")
    assert facts.mentions_of(tx, row) == [*sorted({(bob, role) for role in roles}), (eve, "object")]
    tx.close()


def test_the_facts_of_an_entity_are_told_once_each(tx: Connection) -> None:
    """Also one that is said three times."""
    (_, first), (_, second) = put_session(tx, "a", ["x", "y"]), put_session(tx, "b")
    bob, eve = put_entities(tx, "bob", "eve")
    one, two = put_fact(tx, "one"), put_fact(tx, "two")
    for row, turn in ((one, first[0]), (one, first[1]), (one, second[0]), (two, first[0])):
        add_mention(tx, say(tx, row, turn), bob, "other")
    add_mention(tx, say(tx, two, second[0]), eve, "subject")
    assert facts.entity_facts(tx, (bob,)) == [one, two]


@pytest.mark.parametrize(("start_ms", "at_ms"), [(None, 5000), (7, 7), (0, 0), (-9, -9)])
def test_a_state_is_dated_by_its_fact_or_else_by_when_it_was_said(
    tx: Connection, start_ms: int | None, at_ms: int
) -> None:
    """By the occurrence that it hangs on, not by the fact's first one; 0 is a stated time."""
    _, [turn] = put_session(tx, at_ms=5000)
    row = put_fact(tx, start_ms=start_ms, said_ms=1)
    [bob] = put_entities(tx, "bob")
    where = say(tx, row, turn)
    made = add_state(tx, where, bob, State("bob", "home", "Oslo", "Davis", "start"))
    found = tx.execute("SELECT * FROM state").fetchall()
    assert found == [(made, row, where[1], bob, "home", "Oslo", "Davis", "start", at_ms)]
