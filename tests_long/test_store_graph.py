"""Rows that the graph is made from: relations, names as they were spelled, and people's choices."""

from __future__ import annotations

import pytest
from tests.table import each
from tests_long.stored import add_relation, put_entities, put_entity, put_fact, put_session, say, value

from memforest.reading.canonical import EntityBook, spelling
from memforest.records import ExtractedFact, Mention, Relation, State
from memforest.store import corrections, facts, meta, reads
from memforest.store.connections import Connection
from memforest.store.facts import OccurrenceRef
from memforest.write.reword import Naming


def said(
    tx: Connection, turn: int, candidate: ExtractedFact, *, book: EntityBook | None = None
) -> OccurrenceRef:
    """Store one more fact that a turn says, and whom and what it names; return its occurrence."""
    count = value(tx, "SELECT count(*) FROM fact")
    where = say(tx, put_fact(tx, f"f{count}", text=candidate.text), turn)
    fact = facts.facts_with_ids(tx, [where[0]])[where[0]]
    naming = Naming(tx, book or EntityBook(tx))
    naming.add(candidate, fact, where[1], fact.said_ms)
    naming.write()
    return where


def candidate(*mentioned: str, **values: object) -> ExtractedFact:
    """Return a statement of Ana's that names some."""
    given = {"mentions": tuple(Mention(name) for name in mentioned), **values}
    return ExtractedFact("Ana paints.", "Ana paints.", "Ana", ("t0",), **given)  # type: ignore[arg-type]


def keys(tx: Connection) -> dict[int, str]:
    """Return the keys of entities."""
    return {row: one.key for row, one in facts.entities(tx).items()}


def told(tx: Connection) -> list[tuple[str, str, str]]:
    """Return the relations by keys."""
    of = keys(tx)
    return [(of[one.source], one.label, of[one.target]) for one in reads.relations(tx)]


def test_relations_are_read_by_id_with_their_times(tx: Connection) -> None:
    """When it was said, and from when on it is so: the stated time of the fact, else the former."""
    _, turns = put_session(tx, texts=["a", "b"], at_ms=5000)
    ana, bob = put_entities(tx, "ana", "bob")
    dated = say(tx, put_fact(tx, "f1", start_ms=77), turns[1])
    plain = say(tx, put_fact(tx, "f2"), turns[0])
    add_relation(tx, dated, ana, "married", bob)
    add_relation(tx, plain, bob, "met", ana)
    add_relation(tx, plain, bob, "met", ana)
    found = reads.relations(tx)
    assert [one[1:] for one in found] == [
        (*dated, ana, "married", bob, 77, 6000),
        (*plain, bob, "met", ana, 5000, 5000),
    ]
    assert [one.id for one in found] == sorted(one.id for one in found)
    assert reads.relations(tx, [plain[0], 99]) == found[1:]


def test_an_entity_has_no_relation_to_itself(tx: Connection) -> None:
    """Neither told as such, nor by two names that mean one."""
    _, [turn] = put_session(tx)
    said(
        tx,
        turn,
        candidate(
            "Ana", "Ana's", relations=(Relation("Ana", "likes", "Ana"), Relation("Ana's", "is", "ana"))
        ),
    )
    assert reads.relations(tx) == []
    assert value(tx, "SELECT count(*) FROM mention") == 1


@pytest.mark.parametrize("gone", ["occurrence", "fact", "session"])
def test_a_relation_goes_with_what_tells_it(tx: Connection, gone: str) -> None:
    """And its names; what another occurrence tells stays."""
    session, [turn] = put_session(tx)
    _, [other] = put_session(tx, "other")
    statement = candidate("Bob", "zoë", relations=(Relation("Bob", "met", "Zoë"),))
    first, second = said(tx, turn, statement), said(tx, other, statement)
    assert [one.occurrence for one in reads.relations(tx)] == [first[1], second[1]]
    row = {"occurrence": first[1], "fact": first[0], "session": session}[gone]
    if gone == "session":
        tx.execute("DELETE FROM chunk WHERE session = ?", (row,))
    else:
        tx.execute(f"DELETE FROM {gone} WHERE id = ?", (row,))
    assert [one.occurrence for one in reads.relations(tx)] == [second[1]]
    assert {row for row, *_ in facts.names_in(tx, [first[1], second[1]])} <= {second[1]}


def test_nothing_is_left_of_an_entity_that_goes(tx: Connection) -> None:
    """No relation on either side, no name, no choice."""
    _, [turn] = put_session(tx)
    said(
        tx,
        turn,
        candidate(
            "Bob", "BOB", "Cleo", relations=(Relation("Bob", "met", "Cleo"), Relation("Cleo", "saw", "Bob"))
        ),
    )
    of = {key: row for row, key in keys(tx).items()}
    corrections.add(tx, "same", of["cleo"], of["bob"], 1)
    facts.drop_entities(tx, [of["bob"]])
    assert (reads.relations(tx), reads.name_uses(tx), corrections.history(tx)) == ([], [], [])


def test_ends_of_a_relation_are_mentioned_as_those_of_states_are(tx: Connection) -> None:
    """With the kind that a mention gives them; who is in no mention is one in another role."""
    _, [turn] = put_session(tx)
    where = said(
        tx,
        turn,
        candidate(
            "Porto",
            mentions=(Mention("Porto", "place", "object"),),
            relations=(Relation("Bob", "  moved   to ", "Porto"), Relation("Ana", "knows", "Bob")),
            states=(State("Bob", "home", "Porto"),),
        ),
    )
    assert told(tx) == [("bob", "moved to", "porto"), ("ana", "knows", "bob")]
    of = keys(tx)
    assert sorted((of[row], role) for row, role in facts.mentions_of(tx, where[0])) == [
        ("ana", "speaker"),
        ("bob", "other"),
        ("porto", "object"),
    ]
    assert {one.key: one.kind for one in facts.entities(tx).values()}["porto"] == "place"


