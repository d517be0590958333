"""The steps that a chat model does: answering, browsing a tree, planning a browse, judging, planning and sifting a recall.

An answer comes from ranked evidence and is cited, or is an abstention (ports `Answerer` and `AnswersParts`). Choosing the way
down a tree (port `Browser`) is paper §4.3; one call plans the sub-queries of every recalled tree (port `BrowsePlanner`).

A judge says whether a new statement says the same as one that is known, of several in one call. A merge that a
model wants is still refused when the two statements differ in a number, in yes and no, or each in a
name: a missed merge costs a line of context, a false one destroys a memory.

Recall by complexity (0, 1, 2), with one to three keywords without names and a number of memories to be left of each, is TiMem
(arXiv 2601.02845), §3.3 and its released configuration. A failed call is raised: what is then done instead is for the index
to say. The prompts are our own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any, Literal

from memforest.errors import ReplyError
from memforest.models.calls import Calls
from memforest.ports import Answer, AnswerEvidence, Settled
from memforest.reading.clauses import in_full
from memforest.reading.entities import find_mentions
from memforest.reading.prompts import (
    Prompt,
    PromptStep,
    Value,
    ask,
    asked_row,
    head_and_tail,
    load_prompt,
    positions_of,
    shown_cards,
    shown_day,
    shown_days,
)
from memforest.reading.replies import AnswerReply, BrowseChoice, BrowseGuide, Judgement, QuestionNeeds, Sifted
from memforest.reading.steps import Steps
from memforest.reading.tokens import detect_language
from memforest.records import BrowsePlan, Equivalence, QuestionPlan, TreeCard
from memforest.settings import QUESTION_CHARS
from memforest.text import cut, entity_key, lexical_tokens, negated, numbers, words

ANSWER_TOKENS = 1_024
EVIDENCE_CHARS = 1_500
"""Characters shown of a statement, and of a quote; a turn that is longer is shown by the sentences that were found."""
EVIDENCE_SUMMARY_CHARS = 4_000
"""Characters shown of a summary: some 600 words, which is the longest that a level of a calendar tree has."""
PART_CHARS = 400
"""Most characters shown of the text of a part, and of its answer."""
UNCITED = "the model gave an answer and named no evidence for it"


class ChatAnswerer(PromptStep[AnswerReply]):
    """Asks a chat model to answer from evidence alone."""

    prompt = "answer"

    def __init__(self, calls: Calls, *, timezone: str | tzinfo = "UTC") -> None:
        super().__init__(calls, timezone=timezone)
        self._synthesis: Prompt[AnswerReply] = load_prompt("hmem_answer")
        self.parts_name = self._synthesis.maker(calls.model_id)

    async def answer(
        self, question: str, *, plan: QuestionPlan, reference: datetime, evidence: Sequence[AnswerEvidence]
    ) -> Answer:
        """Return an answer that cites its evidence, or one whose text is None.

        An answer that cites nothing, even when asked again, is none: nobody could check it.

        Raises:
            ReplyError: if the model's replies are unusable.
            BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
        """
        return await self._asked(self._prompt, question, reference, evidence, {})

    async def answer_parts(
        self,
        question: str,
        *,
        plan: QuestionPlan,
        reference: datetime,
        evidence: Sequence[AnswerEvidence],
        parts: Sequence[Settled],
    ) -> Answer:
        """Return an answer made of the answers to the parts of a question; it is cited like any other.

        Raises:
            ReplyError: if the model's replies are unusable.
            BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
        """
        rows = [{"query": cut(one.text, PART_CHARS), "answer": cut(one.answer, PART_CHARS)} for one in parts]
        return await self._asked(self._synthesis, question, reference, evidence, {"answers": rows})

    async def _asked(
        self,
        prompt: Prompt[AnswerReply],
        question: str,
        reference: datetime,
        evidence: Sequence[AnswerEvidence],
        more: Mapping[str, Value],
    ) -> Answer:
        if not evidence:
            return Answer(None, reason="no evidence")
        values: dict[str, Value] = {
            "question": [{"question": question, "now": shown_day(reference, self._zone)}],
            **more,
            "evidence": [self._row(number, one) for number, one in enumerate(evidence, 1)],
        }
        uncited = []

        def problem(reply: AnswerReply) -> str | None:
            if reply.answer is None or positions_of(reply.cited, len(evidence)):
                return None
            uncited.append(reply)
            return (
                f"cited: an answer needs the number of at least one piece of evidence, 1 to {len(evidence)}"
            )

        try:
            reply = await ask(self._calls, prompt, values, max_tokens=ANSWER_TOKENS, check=problem)
        except ReplyError:
            if uncited:
                return Answer(None, reason=UNCITED)
            raise
        if reply.answer is None:
            return Answer(None, reason=reply.reason or "the model found no answer in the evidence")
        return Answer(reply.answer, tuple(positions_of(reply.cited, len(evidence))), reply.reason)

    def _row(self, number: int, one: AnswerEvidence) -> dict[str, Any]:
        """Return a piece of evidence as a row for the model: a turn, or a model's fact or summary with its source."""
        if one.turns is not None and one.start is not None:
            return {
                "number": number,
                "days": shown_days(one.start, one.end, self._zone),
                "summary_of_turns": one.turns,
                "statement": cut(one.text, EVIDENCE_SUMMARY_CHARS),
            }
        row: dict[str, Any] = {"number": number, "said": shown_day(one.said, self._zone)}
        row |= self._words(one)
        if one.start is not None and (one.end is not None or one.start != one.said):
            row["valid"] = shown_days(one.start, one.end, self._zone)
        return row

    def _words(self, one: AnswerEvidence) -> dict[str, Any]:
        """Return speaker and quote; of a model's fact its text, and the quote only if it says more."""
        spoken = in_full(one.spoken, one.speaker, one.quote, EVIDENCE_CHARS)
        speaker = spoken[-1].speaker if spoken else one.speaker
        row = {"speaker": cut(speaker, 80)} if speaker else {}
        if spoken:
            if len(spoken) > 1:
                row["asked"] = cut(spoken[0].text, EVIDENCE_CHARS)
            return row | {"quote": cut(spoken[-1].text, EVIDENCE_CHARS)}
        row["statement"] = cut(one.text, EVIDENCE_CHARS)
        if one.quote and one.quote not in one.text:
            row["quote"] = cut(one.quote, EVIDENCE_CHARS)
        return row


