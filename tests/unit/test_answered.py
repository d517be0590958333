"""What a chat model has answered about chunks and statements is not asked again, and goes with what it was asked of."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.doubles import CountingChat, local_reply
from tests.doubles.blocks import read_data_block

from memforest import Config, MemForest
from memforest.errors import ModelUnavailableError, SessionConflictError
from memforest.models import HashEmbedder
from memforest.ports import ChatReply, ChatRequest
from memforest.reading.prompts import Prompt
from memforest.store import artifacts, derived
from memforest.store.connections import connect
from memforest.write import batch

SAID = (
    "I live in Turin.",
    "I own a kiln.",
    "I moved to Oslo.",
    "My sister Ilse sails.",
    "I bought a zither.",
    "I work at Initech.",
    "I play the cello.",
    "I have a dog called Rex.",
)
CHUNKS = len(SAID) // 2
LONG = "grey kitten named Miso from the animal shelter at Harbour Street beside the old bakery and the red church in Porto"
NEAR = tuple(f"I adopted a {size} {LONG}." for size in ("small", "little"))
"""Near by their words, and worded otherwise, so that rules leave them apart."""


class Killed(BaseException):
    """The process ends here."""


def turns(said: Sequence[str] = SAID, *, day: int = 1, speaker: str = "Ana") -> list[dict[str, Any]]:
    """Return turns, a minute each."""
    start = datetime(2024, 3, day, 9, tzinfo=timezone.utc)
    return [
        {"speaker": speaker, "content": text, "timestamp": (start + timedelta(minutes=at)).isoformat()}
        for at, text in enumerate(said)
    ]


def opened(folder: Path, chat: Any, **settings: Any) -> MemForest:
    """Return a forest whose steps ask a chat model."""
    return MemForest(folder, Config(chat=chat, embedder=HashEmbedder(32), **{"refresh": "lazy", **settings}))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A memory that a model has read."""
    with opened(tmp_path / "kept", CountingChat()) as forest:
        forest.ingest_session("u", "s", turns())
        forest.user("u").export(tmp_path / "kept" / "whole.jsonl")
    return tmp_path / "kept"


def stored(folder: Path, step: str = "extract", sql: str = "SELECT 1") -> dict[bytes, str | None]:
    """Run a statement on the only memory, and return what is kept of a step; None for what cannot be read."""
    (path,) = folder.glob("*.db")
    with closing(connect(path, 1.0)) as tx:
        tx.execute(sql)
        tx.commit()
        known = artifacts.known(tx, [step])  # type: ignore[list-item]
        texts = artifacts.texts(tx, known)
        return {key: texts.get(key) for key in known}


def all_same(request: ChatRequest) -> str:
    """Answer by rules, but for a judge that finds every first statement the same."""
    if request.step != "judge":
        return local_reply(request)
    rows = read_data_block(request.messages[1].content, "questions")
    return json.dumps({"verdicts": [{"question": row["question"], "same": 1} for row in rows]})


def imported(forest: MemForest, folder: Path) -> None:
    """Take in the export for another user."""
    forest.user("v").import_(folder / "whole.jsonl")


def merged(forest: MemForest, user: str = "v") -> None:
    """Merge the memory into another one, and once more."""
    forest.user(user).merge("u")
    forest.user(user).merge("u")


