"""What is added is kept: to the letter, once, in time order, durable when the call returns."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.contract.talk import NOW, fact, holding, opened, picture, said, shown, statements, texts
from tests.doubles import local_reply

from memforest import Budget, IngestProgress, MemForest
from memforest.errors import (
    IdempotencyError,
    InputError,
    MemForestError,
    ModelUnavailableError,
    SessionConflictError,
    TimestampError,
)
from memforest.testing import FrozenClock, FunctionChat


def test_a_text_is_said_by_the_user_now(forest: MemForest) -> None:
    """A plain text is a turn of the user, said at the clock's time."""
    forest.register_user("u", display_name="Iris")
    result = forest.user("u").add("I live in Tromsø.")
    [turn] = forest.user("u").turns(result.session_id)
    assert (turn.speaker, turn.text, turn.said, turn.time_source) == (
        "Iris",
        "I live in Tromsø.",
        NOW,
        "clock",
    )
    assert result.turns_added == 1
    assert not result.unchanged
    assert fact(forest.user("u"), "Tromsø").speaker == "Iris"


def test_messages_have_their_own_speaker_and_time(forest: MemForest) -> None:
    """A message may name its speaker or role, and its text and time, by any of the names that there are for them."""
    memory = forest.user("u")
    memory.add(
        [
            {"speaker": "Ida", "content": "I bought a loom.", "timestamp": "2024-05-01T10:00:00Z"},
            {"role": "assistant", "text": "How big is it?", "timestamp": "2024-05-01T12:01:00+02:00"},
            {"speaker": "Ida", "content": "Two metres wide.", "timestamp": 1714557720},
        ],
        session_id="loom",
    )
    turns = list(memory.turns("loom"))
    assert texts(turns) == ["I bought a loom.", "How big is it?", "Two metres wide."]
    assert [one.said.minute for one in turns] == [0, 1, 2]
    assert {one.said.hour for one in turns} == {10}
    assert turns[0].speaker == turns[2].speaker == "Ida" != turns[1].speaker
    assert turns[1].role == "assistant"


def test_what_has_no_session_goes_into_that_of_its_day(forest: MemForest, clock: FrozenClock) -> None:
    """Two texts of one day are one session; those of the next day, or of a stated earlier one, are others."""
    memory = forest.user("u")
    first = memory.add("I like plums.").session_id
    assert memory.add("I like pears.").session_id == first
    clock.advance(days=1)
    second = memory.add("I like figs.").session_id
    third = memory.add("I liked quinces.", timestamp="2024-02-02T10:00:00Z").session_id
    assert len({first, second, third}) == 3
    assert texts(memory.turns(first)) == ["I like plums.", "I like pears."]


def test_a_day_is_one_of_the_memorys_zone(folder: Path) -> None:
    """Late in the evening in Auckland is the same day there, though it is another one in UTC."""
    with opened(folder, timezone="Pacific/Auckland") as forest:
        memory = forest.user("u")
        one = memory.add("I like plums.", timestamp="2024-05-01T11:30:00Z").session_id  # 23:30 there
        other = memory.add("I like figs.", timestamp="2024-05-01T12:30:00Z").session_id  # 0:30 there
        late = memory.add("I like pears.", timestamp="2024-05-02T01:00:00Z").session_id  # 13:00 there
    assert one != other == late


def test_it_is_durable_when_it_returns(folder: Path) -> None:
    """Another forest on the directory has it while the first is still open, and after it was closed."""
    with opened(folder) as forest:
        forest.user("u").add(said("I live in Tromsø.", "I own a kiln."), session_id="s")
        with opened(folder) as other:
            assert texts(other.user("u").turns("s")) == ["I live in Tromsø.", "I own a kiln."]
        before = picture(forest.user("u"))
    with opened(folder) as forest:
        assert picture(forest.user("u")) == before
        assert forest.list_users() == ["u"]


