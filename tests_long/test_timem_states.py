"""States by an instant: what the timelines of what had been told by then say."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.worlds import fast_config, fast_folder, file_of

from memforest import MemForest
from memforest.records import Chunk, ChunkOutcome, ExtractedFact, Mention, Precision, State
from memforest.search.snapshot import load_snapshot
from memforest.search.timeline import Segment, settled, timeline
from memforest.store import facts as fact_rows
from memforest.store import reads
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.times import to_ms
from memforest.trees.timem_compose import Changed, changes_of, lines_by, profile_lines

BEGIN = datetime(2024, 1, 1, tzinfo=timezone.utc)


class Observed:
    """An extractor of turns "ATTRIBUTE|VALUE|PREVIOUS|CHANGE|DAY", all of Ana: DAY is a stated one, or blank."""

    name = "observed-1"

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Return the statement of each turn."""
        return [ChunkOutcome(tuple(map(self._of, chunk.turns)), ()) for chunk in chunks]

    @staticmethod
    def _of(turn: Any) -> ExtractedFact:
        attribute, value, previous, change, day = turn.text.split("|")
        start = BEGIN + timedelta(days=int(day)) if day else None
        precision: Precision = "day" if day else "unknown"
        return ExtractedFact(
            f"Ana: {turn.text}.",
            (turn.ordinal,),
            turn.speaker,
            turn.text,
            start=start,
            end=None if start is None else start + timedelta(days=1),
            precision=precision,
            mentions=(Mention("Ana", "participant", "subject"),),
            states=(State("Ana", attribute, value, previous=previous or None, change=change),),
        )


def with_memory(told: Sequence[tuple[int, str]], look: Callable[[Tx, int], None]) -> None:
    """Look at a memory of turns of Ana's, each (day, text), with her row."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        with MemForest(folder, fast_config(extractor=Observed())) as forest:
            for at, (day, text) in enumerate(told):
                said = BEGIN + timedelta(days=day, hours=12)
                turn = {"speaker": "Ana", "content": text, "timestamp": said.isoformat()}
                forest.ingest_session("u", f"s{at:03}", [turn], refresh=False)
        db = Database(file_of(Path(folder)))
        with db.read() as tx:
            ana = fact_rows.entity_by_key(tx, "ana")
            assert ana is not None
            look(tx, ana.row)
        db.close()


def ms(day: int) -> int:
    """Return the beginning of a day, counted from the first."""
    return to_ms(BEGIN + timedelta(days=day))


def then(tx: Tx, entity: int, start: int, end: int) -> tuple[list[tuple[str, Segment]], list[Changed]]:
    """Return the values in force at the end of [start, end), with their attributes, and what changed within it."""
    lines = lines_by(load_snapshot(tx), entity, end)
    held = [(line.attribute, one) for line in lines for one in line.segments if one.end_ms is None]
    return held, changes_of(lines, start)


def by_then(tx: Tx, day: int) -> dict[str, list[Segment]]:
    """Return the whole timeline of each attribute, of what had been told and was so before a day."""
    said = dict(tx.execute("SELECT s.id, o.said_ms FROM state s JOIN occurrence o ON o.id = s.occurrence"))
    told: dict[str, list[reads.StateSeen]] = {}
    for seen in reads.states_seen(tx):
        if said[seen.row] < ms(day) and seen.at_ms < ms(day):
            told.setdefault(seen.attribute, []).append(seen)
    return {attribute: timeline(settled(states)) for attribute, states in told.items()}


@each("seed", range(4))
def test_states_are_those_of_the_whole_timelines(seed: int) -> None:
    """Random moves, told late, early and again: at each day what the whole timelines of what was told by then say."""
    random = Random(seed)
    cities = ("Rome", "Oslo", "Vigo", "Lyon", "Vigo, Spain")

    def one() -> str:
        value, previous = random.sample(cities, 2)
        stated = str(random.randrange(60)) if random.random() < 0.3 else ""
        change = random.choice(["is", "is", "start", "end"])
        return f"{random.choice(['residence', 'office'])}|{value}|{random.choice(['', previous])}|{change}|{stated}"

    def look(tx: Tx, ana: int) -> None:
        for day in range(0, 64, 9):
            found = then(tx, ana, ms(day - 9), ms(day))
            whole = by_then(tx, day)
            held = {
                name: (s[-1].value, s[-1].start_ms, s[-1].facts)
                for name, s in whole.items()
                if s[-1].end_ms is None
            }
            assert {name: (h.value, h.start_ms, h.facts) for name, h in found[0]} == held
            assert [c for c in found[1] if not ms(day - 9) <= c.at_ms < ms(day)] == []
            ends = {
                (name, a.value, b.value, b.start_ms)
                for name, s in whole.items()
                for a, b in pairwise(s)
                if b.start_ms is not None and a.end_ms == b.start_ms and b.start_ms >= ms(day - 9)
            }
            replaced = {(c.attribute, c.before, c.after, c.at_ms) for c in found[1] if c.before and c.after}
            assert replaced <= ends
            assert {e for e in ends if e[1] not in e[2] and e[2] not in e[1]} <= replaced

    with_memory([(random.randrange(60), one()) for _ in range(30)], look)


def test_what_is_told_later_is_not_known_before() -> None:
    """A move that is told in the second month of the first one stands in no profile of the first."""

    def look(tx: Tx, ana: int) -> None:
        assert [one.value for _, one in then(tx, ana, ms(0), ms(31))[0]] == ["Rome"]
        assert then(tx, ana, ms(0), ms(31))[1] == []
        later = then(tx, ana, ms(31), ms(60))
        assert [(one.value, one.start_ms) for _, one in later[0]] == [("Oslo", ms(20))]
        assert later[1] == []  # it happened in the month before

    with_memory([(2, "residence|Rome||is|"), (40, "residence|Oslo||start|20")], look)


def test_a_return_is_two_changes() -> None:
    """Who leaves and comes back has changed twice, and the value in force began with the return."""

    def look(tx: Tx, ana: int) -> None:
        found = then(tx, ana, ms(0), ms(31))
        noon = 12 * 3_600_000
        assert [(c.before, c.after, c.at_ms) for c in found[1]] == [
            ("Rome", "Oslo", ms(5) + noon),
            ("Oslo", "Rome", ms(9) + noon),
        ]
        [(_, held)] = found[0]
        assert (held.value, held.start_ms, len(held.facts)) == ("Rome", ms(9) + noon, 1)

    told = [(2, "residence|Rome||is|"), (5, "residence|Oslo||is|"), (9, "residence|Rome|Oslo|start|")]
    with_memory(told, look)


def test_what_is_not_told_to_be_of_something_is_no_state() -> None:
    """Who swapped oolong for sencha did not say what they were, and neither takes anything's place."""

    def look(tx: Tx, ana: int) -> None:
        assert [name for name, _ in then(tx, ana, ms(0), ms(31))[0]] == ["office"]

    with_memory([(2, "unspecified|sencha|oolong|start|"), (3, "office|Rome||is|")], look)


