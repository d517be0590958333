"""What the documents say is so: their code runs and prints what stands there, and generated blocks are current.

`make docs` writes the generated blocks anew.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import io
import os
import re
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.doubles.replies import all_prompts
from tests.table import each

from memforest import AsyncMemForest, AsyncUserMemory
from memforest.config import Config, Explore, Ranking, Recall
from memforest.endpoint import STEPS, Budget, ChatEndpoint, EmbeddingEndpoint, Endpoint
from memforest.memory.verbs import options_of
from memforest.server.auth import AccessSettings, IssuerSettings
from memforest.server.jobs import IntakeBounds
from memforest.server.serving import ServerSettings
from memforest.settings import hints_of
from memforest.store.connections import PRAGMAS
from memforest.store.database import Database, ensure_schema
from memforest.trees.attached import INDEXES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
WRITE = "MEMFOREST_WRITE_DOCS" in os.environ


@dataclass(frozen=True, slots=True)
class Block:
    """A Python block of a page, and the text block behind it, which is what it must print."""

    page: str
    line: int
    code: str
    expected: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def _blocks() -> list[Block]:
    fence = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        fences = list(fence.finditer(text))
        for i, one in enumerate(fences):
            if one[1] == "python":
                behind = fences[i + 1] if i + 1 < len(fences) else None
                expected = behind[2] if behind is not None and behind[1] == "text" else None
                found.append(
                    Block(
                        page.relative_to(ROOT).as_posix(),
                        text.count("\n", 0, one.start()) + 1,
                        one[2],
                        expected,
                    )
                )
    return found


@pytest.mark.parametrize("block", _blocks(), ids=str)
def test_examples_run(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python block runs as it stands, in an empty directory, and prints the text block behind it."""
    if block.page == "docs/integrations.md":
        pytest.skip("its frameworks are not installed here; `make integrations` runs its programs")
    if block.page == "docs/encryption.md":
        pytest.importorskip("sqlcipher3", reason="the extra [encrypted] is not installed")
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.code, str(block), "exec"), {"__name__": "__main__"})
    assert block.expected in (None, printed.getvalue())


def test_readme_opens_with_an_example_of_eight_lines() -> None:
    """The README's first block is a program of at most eight lines, and its output is shown."""
    first = _blocks()[0]
    assert first.page == "README.md"
    assert len([line for line in first.code.splitlines() if line.strip()]) <= 8
    assert first.expected


def _anchors(page: Path) -> set[str]:
    """Return what a link may name behind ``#``: the headings of a page, as GitHub writes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def _broken(page: Path) -> list[str]:
    """Return the relative links of a page that lead to no file, or to no heading of it."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = []
    for link in re.findall(r"\]\(([^)\s]+)[^)]*\)", text):
        target, _, anchor = link.partition("#")
        file = page.parent / target if target else page
        if "://" not in link and not (
            file.exists() and (not anchor or file.suffix != ".md" or anchor in _anchors(file))
        ):
            found.append(f"{page.name}: {link}")
    return found


def test_links_lead_somewhere() -> None:
    """Every relative link names a file that is there, and a heading that this has."""
    assert [link for page in PAGES for link in _broken(page)] == []


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    """A missing file, and a missing heading of one that is there; code is not looked at."""
    page = tmp_path / "a.md"
    page.write_text(
        "# A `b`, c\n\n[x](#a-b-c) [y](#d) [z](e.md) [w](https://a.example)\n\n```text\n[v](f.md)\n```\n"
    )
    assert [one.split(": ")[1] for one in _broken(page)] == ["#d", "e.md"]


def _generated(page: Path, name: str) -> tuple[str, int, int]:
    text = page.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {name}: .*? -->\n(.*?)<!-- end {name} -->", text, re.DOTALL)
    assert found, f"{page.name} has no block {name!r}"
    return found[1], found.start(1), found.end(1)


def _check_block(page: Path, name: str, expected: str) -> None:
    shown, start, end = _generated(page, name)
    if WRITE and shown != expected:
        text = page.read_text(encoding="utf-8")
        page.write_text(text[:start] + expected + text[end:], encoding="utf-8")
        shown = expected
    assert shown == expected, f"docs/{page.name}: the block {name!r} is out of date; run `make docs`"


