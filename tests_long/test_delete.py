"""Deleting from a memory: what goes, what stays as it was, and what is refused."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import CLOCK, eager_config, fast_config, file_of, rows, said

from memforest import MemForest
from memforest.errors import ForeignStoreError, InputError, NotFoundError, StoreReplacedError
from memforest.models import HashEmbedder
from memforest.records import ChunkOutcome


def facts(forest: MemForest) -> dict[str, str]:
    """Return text -> id of all facts."""
    return {one.statement: one.fact_id for one in forest.user("u").list(limit=1000)}


def texts(folder: Path) -> list[str]:
    """Return the texts of all turns, in order."""
    return [row[2] for row in rows(file_of(folder), "SELECT session, ordinal, text FROM turn")]


def test_a_shared_fact_loses_exactly_that_occurrence(tmp_path: Path) -> None:
    """Its time, wording and states are those of where else it was said; the other's go with the turn."""
    with MemForest(tmp_path, eager_config()) as forest:
        forest.ingest_session("u", "s1", said("Carla works at Acme.", day=1))
        forest.ingest_session("u", "s2", said("Carla works at ACME.", day=9))
        [fact] = forest.user("u").list()
        assert (fact.speaker, fact.said.day, len(fact.sources)) == ("Ana", 1, 2)
        receipt = forest.delete_turn("u", "s1", "0")
        assert (receipt.gone["facts"], receipt.changed["facts"], receipt.gone["occurrences"]) == (0, 1, 1)
        assert receipt.gone["sessions"] == 1  # nothing is left of it
        [fact] = forest.user("u").list()
        assert (fact.speaker, fact.said.day, fact.statement) == ("Ana", 9, 'Ana: "Carla works at ACME."')
        assert fact.wordings == ('Ana: "Carla works at ACME."',)
        [entry] = [one for one in forest.user("u").timeline("Carla") if one.kind == "state"]
        assert entry.start is not None
        assert entry.start.day == 9
        assert forest.user("u").verify().ok
        assert forest.delete_turn("u", "s2", "0").gone["facts"] == 1


def test_a_fact_goes_with_its_sentence_and_the_rest_of_the_turn_stays(tmp_path: Path) -> None:
    """No search finds the sentence again, by words or by vector; what else the turn said is found as before."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session(
            "u", "s", said("I adopted a cat called Miso. I work at Acme. Bob lives in Oslo.")
        )
        wanted = facts(forest)['Ana: "Bob lives in Oslo."']
        receipt = forest.user("u").delete(wanted)
        assert (receipt.gone["turns"], receipt.changed["turns"], receipt.gone["facts"]) == (0, 1, 1)
        assert texts(tmp_path) == ["I adopted a cat called Miso. I work at Acme."]
        assert list(facts(forest)) == ['Ana: "I adopted a cat called Miso. I work at Acme."']
        [found] = forest.query("u", "Who lives in Oslo?", index="flat").evidence
        assert "Oslo" not in found.text + found.quote
        assert forest.user("u").verify(deleted=["oslo"]).ok
        with pytest.raises(NotFoundError):
            forest.user("u").delete(fact_id=wanted)


def test_an_entity_goes_with_every_sentence_that_names_it(tmp_path: Path) -> None:
    """Also where nothing was learnt of it, under its alias, and in another session; others keep their sentences."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session(
            "u", "s1", said("Zoltan lives in Oslo. I like tea.", "Have you seen Zoltan? Bob has.")
        )
        forest.ingest_session("u", "s2", said("Bob works at Acme.", "ZOLTAN's car is red!", day=2))
        receipt = forest.user("u").delete(entity="zoltan")
        assert receipt.gone["turns"] == 1
        assert texts(tmp_path) == ["I like tea.", "Bob has.", "Bob works at Acme."]
        assert forest.user("u").verify(deleted=["zoltan", "oslo"]).ok
        with pytest.raises(NotFoundError, match="Zoltan"):
            forest.user("u").timeline("Zoltan")
        with pytest.raises(NotFoundError):
            forest.user("u").delete(entity="Zoltan")


def test_a_speaker_goes_with_all_that_they_said(tmp_path: Path) -> None:
    """And with what others said of them by name or by a short form."""
    mel = [{**turn, "speaker": "Melanie"} for turn in said("I live in Oslo.", "I adopted a cat.")]
    talk = [*mel, *said("Mel works at Acme. I like tea.", "Bob is here.")[0:2]]
    for number, turn in enumerate(talk):
        turn["timestamp"] = f"2023-05-01T10:{number:02}:00Z"
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", talk)
        receipt = forest.user("u").delete(entity="Melanie")
        assert receipt.gone["turns"] == 2
        assert texts(tmp_path) == ["I like tea.", "Bob is here."]
        assert forest.user("u").verify(deleted=["melanie", "mel ", "oslo", "acme"]).ok


