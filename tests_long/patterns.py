"""Every compiled pattern of the package, and texts made to wear each of them out.

An adversarial text repeats the beginning of what a pattern matches, without its end: where a pattern looks for that
end anew at every place (or in every way), its time grows with the square of the text.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import memforest
from memforest.errors import MissingPackageError

sre: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

__all__ = ["Used", "attacks", "patterns"]

Used = tuple[str, re.Pattern[str], str]
"""Where a pattern stands, the pattern, and the method that is called with it."""

_LANGUAGES = (("en",), ("es",), ("fr",), ("de",), ("any",))
_METHODS = ("fullmatch", "match", "search", "findall", "finditer", "sub", "split", "subn")


def _modules() -> Iterator[ModuleType]:
    for one in pkgutil.walk_packages(memforest.__path__, "memforest."):
        if not one.name.endswith("__main__"):
            with suppress(MissingPackageError):  # an adapter, and its framework is not here
                yield importlib.import_module(one.name)


def _inside(thing: Any, name: str, seen: set[int]) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield the patterns in a value, itself or in its containers and fields, with the name that each is used by."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    inner: list[tuple[str, Any]] = []
    if isinstance(thing, re.Pattern):
        yield name, thing
    elif isinstance(thing, Mapping):
        inner = [(name, one) for one in thing.values()]
    elif isinstance(thing, (tuple, list, frozenset, set)):
        inner = [(name, one) for one in thing]
    elif isinstance(thing, type) and thing.__module__.startswith("memforest"):
        inner = [pair for pair in vars(thing).items() if isinstance(pair[1], (re.Pattern, tuple, Mapping))]
    elif is_dataclass(thing):
        inner = [(field.name, getattr(thing, field.name, None)) for field in fields(thing)]
    for own, one in inner:
        yield from _inside(one, own, seen)


def _uses(tree: ast.AST) -> tuple[dict[str, set[str]], list[tuple[str, str, int]]]:
    """Return the methods that each name is used with, and the patterns that are written where they are used."""
    methods: dict[str, set[str]] = {}
    inline: list[tuple[str, str, int]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _METHODS:
            owner = node.value
            name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
            methods.setdefault(name, set()).add(node.attr)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            of, first = node.func.value, node.args[0] if node.args else None
            if isinstance(of, ast.Name) and of.id == "re" and isinstance(first, ast.Constant):
                inline.append((str(first.value), node.func.attr, node.lineno))
    return methods, inline


def patterns() -> list[Used]:
    """Return every pattern of the package once: of module globals, of data files as they are loaded, and inline."""
    found: dict[tuple[str, int], Used] = {}
    seen: set[int] = set()

    def keep(place: str, pattern: re.Pattern[str], methods: set[str]) -> None:
        at_a_place = methods and not methods - {"match", "fullmatch"}
        method = sorted(methods)[-1] if at_a_place else "search"
        if isinstance(pattern.pattern, str):
            found.setdefault((pattern.pattern, pattern.flags), (place, pattern, method))

    uses = {one: _uses(ast.parse(Path(str(one.__file__)).read_text(encoding="utf-8"))) for one in _modules()}
    anywhere: dict[str, set[str]] = {}  # a field is used in other modules than where its pattern was made
    for of_module, _ in uses.values():
        for name, used in of_module.items():
            anywhere.setdefault(name, set()).update(used)
    for module, (methods, inline) in uses.items():
        for name, value in vars(module).items():
            loads = hasattr(value, "cache_info") and value.__module__ == module.__name__
            for made in _loaded(value) if loads else (value,):
                for own, pattern in _inside(made, name, seen):
                    keep(f"{module.__name__}.{name}", pattern, methods.get(own) or anywhere.get(own, set()))
        for source, method, line in inline:
            keep(f"{module.__name__}:{line}", re.compile(source), {method})
    return list(found.values())


def _loaded(loader: Any) -> Iterator[Any]:
    """Yield what a remembering loader returns: without an argument, or for each language of the package."""
    taken = list(inspect.signature(loader).parameters)
    for arguments in ((),) if not taken else _LANGUAGES if taken == ["code"] else ():
        with suppress(OSError):  # it has no data for that language
            yield loader(*arguments)


_UNITS = (
    "a ",
    "a",
    " ",
    "\n",
    "1 ",
    "1",
    "Ann ",
    "Ann's ",
    ".",
    ", ",
    '"',
    "(",
    "[a",
    "-",
    "'",
    "aA1 .",
    "東",
    "https://a.",
)


def _witness(parsed: Any, random: Random) -> str:
    """Return a text like those that a pattern matches; what it looks around for is left out."""
    return "".join(_part(op, argument, random) for op, argument in parsed)


def _part(op: Any, argument: Any, random: Random) -> str:
    name = str(op)
    if name == "LITERAL":
        return chr(argument)
    if name == "BRANCH":
        return _witness(random.choice(argument[1]), random)
    if name == "SUBPATTERN":
        return _witness(argument[3], random)
    if name == "ATOMIC_GROUP":
        return _witness(argument, random)
    if name.endswith("_REPEAT"):
        least, most, inner = argument
        return "".join(
            _witness(inner, random) for _ in range(random.randint(least, min(int(most), least + 2)))
        )
    if name == "IN":
        return _of_class(random.choice(argument))
    return {"ANY": "a", "NOT_LITERAL": "a"}.get(name, "")


def _of_class(one: Any) -> str:
    name, argument = str(one[0]), one[1]
    if name == "LITERAL":
        return chr(argument)
    if name == "RANGE":
        return chr(argument[0])
    if name == "CATEGORY":
        return {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_NOT_WORD": " "}.get(
            str(argument), "a"
        )
    return "a"


def attacks(pattern: re.Pattern[str], length: int) -> Iterator[str]:
    """Yield texts of a length: units over and over, and beginnings of what the pattern matches before and as them."""
    random = Random(ascii(pattern.pattern))
    parsed = sre.parse(pattern.pattern, pattern.flags)
    for unit in _UNITS:
        yield (unit * length)[:length]
    words = sorted(set(re.findall(r"[^\W\d_]{2,}", re.sub(r"\\.", " ", pattern.pattern))))
    for word in random.sample(words, min(len(words), 12)):
        yield (f"{word} " * length)[:length]
    for witness in dict.fromkeys(_witness(parsed, random) for _ in range(5)):
        if not witness:
            continue
        for unit in (witness, witness + " ", witness[:-1] + " ", witness[: len(witness) // 2 + 1]):
            yield (unit * length)[:length]
        for unit in ("a ", " ", witness.split(" ")[0] + " "):
            yield (witness[:-1] + unit * length)[:length]
