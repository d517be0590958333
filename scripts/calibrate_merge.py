"""Measures at which cosine two statements may be one fact, for every installed embedder, and writes the table.

    python scripts/calibrate_merge.py [--check]

Reads `merge_pairs.toml`: pairs that must become one fact and pairs that must stay two. A pair merges when
`may_merge` allows it and its cosine reaches the embedder's threshold. The rule that picks the threshold:

1. lower bound: the highest cosine of a must-not pair that the guards let through, plus `MARGIN`;
2. wanted: the lowest cosine of a must-merge pair that the guards let through, less `MARGIN`, because a
   threshold below that gains nothing and only weakens what stands behind the guards;
3. the higher of the two, rounded up (1) or down (2) to a multiple of `STEP`.

The table says how many pairs were measured and what part of the must-merge pairs does merge. The same
weights and pairs give the same table. With `--check` nothing is written and the exit code says whether the
committed table is what would be written.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import chain
from pathlib import Path

import numpy as np

from memforest.models import Embedder, available, open_embedder
from memforest.reading.canonical import Signature, may_merge, signature
from memforest.reading.date_phrases import find_dates
from memforest.reading.entities import find_mentions, names_inside
from memforest.reading.timestamps import valid_time
from memforest.reading.tokens import detect_language
from memforest.records import ExtractedFact
from memforest.text import entity_key, negated

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAIRS = Path(__file__).with_name("merge_pairs.toml")
TABLE = Path(__file__).parent.parent / "src" / "memforest" / "data" / "merge_thresholds.json"
VERSION = 1
"""Of the rule above; counted up when it changes."""
MARGIN = 0.005
STEP = 0.005
REFERENCE = datetime(2023, 5, 7, 12, tzinfo=timezone.utc)
"""When every statement counts as said: "yesterday" is 6 May 2023."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two statements, whether they are one fact, and what differs."""

    a: str
    b: str
    merge: bool
    why: str


@dataclass(frozen=True, slots=True)
class Measured:
    """A pair with its cosine, and whether the guards let it through."""

    pair: Pair
    cosine: float
    allowed: bool

    def merges(self, threshold: float) -> bool:
        """Return whether the pair becomes one fact."""
        return self.allowed and self.cosine >= threshold


def load_pairs(path: Path = PAIRS) -> tuple[list[Pair], dict[str, str]]:
    """Return the pairs, and entity key -> name of those who take part in the conversations."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    pairs = [
        Pair(one["a"], one["b"], kind == "merge", one["why"])
        for kind in ("merge", "apart")
        for one in raw[kind]
    ]
    return pairs, {key: name for name in raw["participants"] if (key := entity_key(name))}


def sign(text: str, participants: Mapping[str, str], known: frozenset[str]) -> Signature:
    """Return the signature that the local extractor's parts give a statement."""
    language = detect_language(text)
    dates = find_dates(text, REFERENCE, timezone.utc, () if language == "other" else (language,))
    start, end, precision = valid_time(min(dates, key=lambda d: d.start_char) if dates else None)
    return signature(
        ExtractedFact(
            text=text,
            turns=(0,),
            speaker=next(iter(participants.values())),
            quote=text,
            start=start,
            end=end,
            precision=precision,
            negated=negated(text),
            mentions=find_mentions(text, participants=participants, known=known, language=language),
        )
    )


def measure(embedder: Embedder, pairs: Sequence[Pair], participants: Mapping[str, str]) -> list[Measured]:
    """Return every pair with its cosine and whether the guards allow it."""
    texts = sorted(set(chain.from_iterable((pair.a, pair.b) for pair in pairs)))
    rows = asyncio.run(embedder.embed(texts))
    vectors = dict(zip(texts, rows, strict=True))
    found = []
    for pair in pairs:
        known = names_inside(f"{pair.a} . {pair.b}")
        allowed = may_merge(sign(pair.a, participants, known), sign(pair.b, participants, known))
        found.append(Measured(pair, float(vectors[pair.a] @ vectors[pair.b]), allowed))
    return found


def choose_threshold(measured: Sequence[Measured]) -> float:
    """Return the threshold by the rule of the module."""
    wrong = [m.cosine for m in measured if m.allowed and not m.pair.merge]
    right = [m.cosine for m in measured if m.allowed and m.pair.merge]
    lowest = math.ceil((max(wrong) + MARGIN) / STEP) * STEP if wrong else 0.0
    wanted = math.floor((min(right) - MARGIN) / STEP) * STEP if right else 1.0
    return round(max(lowest, wanted), 4)


def recall(measured: Sequence[Measured], threshold: float) -> float:
    """Return the part of the must-merge pairs that merge."""
    right = [m for m in measured if m.pair.merge]
    return sum(m.merges(threshold) for m in right) / len(right)


def entry(measured: Sequence[Measured]) -> dict[str, object]:
    """Return one embedder's line of the table; the recall is rounded down."""
    threshold = choose_threshold(measured)
    return {
        "threshold": threshold,
        "pairs": {
            "merge": sum(m.pair.merge for m in measured),
            "apart": sum(not m.pair.merge for m in measured),
        },
        "recall": math.floor(recall(measured, threshold) * 1000) / 1000,
        "script": f"scripts/calibrate_merge.py {VERSION}",
    }


def report(model_id: str, measured: Sequence[Measured]) -> None:
    """Print the cosines of both classes, with and without the guards, and what is missed or wrong."""
    threshold = choose_threshold(measured)
    print(f"\n{model_id}: threshold {threshold}, recall {recall(measured, threshold):.1%}")
    print("| class | pairs | cosine min | 5% | median | 95% | max |")
    print("|---|---|---|---|---|---|---|")
    for label, merge, guarded in (
        ("must merge", True, False),
        ("must merge, allowed by the guards", True, True),
        ("must not", False, False),
        ("must not, allowed by the guards", False, True),
    ):
        cosines = [m.cosine for m in measured if m.pair.merge == merge and (m.allowed or not guarded)]
        spread = [f"{q:.3f}" for q in np.quantile(cosines, (0, 0.05, 0.5, 0.95, 1))] if cosines else ["-"] * 5
        print(f"| {label} | {len(cosines)} | {' | '.join(spread)} |")
    high = sum(m.cosine >= threshold for m in measured if not m.pair.merge)
    print(f"must-not pairs at or above the threshold that only the guards keep apart: {high}")
    for one in measured:
        if one.merges(threshold) != one.pair.merge:
            print(
                f"  {'missed' if one.pair.merge else 'WRONG'} ({one.cosine:.3f}): {one.pair.a} | {one.pair.b}"
            )


def main() -> int:
    """Measure, print, and write or compare the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the table would change")
    args = parser.parse_args()
    pairs, participants = load_pairs()
    before = TABLE.read_text(encoding="utf-8")
    # An embedder that is not installed here keeps its line.
    models: dict[str, object] = dict(json.loads(before)["models"])
    for status in available():
        if status.installed:
            measured = measure(open_embedder(status.model_id), pairs, participants)
            report(status.model_id, measured)
            models[status.model_id] = entry(measured)
    after = json.dumps({"version": VERSION, "models": dict(sorted(models.items()))}, indent=2) + "\n"
    if args.check:
        return int(after != before)
    TABLE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
