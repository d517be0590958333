"""Run the adapters' tests and the frameworks' own tests of stores and sessions, and print a table of what passed.

Two virtual environments are made below ``.integrations/``, with pip's ordinary configuration. The frameworks' tests are taken
from their source distributions of the installed versions; `suites.py` puts our classes in the place of theirs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORK = ROOT / ".integrations"
MOST_S = 900.0
"""How long the tests of one framework may take."""
TOOLS = ["pytest", "pytest-asyncio", "pytest-mock", "pytest-timeout", "hypothesis"]
FIRST = ["langgraph>=1.2,<2", "langgraph-checkpoint>=4.3,<5", "langgraph-checkpoint-sqlite", "langchain-core>=1.8,<2",
         "langchain-tests>=1.1,<2", "openai-agents>=0.24,<0.25", "pydantic-ai-slim>=2.68,<3", "anthropic>=2.12,<3"]  # fmt: skip
SECOND = ["google-adk>=2.13,<3", "mem0ai>=2.2,<2.3"]
THEIRS = {
    "langgraph-checkpoint": ["tests/test_store.py"],
    "langgraph-checkpoint-sqlite": ["tests/test_store.py", "tests/test_async_store.py"],
    "openai-agents": ["tests/memory/test_session.py", "tests/memory/test_session_limit.py"],
}
"""Package -> those of its tests that run on our class."""
OURS = {
    "first": {
        "langgraph": "test_langgraph.py", "langchain-core": "test_langchain.py", "openai-agents": "test_openai_agents.py",
        "pydantic-ai-slim": "test_pydantic_ai.py", "anthropic": "test_claude.py", "all of these": "test_same_talk.py test_examples.py",
    },
    "second": {"google-adk": "test_google_adk.py test_examples.py", "mem0ai": "test_mem0.py"},
}  # fmt: skip


def environment(name: str, packages: list[str]) -> Path:
    """Return the Python of an environment with these packages and memforest, made at the first call."""
    python = WORK / name / "bin" / "python"
    if not python.exists():
        venv.create(WORK / name, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "-e", str(ROOT), *packages, *TOOLS], check=True)
    return python


def version_of(python: Path, package: str) -> str:
    """Return the installed version of a package; "" for what is none."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=False).stdout.strip()


def source_of(python: Path, package: str, version: str) -> Path:
    """Return the unpacked source distribution of a package."""
    folder = WORK / "sources" / f"{package.replace('-', '_')}-{version}"
    if not folder.exists():
        download = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*download, "-d", str(WORK / "sources"), f"{package}=={version}"], check=True)
        with tarfile.open(f"{folder}.tar.gz") as archive:
            archive.extractall(folder.parent, filter="data")
    return folder


def run(python: Path, folder: Path, tests: list[str], *more: str) -> tuple[Counter[str], Counter[str]]:
    """Run tests, and return how many ended how, and why those that do not apply do not."""
    report = WORK / "report.xml"
    report.unlink(missing_ok=True)
    call = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *more, *tests]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests_integrations")])
    counts, reasons = Counter[str](), Counter[str]()
    try:
        subprocess.run(call, cwd=folder, env={**os.environ, "PYTHONPATH": paths}, check=False, timeout=MOST_S)
    except subprocess.TimeoutExpired:
        print(f"{', '.join(tests)}: no end within {MOST_S:.0f} s", file=sys.stderr)
    if not report.exists():  # it was ended from outside, or did not begin
        return Counter(error=1), reasons
    for case in ET.parse(report).iter("testcase"):
        kind = next((one.tag for one in case if one.tag in ("failure", "error", "skipped")), "passed")
        counts[kind] += 1
        if kind == "skipped":
            reasons[str(next(iter(case)).get("message")).removeprefix("not applicable: ")] += 1
    return counts, reasons


def main() -> int:
    """Run all, print the table, and return the exit code."""
    WORK.mkdir(exist_ok=True)
    rows, whys, failed = list[str](), Counter[str](), 0
    for name, packages in (("first", FIRST), ("second", SECOND)):
        python = environment(name, packages)
        jobs = [
            (package, "ours", ROOT / "tests_integrations", tests.split(), [])
            for package, tests in OURS[name].items()
        ]
        for package, tests in THEIRS.items() if name == "first" else ():
            source = source_of(python, package, version_of(python, package))
            more = ["-p", "suites", "--rootdir", ".", "-o", "asyncio_mode=auto"]
            jobs.append((package, "theirs", source, tests, more))
        for package, whose, folder, tests, options in jobs:
            counts, reasons = run(python, folder, tests, *options)
            whys += reasons
            failed += counts["failure"] + counts["error"]
            figures = (
                sum(counts.values()),
                counts["passed"],
                counts["failure"] + counts["error"],
                counts["skipped"],
            )
            rows.append(
                f"| {package} {version_of(python, package)} | {whose} | {' | '.join(map(str, figures))} |"
            )
    print("| framework | whose tests | run | passed | failed | not applicable |\n|---|---|---|---|---|---|")
    print("\n".join(rows))
    for why, count in whys.most_common():
        print(f"- {count} not applicable: {why}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
