"""Redaction: what is taken out before anything is stored, and turns that cannot be redacted."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.doubles import local_reply
from tests.table import each
from tests_long.worlds import dump, fast_config, file_of, said

from memforest import Config, ConfigError, InputError, MemForest, load_default_config
from memforest.errors import IdempotencyError
from memforest.protection import PATTERNS, redact_patterns
from memforest.testing import FunctionChat, HashEmbedder

SECRET = "zanzibar"


def hide(text: str, about: Mapping[str, Any]) -> str:
    """Replace the secret."""
    return text.replace(SECRET, "[…]")


def raw_bytes(folder: Path) -> bytes:
    """Return the bytes of all files in a directory."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_what_is_redacted_is_nowhere(tmp_path: Path) -> None:
    """Not in the database, its log, the trace, or what a model is asked: in text, metadata or the speaker's name."""
    turns: list[dict[str, Any]] = [
        {
            "speaker": f"Ana {SECRET}",
            "content": f"My password is {SECRET}, and I live in Davis.",
            "timestamp": "2024-01-01T00:00:00Z",
            "tags": [f"a {SECRET}", {"deep": f"{SECRET}!"}],
        },
        {
            "role": "user",
            "content": [{"type": "text", "text": f"{SECRET} again"}],
            "timestamp": "2024-01-01T00:01:00Z",
        },
        {"role": "user", "text": "A photo.", "caption": f"of {SECRET}", "timestamp": "2024-01-01T00:02:00Z"},
        {"role": "assistant", "content": "I see.", "timestamp": "2024-01-01T00:03:00Z"},
    ]
    chat = FunctionChat(local_reply)
    config = fast_config(redact_turn=hide, chat=chat, trace=tmp_path / "out" / "trace.jsonl")
    (tmp_path / "out").mkdir()
    with MemForest(tmp_path / "out", config) as forest:
        result = forest.ingest_session("u", "s", turns, metadata={"from": SECRET})
        assert (result.turns_added, result.redacted, result.refused) == (4, 3, ())
        forest.user("u").add(f"It is {SECRET}.", metadata={"x": SECRET})
        forest.flush()
        [other, session] = sorted(forest.user("u").sessions(), key=lambda one: one.turns)
        assert session.metadata == {"from": "[…]"}
        [added] = forest.user("u").turns(other.session_id)
        assert (added.text, added.metadata) == ("It is […].", {"x": "[…]"})
        assert "Ana […]" in session.participants
        [fact] = [one for one in forest.user("u").list() if "Davis" in one.text]
        assert "My password is […], and I live in Davis." in forest.query("u", "Davis").evidence[0].quote
        assert fact.sources[0].session_id == "s"
        assert SECRET.encode() not in raw_bytes(tmp_path / "out")
        assert forest.user("u").verify().ok
    assert chat.requests
    assert SECRET not in repr(chat.requests)
    assert SECRET.encode() not in raw_bytes(tmp_path / "out")


def test_the_same_session_again_is_the_same_after_redaction(tmp_path: Path) -> None:
    """A no-op; and one that differs only in what is taken out is the same too."""
    with MemForest(tmp_path, fast_config(redact_turn=hide)) as forest:
        forest.ingest_session("u", "s", said(f"I saw {SECRET}.", "I live in Davis."))
        before = dump(file_of(tmp_path))
        for text in (f"I saw {SECRET}.", "I saw […]."):
            again = forest.ingest_session("u", "s", said(text, "I live in Davis."))
            assert again.unchanged
        assert dump(file_of(tmp_path)) == before
        longer = said(f"I saw {SECRET}.", "I live in Davis.", "I moved to Miami.")
        assert forest.ingest_session("u", "s", longer).turns_added == 1


def test_a_key_is_of_the_redacted_request(tmp_path: Path) -> None:
    """So what was taken out leaves not even a digest."""
    with MemForest(tmp_path, fast_config(redact_turn=hide)) as forest:
        forest.ingest_session("u", "s", said(f"I saw {SECRET}."), idempotency_key="k")
        assert forest.ingest_session("u", "s", said("I saw […]."), idempotency_key="k").replayed
        with pytest.raises(IdempotencyError):
            forest.ingest_session("u", "s", said("I saw nothing."), idempotency_key="k")


def fails(text: str, about: Mapping[str, Any]) -> Any:
    """Fail on the secret, in one of several ways."""
    if SECRET not in text:
        return text
    if "raise" in text:
        raise ValueError(f"cannot redact {text}")
    return None if "none" in text else b"x" if "bytes" in text else "  "


@pytest.mark.parametrize("how", ["raise", "none", "bytes", "empty"])
def test_a_turn_that_cannot_be_redacted_is_refused_alone(tmp_path: Path, how: str) -> None:
    """The others are stored, with the ids that they have anyway; nothing of it is said in the reason."""
    turns = said("I live in Davis.", f"{how} {SECRET}", "I work at Acme.")
    turns[2]["id"] = "mine"
    with MemForest(tmp_path, fast_config(redact_turn=fails)) as forest:
        for _ in range(2):
            result = forest.ingest_session("u", "s", turns)
            assert [(one.position, one.turn_id) for one in result.refused] == [(1, "1")]
            assert SECRET not in repr(result.to_dict())
        [first, last] = forest.user("u").list()
        assert [one.sources[0].turn_ids for one in (first, last)] == [("0",), ("mine",)]
        added = forest.user("u").add(
            [{"role": "user", "content": f"{how} {SECRET}", "id": "a"}, "x"][:1] + said("Hi.")
        )
        assert [one.turn_id for one in added.refused] == ["a"]
        assert SECRET.encode() not in raw_bytes(tmp_path)


