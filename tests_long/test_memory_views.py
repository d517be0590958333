"""Views of a memory: pages of facts, sessions, timelines, trees and counts, held against what was said."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, fast_folder, file_of, make_sessions

from memforest import MemForest
from memforest.errors import InputError, NotFoundError
from memforest.memory.blocking import UserMemory
from memforest.read.stored import FactPage, FactView
from memforest.reading.extract_local import LocalExtractor
from memforest.records import Chunk, ChunkOutcome

MS = timedelta(milliseconds=1)


def at(day: int, hour: int = 10) -> datetime:
    """Return a time in May 2023."""
    return datetime(2023, 5, day, hour, tzinfo=timezone.utc)


def turn(speaker: str, text: str, when: datetime, **more: Any) -> dict[str, Any]:
    """Return a turn."""
    return {"speaker": speaker, "content": text, "timestamp": when, **more}


SAID = {
    "spring": [
        turn("Bob", "I work at Acme.", at(1), channel="chat", topic="work"),
        turn("Ana", "I live in Oslo.", at(1, 11), channel="mail", urgent=None),
    ],
    "summer": [
        turn("Ana", "I moved to Lisbon.", at(9), channel="mail", topic="home"),
        turn("Bob", "I visited Kyoto.", at(9, 11)),
        turn("Ana", "I live in Oslo.", at(9, 12), channel="chat"),
    ],
    "late": [
        turn("Bob", "I work at Globex now.", at(20), channel="chat", topic="work"),
        turn("Ana", "I moved to Davis.", at(20, 11), channel="mail"),
    ],
}


@pytest.fixture(scope="module")
def forest() -> Iterator[MemForest]:
    """Four users, only read here: "u" with the sessions above, "many" with a larger memory, and "new"."""
    with (
        tempfile.TemporaryDirectory(dir=fast_folder()) as folder,
        MemForest(folder, fast_config()) as made,
    ):
        for name in ("late", "spring", "summer"):
            made.ingest_session("u", name, SAID[name], metadata={"name": name})
        for name, turns in make_sessions(5, sessions=12, most_turns=16):
            made.ingest_session("many", name, turns)
        made.register_user("new")
        yield made


@pytest.fixture
def memory(forest: MemForest) -> UserMemory:
    """The memory of the sessions above."""
    return forest.user("u")


@pytest.fixture
def many(forest: MemForest) -> UserMemory:
    """A memory of twelve sessions."""
    return forest.user("many")


def texts(page: FactPage) -> list[str]:
    """Return the statements of a page."""
    return [fact.statement for fact in page]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 1000])
def test_pages_are_the_whole_list_in_pieces(many: UserMemory, limit: int) -> None:
    """Followed by `next_offset`, every fact comes once, in order; each page knows the total, the last its end."""
    whole = many.list(limit=1000)
    found: list[FactView] = []
    offset = 0
    while True:
        page = many.list(offset=offset, limit=limit)
        assert (page.total, bool(page)) == (whole.total, True)
        assert len(page) == limit or page.next_offset is None
        found += page.facts
        if page.next_offset is None:
            break
        assert page.next_offset == offset + limit
        offset = page.next_offset
    assert tuple(found) == whole.facts
    assert len(found) == whole.total > 7


def test_a_page_that_ends_with_the_list_is_the_last(memory: UserMemory) -> None:
    """A page that is exactly full promises no empty one behind it; beyond the end there is an empty page."""
    total = memory.list().total
    assert memory.list(limit=total).next_offset is None
    assert memory.list(limit=total - 1).next_offset == total - 1
    for offset in (total, total + 5):
        page = memory.list(offset=offset)
        assert (page.facts, page.total, page.next_offset, bool(page)) == ((), total, None, False)
    assert repr(memory.list(limit=2)) == f"FactPage(2 of {total} facts, next_offset=2)"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"offset": -1}, "offset=-1"), ({"limit": 0}, "limit=0"), ({"limit": 1001}, "limit=1001")],
)
def test_a_page_out_of_range_is_refused(memory: UserMemory, wrong: dict[str, Any], said: str) -> None:
    """The message repeats what was given."""
    with pytest.raises(InputError, match=said):
        memory.list(**wrong)


def test_facts_come_in_the_order_of_their_times(memory: UserMemory, many: UserMemory) -> None:
    """However the sessions came: the last one was ingested first."""
    assert texts(memory.list()) == [
        'Bob: "I work at Acme."',
        'Ana: "I live in Oslo."',
        'Ana: "I moved to Lisbon."',
        'Bob: "I visited Kyoto."',
        'Bob: "I work at Globex now."',
        'Ana: "I moved to Davis."',
    ]
    for page in (memory.list(), many.list(limit=1000)):
        assert all(one.start <= other.start for one, other in pairwise(page))


def supported(page: FactPage, session_id: str | None, wanted: dict[str, Any]) -> list[str]:
    """Return the facts that one turn supports which is in the session and has the metadata, by going through all."""
    return [
        fact.statement
        for fact in page
        if any(
            (session_id in (None, source.session_id))
            and wanted.items() <= SAID[source.session_id][int(turn_id)].items()
            for source in fact.sources
            for turn_id in source.turn_ids
        )
    ]


@pytest.mark.parametrize("session_id", [None, "spring", "summer", "late"])
@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"channel": "chat"},
        {"channel": "mail"},
        {"channel": "chat", "topic": "work"},
        {"channel": "chat", "topic": "home"},
        {"channel": "fax"},
        {"urgent": None},
        {"nothing": None},
    ],
)
def test_one_turn_must_meet_all_filters(
    memory: UserMemory, session_id: str | None, wanted: dict[str, Any]
) -> None:
    """Session and metadata are of the same supporting turn; a turn that lacks a key has not even None for it."""
    page = memory.list(session_id=session_id, filters=wanted)
    assert texts(page) == supported(memory.list(), session_id, wanted)
    assert page.total == len(page)


def test_filters_of_all_kinds_meet(memory: UserMemory) -> None:
    """Entity, session, metadata and time narrow the same list."""
    assert texts(memory.list(entity="Ana")) == [
        'Ana: "I live in Oslo."',
        'Ana: "I moved to Lisbon."',
        'Ana: "I moved to Davis."',
    ]
    assert texts(memory.list(entity="oslo", session_id="summer")) == ['Ana: "I live in Oslo."']
    assert texts(memory.list(entity="Bob", filters={"channel": "chat"}, as_of=at(2))) == [
        'Bob: "I work at Acme."'
    ]
    assert texts(memory.list(entity="Oslo", session_id="late")) == []
    paged = memory.list(entity="Ana", offset=1, limit=1)
    assert (texts(paged), paged.total, paged.next_offset) == (['Ana: "I moved to Lisbon."'], 3, 2)


@pytest.mark.parametrize(
    ("when", "jobs"),
    [
        (at(1) - MS, []),
        (at(1), ['Bob: "I work at Acme."']),
        (at(20) - MS, ['Bob: "I work at Acme."']),
        (at(20), ['Bob: "I work at Globex now."']),
    ],
)
def test_a_value_holds_from_its_start_up_to_the_next(
    memory: UserMemory, when: datetime, jobs: list[str]
) -> None:
    """Half-open: at the instant of the change the new value is so, and the old one no more."""
    assert [text for text in texts(memory.list(as_of=when)) if "work" in text] == jobs


def test_an_event_stays_so(forest: MemForest) -> None:
    """What happened on a day is no state: it is listed for every time after that day began."""
    user = forest.user("events")
    forest.ingest_session("events", "s", [turn("Ana", "I went to Rome on 3 March 2023.", at(1))])
    (event,) = user.list()
    assert (event.start, event.end) == (
        datetime(2023, 3, 3, tzinfo=timezone.utc),
        datetime(2023, 3, 4, tzinfo=timezone.utc),
    )
    assert [
        len(user.list(as_of=day)) for day in ("2023-03-02", "2023-03-03", "2023-03-04", "2024-01-01")
    ] == [0, 1, 1, 1]


def test_what_is_not_there_is_said_with_what_is(memory: UserMemory, forest: MemForest) -> None:
    """Unknown sessions, facts and names are errors that are short and lead on, not empty lists."""
    long = "x" * 500
    for call, said in (
        (lambda: memory.list(session_id=long), r"no session 'xxx.*list the sessions"),
        (lambda: memory.get(long), r"no fact 'xxx.*lists and searches"),
        (lambda: memory.list(entity=long), "known are for example: .*Ana"),
        (lambda: memory.timeline("Zoe"), "nothing is known of 'Zoe'.*Ana.*Bob"),
        (lambda: forest.user("new").timeline("Ana"), "known are for example: nobody yet"),
        (lambda: memory.tree(long), "no tree for 'xxx"),
    ):
        with pytest.raises(NotFoundError, match=said) as caught:
            call()
        assert len(str(caught.value)) < 250


def test_a_fact_is_the_same_however_it_is_found(memory: UserMemory) -> None:
    """By its id, on a page, and on a page that was narrowed."""
    for fact in memory.list():
        assert memory.get(fact.fact_id) == fact
        assert fact in memory.list(entity=fact.entities[0], session_id=fact.sources[-1].session_id).facts
        assert fact.entities == tuple(sorted(fact.entities))


def test_a_value_that_ended_names_its_successor(memory: UserMemory) -> None:
    """A value that came twice names the one after its later time; one that holds, and an event, name none."""
    after = {fact.statement: (fact.end, fact.superseded_by) for fact in memory.list()}
    assert after == {
        'Bob: "I work at Acme."': (at(20), "Globex"),
        'Ana: "I live in Oslo."': (at(20, 11), "Davis"),
        'Ana: "I moved to Lisbon."': (at(9, 12), "Oslo"),
        'Bob: "I visited Kyoto."': (None, None),
        'Bob: "I work at Globex now."': (None, None),
        'Ana: "I moved to Davis."': (None, None),
    }


def test_a_value_that_holds_again_has_no_successor(forest: MemForest) -> None:
    """That another one came in between is told by the timeline alone."""
    said = ["I live in Oslo.", "I moved to Lisbon.", "I live in Oslo."]
    forest.ingest_session("again", "s", [turn("Ana", text, at(day)) for day, text in enumerate(said, 1)])
    oslo, lisbon = forest.user("again").list()
    assert (oslo.end, oslo.superseded_by) == (None, None)
    assert (lisbon.end, lisbon.superseded_by) == (at(3), "Oslo")


@pytest.mark.parametrize("first", ["Ana", "Bob"])
def test_a_value_of_two_ends_with_the_later_of_them(forest: MemForest, first: str) -> None:
    """Of one statement about two people the successor is that of who stayed longer."""
    homes = {"Ana": "Davis", "Bob": "Miami"}
    last = "Bob" if first == "Ana" else "Ana"
    said = [
        ("Ana", "Ana and Bob live in Oslo."),
        *((who, f"I moved to {homes[who]}.") for who in (first, last)),
    ]
    user = f"two, {first} first"
    forest.ingest_session(user, "s", [turn(who, text, at(day)) for day, (who, text) in enumerate(said, 1)])
    both = forest.user(user).list().facts[0]
    assert {"Ana", "Bob", "Oslo"} == set(both.entities)
    assert (both.end, both.superseded_by) == (at(3), homes[last])


def test_wordings_of_a_fact_are_told_once(forest: MemForest) -> None:
    """Said three times in two wordings: each wording once, in the order in which they were said."""
    said = ["I live in Oslo.", "I LIVE in Oslo.", "I live in Oslo."]
    forest.ingest_session("words", "s", [turn("Ana", text, at(day)) for day, text in enumerate(said, 1)])
    (fact,) = forest.user("words").list()
    assert sorted(set(fact.wordings)) == sorted(fact.wordings)
    assert fact.wordings[0] == fact.statement
    assert [source.turn_ids for source in fact.sources] == [("0", "1", "2")]


def test_sessions_stand_in_time_order_as_they_were_said(memory: UserMemory) -> None:
    """With their span, who spoke in the order of speaking, how many turns, and the caller's metadata."""
    found = memory.sessions()
    assert [one.session_id for one in found] == ["spring", "summer", "late"]
    for one in found:
        turns = SAID[one.session_id]
        assert (one.turns, one.start, one.end) == (len(turns), turns[0]["timestamp"], turns[-1]["timestamp"])
        assert one.participants == tuple(dict.fromkeys(turn["speaker"] for turn in turns))
        assert (one.status, one.failed_chunks, one.metadata) == ("ingested", 0, {"name": one.session_id})


