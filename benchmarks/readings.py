"""How often is a statement read rightly: what it says of a person and a value, as it was said or as it is indexed?

Run ``python benchmarks/readings.py`` (``--help`` for options). Every statement of ``reading/statements.toml`` is a turn of
a chat of two people; what the keyless extractor makes of it is read by `memforest.reading.stance`. A value is read
rightly when the stance is one of those that the statement is labelled with: so, begun, back, ended, or none of these.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from time import process_time

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from memforest.reading.extract_local import LocalExtractor
from memforest.reading.phrases import read_statement
from memforest.reading.stance import stances_of
from memforest.records import Chunk, Turn
from proportions import Share

PEOPLE = ("Lena", "Omar")
HOLDS = ("is", "start", "back", "end")
HALVES = ("development", "held")
SAID = datetime(2024, 8, 9, 12, tzinfo=timezone.utc)
FILE = Path(__file__).parent / "reading" / "statements.toml"


@dataclass(frozen=True, slots=True)
class Labelled:
    """One statement: who says it, whom it is about, and the stances to each value that are right."""

    speaker: str
    text: str
    who: str
    found: Mapping[str, frozenset[str]]


def load(half: str) -> list[Labelled]:
    """Return the statements of a half."""
    raw = tomllib.loads(FILE.read_text("utf-8"))[half]
    return [
        Labelled(speaker, text, who, {value: frozenset(right.split("|")) for value, right in found.items()})
        for speaker, text, who, found in raw
    ]


def read(one: Labelled) -> dict[str, str]:
    """Return value -> stance, "" where none holds, of what the extractor makes of a statement."""
    asked, _, text = one.text.rpartition(" -> ")
    other = next(name for name in PEOPLE if name != one.speaker)
    turns = [Turn("0", other, asked, SAID, 0)] if asked else []
    turns.append(Turn("1", one.speaker, text, SAID, 1))
    outcome = LocalExtractor(timezone="UTC").extract_chunk(Chunk("s", 0, tuple(turns), participants=PEOPLE))
    found = dict.fromkeys(one.found, "")
    others = [name for name in PEOPLE if name != one.who]
    for candidate in outcome.candidates:
        statement = read_statement(candidate.text)
        for value, stance in stances_of(
            statement, one.who, others, dict.fromkeys(one.found, 1.0), one.speaker
        ):
            if stance in HOLDS:
                found[value] = stance
    return found


def judged(half: str) -> Iterator[tuple[Labelled, str, str, bool]]:
    """Yield statement, value, what was read, and whether that is right."""
    for one in load(half):
        for value, stance in read(one).items():
            yield one, value, stance, stance in one.found[value]


def main() -> int:
    """Print the share of values read rightly, by half and by what was said."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--half", choices=HALVES, help="only this half")
    parser.add_argument("--wrong", action="store_true", help="print what is misread of the development half")
    options = parser.parse_args()
    for half in [options.half] if options.half else HALVES:
        began = process_time()
        rows = list(judged(half))
        print(f"{half}: {Share(sum(right for *_, right in rows), len(rows))} % of {len(rows)} values")
        for kind in (*HOLDS, ""):
            some = [right for one, value, _, right in rows if sorted(one.found[value])[-1] == kind]
            print(f"  {kind or 'none':6} {Share(sum(some), len(some))} of {len(some)}")
        if options.wrong and half == "development":
            for one, value, stance, right in rows:
                if not right:
                    print(
                        f"  {one.text}  {value}: {stance or 'none'}, not {'|'.join(sorted(one.found[value]))}"
                    )
        print(f"  {1000 * (process_time() - began) / len(rows):.1f} ms a value")
    return 0


if __name__ == "__main__":
    sys.exit(main())
