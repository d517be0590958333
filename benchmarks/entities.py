"""Are names that mean one entity joined, and names that mean two kept apart?

Run ``python benchmarks/entities.py`` (``--help`` for options). Each case of ``benchmarks/entities/*.toml`` is what one
memory holds: entities with their kinds, what is named with them, and which of them are one. All pairs of a case are judged:

- precision: of the pairs that were joined, those that are one;
- recall: of the pairs that are one, those that were joined.

The thresholds were chosen on ``first.toml`` (`scripts/calibrate_names.py`), so its figures say how well the rules can do and
not how well they do. A second file, by a hand that had not seen the rules, says that; it is reported beside it, and its
cases are not printed one by one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, get_args

from memforest.graph.names import Least, NamedEntity
from memforest.graph.resolve import Resolver
from memforest.records import EntityKind
from memforest.text import entity_key
from proportions import Share

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SETS = Path(__file__).with_name("entities")
FIRST = SETS / "first.toml"
"""The file that thresholds are chosen on, and the only one whose cases are printed."""
ACQUAINTANCE = 1000
"""Ids from here on are of neighbours, which are no entities of the case."""


@dataclass(frozen=True, slots=True)
class Case:
    """Entities of one memory, and the groups of them that are one, by their ids."""

    kind: str
    why: str
    named: tuple[NamedEntity, ...]
    groups: tuple[frozenset[int], ...]

    @property
    def pairs(self) -> dict[tuple[int, int], bool]:
        """All pairs of entities -> whether they are one."""
        ids = [one.id for one in self.named if one.id < ACQUAINTANCE]
        return {pair: any(group.issuperset(pair) for group in self.groups) for pair in combinations(ids, 2)}


@dataclass(frozen=True, slots=True)
class Judged:
    """A pair of a case: whether it is one, and whether it was joined."""

    case: Case
    pair: tuple[int, int]
    one: bool
    joined: bool

    def __str__(self) -> str:
        labels = " | ".join(self.case.named[entity].label for entity in self.pair)
        return f"{labels}  ({self.case.kind}: {self.case.why})"


def read_cases(path: Path) -> list[Case]:
    """Return the cases of a file.

    Raises:
        ValueError: if a case is none: an unknown key or kind, or a place that is none of its entities.
    """
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    return [_case(one, f"{path.name}: case {place}") for place, one in enumerate(raw["case"], start=1)]


def _case(raw: Mapping[str, Any], where: str) -> Case:
    unknown = set(raw) - {"kind", "why", "named", "one", "share", "beside", "called"}
    if unknown:
        raise ValueError(f"{where}: unknown {sorted(unknown)}")
    texts = list(raw["named"])
    near: dict[int, set[int]] = {place: set() for place in range(len(texts))}
    beside: dict[int, set[int]] = {place: set() for place in range(len(texts))}
    called: dict[int, list[str]] = {place: [] for place in range(len(texts))}
    friends: list[NamedEntity] = []
    for first, second, count in raw.get("share", ()):
        for _ in range(count):
            friend = ACQUAINTANCE + len(friends)
            friends.append(NamedEntity(friend, f"{friend}", "thing", neighbours=frozenset((first, second))))
            near[_place(first, texts, where)].add(friend)
            near[_place(second, texts, where)].add(friend)
    for first, second in raw.get("beside", ()):
        beside[_place(first, texts, where)].add(_place(second, texts, where))
        beside[second].add(first)
    for place, name in raw.get("called", ()):
        called[_place(place, texts, where)].append(entity_key(name) or name)
    named = []
    for place, text in enumerate(texts):
        kind, _, label = text.partition(": ")
        key = entity_key(label)
        if kind not in get_args(EntityKind) or key is None:
            raise ValueError(f"{where}: {text!r} is no 'kind: name'")
        supports = 2 if place else 4
        links = frozenset(near[place]), frozenset(beside[place])
        named.append(NamedEntity(place, key, kind, label, (), tuple(called[place]), supports, *links))
    groups = tuple(frozenset(_place(one, texts, where) for one in group) for group in raw["one"])
    return Case(raw["kind"], raw["why"], (*named, *friends), groups)


def _place(place: int, texts: Sequence[str], where: str) -> int:
    if not 0 <= place < len(texts):
        raise ValueError(f"{where}: there is no entity {place}")
    return place


def judged(cases: Sequence[Case], wants: Mapping[str, Least] | None = None) -> Iterator[Judged]:
    """Yield every pair of every case."""
    for case in cases:
        found = Resolver(case.named, wants=wants).resolution
        for pair, one in case.pairs.items():
            yield Judged(case, pair, one, found.of(pair[0]) == found.of(pair[1]))


def shares(pairs: Sequence[Judged]) -> tuple[Share, Share]:
    """Return precision and recall."""
    right = sum(pair.one and pair.joined for pair in pairs)
    return (
        Share(right, sum(pair.joined for pair in pairs)),
        Share(right, sum(pair.one for pair in pairs)),
    )


def print_table(name: str, pairs: Sequence[Judged], cases: int) -> None:
    """Print precision and recall by kind of case, in percent with 95% intervals."""
    print(f"\n{name}: {cases} cases, {len(pairs)} pairs; % [95% Wilson interval]")
    print(f"{'kind of case':18}{'apart':>6}{'joined':>7}{'precision':>22}{'one':>5}{'recall':>22}")
    for kind in [*dict.fromkeys(pair.case.kind for pair in pairs), "all"]:
        mine = [pair for pair in pairs if kind in ("all", pair.case.kind)]
        precision, recall = shares(mine)
        print(
            f"{kind:18}{len(mine) - recall.n:>6}{precision.n:>7}{precision!s:>22}{recall.n:>5}{recall!s:>22}"
        )


def report(name: str, cases: Sequence[Case], *, tell: bool) -> dict[str, Any]:
    """Print the table of one file, and with `tell` the pairs that came out wrong; return its figures."""
    pairs = list(judged(cases))
    print_table(name, pairs, len(cases))
    for pair in pairs if tell else ():
        if pair.one != pair.joined:
            print(f"  {'missed' if pair.one else 'WRONG'}: {pair}")
    precision, recall = shares(pairs)
    return {"cases": len(cases), "precision": precision.as_json(), "recall": recall.as_json()}


def main() -> int:
    """Read the files, print their tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    args = parser.parse_args()
    figures = {}
    for path in sorted(SETS.glob("*.toml"), key=lambda path: (path != FIRST, path.name)):
        figures[path.stem] = report(path.stem, read_cases(path), tell=path == FIRST)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
