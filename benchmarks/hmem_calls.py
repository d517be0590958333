"""What the index hmem asks of a model: consolidations, the calls of a question, and extraction.

    python benchmarks/hmem_calls.py FILE [--only PART ...] [--questions 40] [--before COMMIT] [--work DIR]

One conversation of a LoCoMo file is told to a memory, with a double in the place of a chat model, which counts by prompt and answers
by local rules. The embedder is MiniLM, so that what joins is as in `hmem_shape.py`.

- *consolidations*: calls of the prompt ``hmem_memory`` where memories are brought up to date after so many sessions. *bound*: the
  parents of events that a write has touched, by the levels that there are. *saved*: of the calls of the first way. A memory that joins
  nothing asks nobody. The paper consolidates at every join.
- *question*: calls of `ask` by prompt: one plan, one a sub-query, one more and again an answer for a follow-up at most, and one synthesis.
- *extraction*: calls of the prompt ``extract`` with and without the index, and its tokens a turn; with ``--before`` also those of the
  prompt as it was at a commit, and their ratio.

The exit code is 1 if a bound is broken.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the doubles of the tests

import numpy as np
from tests.doubles import CountingChat, local_reply, prompt_of

from kept import KeptVectors
from locomo.conversations import Conversation, Question, read_conversations
from memforest import Config, MemForest
from memforest.models import MINILM, Embedder, open_embedder
from memforest.ports import ChatRequest
from memforest.search.cache import forest_of
from memforest.search.snapshot import load_snapshot
from memforest.store.database import Database
from memforest.store.directory import file_name
from memforest.testing import FunctionChat
from memforest.text import count_tokens
from memforest.trees.attached import Attached
from memforest.trees.hmem_find import node_marks
from memforest.trees.hmem_grow import EVENT, ROOT

__all__ = [
    "Asked",
    "Consolidated",
    "asked",
    "calls_allowed",
    "consolidated",
    "extracted",
    "main",
    "seen",
]

USER = "u"
INDEX = "hmem"
MEMORY = "hmem_memory"
MOST_GROWTH = 1.15
PARTS = ("consolidations", "question", "extraction")
PLAN, REASON, ANSWER = "hmem_plan", "hmem_reason", "hmem_answer"
WAYS = (("each session", 1), ("each 5 sessions", 5), ("once", 0))
"""Name, and sessions that are told before memories are brought up to date, 0 for all."""
_FIRST_MESSAGE = """
from memforest.reading.prompts import load_prompt
from memforest.text import count_tokens
print(count_tokens(load_prompt("extract").first.content))
"""


@dataclass(frozen=True)
class Consolidated:
    """What one way to consolidate has cost."""

    name: str
    writes: int
    events: int
    memories: int
    """Those that join several."""
    calls: int
    bound: int

    def row(self, first: int) -> str:
        """Return a line of the table, beside the calls of the first way."""
        saved = f"{100 * (1 - self.calls / first):.1f}" if first else ""
        return f"| {self.name} | {self.writes} | {self.events} | {self.memories} | {self.calls} | {self.bound} | {saved} |"


@dataclass(frozen=True)
class Seen:
    """The trees at one moment."""

    events: Mapping[int, tuple[int, int, int]]
    """Fact -> when it was told last, how often again, and the fact that began its parent."""
    levels: int
    """Of memories."""
    joined: int
    """Memories that join several nodes."""

    def touched(self, before: Seen | None) -> int:
        """Return how many parents have an event that is new, or was told again."""
        known = {} if before is None else {fact: one[:2] for fact, one in before.events.items()}
        return len({one[2] for fact, one in self.events.items() if known.get(fact) != one[:2]})


def seen(folder: Path) -> Seen:
    """Return the trees of the memory."""
    db = Database(folder / file_name(USER))
    try:
        with db.read() as tx:
            snapshot = load_snapshot(tx)
            forest = forest_of(tx, snapshot, Attached(Config()).get(snapshot.indexes, INDEX))
    finally:
        db.close()
    last, times = node_marks(forest, snapshot)
    facts = forest.facts.ids[forest.item[forest.first]]
    at = np.flatnonzero(forest.level == EVENT)
    columns = (facts[at], last[at], times[at], facts[forest.parent[at]])
    memories = (forest.level > EVENT) & (forest.level < ROOT)
    return Seen(
        {
            fact: (told, often, begun)
            for fact, told, often, begun in zip(*(one.tolist() for one in columns), strict=True)
        },
        len(np.unique(forest.level[memories])),
        int((forest.children.counts[memories] > 1).sum()),
    )


def consolidated(name: str, conversation: Conversation, embedder: Embedder, sessions: int) -> Consolidated:
    """Tell a conversation so many sessions at a time, and have everything up to date after each time.

    Args:
        name: of the way.
        conversation: to tell.
        embedder: of the memory.
        sessions: at a time; 0 for all.
    """
    double = CountingChat()
    config = Config(
        embedder=embedder, indexes=(INDEX,), chat=double, chat_steps=("summarise",), refresh="lazy"
    )
    size, bound, writes = sessions or len(conversation.sessions), 0, 0
    known: Seen | None = None
    with tempfile.TemporaryDirectory(prefix="hmem-") as folder, MemForest(folder, config) as forest:
        for first in range(0, len(conversation.sessions), size):
            for one in conversation.sessions[first : first + size]:
                forest.ingest_session(USER, one.session_id, one.turns, timestamp=one.timestamp)
            forest.user(USER).flush()
            now = seen(Path(folder))
            bound += now.touched(known) * now.levels
            known, writes = now, writes + 1
    assert known is not None, "a conversation has sessions"
    return Consolidated(name, writes, len(known.events), known.joined, double.calls[MEMORY], bound)


@dataclass(frozen=True)
class Asked:
    """The calls of one question."""

    parts: int
    """Sub-queries."""
    follow_ups: int
    calls: Counter[str]
    in_flight: int

    @property
    def is_kept(self) -> bool:
        """Whether there are no more calls than promised."""
        return self.calls.total() <= calls_allowed(self.parts, self.follow_ups)


def calls_allowed(parts: int, follow_ups: int) -> int:
    """Return how many calls a question may take: a plan, one a sub-query, one a follow-up, and the synthesis."""
    return 1 + parts + follow_ups + 1


def asked(forest: MemForest, double: CountingChat, question: Question, now: Any) -> Asked:
    """Ask a question, and return the calls."""
    double.calls.clear()
    double.most_in_flight = 0
    result = forest.ask(USER, question.text, reference_date=now, index=INDEX).result
    explored = result.trace["explore"]
    parts = sum("follows" not in one for one in explored["sub_queries"])
    return Asked(parts, explored["follow_ups"]["asked"], Counter(double.calls), double.most_in_flight)


def print_questions(conversation: Conversation, embedder: Embedder, count: int) -> bool:
    """Print the calls of questions, and return whether all are as promised."""
    double = CountingChat(delay_s=0.002)
    config = Config(
        embedder=embedder,
        indexes=("memforest", INDEX),
        chat=double,
        chat_steps=("plan", "answer"),
        refresh="lazy",
        mode="emb",
    )
    with tempfile.TemporaryDirectory(prefix="hmem-") as folder, MemForest(folder, config) as forest:
        for one in conversation.sessions:
            forest.ingest_session(USER, one.session_id, one.turns, timestamp=one.timestamp)
        forest.user(USER).flush()
        now = conversation.sessions[-1].timestamp
        step = max(1, len(conversation.questions) // count)
        found = [asked(forest, double, one, now) for one in conversation.questions[::step]]
    print(
        "\ncalls of a question\n\n| sub-queries | follow-ups | questions | calls | allowed | at once | prompts |"
    )
    print("|--:|--:|--:|--:|--:|--:|---|")
    for parts, follow_ups in sorted({(one.parts, one.follow_ups) for one in found}):
        those = [one for one in found if (one.parts, one.follow_ups) == (parts, follow_ups)]
        prompts = ", ".join(f"{name} {most(those, name)}" for name in sorted(names(those)))
        print(
            f"| {parts} | {follow_ups} | {len(those)} | {max(one.calls.total() for one in those)}"
            f" | {calls_allowed(parts, follow_ups)} | {max(one.in_flight for one in those)} | {prompts} |"
        )
    return all(one.is_kept for one in found)


def names(those: Iterable[Asked]) -> set[str]:
    """Return the prompts that were asked."""
    return {name for one in those for name in one.calls}


def most(those: Iterable[Asked], name: str) -> int:
    """Return how often a prompt was asked for one question at most."""
    return max(one.calls[name] for one in those)


def extracted(conversation: Conversation, embedder: Embedder, indexes: Sequence[str]) -> list[ChatRequest]:
    """Return the requests that a model gets while a conversation is told to a memory with some indexes."""
    chat = FunctionChat(local_reply)
    config = Config(
        embedder=embedder, indexes=tuple(indexes), chat=chat, chat_steps=("extract",), refresh="lazy"
    )
    with tempfile.TemporaryDirectory(prefix="hmem-") as folder, MemForest(folder, config) as forest:
        for one in conversation.sessions:
            forest.ingest_session(USER, one.session_id, one.turns, timestamp=one.timestamp)
        forest.user(USER).flush()
    return list(chat.requests)


def first_tokens(commit: str) -> int:
    """Return the tokens of the first message of extraction as it was at a commit.

    Raises:
        subprocess.CalledProcessError: if there is no such commit, or its source cannot be run.
    """
    here = str(Path(__file__).resolve().parent.parent)
    command = ["git", "-C", here, "archive", commit, "src"]
    packed = subprocess.run(command, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory(prefix="before-") as folder:
        with tarfile.open(fileobj=BytesIO(packed)) as files:
            files.extractall(folder, filter="data")
        source = {**os.environ, "PYTHONPATH": str(Path(folder) / "src")}
        script = [sys.executable, "-c", _FIRST_MESSAGE]
        run = subprocess.run(script, env=source, check=True, capture_output=True, text=True)
    return int(run.stdout)


def print_extraction(conversation: Conversation, embedder: Embedder, before: str | None) -> bool:
    """Print calls and tokens of extraction, and return whether they are as promised."""
    alone, beside = (extracted(conversation, embedder, one) for one in (("memforest",), ("memforest", INDEX)))
    turns = sum(len(one.turns) for one in conversation.sessions)
    prompts = [[one for one in requests if prompt_of(one) == "extract"] for requests in (alone, beside)]
    print(
        f"\nextraction of {turns} turns: {len(prompts[0])} calls without the index, {len(prompts[1])} with it"
    )
    good = len(prompts[0]) == len(prompts[1])
    first = count_tokens(prompts[1][0].messages[0].content)
    data = sum(count_tokens(message.content) for one in prompts[1] for message in one.messages[1:])
    now = (len(prompts[1]) * first + data) / turns
    print(f"prompt tokens: {first} that every call has; {now:.1f} a turn with the data")
    if before is not None:
        had = first_tokens(before)
        then = (len(prompts[1]) * had + data) / turns
        print(f"at {before}: {had}, {then:.1f} a turn; ratio {now / then:.3f}, at most {MOST_GROWTH}")
        good &= now <= MOST_GROWTH * then
    return good


def print_consolidations(conversation: Conversation, embedder: Embedder) -> bool:
    """Print what consolidating costs, and return whether it is as promised."""
    print("consolidations\n\n|  | writes | events | memories that join | calls | bound | saved % |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    first, good = 0, True
    for name, sessions in WAYS:
        made = consolidated(name, conversation, embedder, sessions)
        first = first or made.calls
        good &= made.calls <= made.bound
        print(made.row(first), flush=True)
    return good


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; the exit code says whether all is as promised."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="a LoCoMo file")
    parser.add_argument("--conversation", type=int, default=1, help="which of the file, from 0")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--questions", type=int, default=40, help="about so many are asked")
    parser.add_argument("--before", metavar="COMMIT", help="whose prompt of extraction is compared")
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep vectors here")
    options = parser.parse_args(arguments)
    conversation = read_conversations(options.file)[options.conversation]
    with tempfile.TemporaryDirectory(prefix="vectors-") as folder:
        kept = options.work or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        embedder = KeptVectors(open_embedder(MINILM.model_id), kept / "vectors.npz")
        print(
            f"{conversation.id}: {len(conversation.sessions)} sessions; embedder {embedder.model_id}; a double counts\n"
        )
        good = True
        if "consolidations" in options.only:
            good &= print_consolidations(conversation, embedder)
            embedder.save()
        if "question" in options.only:
            good &= print_questions(conversation, embedder, options.questions)
        if "extraction" in options.only:
            good &= print_extraction(conversation, embedder, options.before)
        embedder.save()
    print("\nall is as promised" if good else "\na promise is broken")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