@pytest.mark.parametrize(
    "wrong", [Relation("", "met", "Bob"), Relation("Bob", "met", "—"), Relation("Bob", " \n", "Cleo")]
)
def test_a_relation_without_a_name_or_a_label_leaves_nothing(tx: Connection, wrong: Relation) -> None:
    """Not even the mention of its other end."""
    _, [turn] = put_session(tx)
    where = said(tx, turn, candidate(relations=(wrong,)))
    assert reads.relations(tx) == []
    assert len(facts.mentions_of(tx, where[0])) == 1


def test_a_short_form_stands_for_who_speaks_in_relations(tx: Connection) -> None:
    """As elsewhere: as an alias of the occurrence, and as a name of hers."""
    _, [turn] = put_session(tx)
    book = EntityBook(tx)
    melanie = book.participant("Melanie")
    assert melanie is not None
    where = said(tx, turn, candidate(relations=(Relation("Ana", "met", "Mel"),)), book=book)
    assert told(tx) == [("ana", "met", "melanie")]
    assert [(entity, name) for _, _, entity, name in reads.name_uses(tx)] == [(melanie, "Mel")]
    assert value(tx, "SELECT occurrence FROM alias_use WHERE key = 'mel'") == where[1]


def test_a_kind_is_the_surest_whatever_came_first(tx: Connection) -> None:
    """Each of the types of the graph is surer than a thing, and less sure than a person."""
    for kind in ("event", "work", "product", "date", "time"):
        for order in (("thing", kind), (kind, "thing"), (kind, "unknown")):
            for one in order:
                put_entity(tx, f"{kind} {order[0]} {order[1]}", "x", one)
        put_entity(tx, "y", "y", kind)
    put_entity(tx, "y", "y", "person")
    found = {one.key: one.kind for one in facts.entities(tx).values()}
    assert found.pop("y") == "person"
    assert all(key.split()[0] == kind or key.split()[1] == kind for key, kind in found.items())
    assert "thing" not in found.values()


@each(
    ("name", "expected"),
    [
        ("Zoe\u0308", "Zoë"),
        ("  Joe’s \n Diner ", "Joe’s Diner"),
        ("“Dune”", "Dune"),
        ("«'Dune'»", "Dune"),
        ("'", "'"),
        ('""', ""),
        ("O'Neil", "O'Neil"),
        ("", ""),
        ("👾", "👾"),
    ],
)
def test_a_name_is_spelled_without_what_the_sentence_puts_around_it(name: str, expected: str) -> None:
    """Quotation marks and spaces; its own apostrophes stay."""
    assert spelling(name) == expected


def test_what_is_spelled_as_the_label_needs_no_row(tx: Connection) -> None:
    """Also in another normal form or between quotation marks."""
    _, [turn] = put_session(tx)
    for name in ("Zoë", "Zoe\u0308", "“Zoë”"):
        said(tx, turn, candidate(name))
    assert value(tx, "SELECT count(*) FROM name_use") == 0


def test_the_newest_choice_of_a_pair_counts_whichever_way_round(tx: Connection) -> None:
    """Taken back, the one before counts again; the clock may go back."""
    ana, bob, cleo = put_entities(tx, "ana", "bob", "cleo")
    first = corrections.add(tx, "same", bob, ana, 50)
    other = corrections.add(tx, "apart", ana, cleo, 60)
    second = corrections.add(tx, "apart", ana, bob, 20)
    assert [(one.id, one.same, one.entity, one.other) for one in corrections.read(tx)] == [
        (second, False, ana, bob),
        (other, False, ana, cleo),
    ]
    assert [one.id for one in corrections.history(tx)] == [first, second, other]
    tx.execute("DELETE FROM choice WHERE id = ?", (second,))
    assert [(one.id, one.same) for one in corrections.read(tx)] == [(first, True), (other, False)]
    assert [one.id for one in corrections.read(tx, 55)] == [first]
    assert corrections.read(tx, 49) == []
    with pytest.raises(ValueError, match="two entities"):
        corrections.add(tx, "same", ana, ana, 1)


def test_the_log_of_changes_names_the_fact_of_every_relation_and_name(tx: Connection) -> None:
    """Also where rows go with others, and when as many come as went; a row that is there already is no change."""
    _, [turn] = put_session(tx)
    where = said(tx, turn, candidate("Bob", "Cleo"))
    position = meta.change_position(tx)

    def changed() -> set[int]:
        nonlocal position
        found = meta.changes_since(tx, position)
        position = meta.change_position(tx)
        assert found is not None
        return set(found.fact)

    assert changed() == set()
    ana, bob, cleo = (row for row in keys(tx))
    add_relation(tx, where, ana, "met", bob)
    assert changed() == {where[0]}
    add_relation(tx, where, ana, "met", bob)
    assert changed() == set()
    tx.execute("DELETE FROM relation")
    add_relation(tx, where, ana, "saw", bob)
    assert changed() == {where[0]}
    tx.execute("INSERT INTO name_use VALUES (?, ?, 'Clee')", (where[1], cleo))
    assert changed() == {where[0]}
    facts.drop_entities(tx, [cleo])
    assert where[0] in changed()
    tx.execute("DELETE FROM occurrence WHERE id = ?", (where[1],))
    assert changed() == {where[0]}
