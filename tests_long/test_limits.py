"""The bounds of what callers may give: one definition each, and what is one beyond is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

import memforest
from memforest import Config, MemForest, errors, records, settings
from memforest.memory.options import read_question
from memforest.memory.user import AsyncUserMemory
from memforest.memory.verbs import check_options

SOURCES = Path(memforest.__file__).parent


@pytest.fixture
def forest(tmp_path: Path) -> Iterator[MemForest]:
    """A forest with a memory of one session."""
    with MemForest(
        tmp_path, Config(embedder="none", clock=lambda: datetime(2024, 5, 1, tzinfo=timezone.utc))
    ) as one:
        one.ingest_session(
            "u", "s", [{"role": "user", "content": "I live in Davis."}], timestamp="2024-04-01"
        )
        yield one


def test_a_question_asks_for_a_thousand_pieces_at_most() -> None:
    """`top_k` is taken up to the bound; one more is refused, and the message has the bound."""
    config = Config(embedder="none")
    assert read_question(config, "Where?", top_k=settings.MAX_TOP_K).top_k == 1_000
    with pytest.raises(errors.InputError, match=r"top_k=1001.* at most 1000"):
        check_options("search", AsyncUserMemory.search, {"question": "Where?", "top_k": 1_001})
    assert Config(top_k=settings.MAX_TOP_K).top_k == 1_000
    with pytest.raises(errors.ConfigError, match="top_k"):
        Config(top_k=settings.MAX_TOP_K + 1)


def test_an_id_has_so_many_characters(forest: MemForest) -> None:
    """The longest id is kept as it is; with one character more it is refused, of users, sessions and messages alike."""
    longest, turn = "é" * settings.MAX_ID_CHARS, {"role": "user", "content": "Hello."}
    forest.ingest_session(
        longest, longest, [{**turn, "id": longest}], timestamp="2024-04-02", idempotency_key=longest
    )
    memory = forest.user(longest)
    assert [one.session_id for one in memory.sessions()] == [longest]
    assert [one.id for one in memory.turns(longest)] == [longest]
    for user, session, key, message in (
        (longest + "é", "s", "k", "m"),
        ("u", longest + "é", "k", "m"),
        ("u", "t", longest + "é", "m"),
        ("u", "t", "k", longest + "é"),
    ):
        with pytest.raises(errors.InputError):
            forest.ingest_session(
                user, session, [{**turn, "id": message}], timestamp="2024-04-03", idempotency_key=key
            )


def test_every_role_is_taken_and_stored_by_its_name(forest: MemForest) -> None:
    """All of `ROLES` are taken; what is stored is one of `STORED_ROLES`; another one is refused."""
    turns = [{"role": role, "content": f"Said by {role}."} for role in settings.ROLES]
    forest.ingest_session("u", "roles", turns, timestamp="2024-04-02")
    stored = [turn.role for turn in forest.user("u").turns("roles")]
    assert stored == [settings.ROLE_ALIASES.get(role, role) for role in settings.ROLES]
    assert set(stored) == set(settings.STORED_ROLES) == set(records.TURN_ROLES) - {""}
    with pytest.raises(errors.InputError):
        forest.ingest_session(
            "u", "other", [{"role": "narrator", "content": "Once upon a time."}], timestamp="2024-04-02"
        )


def test_a_turn_has_as_many_characters_as_the_configuration_says_by_default(forest: MemForest) -> None:
    """The default of `Config.max_turn_chars` is the bound; a turn with one more is refused alone."""
    assert Config().max_turn_chars == settings.MAX_TURN_CHARS
    longest = "word " * (settings.MAX_TURN_CHARS // 5)
    found = forest.ingest_session(
        "u",
        "long",
        [{"role": "tool", "content": longest}, {"role": "tool", "content": longest + "x"}],
        timestamp="2024-04-02",
    )
    assert [one.position for one in found.refused] == [1]


def test_a_page_has_a_thousand_items_at_most(forest: MemForest) -> None:
    """Pages of facts and changes are taken up to the bound."""
    memory = forest.user("u")
    assert len(memory.list(limit=settings.MAX_PAGE).facts) == 1
    assert memory.changes("2024-01-01", limit=settings.MAX_PAGE).changes
    for call in (
        lambda: memory.list(limit=settings.MAX_PAGE + 1),
        lambda: memory.changes("2024-01-01", limit=settings.MAX_PAGE + 1),
        lambda: memory.entities(limit=settings.MAX_PAGE + 1),
        lambda: memory.sessions(limit=settings.MAX_PAGE + 1),
        lambda: memory.timeline("u", limit=settings.MAX_PAGE + 1),
    ):
        with pytest.raises(errors.InputError):
            call()


def test_a_time_has_so_many_characters(forest: MemForest) -> None:
    """One that is written with as many is read; with one more it is none."""
    text = "2024-04-02T10:00:00Z".ljust(settings.MAX_TIME_CHARS)
    turns = [{"role": "user", "content": "Hello."}]
    forest.ingest_session("u", "long", turns, timestamp=text)
    with pytest.raises(errors.TimestampError):
        forest.ingest_session("u", "longer", turns, timestamp=text + " ")


def test_a_corrected_statement_has_so_many_characters(forest: MemForest) -> None:
    """What is longer is refused."""
    memory = forest.user("u")
    [fact] = memory.list().facts
    with pytest.raises(errors.InputError, match=f"{settings.MAX_FACT_CHARS} at most"):
        memory.update(fact.fact_id, "x" * (settings.MAX_FACT_CHARS + 1))


def test_bounds_are_defined_nowhere_else() -> None:
    """No other module gives one of these names a value."""
    names = "|".join(name for name in vars(settings) if name.isupper())
    again = re.compile(rf"^\s*({names})\b[^=\n]*= *[\d(\"']", re.MULTILINE)
    found = {
        path.relative_to(SOURCES).as_posix(): match[1]
        for path in SOURCES.rglob("*.py")
        if path.name != "settings.py" and (match := again.search(path.read_text()))
    }
    # How much of a turn a step reads is a matter of the step.
    assert set(found) <= {"reading/reply_checks.py", "reading/extract_local.py"}