def test_a_timeline_has_states_and_events_in_order(memory: UserMemory) -> None:
    """Each state with its interval, and beside them what happened; an attribute alone has its states alone."""
    bob = memory.timeline("Bob")
    assert [(one.kind, one.attribute, one.value, one.start, one.end) for one in bob] == [
        ("state", "employer", "Acme", at(1), at(20)),
        ("event", None, None, at(9, 11), None),
        ("state", "employer", "Globex", at(20), None),
    ]
    assert memory.timeline("bob", attribute="employer") == [one for one in bob if one.kind == "state"]
    assert memory.timeline("Bob", attribute="residence") == []
    assert [one.text for one in memory.timeline("Kyoto")] == ["I visited Kyoto."]


def test_states_of_one_attribute_follow_one_another(memory: UserMemory) -> None:
    """A value that comes again has a second interval, and every interval all the turns of its statement."""
    home = memory.timeline("Ana", attribute="residence")
    assert [(one.value, one.start, one.end) for one in home] == [
        ("Oslo", at(1, 11), at(9)),
        ("Lisbon", at(9), at(9, 12)),
        ("Oslo", at(9, 12), at(20, 11)),
        ("Davis", at(20, 11), None),
    ]
    pairs = [{(s.session_id, turn) for s in one.sources for turn in s.turn_ids} for one in home]
    assert pairs[0] == pairs[2] == {("spring", "1"), ("summer", "2")}
    assert (pairs[1], pairs[3]) == ({("summer", "0")}, {("late", "1")})


