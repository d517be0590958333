"""Correcting a memory: update, history, undo, pin and forget, and what questions show of it."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import dump, fast_config, file_of, said, summaries

from memforest import MemForest
from memforest.errors import CorrectionError, InputError, NotFoundError, TimestampError
from memforest.memory.blocking import UserMemory
from memforest.records import Chunk, ChunkOutcome, ExtractedFact, Mention, Skipped, State
from memforest.store.connections import Connection

DAVIS = "I live in Davis."
BOB_DAVIS = f'Bob: "{DAVIS}"'
TALK = said(DAVIS, "I like hiking a lot.", "My sister works at Acme.", speaker="Bob")
WHERE = "Where does Bob live?"
INDEXES = ("memforest", "segtree", "flat", "facts")


def memory(folder: Path, **settings: Any) -> MemForest:
    """Return a forest with one session of Bob's."""
    forest = MemForest(folder, fast_config(**{"indexes": INDEXES[:2], **settings}))
    forest.ingest_session("u", "s", TALK)
    return forest


def fact_of(user: UserMemory, word: str) -> str:
    """Return the only fact that is shown and says a word."""
    [found] = [one.fact_id for one in user.list() if word in one.statement]
    return found


def all_shown(user: UserMemory, question: str = WHERE) -> str:
    """Return every word that a question and the views show as true, over all indexes."""
    texts = [user.ask(question).answer or ""]
    for index in INDEXES:
        result = user.search(question, index=index, top_k=50)
        texts += [f"{one.text} {'' if one.corrected else one.quote}" for one in result]
        context = result.context(9999).replace(r"\"", '"')
        assert all(line in context for one in result for line in one.text.splitlines())
    texts += [one.text for one in user.list(limit=1000)]
    texts += [f"{one.text} {one.value}" for one in user.timeline("Bob")]
    trees = [*user.tree(depth=9)]
    while trees:
        one = trees.pop()
        texts.append(one.summary)
        trees += one.children
    return "\n".join(texts)


def test_what_was_corrected_is_never_shown_as_true_again(tmp_path: Path) -> None:
    """Not in evidence, answers, lists, timelines or summaries of any index; the corrected statement is, with both."""
    with memory(tmp_path) as forest:
        user = forest.user("u")
        user.tree(depth=9)  # summaries that tell of Davis are there
        old = fact_of(user, "Davis")
        done = user.update(old, "Bob lives in Portland.")
        assert (done.kind, done.fact_id, done.said) == ("update", old, BOB_DAVIS)
        shown = all_shown(user)
        assert "Davis" not in shown
        assert "Portland" in (user.ask(WHERE).answer or "")
        for index in INDEXES:
            best = user.search(WHERE, index=index).evidence[0]
            assert (best.text, best.quote, best.fact_id) == (
                "Bob lives in Portland.",
                DAVIS,
                done.new_fact_id,
            )
            assert best.corrected == done.made
        line = user.search(WHERE).context().splitlines()[0]
        assert (
            line
            == '[1] 1 May 2023, 10:00: Bob lives in Portland. (corrected on 1 Jun 2024; Bob said: "I live in Davis.")'
        )
        [state] = user.timeline("Bob", attribute="residence")
        assert (state.value, state.text) == ("Portland", "Bob lives in Portland.")
        assert user.get(old).verdict == "corrected"
        assert [one.fact_id for one in user.list(verdict="corrected")] == [old]
        assert user.verify().ok


def test_an_update_of_the_time_keeps_the_words_and_ends_the_state(tmp_path: Path) -> None:
    """What was so until a day is no longer so behind it, and is found as of a day before."""
    with memory(tmp_path) as forest:
        user = forest.user("u")
        done = user.update(fact_of(user, "Davis"), valid_from="2022-01-01", valid_to="2023-03-01")
        assert (done.text, user.get(done.new_fact_id or "").statement) == (BOB_DAVIS,) * 2
        [state] = user.timeline("Bob", attribute="residence")
        assert (f"{state.start:%Y-%m-%d}", f"{state.end:%Y-%m-%d}") == ("2022-01-01", "2023-03-01")
        texts = {
            day: [one.text for one in user.search(WHERE, as_of=day)] for day in ("2023-02-01", "2023-06-01")
        }
        assert BOB_DAVIS in texts["2023-02-01"]
        assert BOB_DAVIS not in texts["2023-06-01"]
        assert user.verify().ok