def test_text_comes_back_to_the_letter(forest: MemForest) -> None:
    """Scripts, emoji, combining marks, tabs, line breaks and markup are kept as they were said."""
    spoken = [
        "Cafe\u0301 and Café are two spellings. 😀👩‍🚀",
        "שלום, קוראים לי דנה.\n\tСпасибо!  Two  spaces.",
        "我住在台北。<script>alert('x')</script> \"quoted\" \\n {braces} %s",
        "Zalgo: e\u0301\u0302\u0303; nul-free; tab\there; '; DROP TABLE turns; --",
    ]
    memory = forest.user("ü/..\\用户")
    memory.add(said(*spoken), session_id="s/../☂")
    assert texts(memory.turns("s/../☂")) == spoken
    assert forest.list_users() == ["ü/..\\用户"]


def test_an_id_of_a_message_is_stored_once(forest: MemForest) -> None:
    """A message with its own id that comes again is left out, alone or beside new ones, whatever its time."""
    memory = forest.user("u")
    first = {"id": "m1", "speaker": "Ida", "content": "I own a kiln.", "timestamp": "2024-05-01T10:00:00Z"}
    memory.add(first, session_id="s")
    assert memory.add({**first, "timestamp": "2024-05-01T10:07:00Z"}, session_id="s").unchanged
    both = [first, {**first, "id": "m2", "content": "I own a loom.", "timestamp": "2024-05-01T10:01:00Z"}]
    assert memory.add(both, session_id="s").turns_added == 1
    assert [(one.id, one.text) for one in memory.turns("s")] == [
        ("m1", "I own a kiln."),
        ("m2", "I own a loom."),
    ]


def test_an_id_with_other_words_is_refused(forest: MemForest) -> None:
    """Another text under an id that is taken is an InputError that quotes neither, and nothing is stored."""
    memory = forest.user("u")
    memory.add({"id": "m1", "speaker": "Ida", "content": "I own a kiln."}, session_id="s")
    with pytest.raises(InputError) as caught:
        memory.add({"id": "m1", "speaker": "Ida", "content": "My secret is plum."}, session_id="s")
    assert "plum" not in str(caught.value)
    assert "kiln" not in str(caught.value)
    assert texts(memory.turns("s")) == ["I own a kiln."]


def test_the_same_words_twice_are_two_turns(forest: MemForest) -> None:
    """Who says the same again has said it twice; the memory states it once."""
    memory = forest.user("u")
    memory.add(said("I own a kiln.", "I own a kiln."), session_id="s")
    memory.add(said("I own a kiln.", start="2024-05-03T10:00:00+00:00"), session_id="t")
    assert len(memory.turns("s")) == 2
    assert len(memory.turns("t")) == 1
    assert sorted(one.session_id for one in fact(memory, "kiln").sources) in (["s", "t"], ["s", "s", "t"])


def test_an_idempotency_key_names_one_write(forest: MemForest, clock: FrozenClock) -> None:
    """The same key with the same request writes nothing and returns what the first call did, on another day too."""
    memory = forest.user("u")
    first = memory.add("I own a kiln.", idempotency_key="k1")
    clock.advance(days=2)
    again = memory.add("I own a kiln.", idempotency_key="k1")
    assert again.replayed
    assert not first.replayed
    assert (again.session_id, again.turns_added, again.added) == (
        first.session_id,
        first.turns_added,
        first.added,
    )
    assert sum(one.turns for one in memory.sessions()) == 1
    assert memory.add("I own a kiln.", idempotency_key="k2").turns_added == 1


def test_an_idempotency_key_of_another_request_is_refused(forest: MemForest) -> None:
    """A key that comes again with other words is an IdempotencyError, and nothing is stored."""
    memory = forest.user("u")
    memory.add("I own a kiln.", idempotency_key="k1")
    with pytest.raises(IdempotencyError):
        memory.add("I own a loom.", idempotency_key="k1")
    assert statements(memory) == ["I own a kiln."]


def test_a_key_holds_after_reopening(folder: Path) -> None:
    """A retry after the process was started anew is known."""
    for _ in range(2):
        with opened(folder) as forest:
            result = forest.user("u").add("I own a kiln.", idempotency_key="k1")
    assert result.replayed