CHANGED = turns((*SAID[:-1], "I sold my kiln."))
VERBS: dict[str, tuple[Callable[[MemForest, Path], Any], int]] = {
    "the same session": (lambda forest, _: forest.ingest_session("u", "s", turns()), 0),
    "resume": (lambda forest, _: forest.resume("u"), 0),
    "rebuild": (lambda forest, _: forest.rebuild("u"), 0),
    "rebuild what is stale": (lambda forest, _: forest.rebuild("u", stale=True), 0),
    "replace one turn": (lambda forest, _: forest.ingest_session("u", "s", CHANGED, replace=True), 1),
    "add one turn": (lambda forest, _: forest.user("u").add("I own a canoe.", session_id="s"), 1),
    "import": (imported, 0),
    "merge": (lambda forest, _: merged(forest), 0),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_model_is_asked_only_for_what_is_new(kept: Path, verb: str) -> None:
    """And what comes of it is sound."""
    do, calls = VERBS[verb]
    chat = CountingChat()
    with opened(kept, chat) as forest:
        do(forest, kept)
        assert chat.calls == ({"extract": calls} if calls else {})
        assert forest.user("u").verify().ok


@pytest.mark.parametrize("way", ["import", "merge"])
def test_replies_come_along(kept: Path, way: str) -> None:
    """Who takes a memory over and has a turn of it replaced pays for the chunk of that turn."""
    chat = CountingChat()
    with opened(kept, chat) as forest:
        imported(forest, kept) if way == "import" else merged(forest)
        forest.ingest_session("v", "s", CHANGED, replace=True)
        assert chat.calls == {"extract": 1}


def test_a_session_that_was_deleted_is_asked_for_anew(kept: Path) -> None:
    """Nothing of it is left that could answer."""
    chat = CountingChat()
    with opened(kept, chat) as forest:
        assert len(stored(kept)) == CHUNKS
        forest.user("u").delete(session_id="s")
        assert not stored(kept)
        forest.ingest_session("u", "s", turns())
        assert chat.calls == {"extract": CHUNKS}


@pytest.mark.parametrize("answered", range(CHUNKS + 1))
def test_a_write_that_was_killed_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answered: int
) -> None:
    """Whatever was answered is not asked again, and the memory is as if nothing had happened."""
    before = CountingChat()

    def dies(request: ChatRequest) -> str:
        if before.calls["extract"] > answered:
            raise Killed
        return local_reply(request)

    async def killed(*_: object) -> None:
        raise Killed

    before._function = dies
    monkeypatch.setattr(batch, "commit_in_parts", killed)
    with pytest.raises(Killed), opened(tmp_path / "a", before) as forest:
        forest.ingest_session("u", "s", turns())
    monkeypatch.undo()
    assert len(stored(tmp_path / "a")) <= answered
    left = CHUNKS - len(stored(tmp_path / "a"))
    after = CountingChat()
    with opened(tmp_path / "a", after) as a, opened(tmp_path / "b", CountingChat()) as b:
        a.resume("u")
        b.ingest_session("u", "s", turns())
        assert after.calls["extract"] == left
        assert [one.statement for one in a.user("u").list().facts] == [
            one.statement for one in b.user("u").list().facts
        ]
        assert a.user("u").verify().ok
    assert stored(tmp_path / "a") == stored(tmp_path / "b")