def test_a_value_that_comes_back_beside_others_is_held_again() -> None:
    """Of values that hold at once each ends alone, and may begin again."""

    def look(tx: Tx, ana: int) -> None:
        found = then(tx, ana, ms(4), ms(31))
        assert [one.value for _, one in found[0]] == ["chess", "golf"]
        assert [(c.before, c.after) for c in found[1]] == [("chess", None), (None, "chess")]

    told = [
        (2, "hobby|chess||is|"),
        (3, "hobby|golf||is|"),
        (5, "hobby|chess||end|"),
        (7, "hobby|chess||start|"),
    ]
    with_memory(told, look)


def test_states_told_of_a_time_that_was_over_are_not_in_force() -> None:
    """A value that is told of one past day alone is no state now; told anew without a day it is."""

    def look(tx: Tx, _: int) -> None:
        assert lines(tx, 20) == []
        assert lines(tx, 30) == ["residence: Rome (known since 2024-01-03)"]

    def lines(tx: Tx, day: int) -> list[str]:
        snapshot = load_snapshot(tx)
        turns = np.flatnonzero(snapshot.turns.said_ms < ms(day))
        found = profile_lines(tx, snapshot, ms(0), ms(day), ["Ana"], timezone.utc, turns)
        return [one.text for one in found if one.kind == "state"]

    with_memory([(10, "residence|Rome||is|2"), (25, "residence|Rome||is|")], look)


def test_what_is_told_again_is_in_force_in_the_months_behind(folder: Path) -> None:
    """A value comes back by a statement that was there already: months that were written before are told anew."""
    told = [(2, "residence|Rome||is|"), (10, "residence|Oslo||is|"), (70, "office|Bergen||is|")]

    def tell(forest: MemForest, name: str, day: int, text: str) -> None:
        said = (BEGIN + timedelta(days=day, hours=12)).isoformat()
        forest.ingest_session("u", name, [{"speaker": "Ana", "content": text, "timestamp": said}])

    def march(forest: MemForest) -> str:
        [root] = forest.user("u").tree(index="timem", depth=3)
        return root.children[0].children[-1].summary

    own = {"index_settings": {"timem": {"history": [0] * 6}}}
    with MemForest(folder, fast_config(extractor=Observed(), indexes=("timem",), **own)) as forest:
        for at, (day, text) in enumerate(told):
            tell(forest, f"s{at}", day, text)
        assert "residence: Oslo" in march(forest)
        tell(forest, "late", 20, "residence|Rome||is|")
        assert "residence: Rome" in march(forest)