def test_infer_false_keeps_the_text_as_it_is(forest: MemForest) -> None:
    """Verbatim turns are found by their words, and nothing is read out of them: no state, no change."""
    memory = forest.user("u")
    memory.add(said("I own a kiln in Tromsø.", "I moved to Oslo."), session_id="s", infer=False)
    assert memory.search("Who owns a kiln?").evidence[0].quote == "I own a kiln in Tromsø."
    assert set(statements(memory)) <= {"I own a kiln in Tromsø.", "I moved to Oslo."}
    assert [one for one in memory.timeline("Anna") if one.kind == "state"] == []


def test_metadata_of_a_call_is_that_of_its_turns(forest: MemForest) -> None:
    """Each turn carries it, beside its own keys, and `search` and `list` can be narrowed by it; all keys must match."""
    memory = forest.user("u")
    memory.add(said("I own a kiln."), session_id="s", metadata={"channel": "mail", "urgent": True})
    memory.add({**said("I own a loom.")[0], "channel": "chat"}, session_id="s")
    assert [one.metadata.get("channel") for one in memory.turns("s")] == ["mail", "chat"]
    for filters, expected in (
        ({"channel": "mail"}, ["I own a kiln."]),
        ({"channel": "chat"}, ["I own a loom."]),
        ({"channel": "mail", "urgent": True}, ["I own a kiln."]),
        ({"channel": "chat", "urgent": True}, []),
        ({"channel": "fax"}, []),
    ):
        assert texts(memory.list(filters=filters)) == expected, filters
        assert texts(memory.search("What do I own?", filters=filters)) == expected, filters


def test_a_filter_by_a_key_that_nobody_gave_says_so(forest: MemForest) -> None:
    """It matches nothing, and `warnings` name the key."""
    memory = forest.user("u")
    memory.add(said("I own a kiln."), session_id="s", metadata={"channel": "mail"})
    for result in (
        memory.list(filters={"chanel": "mail"}),
        memory.search("kiln", filters={"chanel": "mail"}),
    ):
        assert not result
        assert any("chanel" in one for one in result.warnings)


def test_turns_out_of_order_are_taken_in_time_order(forest: MemForest) -> None:
    """Within a call they are sorted by time, those of one time stay as they came, and the result says how many."""
    memory = forest.user("u")
    one, two, three, four = said("I own a kiln.", "I own a loom.", "I own a lathe.", "I own a forge.")
    three["timestamp"] = two["timestamp"]
    result = memory.add([four, two, three, one], session_id="s")
    assert result.turns_added == 4
    assert len(result.warnings) == 1
    assert texts(memory.turns("s")) == ["I own a kiln.", "I own a loom.", "I own a lathe.", "I own a forge."]
    assert not memory.add(said("I own a saw.", start="2024-05-02T10:00:00+00:00"), session_id="s").warnings


def test_a_late_turn_lands_in_its_place(forest: MemForest) -> None:
    """A later call may bring an earlier time into a session: it is read, shown in time order, and nothing is lost."""
    memory = forest.user("u")
    memory.add(said("I live in Oslo.", start="2024-05-02T10:00:00+00:00"), session_id="s")
    late = memory.add(said("I live in Turin.", start="2024-04-02T10:00:00+00:00"), session_id="s")
    assert late.turns_added == 1
    assert late.warnings
    assert texts(memory.turns("s")) == ["I live in Turin.", "I live in Oslo."]
    [first, last] = memory.timeline("Anna", attribute="residence")
    assert (first.value, last.value) == ("Turin", "Oslo")
    assert first.end == last.start
    assert memory.verify().ok
    assert [one.start for one in memory.sessions()] == [datetime(2024, 4, 2, 10, tzinfo=timezone.utc)]