def test_what_was_learnt_with_the_help_of_a_deleted_turn_goes_too(tmp_path: Path) -> None:
    """A statement that has a name from the turn before cannot stay when that turn goes."""

    class Reader:
        name = "reads-back@1"

        async def extract(self, chunks: Any) -> list[ChunkOutcome]:
            from memforest.records import ExtractedFact as Candidate

            made = []
            for chunk in chunks:
                before = " ".join(turn.text for turn in chunk.before)
                who = "Ottilie" if "Ottilie" in before else "Somebody"
                made.append(
                    ChunkOutcome(
                        tuple(
                            Candidate(f"{who} said: {turn.text}", (turn.ordinal,), turn.speaker, turn.text)
                            for turn in chunk.turns
                        )
                    )
                )
            return made

    with MemForest(tmp_path, fast_config(extractor=Reader(), chunk_turns=1)) as forest:
        forest.ingest_session("u", "s", said("Ottilie came.", "She sang.", "It was late.", "We left."))
        assert sum("Ottilie said" in text for text in facts(forest)) == 2
        receipt = forest.delete_turn("u", "s", "0")
        assert receipt.gone["facts"] == 3
        assert list(facts(forest)) == ["Somebody said: We left."]
        assert forest.user("u").verify(deleted=["ottilie"]).ok


