"""How memories of several levels are recalled for a question: which levels, how many of each, who decides, and their order.

Sources of the constants: TiMem (arXiv 2601.02845) §3.3, Table 10 and App. B.3, and where the paper says nothing its released
configuration. Read by the index `timem`; `Ranking(recall=...)` says so for one question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Literal, TypeAlias, get_args

from memforest.errors import ConfigError
from memforest.plans import Complexity
from memforest.settings import Bound, Settings, Whole

Order: TypeAlias = Literal["score", "level"]
"""How what was recalled stands in front of a reader; see `Recall.order`."""
Who: TypeAlias = Literal["auto", "model", "rules", "off"]
Level: TypeAlias = Annotated[int, Bound(ge=1, le=6)]

COMPLEXITIES: Sequence[Complexity] = get_args(Complexity)
"""The complexities 0, 1 and 2 by their names in a plan."""
LEVELS = 6
"""Levels that there may be: segment, session, day, week, month and year, from 1."""
LEAVES = 20
"""Leaves that a recall starts from where no budget says (released configuration)."""

BUDGETS: Mapping[str, Mapping[str, Sequence[int]]] = MappingProxyType(
    {
        "timem": MappingProxyType(
            {"simple": (20, 4, 0, 0, 1), "hybrid": (20, 4, 2, 0, 1), "complex": (20, 4, 4, 2, 1)}
        ),
        "locomo": MappingProxyType(
            {"simple": (20, 4, 0, 0, 1), "hybrid": (20, 4, 2, 0, 1), "complex": (20, 4, 2, 2, 1)}
        ),
    }
)
"""Most memories of the levels 1 to 5 by complexity: the two sets of the released configuration."""


@dataclass(frozen=True, slots=True)
class Recall(Settings):
    """How an index with levels of memories recalls them; each switch of the paper's Tables 3 and 4 is one of these.

    Level 1 is the segment, 2 the session, 3 the day, 4 the week, 5 the month and 6 the year.
    """

    planner: Who = "auto"
    """Who says how much a question needs, and by which words to look. ``"model"``: the chat model, one call; ``"rules"``:
    the plan of the question; ``"auto"``: the model if there is one and `complexity` is not given; ``"off"``: nobody, so that a
    question without `complexity` counts as ``"hybrid"``."""
    gate: Who = "auto"
    """Who drops what the question does not need. ``"model"``: the chat model, one call; ``"rules"``: what says the same as
    what is kept, has ended, or is far below the best; ``"auto"``: the model if there is one; ``"off"``: nobody."""
    complexity: Annotated[int, Bound(ge=0, le=2)] | None = None
    """How much is recalled whatever the question: 0 simple, 1 hybrid, 2 complex; None is what the planner says."""
    levels: Sequence[Level] | None = None
    """The levels that are recalled, such as ``(1,)`` or ``(2, 3, 4, 5)``; None is all that the budgets name."""
    flat: bool = False
    """Recall all levels as one pool by their own scores, instead of what is above the best leaves."""
    leaves: Literal["fused", "paper"] = "fused"
    """How leaves are found. ``"fused"``: by the best turn of each, as other indexes score turns; ``"paper"``: the cosine of the leaf
    and BM25 of the keywords, each divided by its largest value (eq. 7)."""
    weight: Annotated[float, Bound(ge=0, le=1)] = 0.9
    """What the cosine counts with ``leaves="paper"``, 0 to 1; BM25 has the rest (Table 10, measured with another embedder)."""
    k1: Annotated[float, Bound(ge=0)] = 1.5
    """How fast more of one word stops to count with ``leaves="paper"``."""
    b: Annotated[float, Bound(ge=0, le=1)] = 0.75
    """How far longer leaves are held to be so with ``leaves="paper"``."""
    budgets: Literal["timem", "locomo"] | Mapping[Complexity, Sequence[Whole]] = field(
        default="timem", hash=False
    )
    """Most memories of each level. ``"timem"`` and ``"locomo"`` are those of the paper's two runs; a mapping such as
    ``{"complex": (20, 4, 4, 2, 1)}`` gives the levels from 1 on, and what it does not name is as in ``"timem"``."""
    prune: Literal["best", "own"] = "best"
    """Which memories of a level stay that has more than its budget: those above the best leaves, or those with the best scores
    of their own."""
    order: Order = "score"
    """In which order a reader gets what is left behind all cuts. ``"level"``: the lowest level first, and of each what is
    nearest to the time of the question (eq. 11)."""
    show: Literal["turns", "texts"] = "turns"
    """What stands for a leaf: its turns, or its text where it has one."""

    def _check(self) -> None:
        """Refuse what recalls nothing, and levels or budgets that there are none of."""
        if self.levels is not None:
            object.__setattr__(self, "levels", tuple(self.levels))
            if not self.levels:
                raise ConfigError("Recall(levels=...) names no level; give some of 1 to 6, or None for all")
        if isinstance(self.budgets, Mapping):
            own = {name: tuple(one) for name, one in self.budgets.items()}
            if long := [name for name, one in own.items() if not 0 < len(one) <= LEVELS]:
                raise ConfigError(
                    f"Recall(budgets=...) gives {long[0]!r} {len(own[long[0]])} numbers; give one for each level, "
                    f"1 to {LEVELS} of them"
                )
            object.__setattr__(self, "budgets", own)
        asked = (
            COMPLEXITIES if self.complexity is None else COMPLEXITIES[self.complexity : self.complexity + 1]
        )
        if not any(self.budgets_of(one) for one in asked):
            raise ConfigError(
                f"Recall() recalls nothing: of the levels {tuple(self.levels or range(1, LEVELS + 1))} none has a budget above "
                f"0 for a question that is {' or '.join(asked)}; give it one, as in budgets={{'{asked[-1]}': (20, 4, 4, 2, 1)}}"
            )

    def budgets_of(self, complexity: Complexity) -> dict[int, int]:
        """Return the most memories by level, from 1, for a question; levels with none are not there."""
        known = BUDGETS["timem" if isinstance(self.budgets, Mapping) else self.budgets]
        own = self.budgets if isinstance(self.budgets, Mapping) else {}
        numbers = own.get(complexity, known[complexity])
        return {
            level: most
            for level, most in enumerate(numbers, 1)
            if most > 0 and (self.levels is None or level in self.levels)
        }

    def leaves_of(self, complexity: Complexity) -> int:
        """Return how many leaves a recall starts from, whether they are shown or not."""
        known = BUDGETS["timem" if isinstance(self.budgets, Mapping) else self.budgets]
        own = self.budgets if isinstance(self.budgets, Mapping) else {}
        return own.get(complexity, known[complexity])[0] or LEAVES
