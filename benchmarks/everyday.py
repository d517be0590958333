"""Does the newest statement lead after a change that is told in everyday words?

Run ``python benchmarks/everyday.py`` (``--help`` for options). `benchmarks/everyday/*.toml` has cases by five hands who did
not see each other's or any rule: how something stood, how it stands since (or an end, or a plan whose day has come, or no change at
all), six other messages of the same person, and a question about the present. Each case becomes a memory of its own through
the public API. The first three files were looked at while `memforest.search.succession` was made, and the fourth, in indirect words, while its
data grew; the fifth was not. `languages` and `languages_second` are in Spanish, German, French and Chinese; the second was not looked at.

- new: the first evidence is what was said of the change;
- old: it is the former statement, which is right where nothing changed;
- other: it is something else;
- answered new, answered old: the answer of `ask` has the new value, or only the old one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from memforest import Config, MemForest
from proportions import Share

FOLDER = Path(__file__).parent / "everyday"
FIRST = datetime(2024, 2, 5, 10, tzinfo=timezone.utc)
ASKED = FIRST + timedelta(days=150)


def told(case: Mapping[str, Any], *, chat: bool) -> list[tuple[int, str]]:
    """Return what is said, each with its day: the chat on days before and after the change."""
    said = [(0, case["old"]), *([(40, case["new"])] if case["new"] else [])]
    said += [
        (10 + 5 * at if at % 2 == 0 else 60 + 5 * at, text) for at, text in enumerate(case["chat"]) if chat
    ]
    return sorted(said)


def kind_of(case: Mapping[str, Any]) -> str:
    """Return whether a case tells another value, an end without one, or no change."""
    if not case["changed"]:
        return "no change"
    return "another value" if case["answer_new"] else "an end"


def run(cases: Sequence[Mapping[str, Any]], config: Config, *, chat: bool) -> dict[str, Counter[str]]:
    """Return how often each outcome came, by kind of case."""
    found: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder, MemForest(folder, config) as forest:
        for number, case in enumerate(cases):
            user, counts = forest.user(f"case-{number}"), found.setdefault(kind_of(case), Counter())
            for day, text in told(case, chat=chat):
                at = (FIRST + timedelta(days=day)).isoformat()
                user.add([{"role": "user", "content": text, "timestamp": at}], session_id=f"day-{day}")
            first = next(iter(user.search(case["question"], reference_date=ASKED.isoformat())), None)
            turn = "" if first is None else first.sources[0].session_id
            counts["cases"] += 1
            counts[{"day-40": "new", "day-0": "old"}.get(turn, "other")] += 1
            answer = (user.ask(case["question"], reference_date=ASKED.isoformat()).answer or "").casefold()
            values = {which: case[f"answer_{which}"].casefold() for which in ("new", "old")}
            given = next((which for which, value in values.items() if value and value in answer), None)
            if given is not None:
                counts[f"answered {given}"] += 1
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--files", nargs="+", default=["first", "second", "third", "fourth", "fifth"])
    parser.add_argument("--embedder", default="minilm-l6-v2-int8")
    parser.add_argument("--reranker", action="store_true")
    options = parser.parse_args()
    config = Config(embedder=options.embedder, reranker="local" if options.reranker else None)
    for name in options.files:
        cases = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))["case"]
        for chat in (False, True):
            for kind, counts in run(cases, config, chat=chat).items():
                shares = (f"{one} {Share(counts[one], counts['cases'])}" for one in ("new", "old", "other"))
                answers = (f"{one} {counts[one]}" for one in ("answered new", "answered old"))
                print(
                    f"{name}, {'among chat' if chat else 'alone'}, {kind} (n={counts['cases']}):",
                    *shares,
                    *answers,
                    sep="  ",
                )


if __name__ == "__main__":
    main()