def test_order_of_arrival_does_not_matter(folder: Path) -> None:
    """Sessions and turns that come in another order make the memory that they make in time order."""
    talk = said("I live in Turin.", "I own a kiln.", "I moved to Oslo.", "I own a loom.")
    with opened(folder / "a") as forest:
        forest.user("u").add(talk, session_id="s")
        expected = picture(forest.user("u"))
    with opened(folder / "b") as forest:
        for at in (3, 0, 2, 1):
            forest.user("u").add({**talk[at], "id": str(at)}, session_id="s")
        got = picture(forest.user("u"))
    got["turns"] = {name: [(*one[1:],) for one in turns] for name, turns in got["turns"].items()}
    expected["turns"] = {name: [(*one[1:],) for one in turns] for name, turns in expected["turns"].items()}
    assert got["turns"] == expected["turns"]
    assert got["lines"] == expected["lines"]
    assert [one[:5] for one in got["facts"]] == [one[:5] for one in expected["facts"]]


def test_an_unreadable_time_stores_nothing(forest: MemForest) -> None:
    """One wrong timestamp is a TimestampError; no turn of the call is stored, and an unknown user stays unknown."""
    wrong = [
        *said("I own a kiln."),
        {"speaker": "Ida", "content": "I own a loom.", "timestamp": "the other day"},
    ]
    with pytest.raises(TimestampError):
        forest.user("u").add(wrong, session_id="s")
    assert forest.list_users() == []


def test_a_time_without_an_offset_is_one_of_the_configured_zone(folder: Path) -> None:
    """Naive times, as text or datetime, are read in `Config.timezone`; aware ones are what they say."""
    with opened(folder, timezone="America/New_York") as forest:
        memory = forest.user("u")
        memory.add("I own a kiln.", session_id="s", timestamp="2024-05-01 10:00")
        memory.add("I own a loom.", session_id="s", timestamp=datetime(2024, 5, 1, 11))  # noqa: DTZ001 - it is the point
        memory.add("I own a saw.", session_id="s", timestamp="2024-05-01T16:00:00Z")
        assert [one.said.hour for one in memory.turns("s")] == [14, 15, 16]
        assert {one.said.utcoffset() for one in memory.turns("s")} == {timedelta(0)}


class HumanMessage:
    """A message as one framework has it: the kind says who speaks."""

    type = "human"

    def __init__(self, content: Any) -> None:
        self.content = content
        self.additional_kwargs: dict[str, Any] = {}
        self.id = None


class AIMessage(HumanMessage):
    """An answer of it."""

    type = "ai"


class Completion:
    """A message as a client library has it: a model with a role, and fields that are None."""

    def __init__(self, role: str, content: str) -> None:
        self.role, self.content = role, content

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """Return its fields."""
        return {"role": self.role, "content": self.content, "refusal": None, "tool_calls": None}


@pytest.mark.parametrize(
    "messages",
    [
        [HumanMessage("I own a kiln."), AIMessage("How nice.")],
        [Completion("user", "I own a kiln."), Completion("assistant", "How nice.")],
        [
            {"role": "user", "content": [{"type": "text", "text": "I own a kiln."}]},
            {"role": "assistant", "content": [{"type": "text", "text": "How nice."}]},
        ],
        [("user", "I own a kiln."), ("assistant", "How nice.")],
    ],
    ids=["kinds", "models", "parts", "pairs"],
)
def test_messages_of_other_libraries_are_taken(forest: MemForest, messages: list[Any]) -> None:
    """Objects of chat libraries and content parts are read as the same messages are as mappings."""
    memory = forest.user("u")
    if isinstance(messages[0], tuple):
        messages = [SimpleNamespace(role=role, content=text) for role, text in messages]
    memory.add(messages, session_id="s")
    memory.add(
        [{"role": "user", "content": "I own a kiln."}, {"role": "assistant", "content": "How nice."}],
        session_id="t",
    )
    kept = [[(one.speaker, one.role, one.text) for one in memory.turns(name)] for name in ("s", "t")]
    assert kept[0] == kept[1]
    assert len(kept[0]) == 2


def test_a_single_message_object_is_taken(forest: MemForest) -> None:
    """Not only in a list."""
    result = forest.user("u").add(HumanMessage([{"type": "text", "text": "I own a kiln."}]))
    assert texts(forest.user("u").turns(result.session_id)) == ["I own a kiln."]