def _reference(kind: type) -> str:
    """Return the verbs of a class as Markdown: what each does, and a row for each option."""
    lines: list[str] = []
    for name, verb in [one for part in kind.__mro__ for one in vars(part).items()]:
        if name.startswith("_") or not inspect.iscoroutinefunction(inspect.unwrap(verb)):
            continue
        result = inspect.signature(verb).return_annotation
        lines += [
            f"### `{name}`",
            "",
            (inspect.getdoc(verb) or "").split("\n")[0],
            "",
            f"Returns `{result}`.",
            "",
        ]
        fields = options_of(verb).model_fields
        if fields:
            lines += ["| Option | Default | What it is |", "|---|---|---|"]
        for option, field in fields.items():
            default = "required" if field.is_required() else f"`{field.default!r}`"
            bounds = [f"at least {one.ge}" for one in _marks(field) if hasattr(one, "ge")]
            bounds += [f"at most {one.le}" for one in _marks(field) if hasattr(one, "le")]
            about = (field.description or "").replace("|", "\\|")
            lines.append(
                f"| `{option}` | {default} | {' '.join([about, *(f'({one})' for one in bounds)]).strip()} |"
            )
        lines += [""] if fields else []
    return "\n".join(lines) + "\n"


def _marks(field: Any) -> list[Any]:
    """Return the constraints of a field, also of one that may be None."""
    return [
        *field.metadata,
        *(mark for one in get_args(field.annotation) for mark in getattr(one, "__metadata__", ())),
    ]


def test_the_reference_has_every_option() -> None:
    """docs/reference.md is made from the models of the verbs' options."""
    page = ROOT / "docs" / "reference.md"
    _check_block(page, "user verbs", _reference(AsyncUserMemory))
    _check_block(page, "forest verbs", _reference(AsyncMemForest))


def test_the_pragmas_in_the_docs_are_those_in_use() -> None:
    """docs/storage.md names every pragma that a writing connection sets and reads back."""
    text = (ROOT / "docs" / "storage.md").read_text(encoding="utf-8")
    assert [name for name, _, _ in PRAGMAS if f"`{name}" not in text] == []


