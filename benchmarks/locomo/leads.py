"""What time order puts in front, and what that does to the ranking: one row per question that has a lead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from locomo.conversations import Conversation, Question
from locomo.measures import MEASURES, measure
from locomo.memories import DEPTH, changed
from memforest import MemForest
from memforest.read.results import QueryResult

__all__ = ["Lead", "find_leads", "print_leads"]

_NDCG, _R10 = MEASURES.index("nDCG@10"), MEASURES.index("R@10")


@dataclass(frozen=True, slots=True)
class Lead:
    """A question with the turns that time order put in front of what is only similar.

    `turns` are (turn id, what was said, whether it is gold), in order. `led` and `plain` are the measures with
    and without the lead.
    """

    question: str
    category: int
    kind: str
    why: str
    turns: tuple[tuple[str, str, bool], ...]
    led: tuple[float, ...]
    plain: tuple[float, ...]

    @property
    def gold(self) -> bool:
        """Whether the first of the led turns is gold."""
        return self.turns[0][2]

    def gain(self, measured: int) -> float:
        """Return what leading adds to a measure, by its place in `MEASURES`."""
        return self.led[measured] - self.plain[measured]


def find_leads(forest: MemForest, conversations: Sequence[Conversation]) -> list[Lead]:
    """Ask every question, and those with a lead again without time order."""
    asked = ((one, question) for one in conversations for question in one.questions)
    return [lead for one, question in asked if (lead := _lead(forest, one, question)) is not None]


def _lead(forest: MemForest, conversation: Conversation, question: Question) -> Lead | None:
    found = _ask(forest, conversation, question)
    led = [one for one in found.evidence if one.why]
    if not led:
        return None
    plain = _ask(forest, conversation, question, ranking=changed({"time_order": 0}))
    where = conversation.turn_session
    # Of a fact's sources the turn it was found at stands first.
    turns = ((one.sources[0].turn_ids[0], one.quote) for one in led)
    return Lead(
        question=question.text,
        category=question.category,
        kind=found.plan.kind,
        why=led[0].why,
        turns=tuple((turn, said, turn in question.gold) for turn, said in turns),
        led=tuple(measure(_turns(found), question.gold, where)),
        plain=tuple(measure(_turns(plain), question.gold, where)),
    )


def _ask(forest: MemForest, conversation: Conversation, question: Question, **options: Any) -> QueryResult:
    now = conversation.sessions[-1].timestamp
    return forest.query(conversation.id, question.text, reference_date=now, top_k=DEPTH, **options)


def _turns(result: QueryResult) -> list[str]:
    named = (turn for one in result.evidence for source in one.sources for turn in source.turn_ids)
    return list(dict.fromkeys(named))


def print_leads(leads: Sequence[Lead], questions: int) -> None:
    """Print every lead, the worst first, and what all of them do to the means over `questions`."""
    for lead in sorted(leads, key=lambda one: (one.gain(_NDCG), one.question)):
        print(
            f"{lead.gain(_NDCG):+.2f} (nDCG@10 {lead.led[_NDCG]:.2f} with, {lead.plain[_NDCG]:.2f} without) "
            f"| category {lead.category} | {lead.kind} | {lead.question} | {lead.why}"
        )
        for turn, said, gold in lead.turns[:3]:
            print(f"      {'GOLD' if gold else '    '} {turn}: {said[:100]!r}")
        if len(lead.turns) > 3:
            print(f"           and {len(lead.turns) - 3} more")
    print(
        f"\nleads: {len(leads)} of {questions} questions; first led turn is gold: {sum(x.gold for x in leads)}"
    )
    for kind, n in Counter(lead.kind for lead in leads).most_common():
        rows = [lead for lead in leads if lead.kind == kind]
        print(f"  {kind:14}{n:4}   first is gold {np.mean([x.gold for x in rows]):.2f}   {_gains(rows, n)}")
    print(f"  all, over the {questions} questions asked: {_gains(leads, questions)}")


def _gains(leads: Sequence[Lead], questions: int) -> str:
    points = {name: 100 * sum(x.gain(i) for x in leads) / questions for name, i in _SHOWN.items()}
    return "   ".join(f"{name} {value:+.2f}" for name, value in points.items())


_SHOWN = {"R@10": _R10, "nDCG@10": _NDCG}
