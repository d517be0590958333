"""What the graph of a memory says, as values: entities, relations between them, and the way from one to another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from memforest.display import html_table
from memforest.memory.inspect.stored import Source
from memforest.memory.plain import Result
from memforest.text import cut
from memforest.types import EntityKind

EdgeKind: TypeAlias = Literal["relation", "mention", "overlap"]
"""What joins two entities: something that was said of both, statements that name both, or a name that may be short for the other."""
Verdict: TypeAlias = Literal["same", "apart"]
"""What a person has decided of two names."""


@dataclass(frozen=True, slots=True, repr=False)
class EntityDecision(Result):
    """Why a name is one entity with another: by which rule, and how alike the rule found them (0 to 1).

    `into` is the name that stands for both. The rule ``"same"`` is a person's decision (`merge_entities`).
    """

    name: str
    into: str
    rule: str
    score: float

    def _line(self) -> str:
        return f"{cut(self.name, 40)} is {cut(self.into, 40)}: {self.rule} {self.score:.2f}"


@dataclass(frozen=True, slots=True, repr=False)
class Entity(Result):
    """Somebody or something that statements name.

    `names` are the names that it was seen by, with how often, the most frequent first. `role` is ``"speaker"`` of who takes
    part in a conversation, else ``"named"``. `supports` is the number of statements that name it, and `salience` their share
    of those that name the most named entity, 0 to 1. `decisions` say why names that differ are one entity; `split_entity` keeps one of them apart.
    """

    name: str
    kind: EntityKind
    names: Mapping[str, int]
    role: Literal["speaker", "named"]
    supports: int
    salience: float
    decisions: tuple[EntityDecision, ...] = ()

    def _line(self) -> str:
        also = [name for name in self.names if name != self.name]
        return f"{cut(self.name, 60)}, {self.kind}, {self.supports} facts" + (
            f", also {cut(', '.join(also), 80)}" if also else ""
        )


@dataclass(frozen=True, slots=True, repr=False)
class EntityPage(Result):
    """Entities, those that most statements name first; `total` is how many there are in all, `next_cursor` that of the next page.

    Iterating gives them, and a page without any is false.
    """

    entities: tuple[Entity, ...]
    total: int
    next_cursor: str | None = None

    def __iter__(self) -> Iterator[Entity]:
        return iter(self.entities)

    def __len__(self) -> int:
        return len(self.entities)

    def _line(self) -> str:
        return f"{len(self)} of {self.total} entities"

    def _repr_html_(self) -> str:
        rows = ((one.name, one.kind, str(one.supports), ", ".join(one.names)) for one in self)
        return html_table(("name", "kind", "facts", "names"), rows)


@dataclass(frozen=True, slots=True, repr=False)
class RelationView(Result):
    """What was said of two entities: `source` `label` `target`, seen `weight` times.

    It held from `start` to `end`; None is not known, or still so. `sources` are the turns that say so, of more than 32 the
    first and the last 16, and `fact_ids` the statements. A relation that ended stays, with its end.
    """

    source: str
    label: str
    target: str
    weight: int
    start: datetime | None
    end: datetime | None
    sources: tuple[Source, ...]
    fact_ids: tuple[str, ...]

    def _line(self) -> str:
        told = f"{cut(self.source, 40)} {cut(self.label, 40)} {cut(self.target, 40)}"
        since = "" if self.start is None else f" from {self.start:%Y-%m-%d}"
        until = "" if self.end is None else f" to {self.end:%Y-%m-%d}"
        return f"{told}{since}{until}, {self.weight} times"


@dataclass(frozen=True, slots=True, repr=False)
class PathStep(Result):
    """One edge of a path, from the entity `source` to the next one, `target`, and what says so.

    ``"relation"``: `relations` are what was said of the two, in either direction, and `labels` their labels. ``"mention"``: they are named
    in the same statements. ``"overlap"``: one name may be short for the other, which is a guess.
    """

    source: str
    target: str
    kind: EdgeKind
    labels: tuple[str, ...]
    weight: float
    sources: tuple[Source, ...]
    fact_ids: tuple[str, ...]
    texts: tuple[str, ...] = ()
    """Some of the statements, as they are shown."""
    relations: tuple[RelationView, ...] = ()

    def _line(self) -> str:
        by = ", ".join(self.labels) or self.kind
        return f"{cut(self.source, 40)} – {cut(by, 60)} – {cut(self.target, 40)}"


@dataclass(frozen=True, slots=True, repr=False)
class PathView(Result):
    """The shortest way from one entity to another; of several, the one whose edges weigh most.

    Without one it is false, `found` is false and there are no steps. From an entity to itself there is nothing to go: `found`
    is true, without steps. Iterating gives the steps.
    """

    source: str
    target: str
    found: bool
    steps: tuple[PathStep, ...] = ()

    def __bool__(self) -> bool:
        return self.found

    def __iter__(self) -> Iterator[PathStep]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def _line(self) -> str:
        if not self.found:
            return f"no way from {cut(self.source, 40)} to {cut(self.target, 40)}"
        return " → ".join(cut(name, 40) for name in (self.source, *(one.target for one in self.steps)))


@dataclass(frozen=True, slots=True, repr=False)
class EntityChoice(Result):
    """A person's decision on two names: that they are the ``"same"``, or that they stay ``"apart"``, and since when."""

    verdict: Verdict
    name: str
    other: str
    made: datetime

    def _line(self) -> str:
        return f"{cut(self.name, 40)} and {cut(self.other, 40)}: {self.verdict}"


# -- for drawing ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class GraphNode(Result):
    """An entity of a picture of the graph."""

    name: str
    kind: EntityKind
    supports: int


@dataclass(frozen=True, slots=True, repr=False)
class GraphEdge(Result):
    """An edge of a picture, between two of its nodes by their places; the labels of a relation say what was said."""

    source: int
    target: int
    kind: EdgeKind
    labels: tuple[str, ...]
    weight: float


@dataclass(frozen=True, slots=True, repr=False)
class GraphPicture(Result):
    """The most named entities of a memory and the heaviest edges between them; `entities` and `all_edges` count what there is.

    `all_edges` are those between the entities that are shown.
    """

    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[GraphEdge, ...] = ()
    entities: int = 0
    all_edges: int = 0

    @property
    def left_out(self) -> str:
        """What is not in the picture, in words; empty when all is."""
        parts = []
        if len(self.nodes) < self.entities:
            parts.append(
                f"{self.entities - len(self.nodes):,} of {self.entities:,} entities, the least named"
            )
        if len(self.edges) < self.all_edges:
            parts.append(
                f"{self.all_edges - len(self.edges):,} of {self.all_edges:,} edges between the others, the lightest"
            )
        return " and ".join(parts)

    def _line(self) -> str:
        return f"{len(self.nodes)} entities, {len(self.edges)} edges"
