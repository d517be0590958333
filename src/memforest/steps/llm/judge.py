"""Judgement by a model: does a new statement say the same as one that is known? Several questions go in one call.

A merge that a model wants is still refused when the two statements differ in a number, in yes and no, or each in a
name: a missed merge costs a line of context, a false one destroys a memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from memforest.concurrency import all_of
from memforest.errors import ModelError, ModelRefusedError
from memforest.language.entities import find_mentions
from memforest.models.calls import Calls
from memforest.steps.llm.prompt import Prompt, load_prompt
from memforest.steps.llm.replies import Judgement
from memforest.steps.llm.structured import ask
from memforest.text import cut, entity_key, negated, numbers
from memforest.types import Equivalence

MAX_PACKED = 8
"""Questions of one call."""
MAX_KNOWN = 4
"""Known statements that are shown per question (reference configuration); they come nearest first."""
MAX_REPLY_TOKENS = 1024

_SHOWN_CHARS = 700


class ChatJudge:
    """The `Judge` that asks a chat model.

    Args:
        calls: the way to the model.
    """

    remote = True

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._prompt: Prompt[Judgement] = load_prompt("judge")
        self.name = self._prompt.maker(calls.model_id)

    async def judge(self, questions: Sequence[Equivalence]) -> list[int | None]:
        """Return per question which of the known statements says the same as the new one, or None for none.

        None also for what could not be judged: no usable reply, no connection, no budget.

        Raises:
            ModelRefusedError: if no call can succeed.
        """
        asked = [index for index, one in enumerate(questions) if one.known]
        packs = [asked[at : at + MAX_PACKED] for at in range(0, len(asked), MAX_PACKED)]
        found: list[int | None] = [None] * len(questions)
        replies = await all_of(self._pack([questions[index] for index in pack]) for pack in packs)
        for pack, verdicts in zip(packs, replies, strict=True):
            for index, same in zip(pack, verdicts, strict=True):
                found[index] = same
        return found

    async def _pack(self, questions: Sequence[Equivalence]) -> list[int | None]:
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
        try:
            reply = await ask(self._calls, self._prompt, {"questions": rows}, max_tokens=MAX_REPLY_TOKENS)
        except ModelRefusedError:
            raise
        except ModelError:
            return [None] * len(questions)
        return [_same(reply, number, one) for number, one in enumerate(questions, 1)]


def _same(reply: Judgement, number: int, question: Equivalence) -> int | None:
    """Return the verdict on one question, None unless there is one, and only one, and nothing forbids it."""
    given = {one.same for one in reply.verdicts if one.question == number}
    same = given.pop() if len(given) == 1 else None
    if same is None or not 1 <= same <= min(len(question.known), MAX_KNOWN):
        return None
    return None if _differ(question.statement, question.known[same - 1]) else same - 1


def _differ(one: str, other: str) -> bool:
    """Return whether two statements cannot be one, whatever a model says."""
    if sorted(numbers(one)) != sorted(numbers(other)) or negated(one) != negated(other):
        return True
    mine, theirs = _names(one), _names(other)
    return bool(mine - theirs) and bool(theirs - mine)


def _names(text: str) -> set[str]:
    found = (entity_key(one.name) for one in find_mentions(text, participants={}))
    return {key for key in found if key is not None}
