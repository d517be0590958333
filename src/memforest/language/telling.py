"""The table of ways in which a language tells a state: ``data/states``, read and compiled.

A table has ``words`` (lists by role), ``macros``, ``slots`` (states that have verbs of their own), ``nouns`` (states that a
noun of somebody's names) and ``turns`` (changes that do not say of what). Its patterns are matched from the beginning of a
predicate; ``{v}`` stands for a value, ``{o}`` for the one before it, ``{n}`` for a noun, and other names for macros.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Literal

from memforest.language.language import load_word_lists

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LANGUAGES = ("en", "es")
"""Languages with a table, in the order in which they are tried."""
UNSPECIFIED = "unspecified"
"""The attribute of a change that does not say what it is a change of."""
NAME, OTHER = "§", "¤"
"""Stand for every character of a known name, so that one pattern fits all: the subject's own, and other people's."""

Change = Literal["is", "start", "end"]

_PHRASE = r"[^\W\d_][\w-]*(?: [^\W\d_][\w-]*){0,3}"


@dataclass(frozen=True, slots=True)
class Telling:
    """One way of telling: of which attribute, which change, and the pattern of the predicate.

    The pattern's group ``v`` is the value, ``o`` the one before it, ``n`` the noun that names the attribute. A value at
    the pattern's end is only its beginning: it goes on as long as a value can. `plain` values need no capital.
    """

    attribute: str
    change: Change
    regex: re.Pattern[str]
    plain: bool = False
    past: bool = False
    """Told in the past: over, unless it is dated."""
    opens: str = ""
    """The group at the pattern's end."""


@dataclass(frozen=True, slots=True)
class Table:
    """One language's table, compiled. `words` are its lists by role."""

    words: Mapping[str, frozenset[str]]
    clause: re.Pattern[str]
    unreal: re.Pattern[str]
    conditional: re.Pattern[str]
    lead: re.Pattern[str]
    """Adverbs in front of a subject."""
    front: re.Pattern[str]
    """Adverbs and reports of the subject's in front of a predicate."""
    pronoun: re.Pattern[str]
    tellings: tuple[Telling, ...]
    nouns: tuple[Telling, ...]
    """Those behind "Ada's bank", and those of "Ada changed her bank"."""
    changed: tuple[Telling, ...]
    inverse: re.Pattern[str]
    of: re.Pattern[str] | None
    noun: re.Pattern[str]
    """A question for a noun of somebody's."""
    subject: re.Pattern[str]
    """A question for a state of "Ada's brother"."""
    ask: tuple[tuple[str, re.Pattern[str]], ...]