def test_a_time_that_the_new_text_states_is_taken_unless_one_is_given(tmp_path: Path) -> None:
    """A given time goes before a told one, a told one before the old one."""
    with memory(tmp_path) as forest:
        user = forest.user("u")
        told = user.update(fact_of(user, "Davis"), "Bob moved to Oslo on 3 March 2022.")
        assert f"{told.start:%Y-%m-%d}" == "2022-03-03"
        again = user.update(told.new_fact_id or "", "Bob moved to Bergen.")
        assert again.start == told.start
        given = user.update(
            again.new_fact_id or "", "Bob moved to Rome on 4 May 2022.", valid_from="2021-01-01"
        )
        assert f"{given.start:%Y-%m-%d}" == "2021-01-01"
        assert user.verify().ok


def test_other_facts_of_a_turn_are_shown_by_their_own_words(tmp_path: Path) -> None:
    """A long turn of which one statement was forgotten is quoted without it."""
    turns = said(
        "I live in Davis. " + "My sister Eva works at Acme as a nurse and she plays the cello. " * 2,
        speaker="Bob",
    )
    with MemForest(tmp_path, fast_config(indexes=INDEXES[:2], extractor=Sentences())) as forest:
        forest.ingest_session("u", "s", turns)
        user = forest.user("u")
        user.forget(fact_of(user, "Davis"))
        shown = all_shown(user, "Where does Bob's sister Eva work?")
        assert "Davis" not in shown
        assert "Acme" in shown


def test_undo_brings_back_exactly_what_was_there(tmp_path: Path) -> None:
    """Facts, states, trees and summaries are those of before, for each kind of correction."""
    with memory(tmp_path) as forest:
        user = forest.user("u")
        user.tree(depth=9)
        before, made = dump(file_of(tmp_path)), summaries(file_of(tmp_path))
        for correct in (
            lambda fact: user.update(fact, "Bob lives in Portland."),
            user.forget,
            user.pin,
        ):
            done = correct(fact_of(user, "Davis"))
            user.tree(depth=9)
            assert dump(file_of(tmp_path)) != before
            undone = user.undo(done.key)
            assert (undone.key, undone.undone) == (done.key, done.made)
            user.tree(depth=9)
            assert dump(file_of(tmp_path)) == before
            assert summaries(file_of(tmp_path)) == made
            assert user.verify().ok


def test_corrections_of_corrections(tmp_path: Path) -> None:
    """The newest holds; each is undone from the last on; and the first wording may come back as a correction."""
    with memory(tmp_path) as forest:
        user = forest.user("u")
        first = fact_of(user, "Davis")
        one = user.update(first, "Bob lives in Portland.")
        two = user.update(one.new_fact_id or "", "Bob lives in Salem.")
        with pytest.raises(
            CorrectionError, match=rf"is corrected; what holds is fact {two.new_fact_id}; undo"
        ):
            user.update(first, "Bob lives in Rome.")
        with pytest.raises(CorrectionError, match=rf"was corrected itself; call undo\('{two.key}'\)"):
            user.undo(one.key)
        back = user.update(two.new_fact_id or "", BOB_DAVIS)
        assert back.new_fact_id == first
        assert [one.value for one in user.timeline("Bob", attribute="residence")] == ["Davis"]
        assert user.verify().ok
        for key in (back.key, two.key, one.key):
            user.undo(key)
            assert user.verify().ok
        assert fact_of(user, "Davis") == first


def test_what_was_said_after_the_clock_is_corrected_too(tmp_path: Path) -> None:
    """A conversation whose times are ahead of this machine's loses nothing by a correction, nor by being stored anew."""
    ahead = [
        {**turn, "timestamp": "2031-01-01T10:00:00Z"} for turn in said(DAVIS, "I like tea.", speaker="Bob")
    ]
    with MemForest(tmp_path, fast_config(indexes=INDEXES[:2])) as forest:
        forest.ingest_session("u", "s", ahead)
        user = forest.user("u")
        user.update(fact_of(user, "Davis"), "Bob lives in Portland.")
        for _ in range(2):
            shown = all_shown(user)
            assert "Portland" in shown
            assert "Davis" not in shown
            result = forest.ingest_session("u", "s", [ahead[0]], replace=True)
            assert not any("says again" in one for one in result.warnings)
        assert user.verify().ok