def test_a_window_is_of_when_it_was_said(tmp_path: Path) -> None:
    """Its start belongs to it and its end does not; without a start it is all before the end."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", said("One tea.", "Two teas.", "Three teas.", "Four teas."))
        assert forest.user("u").delete(during=("2023-05-01T10:01Z", "2023-05-01T10:02Z")).gone["turns"] == 1
        assert texts(tmp_path) == ["One tea.", "Three teas.", "Four teas."]
        assert not forest.user("u").delete(during=("2023-06-01", "2023-07-01"))
        assert forest.user("u").delete(during=(None, "2023-05-01T10:03Z")).gone["turns"] == 2
        assert texts(tmp_path) == ["Four teas."]


def test_metadata_that_repeats_what_was_deleted_goes(tmp_path: Path) -> None:
    """Of the session and of a turn that loses a sentence; other metadata stays."""
    turns = said("Zoltan lives in Oslo. I like tea.", "Good.")
    turns[0] |= {"caption": "Zoltan at home", "mood": "calm"}
    with MemForest(tmp_path, fast_config()) as forest:
        about = {"title": "About Zoltan", "topic": "tea", "tags": ["zoltan", "work"]}
        forest.ingest_session("u", "s", turns, metadata=about)
        forest.user("u").delete(entity="Zoltan")
        assert forest.user("u").verify(deleted=["zoltan"]).ok
        [session] = forest.user("u").sessions()
        assert dict(session.metadata) == {"topic": "tea", "tags": ["work"]}
        [(_, metadata), _] = rows(file_of(tmp_path), "SELECT ordinal, metadata FROM turn")
        assert '"mood": "calm"' in metadata
        assert "caption" not in metadata


def test_questions_are_answered_as_if_it_had_never_been_said(tmp_path: Path) -> None:
    """A snapshot that a query has read before the deletion is not used behind it."""
    with MemForest(tmp_path, fast_config(indexes=("memforest", "segtree"))) as forest:
        forest.ingest_session("u", "s", said("I bought a red kayak.", "I live in Oslo.", "I like tea."))
        assert "kayak" in forest.query("u", "What about the kayak?").evidence[0].quote
        forest.delete_turn("u", "s", "0")
        for index in ("memforest", "segtree", "flat", "facts"):
            for one in forest.query("u", "What about the kayak?", index=index).evidence:
                assert "kayak" not in one.quote + one.text


@pytest.mark.parametrize(
    "target",
    [
        {"turn": ("s", "1")},
        {"session_id": "s"},
        {"entity": "Bob"},
        {"during": (None, "2024-01-01")},
        {"fact_id": None},
    ],
    ids=lambda target: next(iter(target)),
)
def test_the_same_again_is_stored_anew(tmp_path: Path, target: dict[str, Any]) -> None:
    """A session of which something was deleted is no conflict when it comes again as it was, and is whole then."""
    turns = said("I live in Oslo.", "Bob works at Acme.", "I like tea.", "I adopted a cat.")
    with MemForest(tmp_path, eager_config()) as forest:
        forest.ingest_session("u", "s", turns)
        before = facts(forest)
        wanted: dict[str, Any] = {
            key: value or before['Ana: "Bob works at Acme."'] for key, value in target.items()
        }
        forest.user("u").delete(**wanted)
        assert facts(forest) != before
        forest.ingest_session("u", "s", turns)
        assert facts(forest) == before
        assert texts(tmp_path) == [turn["content"] for turn in turns]
        assert forest.user("u").verify().ok
        assert forest.ingest_session("u", "s", turns).turns_added == 0


def test_a_session_goes_on_behind_a_deleted_turn(tmp_path: Path) -> None:
    """What is appended takes no place that another turn has or had before it."""
    with MemForest(tmp_path, eager_config()) as forest:
        memory = forest.user("u")
        forest.ingest_session("u", "s", said("I live in Oslo.", "Bob works at Acme.", "I like tea."))
        forest.delete_turn("u", "s", "1")
        memory.add({"speaker": "Ana", "content": "I adopted a cat."}, session_id="s", timestamp="2023-06-01")
        assert memory.verify().ok
        assert texts(tmp_path) == ["I live in Oslo.", "I like tea.", "I adopted a cat."]
        forest.delete_turn("u", "s", "0")
        memory.add({"speaker": "Ana", "content": "I sold it."}, session_id="s", timestamp="2023-06-02")
        assert memory.verify().ok
        assert len(texts(tmp_path)) == 3


def test_a_session_whose_chunks_failed_is_deleted(tmp_path: Path) -> None:
    """With the reason of the failure, which may repeat what was said; a turn of it too."""

    class Fails:
        name = "fails@1"

        async def extract(self, chunks: Any) -> list[ChunkOutcome]:
            return [ChunkOutcome(failure=f"unreadable: {chunk.turns[0].text}") for chunk in chunks]

    with MemForest(tmp_path, fast_config(extractor=Fails())) as forest:
        forest.ingest_session("u", "s", said("Zoltan sang.", "I like tea.", "Good night."))
        forest.delete_turn("u", "s", "0")
        assert forest.user("u").verify(deleted=["zoltan"]).ok
        assert forest.user("u").sessions()[0].failed_chunks == 2
        assert forest.delete_session("u", "s").gone["sessions"] == 1
        assert forest.user("u").verify(deleted=["zoltan", "good night"]).ok


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({}, InputError, "exactly one"),
        ({"session_id": "s", "entity": "Ana"}, InputError, "exactly one"),
        ({"during": ("2023-05-02", "2023-05-01")}, InputError, "not before"),
        ({"during": ("2023-05-01", "2023-05-01")}, InputError, "not before"),
        ({"during": ("2023-05-01", None)}, InputError, "needs an end"),
        ({"during": "2023"}, InputError, "pair of times"),
        ({"turn": "s"}, InputError, "turn"),
        ({"turn": ("s", 3)}, InputError, "turn"),
        ({"fact_id": 7}, InputError, "fact_id"),
        ({"session_id": "s", "dry_run": "no"}, InputError, "dry_run"),
        ({"turn": ("s", "99")}, NotFoundError, "no turn '99'"),
        ({"turn": ("no", "0")}, NotFoundError, "no session 'no'"),
        ({"session_id": "no"}, NotFoundError, "no session 'no'"),
        ({"fact_id": "f1:none"}, NotFoundError, "no fact"),
        ({"entity": "Nobody"}, NotFoundError, "nothing is known"),
        ({"entity": "—"}, NotFoundError, "nothing is known"),
    ],
)
def test_a_wrong_target_is_refused_and_loses_nothing(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], match: str
) -> None:
    """The message says what was wrong, and every row is as it was."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo."))
        with pytest.raises(error, match=match):
            forest.user("u").delete(**arguments)
        assert texts(tmp_path) == ["I live in Oslo."]
        assert len(facts(forest)) == 1


