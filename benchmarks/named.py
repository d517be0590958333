"""Are the entities of a memory those that a person would call so, and are names of one thing joined or proposed as one?

Run ``python benchmarks/named.py`` (``--help`` for options). ``benchmarks/entities/named.toml`` holds 60 small memories by a hand
that had not seen the rules: what somebody said, the entities that it names with their spellings, capitalised words that are
none, and pairs that look alike and are two. The first, third, ... were looked at while rules were changed (`developed`), the
others were not (`held`).

- precision: of the entities of a memory, those that are named in the file; recall: the other way round;
- no entities: of the capitalised words that are none, those that were taken for one;
- joined, proposed: of the pairs of spellings of one thing that are both entities, those that are one, and those that
  `Entity.perhaps` proposes; of the pairs that are two, those that were joined; of what is proposed, what is right.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from memforest import MemForest
from memforest.config import Config
from memforest.models import HashEmbedder
from memforest.text import entity_key
from proportions import Share

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).with_name("entities") / "named.toml"


def counted(case: Mapping[str, Any]) -> Counter[str]:
    """Return what is right and wrong of one memory, counted."""
    spellings = case.get("spellings", {})
    meant = {entity_key(one): name for name in case["entities"] for one in (name, *spellings.get(name, ()))}
    with (
        tempfile.TemporaryDirectory() as folder,
        MemForest(folder, Config(embedder=HashEmbedder(64))) as forest,
    ):
        user = forest.user(case["speaker"])
        for day, said in enumerate(case["said"], 1):
            user.add(said, timestamp=f"2026-03-{day:02d}T10:00:00Z", session_id=f"day {day}")
        found = [one for one in user.entities(limit=500) if one.role == "named"]
    keys = [{entity_key(name) for name in (one.name, *one.names)} for one in found]
    place = {key: at for at, some in enumerate(keys) for key in some}
    named = [{meant[key] for key in some if key in meant} for some in keys]
    counts = Counter(
        entities=len(found),
        right=sum(map(bool, named)),
        meant=len(case["entities"]),
        met=len(set().union(*named)),
        none=len(case.get("not_entities", ())),
        taken=sum(entity_key(one) in place for one in case.get("not_entities", ())),
    )
    for one, other in case.get("two", ()):
        if {entity_key(one), entity_key(other)} <= place.keys():
            counts["two"] += 1
            counts["two joined"] += place[entity_key(one)] == place[entity_key(other)]
    by_name = {one.name: at for at, one in enumerate(found)}
    proposed = {frozenset((at, by_name[name])) for at, one in enumerate(found) for name in one.perhaps}
    for group in case.get("one", ()):
        for one, other in combinations({entity_key(each) for each in group} & place.keys(), 2):
            counts["one"] += 1
            counts["joined"] += place[one] == place[other]
            counts["proposed of one"] += frozenset((place[one], place[other])) in proposed
    counts["proposed"] += len(proposed)
    counts["proposed right"] += sum(not named[min(pair)].isdisjoint(named[max(pair)]) for pair in proposed)
    return counts


ROWS = (
    ("precision", "right", "entities"),
    ("recall", "met", "meant"),
    ("no entities taken for one", "taken", "none"),
    ("spellings of one thing that are one", "joined", "one"),
    ("spellings of one thing that are proposed as one", "proposed of one", "one"),
    ("two things that are one", "two joined", "two"),
    ("proposals that are right", "proposed right", "proposed"),
)


def main() -> None:
    """Print the shares of both halves, with 95% intervals."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    cases = tomllib.loads(FILE.read_text(encoding="utf-8"))["memory"]
    for half, some in (("developed", cases[::2]), ("held", cases[1::2])):
        counts = sum(map(counted, some), Counter[str]())
        print(f"{half}: {len(some)} memories")
        for name, part, whole in ROWS:
            print(
                f"  {name:<48} {counts[part]:>4} of {counts[whole]:>4}  {Share(counts[part], counts[whole])}"
            )


if __name__ == "__main__":
    main()