def test_nothing_is_stored_raw_when_nothing_can_be_redacted(tmp_path: Path) -> None:
    """An error, and an unknown user stays unknown; likewise metadata of the session."""
    with MemForest(tmp_path, fast_config(redact_turn=fails)) as forest:
        with pytest.raises(InputError):
            forest.ingest_session("u", "s", said(f"raise {SECRET}"))
        with pytest.raises(InputError, match="metadata") as error:
            forest.ingest_session("u", "s", said("Hi."), metadata={"a": [f"raise {SECRET}"]})
        assert SECRET not in str(error.value)
        [failed] = forest.ingest_parallel(
            [{"user_id": "u", "session_id": "s", "turns": said(f"none {SECRET}")}]
        )
        assert isinstance(failed, InputError)
        assert not forest.has_user("u")


def test_the_hook_is_told_what_it_sees(tmp_path: Path) -> None:
    """Which text, whose turn, its metadata; once each, and in another thread than the event loop's."""
    seen: list[tuple[str, Any, Any]] = []

    def note(text: str, about: Mapping[str, Any]) -> str:
        seen.append((text, about["field"], about.get("metadata")))
        return text

    with MemForest(tmp_path, fast_config(redact_turn=note)) as forest:
        result = forest.user("u").add(
            {"role": "user", "name": "Ana", "content": "Hi.", "mood": "good"}, metadata={"k": "v"}
        )
    assert result.redacted == 0
    about = {"mood": "good"}
    assert sorted(seen, key=str) == [
        ("Ana", "speaker", about),
        ("Hi.", "text", about),
        ("good", "metadata", about),
        ("v", "session", None),
    ]


@each(
    ("text", "redacted"),
    [
        ("Mail ana.b+c@mail.example.org, or bo@x.de!", "Mail [email], or [email]!"),
        ("Card 4111 1111 1111 1111 and 4111-1111-1111-1112.", "Card [card] and 4111-1111-1111-1112."),
        ("IBAN DE89 3704 0044 0532 0130 00, GB82WEST12345698765432.", "IBAN [iban], [iban]."),
        ("No IBAN: FR14 2004 1010 0505 9991 3M02 607.", "No IBAN: FR14 2004 1010 0505 9991 3M02 607."),
        ("Call +34 600 123 456 or 0049 (30) 1234-5678.", "Call [phone] or [phone]."),
        ("In 2024 there were 1234567 of 12 345.", "In 2024 there were 1234567 of 12 345."),
        ("From 192.168.0.1, not 999.1.1.1 or v1.2.3.4.5.", "From [ip], not 999.1.1.1 or v1.2.3.4.5."),
        ("key sk-abcdefghijklmnop1234, AKIAIOSFODNN7EXAMPLE", "key [key], [key]"),
        ("Écris à josé@exemple.fr.", "Écris à [email]."),
        ("", ""),
    ],
)
def test_built_in_patterns_find_what_is_written_as_usual(text: str, redacted: str) -> None:
    """And leave what only looks a little like it; what was redacted stays as it is."""
    assert redact_patterns(text, list(PATTERNS)) == redacted
    assert redact_patterns(redacted, list(PATTERNS)) == redacted
    assert redact_patterns(text, []) == text


@pytest.mark.timeout(20)
@pytest.mark.parametrize("unit", ["a.", "1 ", "a@", "+1", "DE89 ", "sk-", "1.", "(-) ", "0049"])
def test_patterns_take_time_in_proportion(unit: str) -> None:
    """Of a text of 200,000 characters made to be hard for them."""
    redact_patterns(unit * (200_000 // len(unit)), list(PATTERNS))


def test_patterns_come_from_a_file_and_functions_do_not(tmp_path: Path) -> None:
    """No file can name code to be run."""
    path = tmp_path / "config.toml"
    path.write_text('redact_patterns = ["email", "phone"]\n', encoding="utf-8")
    config = load_default_config(file=path, embedder=HashEmbedder(32), redact_turn=hide)
    with MemForest(tmp_path / "m", config) as forest:
        result = forest.user("u").add(f"I am a@b.org, {SECRET}.")
        assert (result.redacted, forest.query("u", "I am").evidence[0].quote) == (1, "I am [email], […].")
    for line in ('redact_turn = "os:system"', 'redact_patterns = ["os.system"]', 'redact_patterns = "email"'):
        path.write_text(line + "\n", encoding="utf-8")
        with pytest.raises(ConfigError, match="redact"):
            load_default_config(file=path)


async def late(text: str, about: Mapping[str, Any]) -> str:
    """Return a text too late."""
    return text


@each(
    "wrong", [{"redact_turn": late}, {"redact_turn": str}, {"redact_turn": "x"}, {"redact_patterns": ["?"]}]
)
def test_what_is_no_redaction_is_an_error(wrong: Any) -> None:
    """At once, and not when something is said."""
    with pytest.raises(ConfigError, match="redact_"):
        Config(**wrong)


def test_redaction_of_metadata_keeps_its_form(tmp_path: Path) -> None:
    """Numbers, keys and order."""
    turn = {"role": "user", "content": "Hi.", "data": {"n": 1, SECRET: [True, None, f"{SECRET}"]}}
    with MemForest(tmp_path, fast_config(redact_turn=hide)) as forest:
        forest.user("u").add(turn)
        found = forest.query("u", "Hi").evidence[0].metadata
    assert json.dumps(found) == json.dumps({"data": {"n": 1, SECRET: [True, None, "[…]"]}})
