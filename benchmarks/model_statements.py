"""How many true statements do the checks of a model's reply refuse, and how many false ones pass?

    python benchmarks/model_statements.py [--show] [FILE ...]

Each file of `benchmarks/statements` has talks, and for each some statements that a model could read out of it: true ones,
and distorted ones with what was done to them. `first.toml` was written before the checks were reworked; each of the others
after what the one before had shown was mended (the ninth with the eighth). No statement was changed when its figure was
seen; what each set showed at first sight is in `docs/research/statements.md`. A statement is given to the checks alone, as the only one
of a reply, with the names in it listed as a model lists them; where capitals do not tell them, as in German, a talk has
those that there may be (`names`). Its quote, where the file gives none, is the whole of the last turn that it names. It has
passed if a candidate comes of it. Intervals are Wilson's, at 95%.

`replies.toml` is of another kind: every statement has its quote, and whole replies are there as a model wrote them
(`replies`). It says what must be kept and what must be refused, whatever way the checks go.

Kinds of true statements: near to the words (plain), a bare answer with its question (answer, duration), "it" and "there"
resolved (reference), a name mended (typo), numbers written otherwise (number), other words (paraphrase), denials
(negation), another language (translated). Kinds of false ones: another number, name or date, a denial turned round
(negation), a plan told as done (intent), said of somebody else (who), one word exchanged (value), two parts exchanged
(relation), something true with something made up (added), all made up (invented), what a turn orders (instruction), a
worked example (copied).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from memforest.errors import ReplyError
from memforest.ports import ChatReply
from memforest.reading.extract_llm import check_extraction
from memforest.reading.prompts import read_reply
from memforest.reading.replies import Extraction, FactReply
from memforest.reading.reply_checks import ChunkSource, read_source
from memforest.records import Chunk, Turn

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent / "statements"
SETS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"),
    *("eleventh", "twelfth", "thirteenth", "fourteenth"),
)
REPLIES = FOLDER / "replies.toml"
"""In the order in which they were written."""
SAID = "2031-05-14T18:00:00Z"
"""When a talk without a time was said: a Wednesday."""
Z_95 = 1.96


@dataclass(frozen=True, slots=True)
class Case:
    """A statement, whether it is true, and the reason for which the checks refused it; None if it passed."""

    domain: str
    kind: str
    true: bool
    text: str
    reason: str | None


def cases(path: Path) -> Iterator[Case]:
    """Yield the statements of a file, judged by the checks."""
    for talk in tomllib.loads(path.read_text(encoding="utf-8"))["talk"]:
        source = _source(talk)
        first = len(talk.get("before", ()))
        for true in (True, False):
            for kind, text, turns, *more in talk.get("true" if true else "false", ()):
                given = {"entities": _listed(text, talk), "quote": _last(talk, turns), **dict(*more)}
                row = {"text": text, "turns": [first + at for at in turns], **given}
                reason = _refused(source, Extraction(statements=[FactReply.model_validate(row)]))
                yield Case(talk["domain"], kind, true, text, reason)
        for kind, true, said in talk.get("replies", ()):
            try:
                reason = _refused(source, read_reply(ChatReply(said), Extraction))
            except ReplyError as exc:
                reason = str(exc)
            yield Case(talk["domain"], kind, true, said, reason)


def _source(talk: Mapping[str, Any]) -> ChunkSource:
    said = datetime.fromisoformat(talk.get("said", SAID).replace("Z", "+00:00"))
    before = talk.get("before", [])
    turns = []
    for at, line in enumerate((*before, *talk["turns"])):
        speaker, _, text = line.partition(": ")
        turns.append(Turn(str(at), speaker, text, said, at, talk.get("roles", {}).get(speaker)))
    people = tuple(dict.fromkeys(turn.speaker for turn in turns))
    chunk = Chunk("s", 0, tuple(turns[len(before) :]), tuple(turns[: len(before)]), people)
    return read_source(chunk, timezone.utc)


def _last(talk: Mapping[str, Any], turns: Sequence[int]) -> str:
    """Return what is said in the last of some turns."""
    return str(talk["turns"][turns[-1]].partition(": ")[2]) if turns else ""


def _refused(source: ChunkSource, reply: Extraction) -> str | None:
    """Return why no statement of a reply was kept; None if one was."""
    kept, skipped = check_extraction(reply, source)
    return None if kept else skipped[0].reason if skipped else "nothing is said"


def _listed(text: str, talk: Mapping[str, Any]) -> list[str]:
    """Return the names that a model would list: those of the talk, if it tells them, else by their capitals."""
    if "names" in talk:
        return [name for name in talk["names"] if name in text]
    return _names(text)


def _names(text: str) -> list[str]:
    """Return the runs of capitalised words that do not begin the sentence."""
    runs: list[list[str]] = [[]]
    for word in text.replace("'s", "").split()[1:]:
        if word[0].isupper():
            runs[-1].append(word.strip(",:;"))
        elif runs[-1]:
            runs.append([])
    return [" ".join(run).rstrip(".") for run in runs if run]


def interval(hits: int, n: int) -> tuple[float, float]:
    """Return the Wilson interval of a share, in percent (Wilson 1927)."""
    if n == 0:
        return 0.0, 100.0
    share, z2 = hits / n, Z_95**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_95 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return 100 * max(0.0, middle - half), 100 * min(1.0, middle + half)


def table(found: Sequence[Case], *, true: bool) -> list[str]:
    """Return lines: of the true ones the share that was refused, of the false ones the share that passed."""
    mine = [one for one in found if one.true is true]
    wrong = [one for one in mine if (one.reason is not None) is true]
    all_, bad = Counter(one.kind for one in mine), Counter(one.kind for one in wrong)
    head = "true and refused" if true else "false and accepted"
    lines = [_line(head, len(wrong), len(mine))]
    lines += [_line(f"  {kind}", bad[kind], count) for kind, count in sorted(all_.items())]
    return lines


def _line(what: str, hits: int, n: int) -> str:
    low, high = interval(hits, n)
    return f"{what:22}{hits:4} of {n:4}{100 * hits / max(1, n):8.1f} %   [{low:.1f}, {high:.1f}]"


def shown(found: Iterable[Case]) -> Iterator[str]:
    """Yield the statements that were judged wrongly."""
    for one in found:
        if (one.reason is not None) is one.true:
            yield f"  {'true ' if one.true else 'false'} {one.kind:12} {one.text}  -> {one.reason or 'accepted'}"


def main(arguments: Sequence[str]) -> int:
    """Print the tables; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="*", help="all of benchmarks/statements without")
    parser.add_argument("--show", action="store_true", help="print the statements that were judged wrongly")
    options = parser.parse_args(arguments)
    everything: list[Case] = []
    for path in options.files or [FOLDER / f"{name}.toml" for name in SETS]:
        found = list(cases(path))
        everything += found
        head = [table(found, true=True)[0], table(found, true=False)[0]]
        print(f"{path.stem}: {len(found)} statements of {len({one.domain for one in found})} domains")
        print("\n".join((*head, *(shown(found) if options.show else ()), "")))
    print(f"all: {len(everything)} statements of {len({one.domain for one in everything})} domains")
    print("\n".join((*table(everything, true=True), *table(everything, true=False))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
