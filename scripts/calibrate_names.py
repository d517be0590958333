"""Measures how much must speak for two names before they are one entity, rule by rule, and writes the table.

    python scripts/calibrate_names.py [--check]

Reads `benchmarks/entities/first.toml`: entities that are one and entities that are two. What a rule asks for is a least
likeness of the names and a least evidence beside them (`memforest.graph.names.Least`). Chosen for each rule alone, the
others asking for what cannot be had:

1. only settings by which no two entities that are two are joined;
2. of these, those that join most pairs that are one;
3. of these, the one that asks for most evidence, and then for most likeness (in steps of `STEP`, from `FLOOR`).

So a rule is as strict as it can be without a loss, and one that joins nothing in the set asks for all there is. With
`--check` nothing is written and the exit code says whether the committed table is what would be written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from entities import FIRST, Case, Judged, judged, read_cases  # noqa: E402 - the benchmarks are no package
from memforest.graph.names import (  # noqa: E402
    TIERS,
    Least,
)

TABLE = ROOT / "src" / "memforest" / "data" / "name_thresholds.json"
VERSION = 1
"""Of the rule above; counted up when it changes."""
STEP = 0.05
FLOOR = 0.3
MOST_EVIDENCE = 3
NEVER = Least(MOST_EVIDENCE + 1, 1.0)
RULES = tuple(rule for rule, tier in TIERS.items() if tier > 0)


def measured(cases: Sequence[Case], rule: str, wants: Least) -> tuple[int, int]:
    """Return how many pairs a rule alone joins rightly and wrongly."""
    pairs = list(judged(cases, {**dict.fromkeys(RULES, NEVER), "form": Least(0, 0.0), rule: wants}))
    return sum(_is(pair, one=True) for pair in pairs), sum(_is(pair, one=False) for pair in pairs)


def _is(pair: Judged, *, one: bool) -> bool:
    return pair.joined and pair.one is one


def settings() -> list[Least]:
    """Return what a rule may ask for, strictest first."""
    likeness = [round(1 - STEP * step, 4) for step in range(round((1 - FLOOR) / STEP) + 1)]
    return [Least(evidence, least) for evidence in range(MOST_EVIDENCE, -1, -1) for least in likeness]


def choose(cases: Sequence[Case], rule: str) -> tuple[Least, int, int]:
    """Return what a rule asks for by the rule of the module, how many pairs it joins, and how many it could."""
    # Only in a case where the loosest setting joins what none does can a setting in between tell.
    cases = [case for case in cases if measured([case], rule, Least(0, 0.0)) != measured([case], rule, NEVER)]
    found = [(wants, *measured(cases, rule, wants)) for wants in settings()]
    none = measured(cases, rule, NEVER)
    without = [(wants, right) for wants, right, wrong in found if wrong <= none[1]]
    best, right = max(without, key=lambda one: one[1], default=(NEVER, none[0]))
    return best, right - none[0], max(right for _, right, _ in found) - none[0]


def table(cases: Sequence[Case]) -> str:
    """Return the table as it is written."""
    rules = {}
    for rule in RULES:
        wants, joined, most = choose(cases, rule)
        print(
            f"{rule:14} evidence {wants.evidence}, likeness {wants.likeness:.2f}: joins {joined} of {most} pairs"
        )
        rules[rule] = {"least_evidence": wants.evidence, "least_likeness": wants.likeness, "pairs": joined}
    about = {"version": VERSION, "script": f"scripts/calibrate_names.py {VERSION}", "rules": rules}
    return json.dumps(about, indent=2) + "\n"


def main() -> int:
    """Measure, print, and write or compare the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the table would change")
    args = parser.parse_args()
    after = table(read_cases(FIRST))
    if args.check:
        return int(after != TABLE.read_text(encoding="utf-8"))
    TABLE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