class Sentences:
    """An extractor that makes one statement of each sentence, in words of its own."""

    name = "sentences-1"

    def __init__(self, verb: str = "lives in") -> None:
        self.verb = verb

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Return a statement for each sentence."""
        return [ChunkOutcome(tuple(self._read(chunk)), (Skipped(0, "", ""),) * 0) for chunk in chunks]

    def _read(self, chunk: Chunk) -> list[ExtractedFact]:
        found = []
        for turn in chunk.turns:
            for sentence in turn.text.split(". "):
                text = (
                    sentence.replace("I live in", f"Bob {self.verb}").replace("I ", "Bob ").rstrip(".") + "."
                )
                city = text.rsplit(" ", 1)[-1].rstrip(".")
                states = (State("Bob", "residence", city),) if self.verb in text else ()
                found.append(
                    ExtractedFact(
                        text, (turn.ordinal,), turn.speaker, sentence,
                        mentions=(Mention("Bob", "participant", "subject"),), states=states,
                    )
                )  # fmt: skip
        return found


@pytest.mark.parametrize("verb", ["resides in", "is a citizen of"])
def test_a_correction_holds_for_another_wording(tmp_path: Path, verb: str) -> None:
    """Another extractor says it otherwise: its statement is hidden by its place, and others of the turn are not."""
    with MemForest(tmp_path, fast_config(indexes=INDEXES[:2], extractor=Sentences())) as forest:
        turns = said(DAVIS + " I own a boat.", speaker="Bob")
        forest.ingest_session("u", "s", turns)
        user = forest.user("u")
        done = user.update(fact_of(user, "Davis"), "Bob lives in Portland.")
    with MemForest(tmp_path, fast_config(indexes=INDEXES[:2], extractor=Sentences(verb))) as forest:
        user = forest.user("u")
        more = [*turns, *said("I like tea.", speaker="Bob", day=2)]
        forest.ingest_session("u", "s", more, replace=True)
        assert "Davis" not in all_shown(user)
        assert {"Portland", "boat"} <= set(all_shown(user).replace(".", " ").split())
        [hidden] = user.list(verdict="corrected")
        assert verb in hidden.statement
        assert "corrected" in [one.kind for one in user.history(hidden.fact_id)]
        with pytest.raises(
            CorrectionError, match=rf"what holds is fact {done.new_fact_id}; undo\('{done.key}'\)"
        ):
            user.forget(hidden.fact_id)
        assert user.verify().ok
        user.undo(done.key)
        assert "Davis" in all_shown(user)
        assert "Portland" not in all_shown(user)
        assert user.verify().ok


class Silent:
    """An extractor that finds nothing."""

    name = "silent-1"

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Return no statements."""
        return [ChunkOutcome() for _ in chunks]


def test_a_correction_holds_where_nothing_is_extracted_any_more(tmp_path: Path) -> None:
    """The turn stays hidden by itself, and the corrected statement stands at it."""
    with memory(tmp_path) as forest:
        user = forest.user("u")
        user.update(fact_of(user, "Davis"), "Bob lives in Portland.")
        user.forget(fact_of(user, "Acme"))
    with MemForest(tmp_path, fast_config(indexes=INDEXES[:2], extractor=Silent())) as forest:
        user = forest.user("u")
        forest.ingest_session("u", "s", [*TALK, *said("Bye.", speaker="Bob", day=2)], replace=True)
        shown = all_shown(user)
        assert "Davis" not in shown
        assert "Acme" not in shown
        assert "Portland" in shown
        assert user.verify().ok


def test_turns_that_say_something_else_are_free_of_a_correction(tmp_path: Path) -> None:
    """A session that is overwritten under the same ids speaks for itself again."""
    with memory(tmp_path) as forest:
        user = forest.user("u")
        user.forget(fact_of(user, "Davis"))
        forest.ingest_session("u", "s", said("What a day!", "I sold the boat.", speaker="Bob"), replace=True)
        assert {"What a day!"} <= {one.text for one in user.search("day", index="flat")}
        assert user.verify().ok


def test_a_statement_made_again_after_its_correction_is_told_of(tmp_path: Path) -> None:
    """It stays hidden, and the result of the write names the key that shows it."""
    with memory(tmp_path) as forest:
        user = forest.user("u")
        done = user.forget(fact_of(user, "Davis"))
        again = [{**turn, "timestamp": "2025-01-01T10:00:00Z"} for turn in said(DAVIS, speaker="Bob")]
        result = forest.ingest_session("u", "later", again)
        assert any("says again what was forgotten" in one and done.key in one for one in result.warnings)
        assert "Davis" not in all_shown(user)
        user.undo(done.key)
        assert "Davis" in all_shown(user)
        assert user.verify().ok