def test_what_was_said_at_once_stands_in_a_fixed_order(forest: MemForest) -> None:
    """At one instant events come before states; a state has the turns of all statements that assert it."""
    said = [("I moved to Lisbon.", 1), ("I visited Kyoto.", 1), ("I live in Lisbon.", 2)]
    forest.ingest_session("once", "s", [turn("Ana", text, at(day)) for text, day in said])
    found = forest.user("once").timeline("Ana")
    assert [(one.kind, one.start) for one in found] == [("event", at(1)), ("state", at(1))]
    assert (found[0].text, found[0].statement) == ("I visited Kyoto.", 'Ana: "I visited Kyoto."')
    assert [source.turn_ids for source in found[1].sources] == [("0", "2")]


def test_a_state_without_a_known_start_stands_where_it_ends(forest: MemForest) -> None:
    """The words "from Davis" say where somebody lived before, and not since when."""
    forest.ingest_session(
        "moves",
        "s",
        [
            turn("Ana", "I bought a tent.", at(1)),
            turn("Ana", "I moved from Davis to Miami.", at(5)),
        ],
    )
    found = forest.user("moves").timeline("Ana")
    assert [(one.value or one.text, one.start, one.end) for one in found] == [
        ("I bought a tent.", at(1), None),
        ("Davis", None, at(5)),
        ("Miami", at(5), None),
    ]