BROWSE_TOKENS = 512
NODE_CHARS = 2_500
"""Most characters shown of a node: 400 words, which is what nodes keep of their children's texts."""
ALL_NODE_CHARS = 30_000
"""Most characters shown of all nodes of a call, some 7,500 tokens."""


class ChatBrowser(PromptStep[BrowseChoice]):
    """Asks a chat model which children of a node are worth going down to."""

    prompt = "browse"

    async def choose(
        self, query: str, *, reference: datetime, children: Sequence[TreeCard], most: int
    ) -> list[int]:
        """Return the positions of the promising children, best first; none when the model finds none.

        Raises:
            ReplyError: if the model's replies are unusable.
            BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
        """
        if not children:
            return []
        sought = {
            "looking_for": query[:QUESTION_CHARS],
            "today": shown_day(reference, self._zone),
            "tree": f"{children[0].kind} {cut(children[0].label, 80)}",
            "most": most,
        }
        chars = max(1, min(NODE_CHARS, ALL_NODE_CHARS // len(children)))
        values = {
            "search": [sought],
            "nodes": shown_cards(children, self._zone, number="node", chars=chars, scope=False),
        }

        def problem(reply: BrowseChoice) -> str | None:
            if reply.ranked and not positions_of(reply.ranked, len(children)):
                return f"ranked: there are nodes 1 to {len(children)} only"
            return None

        reply = await ask(self._calls, self._prompt, values, max_tokens=BROWSE_TOKENS, check=problem)
        return positions_of(reply.ranked, len(children))[:most]


GUIDE_TOKENS = 2_048
GUIDE_SUMMARY_CHARS = 700
"""Characters shown of a root's summary: enough to say what the tree holds (reference configuration: 220)."""
MOST_QUERIES = 2
"""Sub-queries of a tree that the prompt asks for at most."""


class ChatGuide(PromptStep[BrowseGuide]):
    """Asks a chat model what to look for in each recalled tree."""

    prompt = "plan"

    async def plan_browse(
        self, question: str, *, plan: QuestionPlan, reference: datetime, trees: Sequence[TreeCard]
    ) -> BrowsePlan:
        """Return the sub-queries of each tree; a tree that the model passed over gets the question itself.

        Raises:
            ReplyError: if the model's replies are unusable.
            BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
        """
        asked = {"question": question, "today": shown_day(reference, self._zone)}
        values = {
            "question": [asked | ({"about": list(plan.entities)} if plan.entities else {})],
            "trees": shown_cards(trees, self._zone, number="tree", chars=GUIDE_SUMMARY_CHARS, scope=True),
        }
        reply = await ask(self._calls, self._prompt, values, max_tokens=GUIDE_TOKENS)
        queries: dict[int, tuple[str, ...]] = {}
        for one in reply.trees:
            wanted = tuple(text for query in one.queries if (text := query.strip()))[:MOST_QUERIES]
            if wanted:
                queries.setdefault(one.tree, wanted)
        return BrowsePlan(
            tuple(queries.get(number, (question,)) for number in range(1, len(trees) + 1)),
            kind=None if reply.kind is None else reply.kind.lower(),
            anchor=reply.anchor,
        )


MAX_KNOWN = 4
"""Known statements that are shown per question (reference configuration); they come nearest first."""
MAX_REPLY_TOKENS = 1024

_SHOWN_CHARS = 700


class ChatJudge(PromptStep[Judgement]):
    """The `Judge` that asks a chat model."""

    prompt = "judge"
    remote = True

    async def judge(self, questions: Sequence[Equivalence]) -> list[int | None]:
        """Return for each question which known fact says the same as the new one, or None for none: one call.

        Raises:
            ReplyError: if the model's replies are unusable.
            BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
        """
        rows = [
            {
                "question": number,
                "new": cut(one.statement, _SHOWN_CHARS),
                "known": {
                    str(at): cut(text, _SHOWN_CHARS) for at, text in enumerate(one.known[:MAX_KNOWN], 1)
                },
            }
            for number, one in enumerate(questions, 1)
        ]
        reply = await ask(self._calls, self._prompt, {"questions": rows}, max_tokens=MAX_REPLY_TOKENS)
        found: list[int | None] = []
        for number, question in enumerate(questions, 1):
            # One verdict, and only one, that nothing forbids.
            given = {one.same for one in reply.verdicts if one.question == number}
            same = given.pop() if len(given) == 1 else None
            known = question.known[:MAX_KNOWN]
            at = positions_of([same or 0], len(known))
            found.append(at[0] if at and not _differ(question.statement, known[at[0]]) else None)
        return found


def _differ(one: str, other: str) -> bool:
    """Return whether two facts cannot be the same, whatever a model says."""
    if sorted(numbers(one)) != sorted(numbers(other)) or negated(one) != negated(other):
        return True
    mine, theirs = (
        {entity_key(mention.name) for mention in find_mentions(text, participants={})} - {None}
        for text in (one, other)
    )
    return bool(mine - theirs) and bool(theirs - mine)


Complexity = Literal[0, 1, 2]

LEVEL_NAMES: Mapping[int, str] = {1: "segment", 2: "session", 3: "day", 4: "week", 5: "profile"}
"""What a level, 1 to 5, is called in a prompt."""
TARGETS: Mapping[Complexity, tuple[int, int]] = {0: (3, 8), 1: (8, 18), 2: (15, 30)}
"""How many memories are to be left at each complexity, from and to."""
KEYWORDS = 3
"""Keywords of a plan at most."""
KEYWORD_CHARS = 60
MEMORY_CHARS = 4_000
"""Most characters shown of a memory: 600 words; of a longer one, head and tail."""
ALL_MEMORY_CHARS = 60_000
"""Most characters shown of all memories of a call, some 15,000 tokens."""
PLAN_TOKENS, GATE_TOKENS = 512, 1_024
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that may be kept: its level (1 a segment to 5 a profile), its text, and its time ``[start, end)``."""

    level: int
    text: str
    start: datetime
    end: datetime


async def plan_recall(
    steps: Steps,
    question: str,
    participants: Sequence[str],
    reference: datetime,
    *,
    zone: tzinfo = timezone.utc,
) -> QuestionNeeds:
    """Return how much of a memory a question needs, by the chat model of the step "plan": one call.

    Args:
        steps: those of the memory.
        question: as it was asked.
        participants: names of the people in the memory, which are no keywords.
        reference: what "today" is.
        zone: whose day that is.

    Raises:
        ConfigError: if no chat model does the step.
        ReplyError: if the model's replies are unusable.
        BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
    """
    text = question[:QUESTION_CHARS]
    row = asked_row(text, reference, zone, participants)
    reply = await steps.ask("timem_plan", QuestionNeeds, {"question": [row]}, max_tokens=PLAN_TOKENS)
    # Keywords are in lower case, each once, without the names of people.
    known = {key: name for name in participants if (key := entity_key(name)) is not None}
    mentions = find_mentions(text, participants=known, language=detect_language(text))
    named = {one.name for one in mentions if one.kind in ("participant", "person")} | set(participants)
    names = {token for name in named for token in lexical_tokens(name)}
    kept: dict[str, None] = {}
    for one in reply.keywords:
        left = [word for word in words(one.lower()) if names.isdisjoint(lexical_tokens(word))]
        kept[" ".join(left)[:KEYWORD_CHARS].strip()] = None
    return reply.model_copy(update={"keywords": [one for one in kept if one][:KEYWORDS]})


async def gate(
    steps: Steps,
    question: str,
    complexity: Complexity,
    candidates: Sequence[Recalled],
    *,
    zone: tzinfo = timezone.utc,
) -> list[int]:
    """Return the positions, from 0, of the memories that help with a question, the most useful first: one call.

    It may be empty. The memories are shown with numbers, level by level; of the numbers in the reply, the ones that
    do not exist and repetitions are left out. Without candidates nothing is asked.

    Args:
        steps: those of the memory; a chat model does the step "sift".
        question: as it was asked.
        complexity: that of its plan.
        candidates: in any order.
        zone: whose days are shown.

    Raises:
        ConfigError: if no chat model does the step.
        ReplyError: if the model's replies are unusable; also if it names numbers and none of them exists.
        BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
    """
    if not candidates:
        return []
    order = sorted(range(len(candidates)), key=lambda at: candidates[at].level)  # as given within a level
    chars = max(1, min(MEMORY_CHARS, ALL_MEMORY_CHARS // len(candidates)))
    rows = [_row(number, candidates[at], chars, zone) for number, at in enumerate(order, 1)]
    least, most = TARGETS[complexity]
    asked: dict[str, Any] = {
        "question": question[:QUESTION_CHARS],
        "complexity": complexity,
        "keep": f"{min(least, len(rows))} to {min(most, len(rows))}",
    }

    def problem(reply: Sifted) -> str | None:
        if reply.relevant and not positions_of(reply.relevant, len(order)):
            return f"relevant: there are memories 1 to {len(order)} only"
        return None

    values = {"question": [asked], "memories": rows}
    reply = await steps.ask("timem_gate", Sifted, values, max_tokens=GATE_TOKENS, check=problem)
    return [order[position] for position in positions_of(reply.relevant, len(order))]


def _row(number: int, one: Recalled, chars: int, zone: tzinfo) -> dict[str, int | str]:
    return {
        "number": number,
        "level": LEVEL_NAMES.get(one.level, str(one.level)),
        "days": shown_days(one.start, one.end if one.end > one.start else one.start + _TICK, zone),
        "text": head_and_tail(one.text, chars),
    }