def test_a_pinned_statement_is_among_the_evidence_of_every_question(tmp_path: Path) -> None:
    """In the place of the last ones; the first stays, and so do the time filters and budgets."""
    with memory(tmp_path) as forest:
        user = forest.user("u")
        plain = user.search(WHERE, top_k=2)
        pin = user.pin(fact_of(user, "Acme"))
        for index in INDEXES:
            found = user.search(WHERE, top_k=2, index=index)
            assert [one.pinned for one in found] == [False, True]
        assert found.evidence[1].text == "My sister works at Acme."
        result = user.search(WHERE, top_k=2)
        assert result.evidence[0].text == plain.evidence[0].text
        assert "(pinned)" in result.context().splitlines()[1]
        assert "Acme" in result.context(max_tokens=18)
        assert [one.pinned for one in user.search(WHERE, max_tokens=18)] == [True]
        alone = user.search(WHERE, top_k=1)
        assert [one.pinned for one in alone] == [False]
        assert "1 pinned statement(s) are left out; raise top_k or max_tokens" in alone.warnings
        assert not any(one.pinned for one in user.search(WHERE, as_of="2023-04-01"))
        assert user.get(pin.fact_id).verdict == "pinned"
        user.undo(pin.key)
        assert [one.text for one in user.search(WHERE, top_k=2)] == [one.text for one in plain]


def test_a_pin_goes_on_to_the_statement_that_corrects(tmp_path: Path) -> None:
    """And comes back when that is undone; what is forgotten is not shown for being pinned."""
    with memory(tmp_path) as forest:
        user = forest.user("u")
        user.pin(fact_of(user, "Davis"))
        done = user.update(fact_of(user, "Davis"), "Bob lives in Portland.")
        assert [one.statement for one in user.list(verdict="pinned")] == ["Bob lives in Portland."]
        user.undo(done.key)
        assert [one.statement for one in user.list(verdict="pinned")] == [BOB_DAVIS]
        user.forget(fact_of(user, "Davis"))
        assert "Davis" not in all_shown(user)
        assert user.verify().ok


def test_the_history_of_a_statement_is_the_same_by_any_of_its_ids(tmp_path: Path) -> None:
    """Said, corrected, undone, and what superseded it, in the order in which that was recorded."""
    with memory(tmp_path) as forest:
        user = forest.user("u")
        old = fact_of(user, "Davis")
        done = user.update(old, "Bob lives in Portland.")
        forest.ingest_session("u", "later", said("I moved from Portland to Rome.", speaker="Bob", day=9))
        found = user.history(old)
        assert found == user.history(done.new_fact_id or "")
        kinds = [one.kind for one in found]
        assert kinds == ["said", "corrected", "superseded"]
        first, corrected, after = found
        assert (first.quote, first.sources[0].session_id, first.speaker) == (DAVIS, "s", "Bob")
        assert (corrected.text, corrected.replaced, corrected.key) == (done.text, done.said, done.key)
        assert "Rome" in after.text
        user.undo(done.key)
        assert [one.kind for one in user.history(old)][:3] == ["said", "corrected", "undone"]


def test_bad_input_is_refused_with_what_to_do_and_changes_nothing(tmp_path: Path) -> None:
    """Unknown ids, empty texts, times the wrong way round, and what was done already."""
    with memory(tmp_path) as forest:
        user = forest.user("u")
        fact = fact_of(user, "Davis")
        before = dump(file_of(tmp_path))
        for error, message, call in (
            (NotFoundError, "no fact 'f1:x'", lambda: user.update("f1:x", "Bob sings.")),
            (NotFoundError, "no fact", lambda: user.forget("f1:x")),
            (NotFoundError, "no fact", lambda: user.history("f1:x")),
            (NotFoundError, "no correction 'c:x'", lambda: user.undo("c:x")),
            (InputError, "the text is empty; forget", lambda: user.update(fact, " \n")),
            (InputError, "says that already", lambda: user.update(fact, BOB_DAVIS)),
            (InputError, "give text, valid_from or valid_to", lambda: user.update(fact)),
            (InputError, "4001 characters", lambda: user.update(fact, "x" * 4001)),
            (
                InputError,
                "is not after valid_from",
                lambda: user.update(fact, valid_from="2024-01-01", valid_to="2023-01-01"),
            ),
            (InputError, "give valid_from too", lambda: user.update(fact, valid_to="2020-01-01")),
            (TimestampError, "valid_from", lambda: user.update(fact, valid_from="some day")),
            (InputError, "give a text", lambda: user.pin(None)),  # type: ignore[arg-type]
            (InputError, "verdict='odd'", lambda: user.list(verdict="odd")),  # type: ignore[arg-type]
        ):
            with pytest.raises(error, match=message):
                call()
        assert dump(file_of(tmp_path)) == before