def test_a_memory_without_sessions_has_empty_views(forest: MemForest) -> None:
    """Nothing is no error where everything is asked for."""
    new = forest.user("new")
    page = new.list()
    assert (page.facts, page.total, page.next_offset) == ((), 0, None)
    assert (list(new.sessions()), new.tree(), new.search("Who?").evidence) == ([], [], ())
    stats = new.stats()
    assert (stats.turns, stats.facts, stats.nodes, stats.embedder, stats.timezone) == (0, 0, 0, None, None)
    assert new.verify().ok


def test_occurrences_are_counted_apart_from_facts(memory: UserMemory) -> None:
    """What was said twice is one fact and two occurrences."""
    stats = memory.stats()
    assert (stats.facts, stats.occurrences) == (6, 7)
    assert (stats.user_id, stats.embedder, stats.vectors["turn"]) == ("u", "hash-words-1@32", 7)


class Stumbling(LocalExtractor):
    """The local extractor, which fails where "beer" is spoken of, and breaks down where "wine" is, until it is sober."""

    sober = False

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Extract, or not."""
        said = [" ".join(turn.text for turn in chunk.turns) for chunk in chunks]
        if not self.sober and any("wine" in one for one in said):
            raise ZeroDivisionError
        made = await super().extract(chunks)
        bad = ["beer" in one and not self.sober for one in said]
        return [ChunkOutcome(failure="drunk") if no else one for no, one in zip(bad, made, strict=True)]


def test_what_is_not_done_is_counted_until_it_is(folder: Path) -> None:
    """Chunks that failed, by session and together; a session that was received and not read; `resume` takes both back."""
    extractor = Stumbling()
    said = [
        "I live in Oslo.",
        "I work at Acme.",
        "I like beer.",
        "I moved to Lisbon.",
        "I like beer and tea.",
    ]
    with MemForest(folder, fast_config(extractor=extractor)) as forest:
        done = forest.ingest_session(
            "u", "half", [turn("Ana", text, at(1, n)) for n, text in enumerate(said)]
        )
        assert [chunk.failure for chunk in done.failed] == ["drunk"] * 2
        with pytest.raises(ZeroDivisionError):
            forest.ingest_session("u", "none", [turn("Ana", "I like wine.", at(2))])
        memory = forest.user("u")
        assert [(one.session_id, one.failed_chunks) for one in memory.sessions()] == [
            ("half", 2),
            ("none", 0),
        ]
        assert [one.status == "ingested" for one in memory.sessions()] == [True, False]
        assert (memory.stats().failed_chunks, memory.stats().unfinished) == (2, 1)
        told = memory.search("Where does Ana live?").warnings
        assert told == (
            "1 session(s) are stored but not read yet: a write is going on, or was interrupted; resume() completes them",
        )
        assert "I like wine." in [one.text for one in memory.search("wine")]
        extractor.sober = True
        forest.resume("u")
        assert (memory.stats().failed_chunks, memory.stats().unfinished) == (0, 0)
        assert {one.status for one in memory.sessions()} == {"ingested"}
        assert memory.search("Where does Ana live?").warnings == ()
        assert memory.verify().ok


def test_the_size_is_that_of_the_file_with_its_log(folder: Path) -> None:
    """As long as it is open there is a log beside it."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "s", SAID["spring"])
        path = file_of(folder)
        files = [path, path.with_name(f"{path.name}-wal")]
        assert forest.user("u").stats().bytes == sum(one.stat().st_size for one in files)