DAMAGE = {
    "no text": "x'00'",
    "a byte of it": "CAST(substr(text, 1, 9) || x'00' || substr(text, 11) AS BLOB)",
    "another reply": f"x'{derived.pack_text('{}').hex()}'",
    "an item of it": f"""x'{derived.pack_text('{"statements":[{"turns":[0]}]}').hex()}'""",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_reply_is_made_anew(kept: Path, damage: str) -> None:
    """It is asked for again, beside what was replaced, whatever is left to be read of it; then all is as it was."""
    whole = stored(kept)
    first = next(key.hex() for key, text in whole.items() if "Turin" in str(text))
    stored(kept, sql=f"UPDATE artifact SET text = {DAMAGE[damage]} WHERE digest = x'{first}'")
    chat = CountingChat()
    with opened(kept, chat) as forest:
        forest.ingest_session("u", "s", CHANGED, replace=True)
        assert chat.calls == {"extract": 2}
        assert forest.user("u").verify().ok
    assert len(stored(kept).items() & whole.items()) == CHUNKS - 1


def test_what_cannot_be_read_is_named_and_dropped(kept: Path) -> None:
    """By `verify` and `repair`, which ask nobody."""
    stored(kept, sql="UPDATE artifact SET text = x'00' WHERE id = 1")
    chat = CountingChat()
    with opened(kept, chat) as forest:
        [problem] = forest.user("u").verify().problems
        assert (problem.part, problem.message[:8]) == ("summary", "the extr")
        assert forest.user("u").repair().ok
        assert not chat.calls
    assert len(stored(kept)) == CHUNKS - 1


@pytest.mark.parametrize("other", ["model", "prompt", "zone"])
def test_another_asker_asks_again(kept: Path, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    """A model, a version of the prompt, and the zone in which times are shown are part of what was asked."""
    chat = CountingChat(model_id="another" if other == "model" else "counting")
    if other == "prompt":
        monkeypatch.setattr(
            Prompt, "maker", lambda self, model_id: f"{self.id}@{self.version + 1}:{model_id}"
        )
    with opened(kept, chat, timezone="Asia/Tokyo" if other == "zone" else "UTC") as forest:
        forest.ingest_session("u", "s", CHANGED, replace=True)
        assert chat.calls == {"extract": CHUNKS}
        forest.ingest_session("u", "s", turns(), replace=True)
        assert chat.calls == {"extract": CHUNKS + 1}
    assert len(stored(kept)) == CHUNKS


def test_a_reply_goes_with_every_turn_that_was_read_for_it(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the chunk, those before it, and those by which somebody takes part; the others stay."""
    monkeypatch.setattr(derived, "LEVEL", 0)
    with opened(kept, CountingChat()) as forest:
        forest.ingest_session("u", "s", turns(), replace=True)
        before = stored(kept)
        forest.user("u").delete(
            turn=("s", "4")
        )  # the zither: first of the third chunk, and context of the fourth
        after = stored(kept)
        assert len(after) == CHUNKS - 2
        assert after.items() <= before.items()
        forest.close()
    assert not [path for path in kept.glob("*.db*") if b"zither" in path.read_bytes()]
    with opened(kept, CountingChat()) as forest:
        forest.ingest_session("u", "t", [*turns(SAID[:2], day=3), *turns(["I row."], day=4, speaker="Zoe")])
        own = stored(kept).keys() - after.keys()
        assert len(own) == 2
        forest.user("u").delete(turn=("t", "2"))
        assert stored(kept) == after  # Zoe was named to whoever read the other chunk


class Held:
    """Answers when it is let, and says when it is asked."""

    model_id = "counting"

    def __init__(self) -> None:
        self.asked, self.let = threading.Event(), threading.Event()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply by rules."""
        self.asked.set()
        await asyncio.to_thread(self.let.wait, 30)
        return ChatReply(local_reply(request))


def test_a_reply_to_what_was_deleted_meanwhile_is_not_kept(tmp_path: Path) -> None:
    """Of the chunks that nothing was deleted of, the replies are."""
    chat = Held()

    def write() -> None:
        with pytest.raises(SessionConflictError):
            forest.ingest_session("u", "s", turns())

    with opened(tmp_path, chat) as forest, opened(tmp_path, CountingChat()) as other:
        writing = threading.Thread(target=write)
        writing.start()
        assert chat.asked.wait(30)
        other.user("u").delete(turn=("s", "4"))
        chat.let.set()
        writing.join(60)
        texts = stored(tmp_path)
        assert len(texts) == CHUNKS - 2
        assert "zither" not in str(texts)


@pytest.fixture
def near(tmp_path: Path) -> tuple[Path, list[list[dict[str, Any]]]]:
    """A folder, and two sessions that a judge is asked about."""
    return tmp_path, [turns([NEAR[0]]), turns([NEAR[1]], day=2)]


@pytest.mark.parametrize("same", [True, False])
def test_a_verdict_is_given_once(near: tuple[Path, list[Any]], same: bool) -> None:
    """And holds when either session is read again: in a replacement, by an import and by a merge."""
    folder, said = near
    reply = all_same if same else local_reply
    with opened(folder, chat := CountingChat(reply)) as forest:
        for at, one in enumerate(said):
            forest.ingest_session("u", f"s{at}", one)
        assert chat.calls["judge"] == 1
        facts = [one.statement for one in forest.user("u").list().facts]
        assert len(facts) == 2 - same
        assert set(stored(folder, "judge").values()) == {"same" if same else "apart"}
        for at in (1, 0, 1):
            more = turns(["I row."], day=9)
            forest.ingest_session("u", f"s{at}", [*said[at], *more], replace=True)
            forest.ingest_session("u", f"s{at}", said[at], replace=True)
        assert chat.calls["judge"] == 1
        assert [one.statement for one in forest.user("u").list().facts] == facts
        forest.user("u").export(folder / "whole.jsonl")
        imported(forest, folder)
        forest.ingest_session("v", "s1", said[1], replace=True)
        merged(forest, "w")
        forest.ingest_session("w", "s1", said[1], replace=True)
        assert chat.calls["judge"] == 1


def test_a_verdict_goes_with_either_statement(near: tuple[Path, list[Any]]) -> None:
    """A sweep takes it; then it is asked for anew."""
    folder, said = near
    with opened(folder, chat := CountingChat(all_same)) as forest:
        for calls in (1, 2):
            forest.ingest_session("u", "s0", said[0])
            forest.ingest_session("u", "s1", said[1])
            assert chat.calls["judge"] == calls
            assert len(stored(folder, "judge")) == 1
            forest.user("u").delete(session_id=f"s{calls % 2}")
            assert not stored(folder, "judge")


@pytest.mark.parametrize("fails", [False, True])
def test_a_judge_is_asked_a_few_questions_at_a_time(tmp_path: Path, fails: bool) -> None:
    """Side by side; what one call cannot tell is asked again when it comes again, and nothing else."""
    down = [False]

    def reply(request: ChatRequest) -> str:
        if request.step == "judge" and down[0]:
            down[0] = False
            raise ModelUnavailableError("down")
        return all_same(request)

    chat = CountingChat(reply, delay_s=0.02)
    cities = ["Porto", "Oslo", "Turin", "Davis", "Lyon", "Bern", "Kyoto", "Lima", "Quito", "Riga"]
    said = [[text.replace("Porto", city) for city in cities] for text in NEAR]
    with opened(tmp_path, chat) as forest:
        forest.ingest_session("u", "s", turns(said[0]))
        chat.calls.clear()
        down[0] = fails
        forest.ingest_session("u", "t", turns(said[1], day=2))
        assert chat.calls["judge"] == 2
        assert {"same", "apart"} >= set(stored(tmp_path, "judge").values())
        chat.calls.clear()
        forest.ingest_session("u", "t", turns([*said[1], "I row."], day=2), replace=True)
        forest.ingest_session("u", "t", turns(said[1], day=2), replace=True)
        assert chat.calls["judge"] == fails


def test_rules_keep_no_replies(tmp_path: Path) -> None:
    """They cost nothing."""
    with MemForest(tmp_path, Config(embedder=HashEmbedder(32), refresh="path")) as forest:
        forest.ingest_session("u", "s", turns(SAID * 3))
        assert stored(tmp_path, "summary")
        assert not stored(tmp_path, "extract")
        assert not stored(tmp_path, "judge")


def test_a_reply_that_was_cut_short_is_not_kept(tmp_path: Path) -> None:
    """`resume` asks for the whole of it."""

    class Cut(CountingChat):
        async def complete(self, request: ChatRequest) -> ChatReply:
            whole = await super().complete(request)
            end = whole.text.rindex('{"quote"') + 30
            return replace(whole, text=whole.text[:end], finish="length")

    with opened(tmp_path, Cut()) as forest:
        forest.ingest_session("u", "s", turns(["I live in Turin.", "I own a kiln."]))
        assert not stored(tmp_path)
    with opened(tmp_path, chat := CountingChat()) as forest:
        forest.resume("u")
        assert chat.calls == {"extract": 1}
        assert len(stored(tmp_path)) == 1


def test_a_sweep_keeps_the_replies_to_what_stays(tmp_path: Path) -> None:
    """Whatever else stands in a session: systems and tools, several speakers, gaps, an odd last turn."""
    said = [*turns(SAID[:3]), *turns(SAID[3:6], day=2, speaker="Bo"), *turns(["I row."], day=3, speaker="Cy")]
    for at, role in enumerate(("user", "system", "user", "assistant", "tool", "user", "user")):
        said[at]["role"] = role
    with opened(tmp_path, CountingChat(), chunk_turns=3) as forest:
        forest.ingest_session("u", "s", said)
        forest.ingest_session("u", "t", turns(["I own a canoe."], day=9))
        before = stored(tmp_path)
        assert len(before) == CHUNKS
        forest.user("u").delete(session_id="t")
        kept = stored(tmp_path)
        assert len(kept) == CHUNKS - 1
        assert kept.items() <= before.items()
        forest.user("u").delete(turn=("s", "0"))
        forest.user("u").rebuild()
        left = stored(tmp_path)
        assert len(left) == CHUNKS - 2  # nobody else has read the first turn
        assert left.items() <= kept.items()
