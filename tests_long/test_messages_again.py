"""Messages that are added again: known by their own ids, and left out."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.doubles import local_reply
from tests_long.worlds import dump, fast_config, file_of, said

from memforest import InputError, MemForest
from memforest.errors import ModelUnavailableError
from memforest.ports import ChatRequest
from memforest.testing import FrozenClock, FunctionChat

OSLO: dict[str, Any] = {"id": "m1", "role": "user", "content": "I live in Oslo."}
TIMES: tuple[Any, ...] = (
    None,
    "2024-05-03",
    "2024-05-03T10:00:00.123456Z",
    "2024-05-03 10:00",
    datetime(2024, 5, 3, 10, 0, 0, 123456, tzinfo=timezone.utc),
    datetime(2024, 5, 3, 10),  # noqa: DTZ001 - a naive one
    1714730400.123456,
    1714730400,
)


@pytest.mark.parametrize("where", ["message", "call"])
@pytest.mark.parametrize("time", TIMES, ids=str)
def test_a_message_that_comes_again_changes_nothing(tmp_path: Path, time: Any, where: str) -> None:
    """Whatever its time is, its own or that of the call; also when others were added behind it."""
    message = {**OSLO, "timestamp": time} if where == "message" else OSLO
    when = time if where == "call" else None
    clock = FrozenClock("2024-06-01T12:00:00Z")
    with MemForest(tmp_path, fast_config(clock=clock)) as forest:
        memory = forest.user("u")
        memory.add(message, session_id="s", timestamp=when)
        for _ in range(2):
            before = dump(file_of(tmp_path))
            clock.advance(hours=1)
            again = memory.add(message, session_id="s", timestamp=when)
            assert (again.unchanged, again.chunks, again.warnings, again.session_id) == (True, (), (), "s")
            assert dump(file_of(tmp_path)) == before
            memory.add("I have a dog.", session_id="s")  # is later than the message


def test_it_may_stand_beside_new_ones(tmp_path: Path) -> None:
    """In any place; the others are stored in their order, and numbered as if it were not there."""
    new = [{"role": "user", "content": text} for text in ("I have a dog.", "I work at Acme.", "I like tea.")]
    with MemForest(tmp_path, fast_config()) as forest:
        memory = forest.user("u")
        memory.add(OSLO, session_id="s")
        result = memory.add([new[0], OSLO, new[1], {**new[2], "id": "m2"}], session_id="s")
        assert (result.turns_added, result.unchanged) == (3, False)
        assert [(turn.id, turn.text) for turn in memory.turns("s")] == [
            ("m1", "I live in Oslo."), ("1", "I have a dog."), ("2", "I work at Acme."), ("m2", "I like tea."),
        ]  # fmt: skip
        assert memory.verify().ok


def test_a_message_of_a_session_that_was_ingested_is_known_too(tmp_path: Path) -> None:
    """Also by the number that it was given there."""
    turns = said("I live in Oslo.", "I have a dog.")
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", turns)
        assert forest.user("u").add({**turns[0], "id": "0"}, session_id="s").unchanged
        assert forest.user("u").add({**turns[1], "id": 1}, session_id="s").unchanged
        assert forest.user("u").add(turns[1], session_id="s").turns_added == 1  # it has no id


@pytest.mark.parametrize(
    "other",
    [
        {"content": "My code is heliotrope."},
        {"role": "assistant"},
        {"speaker": "Bob"},
        {"content": "I live in Oslo. "},
    ],
    ids=str,
)
def test_another_message_of_its_id_is_refused(tmp_path: Path, other: dict[str, Any]) -> None:
    """With a message that names the id and quotes neither text; nothing is stored, nor what came beside it."""
    with MemForest(tmp_path, fast_config()) as forest:
        memory = forest.user("u")
        memory.add({**OSLO, "content": "My code is vermilion. I live in Oslo."}, session_id="s")
        before = dump(file_of(tmp_path))
        for messages in ([{**OSLO, **other}], ["I have a dog.", {**OSLO, **other}]):
            given = [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages]
            with pytest.raises(InputError, match="'m1'") as error:
                memory.add(given, session_id="s")
            assert not any(
                word in str(error.value) for word in ("heliotrope", "vermilion", "Oslo", "dog", "Bob")
            )
        assert dump(file_of(tmp_path)) == before


def test_ids_are_of_their_session(tmp_path: Path) -> None:
    """The same id elsewhere is another message; twice in a call it is still a mistake."""
    with MemForest(tmp_path, fast_config()) as forest:
        memory = forest.user("u")
        memory.add(OSLO, session_id="s")
        assert memory.add({**OSLO, "content": "I like tea."}, session_id="t").turns_added == 1
        with pytest.raises(InputError):
            memory.add([OSLO, OSLO], session_id="s")


def test_it_stays_at_the_time_that_is_stored(tmp_path: Path) -> None:
    """One that states another time is left out as well; the result says so, as this may be a mistake."""
    with MemForest(tmp_path, fast_config()) as forest:
        memory = forest.user("u")
        memory.add({**OSLO, "timestamp": "2024-05-03T10:00:00Z"}, session_id="s")
        again = memory.add({**OSLO, "timestamp": "2024-05-04T10:00:00Z"}, session_id="s")
        assert again.unchanged
        assert again.warnings == (
            "session 's' has a message with the id 'm1' already, said at another time; it stays as it is",
        )
        assert memory.turns("s")[0].said == datetime(2024, 5, 3, 10, tzinfo=timezone.utc)
        assert not memory.add(OSLO, session_id="s", timestamp="2024-05-09").warnings


def test_beside_turns_without_text(tmp_path: Path) -> None:
    """Those are refused by name, and the call is no error: what was to be stored is."""
    with MemForest(tmp_path, fast_config()) as forest:
        memory = forest.user("u")
        memory.add(OSLO, session_id="s")
        result = memory.add([OSLO, {"role": "assistant", "content": None}], session_id="s")
        assert (result.turns_added, [one.position for one in result.refused]) == (0, [1])
        with pytest.raises(InputError):
            memory.add([{"role": "assistant", "content": None}], session_id="s")


def test_what_was_redacted_is_known(tmp_path: Path) -> None:
    """It is compared as it is stored."""
    config = fast_config(redact_patterns=("email",))
    with MemForest(tmp_path, config) as forest:
        message = {**OSLO, "content": "Write to me at ann@example.org please."}
        forest.user("u").add(message, session_id="s")
        assert forest.user("u").add(message, session_id="s").unchanged


def test_a_key_is_kept_for_what_brings_nothing(tmp_path: Path) -> None:
    """It comes again as the same, and is for no other request."""
    with MemForest(tmp_path, fast_config()) as forest:
        memory = forest.user("u")
        memory.add(OSLO, session_id="s")
        first = memory.add(OSLO, session_id="s", idempotency_key="k")
        again = memory.add(OSLO, session_id="s", idempotency_key="k")
        assert (first.replayed, again.replayed) == (False, True)
        assert (first.turns_added, again.turns_added, again.added, again.chunks) == (0, 0, (), ())
        with pytest.raises(InputError, match="'k'"):
            memory.add("I have a dog.", session_id="s", idempotency_key="k")
        assert memory.verify().ok


def test_what_an_interrupted_write_left_is_finished(tmp_path: Path) -> None:
    """The same message again goes on with its session, as the same session does."""
    away = [True]

    def answer(request: ChatRequest) -> str:
        if away[0]:
            raise ModelUnavailableError("away")
        return local_reply(request)

    with MemForest(tmp_path, fast_config(chat=FunctionChat(answer))) as forest:
        assert forest.user("u").add(OSLO, session_id="s").failed
        away[0] = False
        again = forest.user("u").add(OSLO, session_id="s")
        assert (again.turns_added, len(again.added), again.failed) == (0, 1, ())


def test_replayed_is_repeated(tmp_path: Path) -> None:
    """Two names of one thing."""
    with MemForest(tmp_path, fast_config()) as forest:
        memory = forest.user("u")
        found = [memory.add("I live in Oslo.", idempotency_key="k") for _ in range(2)]
    assert [one.replayed for one in found] == [False, True]