def test_twice_is_not_found(tmp_path: Path) -> None:
    """Whatever was deleted is not there a second time."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo.", "I like tea."))
        forest.delete_turn("u", "s", "0")
        with pytest.raises(NotFoundError):
            forest.delete_turn("u", "s", "0")
        forest.delete_session("u", "s")
        with pytest.raises(NotFoundError):
            forest.delete_session("u", "s")
        with pytest.raises(NotFoundError):
            forest.delete_session("nobody", "s")


def test_a_user_goes_with_all_files_and_others_notice(tmp_path: Path) -> None:
    """Another forest that has the file open gets an error that says so, writes nothing, and then finds what is there now."""
    with MemForest(tmp_path, fast_config()) as forest, MemForest(tmp_path, fast_config()) as other:
        forest.ingest_session("u", "s", said("I live in Oslo."))
        forest.ingest_session("v", "s", said("I live in Rome."))
        assert other.query("u", "Oslo?").evidence
        counted = forest.user("u").delete_all(dry_run=True)
        assert forest.list_users() == ["u", "v"]
        receipt = forest.delete_user("u")
        assert receipt.counts() == counted.counts()
        assert (receipt.gone["turns"], receipt.gone["facts"]) == (1, 1)
        assert forest.list_users() == ["v"]
        assert b"Oslo" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
        with pytest.raises(StoreReplacedError):
            other.ingest_session("u", "s2", said("I like tea."))
        with pytest.raises(NotFoundError):
            forest.delete_user("u")
        other.ingest_session("u", "s2", said("I like tea."))
        assert forest.user("u").stats().turns == 1
        assert forest.user("v").stats().turns == 1


def test_a_memory_that_nothing_was_stored_in_can_be_removed(tmp_path: Path) -> None:
    """Also a file that was only begun, and one that is damaged; one that belongs to somebody else is refused."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.register_user("u")
        assert forest.delete_user("u").gone["files"] >= 1
        forest.register_user("u")
        path = file_of(tmp_path)
    path.write_bytes(b"")
    with MemForest(tmp_path, fast_config()) as forest:
        assert forest.delete_user("u").gone["files"] >= 1
        forest.ingest_session("u", "s", said("I live in Oslo."))
        forest.close()
        whole = path.read_bytes()
        path.write_bytes(whole[:4096] + b"x" * (len(whole) - 4096))
        assert "counted" in forest.delete_user("u").warnings[0]
        assert not path.exists()
        forest.ingest_session("v", "s", said("I like tea."))
        forest.close()
        file_of(tmp_path).rename(path)
        with pytest.raises(ForeignStoreError):
            forest.delete_user("u")
        assert path.exists()


def test_another_embedder_does_not_keep_a_memory_from_going(tmp_path: Path) -> None:
    """A memory that cannot be opened with the present settings is deleted all the same."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", said("I like tea."))
    with MemForest(tmp_path, fast_config(embedder=HashEmbedder(64))) as forest:
        assert forest.user("u").delete_all().gone["turns"] == 1
        assert forest.list_users() == []


def test_tombstones_have_counts_and_times_only(tmp_path: Path) -> None:
    """How many items of a kind that were stored at one time went at another."""
    now = [CLOCK]
    with MemForest(tmp_path, fast_config(clock=lambda: now[0])) as forest:
        forest.ingest_session("u", "s", said("I live in Oslo.", "I like tea."))
        now[0] = datetime(2024, 7, 1, tzinfo=timezone.utc)
        forest.delete_session("u", "s")
    found = rows(file_of(tmp_path), "SELECT kind, count, stored_ms, deleted_ms FROM tombstone ORDER BY kind")
    times = (int(CLOCK.timestamp() * 1000), int(now[0].timestamp() * 1000))
    assert found == [("fact", 2, *times), ("session", 1, *times), ("turn", 2, *times)]


def test_an_answer_that_quotes_a_deleted_question_goes(tmp_path: Path) -> None:
    """The question stands in the chunk before; its words are all said in other turns too, its sentence is not."""
    turns = [
        {"speaker": "Ana", "text": "I like to paint, me too.", "timestamp": "2024-03-04T09:00Z"},
        {"speaker": "Bo", "text": "Do you like to paint too?", "timestamp": "2024-03-04T09:01Z"},
        {"speaker": "Ana", "text": "Sure, mostly flowers.", "timestamp": "2024-03-04T09:02Z"},
    ]
    with MemForest(tmp_path, fast_config(chunk_turns=1)) as forest:
        forest.ingest_session("u", "s", turns)
        user = forest.user("u")
        assert any("do you like to paint too" in one.statement.lower() for one in user.list())
        user.delete(turn=("s", "1"))
        assert user.verify(deleted=["do you like to paint too"]).ok
        assert len(user.turns("s")) == 2


def test_a_sentence_that_a_later_turn_says_too_stays_with_it(tmp_path: Path) -> None:
    """Deleted is what one turn said; that the next one said the same is still so."""
    turns = [
        {"id": f"t{n}", "speaker": who, "content": text, "timestamp": f"2024-05-01T10:0{n}:00+00:00"}
        for n, (who, text) in enumerate(
            (("Tomas", "Gregor adopted 3 cats."), ("Nora", "Gregor adopted 3 cats."))
        )
    ]
    with MemForest(tmp_path, fast_config(chunk_turns=1)) as forest:
        forest.ingest_session("u", "s", turns)
        forest.user("u").delete(turn=("s", "t0"))
        assert [one.text for one in forest.user("u").list().facts] == ["Gregor adopted 3 cats."]