def test_a_long_turn_is_read_to_its_end(forest: MemForest) -> None:
    """What stands behind thirty thousand characters is found, and stated, as what stands in front."""
    filler = " ".join(f"The shelf in row {at} holds jars of number {at * 7}." for at in range(600))
    forest.user("u").add(f"I own a kiln. {filler} I moved to Tromsø.", session_id="s")
    assert len(filler) > 25_000
    memory = forest.user("u")
    assert "Tromsø" in memory.search("Where did I move to? Tromsø?", top_k=3).context(4000)
    assert [one.value for one in memory.timeline("u", attribute="residence")] == ["Tromsø"]
    assert holding(memory.list(limit=1000), "number 4193.")


def test_a_turn_without_text_is_refused_alone(forest: MemForest) -> None:
    """The result names it, and everything else of the call is stored."""
    [one, two] = said("I own a kiln.", "I own a loom.")
    result = forest.user("u").add(
        [one, {"speaker": "Ida", "timestamp": one["timestamp"]}, two], session_id="s"
    )
    assert [refused.position for refused in result.refused] == [1]
    assert texts(forest.user("u").turns("s")) == ["I own a kiln.", "I own a loom."]


def test_a_session_again_changes_nothing(anna: Any, woods: MemForest) -> None:
    """The same session is a no-op, and a longer version adds what is new."""
    turns = said("I own a kiln.", "I own a loom.")
    woods.ingest_session("anna", "tools", turns)
    before = picture(anna)
    assert woods.ingest_session("anna", "tools", turns).unchanged
    assert picture(anna) == before
    grown = woods.ingest_session(
        "anna", "tools", [*turns, *said("I own a lathe.", start="2024-05-02T10:00:00+00:00")]
    )
    assert grown.turns_added == 1
    assert holding(anna.list(), "lathe")


def test_another_session_under_an_id_is_a_conflict(anna: Any, woods: MemForest) -> None:
    """Other turns are a SessionConflictError that changes nothing, and `replace` puts them in the place of the old ones."""
    before = picture(anna)
    other = said("I sold the canoe.", start="2024-03-04T09:00:00+00:00")
    with pytest.raises(SessionConflictError):
        woods.ingest_session("anna", "march", other)
    assert picture(anna) == before
    assert woods.ingest_session("anna", "march", other, replace=True).replaced
    assert texts(anna.turns("march")) == ["I sold the canoe."]
    assert not holding(anna.list(), "Ghent")
    assert anna.verify().ok


def test_replacing_makes_the_memory_that_was_never_otherwise(folder: Path) -> None:
    """A memory of which a session was replaced equals one that was given the new version alone."""
    first = said("I live in Turin.", "I own a kiln.")
    second = said("I live in Oslo.", "I own a loom.", "I own a kiln.")
    beside = said("I moved to Davos.", start="2024-05-20T10:00:00+00:00")
    with opened(folder / "a") as a, opened(folder / "b") as b:
        a.ingest_session("u", "s", first)
        a.ingest_session("u", "t", beside)
        a.ingest_session("u", "s", second, replace=True)
        b.ingest_session("u", "s", second)
        b.ingest_session("u", "t", beside)
        assert picture(a.user("u")) == picture(b.user("u"))


def test_deferred_turns_are_kept_and_made_memory_of_later(folder: Path) -> None:
    """`defer` stores them, to be found by their words; `resume` makes the memory that the write would have made."""
    talk = said("I live in Turin.", "I own a kiln.", "I moved to Oslo.")
    with opened(folder / "a") as a, opened(folder / "b") as b:
        assert a.ingest_session("u", "s", talk, defer=True).left
        memory = a.user("u")
        assert not memory.list()
        assert memory.search("Who owns a kiln?").evidence[0].quote == "I own a kiln."
        a.resume("u")
        b.ingest_session("u", "s", talk)
        assert picture(memory) == picture(b.user("u"))
        assert a.ingest_session("u", "s", talk).unchanged