def test_every_table_is_told_to_be_persistent_or_derived(tmp_path: Path) -> None:
    """Derived tables are those whose name starts with ``derived_``; emptying them loses no persistent row."""
    db = Database(tmp_path / "a.db")
    try:
        ensure_schema(db)
        with db.read() as tx:
            tables = {row[0] for row in tx.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            into_derived = [
                name
                for name in tables
                if not name.startswith("derived_")
                for row in tx.execute(f"PRAGMA foreign_key_list({name})")
                if row[2].startswith("derived_")
            ]
    finally:
        db.close()
    assert {name for name in tables if name.startswith("derived_")}
    assert into_derived == []


def test_the_rooms_in_the_docs_are_those_enforced() -> None:
    """docs/architecture.md draws the layers of the import contract, and says of each room what its package says."""
    page = ROOT / "docs" / "architecture.md"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    lines = [layer.replace("memforest.", "") for layer in layers]
    _check_block(page, "rooms", "```text\n" + "\n".join(lines) + "\n```\n")
    rooms = [
        room for line in lines[1:-1] for room in re.split(r" [|:] ", line)
    ]  # without `testing`, and the root
    said = [
        (inspect.getdoc(importlib.import_module(f"memforest.{room}")) or "").split("\n")[0] for room in rooms
    ]
    rows = [f"| `{room}` | {what.rstrip('.')} |" for room, what in zip(rooms, said, strict=True)]
    _check_block(
        page, "what rooms are for", "| Room | What it is for |\n|---|---|\n" + "\n".join(rows) + "\n"
    )


def test_the_walks_in_the_docs_name_calls_that_there_are() -> None:
    """docs/architecture.md walks through one turn and one question: each name is defined in the file in front of it."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walks = page.split("## Two walks")[1].split("\n## ")[0]
    calls = re.findall(r"`([\w/]+)\.py`\s+`([\w.]+)`", walks)
    assert len(calls) > 12
    for file, name in calls:
        module = importlib.import_module(f"memforest.{file.replace('/', '.')}")
        found = attrgetter(name)(module)
        assert found.__module__ == module.__name__ or file == "memory/blocking"  # which wraps the async verb


def test_the_prompts_in_the_docs_are_those_in_use() -> None:
    """docs/prompts.md lists every prompt with its version, step, variables and reply."""
    rows = [
        f"| `{one.id}` | {one.version} | {one.step} | {', '.join(f'`{v}`' for v in sorted(one.variables))} "
        f"| {', '.join(f'`{name}`' for name in one.reply.model_fields)} |"
        for one in all_prompts()
    ]
    table = "| Prompt | Version | Step | Data | Reply |\n|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    _check_block(ROOT / "docs" / "prompts.md", "prompts", table)
    files = (ROOT / "src" / "memforest").rglob("prompts/*.toml")
    assert {file.stem for file in files} == {one.id for one in all_prompts()} | {"repair"}


def test_the_steps_in_the_docs_are_those_registered() -> None:
    """docs/prompts.md lists every step with what the model does in it."""
    rows = [f"| `{one.name}` | {one.does} | {'yes' if one.waits else 'no'} |" for one in STEPS.values()]
    table = "| Step | The model | Somebody waits for it |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    _check_block(ROOT / "docs" / "prompts.md", "steps", table)


def test_every_dependency_has_its_reason() -> None:
    """docs/architecture.md gives the reason for each package that is installed with memforest."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = (names for extra, names in project["optional-dependencies"].items() if extra != "dev")
    listed = [*project["dependencies"], *(name for names in extras for name in names)]
    names = [re.split(r"[^\w.-]", one, maxsplit=1)[0] for one in listed]
    assert [name for name in names if f"`{name}`" not in text] == []


def _default(code: str) -> str:
    """Return what a dataclass's ``field(...)`` makes where a value is not given."""
    return re.sub(
        r"field\(default=([^,)]+).*", r"\1", re.sub(r"field\(default_factory=(\w+).*", r"\1()", code)
    )


def _is_of_the_class(field: ast.AnnAssign) -> bool:
    return ast.unparse(field.target).startswith("_") or ast.unparse(field.annotation).startswith("ClassVar")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as its class declares it; `text` is the string under it."""

    name: str
    default: str
    text: str
    experimental: bool


def _settings(kind: type) -> list[Setting]:
    """Return the settings that a class declares itself."""
    tree = ast.parse(inspect.getsource(kind))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found = []
    for one, below in pairwise(body):
        if isinstance(one, ast.AnnAssign) and not _is_of_the_class(one):
            said = below.value if isinstance(below, ast.Expr) else None
            text = said.value if isinstance(said, ast.Constant) and isinstance(said.value, str) else ""
            code = "" if one.value is None else ast.unparse(one.value)
            apart = code.startswith("experimental(")
            default = _default(code.removeprefix("experimental(").removesuffix(")") if apart else code)
            found.append(Setting(ast.unparse(one.target), default, " ".join(text.split()), apart))
    return found


GROUPS: Mapping[str, type] = {
    "settings": Config,
    "endpoint": Endpoint,
    "chat": ChatEndpoint,
    "embeddings": EmbeddingEndpoint,
    "budget": Budget,
    "ranking": Ranking,
    "recall": Recall,
    "explore": Explore,
    **{f"index.{name}": made.Settings for name, made in INDEXES.items() if hints_of(made.Settings)},
    "server": ServerSettings,
    "access": AccessSettings,
    "issuer": IssuerSettings,
    "jobs": IntakeBounds,
}
"""Block of docs/configuration.md -> the class whose settings it lists."""


@each("name", list(GROUPS))
def test_settings_are_documented(name: str) -> None:
    """docs/configuration.md lists every setting that people set, with its default and what it does."""
    rows = [
        f"| `{one.name}` | {f'`{one.default}`' if one.default else 'required'} | {one.text.replace('``', '`')} |"
        for one in _settings(GROUPS[name])
        if not one.experimental
    ]
    assert all(not row.endswith("|  |") for row in rows)
    table = "| Setting | Default | What it does |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    _check_block(ROOT / "docs" / "configuration.md", name, table)


def test_experimental_settings_are_listed_apart() -> None:
    """With their defaults; what each does stands in its class."""
    rows = []
    for name, kind in GROUPS.items():
        apart = [one for one in _settings(kind) if one.experimental]
        assert all(one.text for one in apart)
        if apart:
            listed = ", ".join(f"`{one.name}` {one.default.strip(chr(39))}" for one in apart)
            rows.append(f"| {name} | `{kind.__module__}.{kind.__name__}` | {listed} |")
    table = "| Group | Class | Settings |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    _check_block(ROOT / "docs" / "configuration.md", "experimental", table)


def test_people_have_few_settings_to_know() -> None:
    """At most 90 over all groups; those of a class below another are counted where they are declared first."""
    known = {one.name for one in _settings(Endpoint)}
    public = [
        one
        for kind in GROUPS.values()
        for one in _settings(kind)
        if not one.experimental
        and (kind in (Endpoint, Config) or not issubclass(kind, Endpoint) or one.name not in known)
    ]
    assert 60 < len(public) <= 90


def test_every_setting_is_used() -> None:
    """No setting of `Config` is dead: each is read somewhere in the package."""
    code = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "src").rglob("*.py"))
    assert [
        name for name in Config.__dataclass_fields__ if not re.search(rf"(?:config|self)\.{name}\b", code)
    ] == []
