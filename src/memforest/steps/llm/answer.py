"""Answers by a chat model from ranked evidence (ports `Answerer` and `AnswersParts`): cited, or an abstention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from memforest.errors import ReplyError
from memforest.language.quoting import in_full
from memforest.models.calls import Calls
from memforest.ports import Settled
from memforest.steps.base import Answer, AnswerEvidence
from memforest.steps.llm.prompt import Prompt, Value, load_prompt
from memforest.steps.llm.replies import AnswerReply
from memforest.steps.llm.shown import shown_day, shown_days
from memforest.steps.llm.structured import ask
from memforest.text import cut
from memforest.types import QuestionPlan

MAX_TOKENS = 1_024
TEXT_CHARS = 1_500
"""Characters shown of a statement, and of a quote; a turn that is longer is shown by the sentences that were found."""
SUMMARY_CHARS = 4_000
"""Characters shown of a summary: some 600 words, which is the longest that a level of a calendar tree has."""
PART_CHARS = 400
"""Characters shown of the text of a part, and of what was concluded about it."""
UNCITED = "the model gave an answer and named no evidence for it"


class ChatAnswerer:
    """Asks a chat model to answer from evidence alone.

    Args:
        calls: the way to the model.
        timezone: whose days the model is shown: a name or a tzinfo.
    """

    def __init__(self, calls: Calls, *, timezone: str | tzinfo = "UTC") -> None:
        self._calls = calls
        self._zone = ZoneInfo(timezone) if isinstance(timezone, str) else timezone
        self._prompt: Prompt[AnswerReply] = load_prompt("answer")
        self._synthesis: Prompt[AnswerReply] = load_prompt("hmem_answer")
        self.name = self._prompt.maker(calls.model_id)
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
        """Return an answer that was put together of what was concluded about the parts of a question; cited as any other.

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

        def cited(reply: AnswerReply) -> tuple[int, ...]:
            return tuple(one - 1 for one in dict.fromkeys(reply.cited) if 1 <= one <= len(evidence))

        def problem(reply: AnswerReply) -> str | None:
            if reply.answer is None or cited(reply):
                return None
            uncited.append(reply)
            return (
                f"cited: an answer needs the number of at least one piece of evidence, 1 to {len(evidence)}"
            )

        try:
            reply = await ask(self._calls, prompt, values, max_tokens=MAX_TOKENS, check=problem)
        except ReplyError:
            if uncited:
                return Answer(None, reason=UNCITED)
            raise
        if reply.answer is None:
            return Answer(None, reason=reply.reason or "the model found no answer in the evidence")
        return Answer(reply.answer, cited(reply), reply.reason)

    def _row(self, number: int, one: AnswerEvidence) -> dict[str, Any]:
        """Return a piece of evidence as the model sees it: what was said, or a model's statement and where it came from."""
        if one.turns is not None and one.start is not None:
            return {
                "number": number,
                "days": shown_days(one.start, one.end, self._zone),
                "summary_of_turns": one.turns,
                "statement": cut(one.text, SUMMARY_CHARS),
            }
        row: dict[str, Any] = {"number": number, "said": shown_day(one.said, self._zone)}
        row |= self._words(one)
        if one.start is not None and (one.end is not None or one.start != one.said):
            row["valid"] = shown_days(one.start, one.end, self._zone)
        return row

    def _words(self, one: AnswerEvidence) -> dict[str, Any]:
        """Return who said what; of a model's statement the quote only where it says more."""
        spoken = in_full(one.spoken, one.speaker, one.quote, TEXT_CHARS)
        speaker = spoken[-1].speaker if spoken else one.speaker
        row = {"speaker": cut(speaker, 80)} if speaker else {}
        if spoken:
            if len(spoken) > 1:
                row["asked"] = cut(spoken[0].text, TEXT_CHARS)
            return row | {"quote": cut(spoken[-1].text, TEXT_CHARS)}
        row["statement"] = cut(one.text, TEXT_CHARS)
        if one.quote and one.quote not in one.text:
            row["quote"] = cut(one.quote, TEXT_CHARS)
        return row