def test_many_sessions_at_once(forest: MemForest) -> None:
    """Results come in order, and one that fails returns its error and spoils no other."""
    results = forest.ingest_parallel(
        [
            {"user_id": "a", "session_id": "s", "turns": said("I own a kiln.")},
            {"user_id": "b", "session_id": "s", "turns": said("I own a loom.")},
            {
                "user_id": "a",
                "session_id": "t",
                "turns": [{"speaker": "Ida", "content": "x", "timestamp": "never"}],
            },
            {"user_id": "a", "session_id": "u", "turns": said("I own a saw.")},
        ]
    )
    assert isinstance(results[2], TimestampError)
    assert [getattr(one, "turns_added", None) for one in results] == [1, 1, None, 1]
    assert sorted(shown(forest.user("a"))) == ["s", "u"]
    assert sorted(shown(forest.user("b"))) == ["s"]


def test_progress_is_told_in_counts(forest: MemForest) -> None:
    """Stages come in order, `done` reaches `total`, and the session is finished at the end."""
    told: list[IngestProgress] = []
    forest.user("u").add(said("I own a kiln.", "I own a loom."), session_id="s", on_progress=told.append)
    assert (told[0].stage, told[0].total) == ("received", 2)
    assert (told[-1].stage, told[-1].done, told[-1].failed, told[-1].total) == ("finished", 1, 0, 1)
    assert {one.stage for one in told} >= {"received", "extracted", "finished"}
    assert all(one.done + one.failed <= one.total for one in told)


def test_what_progress_raises_ends_the_call_and_loses_nothing(folder: Path) -> None:
    """The error comes out as it was raised; what was stored stays, and `resume` finishes it."""

    def stop(one: IngestProgress) -> None:
        if one.stage == "extracted":
            raise KeyError("mine")

    with opened(folder) as forest:
        memory = forest.user("u")
        with pytest.raises(KeyError, match="mine"):
            memory.add(said("I own a kiln."), session_id="s", on_progress=stop)
        assert texts(memory.turns("s")) == ["I own a kiln."]
        forest.resume("u")
        assert statements(memory) == ["I own a kiln."]
        assert memory.verify().ok


def test_the_result_says_what_is_new_and_what_it_ended(anna: Any) -> None:
    """A statement that takes another one's place names it, once."""
    result = anna.add(said("I moved to Bruges.", start="2024-05-30T10:00:00+00:00"), session_id="move")
    assert (len(result.added), len(result.superseded)) == (1, 1)
    assert "Lille" in result.superseded[0]
    json.dumps(result.to_dict())


def test_a_model_that_fails_is_told_and_its_chunk_is_read_locally(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning, one log line, and what was said is searchable at once; `resume` reads it with the model again."""
    broken = True

    def reply(messages: Any, **_: Any) -> str:
        if broken:
            raise ModelUnavailableError("the model is down")
        return local_reply(messages)

    with caplog.at_level(logging.WARNING, "memforest"), opened(folder, chat=FunctionChat(reply)) as forest:
        memory = forest.user("u")
        result = memory.add(said("I live in Turin."), session_id="s")
        assert len(result.warnings) == 1
        assert len([one for one in caplog.records if one.name.startswith("memforest")]) == 1
        assert texts(memory.list()) == ["I live in Turin."]
        assert "Turin" in (
            memory.ask("Where does Anna live?", mode="emb").answer or memory.search("Turin").context()
        )
        broken = False
        forest.resume("u")
        assert memory.stats().failed_chunks == 0
        assert len(memory.list()) == 1
        assert memory.verify().ok


def test_a_budget_of_nothing_loses_nothing(folder: Path) -> None:
    """What a budget does not reach is kept, named in the result, and left to `resume`."""
    with opened(folder, chat=FunctionChat(local_reply)) as forest:
        memory = forest.user("u")
        result = memory.add(said("I own a kiln."), session_id="s", budget=Budget(max_calls=0))
        assert result.left
        assert texts(memory.turns("s")) == ["I own a kiln."]
        forest.resume("u")
        assert holding(memory.list(), "kiln")


def test_every_error_is_one_of_ours(forest: MemForest) -> None:
    """An error of a write is a MemForestError, so that one clause catches them."""
    for wrong in ("", [], [{"speaker": "Ida"}], {"content": "x", "timestamp": "never"}):
        with pytest.raises(MemForestError):
            forest.user("u").add(wrong)
    assert forest.list_users() == []
