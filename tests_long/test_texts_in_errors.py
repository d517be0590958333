"""No error and no line of a log has the text of a turn: it says which turn, and what of it is wrong."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, said

from memforest import InputError, MemForest
from memforest.endpoint import Budget
from memforest.errors import MemForestError, SessionConflictError
from memforest.read.summaries import Behind
from memforest.store.connections import named

SECRET = "zanzibarquark"
WHEN = "2023-05-02T10:00:00Z"


@pytest.fixture(scope="module")
def forest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemForest]:
    """A forest with a memory of one session, in which a secret is said."""
    with MemForest(tmp_path_factory.mktemp("forest"), fast_config(max_turn_chars=500)) as made:
        made.ingest_session("u", "s", said(f"I live in {SECRET}.", "I work at Acme."))
        yield made


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"content": f"I live in {SECRET}, too."}, "turn 0 is stored with another text;"),
        ({"speaker": "Zoe"}, "turn 0 is stored with another speaker;"),
        ({"timestamp": "2020-01-01T00:00:00Z"}, "turn 0 is stored with another time;"),
        ({"id": "other"}, "turn 0 is stored with another id;"),
        (
            {"content": SECRET, "id": "other", "speaker": "Zoe"},
            "turn 0 is stored with another text and another speaker and another id;",
        ),
    ],
)
def test_a_session_that_differs_says_in_what(forest: MemForest, change: dict[str, Any], says: str) -> None:
    """The turn and its fields, and not what either has."""
    turns = said(f"I live in {SECRET}.", "I work at Acme.")
    with pytest.raises(SessionConflictError) as caught:
        forest.ingest_session("u", "s", [{**turns[0], **change}, turns[1]])
    assert says in str(caught.value)
    assert SECRET not in str(caught.value)


_TEXT = st.sampled_from(
    [
        SECRET,
        f"I live in {SECRET}.",
        f"{SECRET}\0",
        f"{SECRET}\ud800",
        f"{SECRET} " * 60,
        f"\x01\x02\x03{SECRET}" * 4,
    ]
)
_CONTENT = st.one_of(
    _TEXT,
    _TEXT.map(lambda text: [{"type": "text", "text": text}]),
    _TEXT.map(lambda text: [text]),
    _TEXT.map(lambda text: {"text": text}),
    _TEXT.map(lambda text: {text}),
    st.none(),
)
_TURN = st.one_of(
    _TEXT,  # a turn that is no mapping
    st.fixed_dictionaries(
        {"content": _CONTENT},
        optional={
            "role": st.sampled_from(["user", "nobody", 3]),
            "timestamp": st.sampled_from([WHEN, "2020-01-01", "at noon", -1e300]),
            "id": st.sampled_from(["1", "2", "\0", 5]),
            "caption": _TEXT,
            "extra": st.sampled_from([{SECRET}, [object()], {"note": {SECRET}}, float("nan"), "fine"]),
        },
    ),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    turns=st.one_of(_TEXT, st.lists(_TURN, max_size=3)),
    metadata=st.none() | st.sampled_from([SECRET, {"a": {SECRET}}, {1: SECRET}]),
    adds=st.booleans(),
)
def test_no_message_has_a_text(forest: MemForest, turns: Any, metadata: Any, adds: bool) -> None:
    """Whatever is wrong with a session, its texts are in no error, and in no reason of a turn that is refused."""
    said_of_it: list[str] = []
    try:
        if adds:
            result = forest.user("v").add(turns, session_id="t", metadata=metadata)
        else:
            result = forest.ingest_session("v", "t", turns, timestamp=WHEN, metadata=metadata)
        said_of_it += map(str, result.refused)
    except MemForestError as exc:
        said_of_it.append(str(exc))
    assert not any(SECRET in one for one in said_of_it)


def test_the_property_would_see_a_text(forest: MemForest) -> None:
    """The inputs above are refused by what they say, not all by their form: one for each reason that looks at a text."""
    for content, reason in (
        (f"{SECRET}\0", "NUL"),
        (f"{SECRET}\ud800", "surrogate"),
        (f"{SECRET} " * 60, "more than max_turn_chars"),
        (f"\x01\x02\x03{SECRET}" * 4, "binary"),
    ):
        with pytest.raises(InputError, match=reason) as caught:
            forest.ingest_session("w", "t", [{"role": "user", "content": content}], timestamp=WHEN)
        assert SECRET not in str(caught.value)


def _raised(error: Exception) -> Exception:
    try:
        raise error
    except type(error) as caught:
        return caught


def test_an_error_of_code_that_is_not_ours_is_logged_without_what_it_says() -> None:
    """By its type and where it was raised: what it says may hold a text."""
    told = named(_raised(ValueError(SECRET)))
    assert told.startswith("ValueError in ")
    assert "test_texts_in_errors" in told
    assert SECRET not in told
    assert named(ValueError(SECRET)) == "ValueError"


def test_work_behind_a_write_that_fails_is_logged_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    """Nor with a stack trace, whose paths are the server's; who waits for it is told all."""

    async def fail(_budget: Budget) -> None:
        raise ValueError(SECRET)

    async def run() -> None:
        behind = Behind(fail)
        behind.begin(Budget())
        with pytest.raises(ValueError, match=SECRET):
            await behind.wait()

    asyncio.run(run())
    [line] = [one for one in caplog.records if one.name == "memforest.read.summaries"]
    assert line.getMessage().startswith("work behind a write failed: ValueError in ")
    assert line.exc_info is None
    assert SECRET not in caplog.text