@lru_cache(maxsize=len(LANGUAGES))
def load_table(code: str) -> Table:
    """Return the table of one of `LANGUAGES`, read once per process from the package's data."""
    path = resources.files("memforest") / "data" / "states" / f"{code}.toml"
    raw: Mapping[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    lists: Mapping[str, str] = raw["words"]
    words = {role: frozenset(text.split()) for role, text in lists.items()}
    words["no_value"] = words["stops"] | words["pronouns"] | words["unreal"]
    words["calendar"] = load_word_lists(code).lists.get("not_names", frozenset())
    words["ends_noun"] |= words["stops"]
    macros = {name: text.replace("{name}", f"{NAME}+") for name, text in raw["macros"].items()}
    nouns, joins = raw["nouns"], _any_of(lists["joins"])
    owned = macros | {"n": r"(?P<n>(?-i:[^\W\d_A-Z][\w-]*)(?: (?-i:[^\W\d_A-Z][\w-]*)){0,2}?)"}
    front = rf"(?:(?:{_any_of(lists['adverbs'])}),? |{raw['report']['says'].replace('{name}', f'{NAME}+')})*"
    return Table(
        words=words,
        clause=re.compile(rf"[,;:] (?:(?P<join>{joins}) )?|(?<!\w)(?P<alone>{joins}) ", re.IGNORECASE),
        unreal=re.compile(
            rf"(?:(?:{_any_of(lists['helping'])}) )*(?:{_any_of(lists['unreal'])}|\w+n't)(?!\w)",
            re.IGNORECASE,
        ),
        conditional=re.compile(rf"(?:{_any_of(lists['conditional'])})(?!\w)", re.IGNORECASE),
        lead=re.compile(rf"(?:(?:{_any_of(lists['adverbs'])}),? )*", re.IGNORECASE),
        front=re.compile(front, re.IGNORECASE),
        pronoun=re.compile(rf"(?:{_any_of(lists['pronouns'])}) ", re.IGNORECASE),
        tellings=tuple(one for name, slot in raw["slots"].items() for one in _tellings_of(name, slot, macros))
        + tuple(_compiled(UNSPECIFIED, raw["turns"], macros, plain=True)),
        nouns=tuple(_compiled("", nouns, macros)),
        changed=tuple(_compiled("", {"start": nouns["changed"]}, owned)),
        inverse=re.compile(
            rf"{macros['be']} (?P<owner>{OTHER}+)'s (?P<n>{_PHRASE})(?=[\s.,;!]|$)", re.IGNORECASE
        ),
        of=re.compile(nouns["of"], re.IGNORECASE) if "of" in nouns else None,
        noun=re.compile("|".join(nouns["ask"]).replace("{n}", f"(?P<n>{_PHRASE})")),
        subject=re.compile(nouns["asked"].replace("{n}", r"(?P<n>\w+)")),
        ask=tuple((name, re.compile(text)) for name, slot in raw["slots"].items() for text in slot["ask"]),
    )


def _any_of(text: str) -> str:
    return "|".join(sorted(text.split(), key=len, reverse=True))


def _tellings_of(attribute: str, slot: Mapping[str, Any], macros: Mapping[str, str]) -> Iterator[Telling]:
    """Yield the ways of telling one of the states that have verbs of their own."""
    parts, plain = {**macros, "at": slot.get("at", "")}, bool(slot.get("plain"))
    if base := slot.get("base"):
        parts |= {"base": base}
        yield from _compiled(attribute, {"end": ["{over} {base}"], "is": ["{base}"]}, parts, plain=plain)
    yield from _compiled(attribute, slot, parts, plain=plain)


def _compiled(
    attribute: str, sources: Mapping[str, Any], parts: Mapping[str, str], *, plain: bool = False
) -> Iterator[Telling]:
    changes: tuple[tuple[str, Change], ...] = (
        ("start", "start"),
        ("end", "end"),
        ("is", "is"),
        ("was", "is"),
    )
    for name, change in changes:
        for source in sources.get(name, ()):
            text = source
            for _ in range(3):  # macros in macros
                for part, pattern in parts.items():
                    text = text.replace(f"{{{part}}}", pattern)
            opens = text[-2:-1] if text.endswith(("{v}", "{o}")) else ""
            for group in "vo":
                text = text.replace(f"{{{group}}}", rf"(?P<{group}>\S{'' if group == opens else '.{0,60}?'})")
            yield Telling(attribute, change, re.compile(text, re.IGNORECASE), plain, name == "was", opens)


def noun_name(text: str, table: Table) -> tuple[str, bool]:
    """Return the name of an attribute from a noun phrase, without "new", and whether the phrase makes it a former one."""
    words = text.lower().split()
    former = any(word in table.words["former"] for word in words)
    drop = table.words["qualifiers"] | table.words["former"] | table.words["determiners"]
    while words and words[0] in drop:
        del words[0]
    while words and words[-1] in drop:
        del words[-1]
    favourite = table.words["favourite"]
    return " ".join(max(favourite) if word in favourite else word for word in words), former


def asked_state(question: str, mask: str) -> str | None:
    """Return the attribute that a question asks for: one with verbs of its own, else a noun of somebody's.

    Args:
        question: lower case, with `mask` for every name.
        mask: as in the question.

    Example:
        >>> asked_state("where did § live before lille?", "§"), asked_state("who is §'s new dentist?", "§")
        ('residence', 'dentist')
    """
    masked = question.replace(mask, NAME)
    for code in LANGUAGES:
        table = load_table(code)
        owned = table.subject.search(masked)
        for attribute, pattern in table.ask:
            if pattern.search(masked):
                return f"{owned['n']}.{attribute}" if owned else attribute
        found = table.noun.search(masked)
        if found is not None:
            words = found["n"].split()
            end = next((i for i, word in enumerate(words) if word in table.words["ends_noun"]), len(words))
            return noun_name(" ".join(words[:end]), table)[0] or None
    return None


def holds_many(attribute: str) -> bool:
    """Return whether several values of an attribute hold at once, so that a new one ends none of the old.

    >>> holds_many("brother"), holds_many("residence")
    (True, False)
    """
    noun = attribute.rpartition(".")[2].rpartition(" ")[2]
    return any(noun in load_table(code).words["many"] for code in LANGUAGES)
