"""Are the dates that a memory reads out of sentences right, wrong, or left open?

Run ``python benchmarks/dated_sentences.py`` (``--help`` for options). 150 sentences with the time they were said go
through the public ingest path without a model, each in a memory of its own whose time zone is the speaker's. What the
memory then claims, as resolved dates and as stated valid times of its facts, is compared with what the row expects, in whole days:

- right: the claims are the expected dates, or one of the lists that are as good; nothing, where there is nothing to resolve;
- wrong: a date is claimed that is not expected;
- silent: nothing wrong is claimed, and something expected is not.

The rows were written by another hand without sight of the rules: one half before the rules for dates were, the other one
after, which nobody consults; so no row is ever printed. Both halves are reported.

``--conversations LOCOMO.json`` scores nothing: it prints the bare dates (weekdays, and months or days without a year) of a
file's turns with what was resolved, to be judged by reading.
"""

from __future__ import annotations

import argparse
import calendar
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dates.claims import Claim, claims_of
from dates.rows import HALVES, Outcome, Row, read_rows, score
from locomo.conversations import Conversation, read_conversations
from locomo.memories import build
from memforest import Config, MemForest
from proportions import Share

OUTCOMES: Sequence[Outcome] = ("right", "wrong", "silent")
PAGE = 500
_MONTHS = "|".join([*calendar.month_name[1:], *calendar.month_abbr[1:]])
BARE = re.compile(
    rf"\b(?:{_MONTHS})\b(?!\W*(?:\d\d?\w*,?\s+)?\d{{4}})"
    rf"|\b(?i:{'|'.join(calendar.day_name)})s?\b"
    r"|\bthe \d\d?(?:st|nd|rd|th)\b(?! of)|\b\d\d?/\d\d?\b(?!/)"
)
"""A weekday, a month without a year behind it, "the 5th", or "3/4"."""


def outcomes(rows: Sequence[Row], work: Path) -> list[Outcome]:
    """Ingest every row into a memory of its own and score what it claims."""
    found: dict[str, Outcome] = {}
    for zone in sorted({row.zone.key for row in rows}):
        with MemForest(work / zone.replace("/", "-"), Config(embedder="none", timezone=zone)) as forest:
            for row in (one for one in rows if one.zone.key == zone):
                forest.ingest_session(row.id, "said", row.turns)
                found[row.id] = score(row, {claim.days for claim in claims(forest, row)})
    return [found[row.id] for row in rows]


def claims(forest: MemForest, row: Row) -> Iterator[Claim]:
    """Yield what the memory of a row claims of its sentence, and not of the turn before it."""
    asked = row.turns[-1]["id"]
    for fact in facts_of(forest, row.id):
        if any(asked in source.turn_ids for source in fact.sources):
            yield from (one for one in claims_of(fact, row.zone) if not row.told_before(one.words))


def facts_of(forest: MemForest, user: str) -> Iterator[Any]:
    """Yield all facts of a memory."""
    offset: int | None = 0
    while offset is not None:
        page = forest.user(user).list(limit=PAGE, offset=offset)
        yield from page
        offset = page.next_offset


def table(rows: Sequence[Row], found: Sequence[Outcome]) -> dict[str, dict[str, Share]]:
    """Return shares of the outcomes: of all rows, of those with something to resolve, and of those without."""
    groups = {
        "all": list(found),
        "something to resolve": [one for row, one in zip(rows, found, strict=True) if row.resolvable],
        "nothing to resolve": [one for row, one in zip(rows, found, strict=True) if not row.resolvable],
    }
    return {
        name: {outcome: Share(group.count(outcome), len(group)) for outcome in OUTCOMES}
        for name, group in groups.items()
    }


def print_table(half: str, shares: dict[str, dict[str, Share]]) -> None:
    """Print the shares of one half, in percent with 95% intervals."""
    print(f"\n{half}: % of rows [95% Wilson interval]")
    print(f"{'':24}{'n':>5}" + "".join(f"{name:>22}" for name in OUTCOMES))
    for name, chunks in shares.items():
        print(f"{name:24}{chunks['right'].n:>5}" + "".join(f"{chunks[one]!s:>22}" for one in OUTCOMES))


def print_kinds(rows: Sequence[Row], found: Sequence[Outcome]) -> None:
    """Print how many rows of each kind had which outcome; most kinds have one or two rows."""
    counts: dict[str, Counter[str]] = {}
    for row, outcome in zip(rows, found, strict=True):
        counts.setdefault(row.kind, Counter())[outcome] += 1
    print(f"\n{'both halves, rows by kind':28}" + "".join(f"{name:>8}" for name in OUTCOMES))
    for kind in sorted(counts):
        print(f"{kind:28}" + "".join(f"{counts[kind][name] or '':>8}" for name in OUTCOMES))


def print_bare_dates(conversations: Sequence[Conversation], work: Path) -> None:
    """Print every turn that names a bare date, and what its facts claim."""
    with MemForest(work, Config(embedder="none")) as forest:
        build(forest, conversations)
        for conversation in conversations:
            resolved: dict[str, list[str]] = {}
            for fact in facts_of(forest, conversation.id):
                for claim in claims_of(fact, forest.config.zone):
                    shown = f"{claim.words + ' = ' if claim.words else ''}{claim.days[0]} to {claim.days[1]}"
                    for turn in (turn for source in fact.sources for turn in source.turn_ids):
                        resolved.setdefault(turn, []).append(shown)
            for session in conversation.sessions:
                for number, turn in enumerate(session.turns):
                    text = str(turn.get("text", ""))
                    if BARE.search(text):
                        name = str(turn.get("dia_id", number))
                        shown = "; ".join(dict.fromkeys(resolved.get(name, ()))) or "-"
                        print(f"{conversation.id} {name} {session.timestamp} | {text}\n    {shown}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--rows", type=int, default=None, metavar="N", help="the first N rows of each half only"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the shares, and the outcome of every row"
    )
    parser.add_argument(
        "--conversations", type=Path, metavar="LOCOMO", help="print bare dates of a LoCoMo file instead"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and print its tables; return the exit code."""
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="dated-sentences-") as work:
        if options.conversations:
            print_bare_dates(read_conversations(options.conversations), Path(work))
            return 0
        halves = {half: read_rows(half)[: options.rows] for half in HALVES}
        found = {half: outcomes(rows, Path(work) / half) for half, rows in halves.items()}
    for half, rows in halves.items():
        print_table(half, table(rows, found[half]))
    every = [row for rows in halves.values() for row in rows]
    outcome = [one for half in HALVES for one in found[half]]
    print_table("both", table(every, outcome))
    print_kinds(every, outcome)
    if options.json:
        report = {
            half: {
                "shares": {
                    group: {name: share.as_json() for name, share in chunks.items()}
                    for group, chunks in table(rows, found[half]).items()
                },
                "rows": {row.id: one for row, one in zip(rows, found[half], strict=True)},
            }
            for half, rows in halves.items()
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
