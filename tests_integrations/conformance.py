"""Run the adapters' tests and the frameworks' own tests of stores and sessions, and print a table of what passed.

Virtual environments are made below ``.integrations/``, with pip's ordinary configuration: two for the newest releases, as Google ADK
does not go together with the others, and two for the releases before. The frameworks' tests are taken from their source distributions of
those versions; `suites.py` puts our classes in the place of theirs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import venv
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

Counts = defaultdict[str, Counter[str]]

ROOT = Path(__file__).parent.parent
WORK = ROOT / ".integrations"
MOST_S = 900.0
"""How long one run of pytest may take. All of the first environment take about two minutes on two idle cores."""
TOOLS = ["pytest", "pytest-asyncio", "pytest-mock", "pytest-timeout", "pytest-xdist", "hypothesis"]
RELEASES = ("newest", "before")
VERSIONS = {
    "first": {
        "langgraph": ("1.2.24", "1.1.10"),
        "langgraph-checkpoint": ("4.3.2", "4.2.0"),
        "langgraph-checkpoint-sqlite": ("3.1.2", "3.0.3"),
        "langchain-core": ("1.8.3", "1.7.7"),
        "langchain-tests": ("1.1.9", "1.0.2"),
        "openai-agents": ("0.24.0", "0.23.1"),
        "pydantic-ai-slim": ("2.68.0", "2.66.0"),
        "anthropic": ("2.14.0", "2.13.0"),
    },
    "second": {"google-adk": ("2.13.0", "2.12.0"), "mem0ai": ("2.2.1", "2.1.0")},
}
"""Environment -> package -> the newest release, and the last one of the release line before it."""
THEIRS = {
    "langgraph-checkpoint": ["tests/test_store.py"],
    "langgraph-checkpoint-sqlite": ["tests/test_store.py", "tests/test_async_store.py"],
    "openai-agents": ["tests/memory/test_session.py", "tests/memory/test_session_limit.py"],
}
"""Package -> those of its tests that run on our class."""
OURS = {
    "first": {
        "test_langgraph": "langgraph", "test_langchain": "langchain-core", "test_openai_agents": "openai-agents",
        "test_pydantic_ai": "pydantic-ai-slim", "test_claude": "anthropic", "test_same_talk": "all of these",
        "test_examples": "all of these", "test_bad_input": "all of these",
    },
    "second": {"test_google_adk": "google-adk", "test_mem0": "mem0ai", "test_examples": "google-adk"},
}  # fmt: skip
"""Environment -> file of tests -> what it tests."""


def environment(name: str, release: str) -> Path:
    """Return the Python of an environment with its packages and memforest, made at the first call and when its versions change."""
    folder = WORK / f"{name}-{release}"
    python, made = folder / "bin" / "python", folder / "packages.txt"
    wanted = [
        *(f"{package}=={versions[RELEASES.index(release)]}" for package, versions in VERSIONS[name].items()),
        *TOOLS,
    ]
    if not made.exists() or made.read_text(encoding="utf-8").split("\n") != wanted:
        venv.create(folder, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "-e", str(ROOT), *wanted], check=True)
        made.write_text("\n".join(wanted), encoding="utf-8")
    return python


def source_of(python: Path, package: str, version: str) -> Path:
    """Return the unpacked source distribution of a package."""
    folder = WORK / "sources" / f"{package.replace('-', '_')}-{version}"
    if not folder.exists():
        download = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*download, "-d", str(WORK / "sources"), f"{package}=={version}"], check=True)
        with tarfile.open(f"{folder}.tar.gz") as archive:
            archive.extractall(folder.parent, filter="data")
    return folder


def run(python: Path, folder: Path, tests: list[str], *more: str) -> tuple[Counts, Counter[str]]:
    """Run tests, and return by file how many ended how, and why those that do not apply do not."""
    report = WORK / "report.xml"
    report.unlink(missing_ok=True)
    call = [python, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", "-p", "no:cacheprovider", f"--junitxml={report}"]  # fmt: skip
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests_integrations")])
    counts, reasons = Counts(Counter), Counter[str]()
    try:
        env = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
        if os.access("/dev/shm", os.W_OK):  # thousands of small writes, each of them made durable
            env["TMPDIR"] = "/dev/shm"
        subprocess.run([*call, *more, *tests], cwd=folder, env=env, check=False, timeout=MOST_S)
    except subprocess.TimeoutExpired:
        print(f"{', '.join(tests)}: no end within {MOST_S:.0f} s", file=sys.stderr)
    if not report.exists():  # it was ended from outside, or did not begin
        return Counts(Counter, {Path(tests[0]).stem: Counter(error=1)}), reasons
    for case in ET.parse(report).iter("testcase"):
        kind = next((one.tag for one in case if one.tag in ("failure", "error", "skipped")), "passed")
        place = f"{case.get('classname')}.{case.get('name')}".split(".")
        file = next((name for test in tests if (name := Path(test).stem) in place), Path(tests[0]).stem)
        counts[file][kind] += 1
        if kind == "skipped":
            reasons[str(next(iter(case)).get("message")).removeprefix("not applicable: ")] += 1
    return counts, reasons


def rows(name: str, release: str) -> Iterator[tuple[str, str, Counter[str], Counter[str]]]:
    """Run all tests of an environment; yield package, whose tests, how many ended how, and why some do not apply."""
    python = environment(name, release)
    counts, reasons = run(python, ROOT / "tests_integrations", [f"{one}.py" for one in OURS[name]])
    merged = Counts(Counter)
    for file, found in counts.items():
        merged[OURS[name][file]] += found
    for package, found in merged.items():
        yield package, "ours", found, reasons
        reasons = Counter()
    for package, tests in THEIRS.items() if name == "first" else ():
        source = source_of(python, package, VERSIONS[name][package][RELEASES.index(release)])
        counts, reasons = run(
            python, source, tests, "-p", "suites", "--rootdir", ".", "-o", "asyncio_mode=auto"
        )
        yield package, "theirs", sum(counts.values(), Counter()), reasons


def main() -> int:
    """Run all, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--newest", action="store_true", help="only the newest release of each framework")
    releases = RELEASES[:1] if parser.parse_args().newest else RELEASES
    WORK.mkdir(exist_ok=True)
    table, whys, failed = list[str](), Counter[str](), 0
    for release in releases:
        for name, packages in VERSIONS.items():
            for package, whose, counts, reasons in rows(name, release):
                bad = counts["failure"] + counts["error"]
                figures = (sum(counts.values()), counts["passed"], bad, counts["skipped"])
                version = packages.get(package, ("", ""))[RELEASES.index(release)]
                table.append(
                    f"| {package} {version or release} | {whose} | {' | '.join(map(str, figures))} |"
                )
                whys += reasons
                failed += bad
    print("| framework | whose tests | run | passed | failed | not applicable |\n|---|---|---|---|---|---|")
    print("\n".join(table))
    for why, count in whys.most_common():
        print(f"- {count} not applicable: {why}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