def test_what_was_done_already_is_named(tmp_path: Path) -> None:
    """Forgotten twice, pinned twice, undone twice: an error with the key that helps."""
    with memory(tmp_path) as forest:
        user = forest.user("u")
        fact = fact_of(user, "Davis")
        pin = user.pin(fact)
        with pytest.raises(CorrectionError, match=rf"is pinned already; undo\('{pin.key}'\)"):
            user.pin(fact)
        done = user.forget(fact)
        for again in (user.forget, user.pin, lambda one: user.update(one, "Bob sings.")):
            with pytest.raises(CorrectionError, match=rf"is forgotten; undo\('{done.key}'\)"):
                again(fact)
        user.undo(done.key)
        with pytest.raises(CorrectionError):
            user.undo(done.key)


def test_undoing_what_is_about_a_fact_that_is_gone(tmp_path: Path) -> None:
    """It is taken back all the same, so that what is extracted again is shown."""
    with memory(tmp_path) as forest:
        done = forest.user("u").forget(fact_of(forest.user("u"), "Acme"))
    with MemForest(tmp_path, fast_config(indexes=INDEXES[:2], extractor=Silent())) as forest:
        user = forest.user("u")
        forest.ingest_session("u", "s", [*TALK, *said("Bye.", speaker="Bob", day=2)], replace=True)
        assert not user.list(verdict="forgotten").facts
        user.undo(done.key)
    with MemForest(tmp_path, fast_config(indexes=INDEXES[:2])) as forest:
        user = forest.user("u")
        forest.ingest_session("u", "s", TALK, replace=True)
        assert fact_of(user, "Acme")
        assert "Acme" in all_shown(user)
        assert user.verify().ok


def test_a_correction_goes_with_what_a_replaced_session_said(tmp_path: Path) -> None:
    """Nothing is left to be undone, and what comes again is shown."""
    with memory(tmp_path) as forest:
        user = forest.user("u")
        done = user.forget(fact_of(user, "Davis"))
        forest.ingest_session("u", "s", said("I sold the boat.", speaker="Bob"), replace=True)
        with pytest.raises(NotFoundError):
            user.undo(done.key)
        forest.ingest_session("u", "s", TALK, replace=True)
        assert "Davis" in all_shown(user)
        assert user.verify().ok


def test_two_processes_correct_one_statement_and_one_is_told(tmp_path: Path) -> None:
    """Whoever comes second learns what holds now; nothing is corrected twice."""
    with memory(tmp_path) as one, MemForest(tmp_path, fast_config()) as other:
        fact = fact_of(one.user("u"), "Davis")

        async def both() -> list[Any]:
            texts = ("Bob lives in Rome.", "Bob lives in Oslo.")
            calls = [
                f._async.user("u").update(fact, text) for f, text in zip((one, other), texts, strict=True)
            ]
            return await asyncio.gather(*calls, return_exceptions=True)

        done = asyncio.run(both())
        [error] = [one for one in done if isinstance(one, Exception)]
        assert isinstance(error, CorrectionError)
        assert len(one.user("u").list(verdict="corrected")) == 1
        assert other.user("u").verify().ok


def test_no_statement_of_an_update_reads_a_whole_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a correction costs does not grow with the memory: each look-up goes by an index, but in lists of what is few.

    Without vectors, as scenes of a memory this young are derived anew with each write.
    """
    asked: dict[str, Any] = {}
    execute = Connection.execute

    def record(self: Connection, sql: str, args: Any = (), /) -> Any:
        asked.setdefault(sql, args)
        return execute(self, sql, args)

    with memory(tmp_path, embedder=None) as forest:
        user = forest.user("u")
        fact = fact_of(user, "Davis")
        with monkeypatch.context() as patched:
            patched.setattr(Connection, "execute", record)
            user.undo(user.update(fact, "Bob lives in Portland.").key)
    few = (
        "json_each",
        "change",
        "choice",
        "fact_hidden",
        "correction",
        "index_",
        "meta",
        "tree",
        "sqlite_sequence",
        "INDEX 0:=",
        "CONSTANT ROW",
        "subquery",
        "SUBQUERY",
    )
    found = []
    with closing(sqlite3.connect(file_of(tmp_path))) as conn:
        for sql, args in asked.items():
            if sql.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE", "INSERT")):
                plan = [row[3] for row in conn.execute(f"EXPLAIN QUERY PLAN {sql}", args)]
                found += [
                    (step, sql)
                    for step in plan
                    if step.startswith("SCAN") and not any(w in step for w in few)
                ]
    assert found == []
