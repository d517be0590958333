"""The state lexicon: what people say and ask about residence, employer, pets, …, as data.

One TOML file per language (`memforest/data/states/*.toml`) holds function words, verb forms, attributes with
their statement and question patterns, and question cues. This module reads a file and compiles it; the
patterns of a verb are compiled when the verb is first met. It knows nothing of a sentence's grammar.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any, Literal

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "LANGUAGES",
    "UNSPECIFIED",
    "Attribute",
    "Lexicon",
    "Noun",
    "Pattern",
    "Sense",
    "holds_many",
    "load_lexicon",
]

LANGUAGES = ("en", "es")
"""The languages with a lexicon, in the order in which they are tried."""

UNSPECIFIED = "unspecified"
"""The attribute of a change that names two values and not what they are values of."""

Sense = Literal["is", "habit", "start", "end", "noun_start"]

# In this order the patterns of one verb are tried.
_SENSES: tuple[Sense, ...] = ("start", "end", "is", "habit", "noun_start")
_NESTED = re.compile(r"\{(?:(?P<group>[a-z]+):)?(?P<type>[a-z_]+)\}")
_MACRO = re.compile(r"<([a-z]+)>(?!\))")
_FAVOURITE = "favourite:"
# What a word in front of the main verb does; of two roles the later one counts.
_HEAD_ROLES = (
    "adverbs", "modal", "report", "not", "ceased", "used", "inceptive", "cessative", "do", "have", "be",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pattern:
    """What may follow a verb, and the state that it then states.

    `types` pairs each named group of `regex` with the type its text must have. `attribute` is empty
    when the sentence names it itself.
    """

    attribute: str
    sense: Sense
    regex: re.Pattern[str]
    types: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: its name, the type of its values, and whether several values hold at once."""

    name: str
    type: str
    many: bool = False


@dataclass(frozen=True, slots=True)
class Noun:
    """What a noun phrase says about the state it names: attribute, value type, and whether it is over."""

    attribute: str
    type: str
    former: bool
    known: bool


@dataclass(frozen=True, slots=True)
class Lexicon:
    """One language's words and patterns, all lower case.

    `words` are lists of function words by role, `forms` maps a verb form to its (lemma, tag) pairs with
    the tags ``base``, ``now``, ``past``, ``part`` and ``ing``, `nouns` maps a noun phrase to its attribute.
    """

    code: str
    possessive: str
    words: Mapping[str, frozenset[str]]
    forms: Mapping[str, tuple[tuple[str, str], ...]]
    attributes: Mapping[str, Attribute]
    nouns: Mapping[str, str]
    kinds: Mapping[str, frozenset[str]]
    roles: Mapping[str, str]
    stops: re.Pattern[str]
    dated: re.Pattern[str]
    ask: tuple[tuple[str, re.Pattern[str]], ...]
    cues: Mapping[str, tuple[re.Pattern[str], ...]]
    cue_words: Mapping[str, frozenset[str]]
    sources: Mapping[str, tuple[tuple[str, Sense, str], ...]]
    macros: Mapping[str, str]
    compiled: dict[str, tuple[Pattern, ...]] = field(default_factory=dict)

    def patterns(self, lemma: str) -> tuple[Pattern, ...]:
        """Return the patterns of a verb, compiled at its first use; idempotent, so safe between threads."""
        found = self.compiled.get(lemma)
        if found is None:
            found = tuple(
                _compile_pattern(attribute, sense, rest, self.macros)
                for attribute, sense, rest in self.sources.get(lemma, ())
            )
            self.compiled[lemma] = found
        return found

    def noun(self, phrase: Iterable[str]) -> Noun | None:
        """Return what a noun phrase (lower-case words) names, or None if it is empty.

        Qualifiers ("new", "current") are dropped; "old" and "previous" make it a former value. A phrase
        that is not in the lexicon names itself, with ``known`` false.
        """
        words = [word for word in phrase if word not in self.words["articles"]]
        former = any(word in self.words["former_qualifiers"] for word in words)
        if any(word in self.words["favourite"] for word in words):
            rest = [word for word in words if word not in self.words["favourite"] | self.words["of"]]
            rest = [word for word in rest if word not in self.words["qualifiers"]]
            vague = not self.words["favourite_not"].isdisjoint(rest)
            return Noun(_FAVOURITE + " ".join(rest), "np", former, True) if rest and not vague else None
        while words and " ".join(words) not in self.nouns and words[0] in self.words["qualifiers"]:
            words = words[1:]
        while words and " ".join(words) not in self.nouns and words[-1] in self.words["qualifiers"]:
            words = words[:-1]
        if not words:
            return None
        attribute = self.nouns.get(" ".join(words))
        if attribute is None:
            return Noun(" ".join(words), "solid", former, False)
        return Noun(attribute, self.attributes[attribute].type, former, True)


def holds_many(attribute: str) -> bool:
    """Return whether several values of an attribute hold at once, so that a new one ends none of the old.

    >>> holds_many("pet"), holds_many("residence")
    (True, False)
    """
    known = load_lexicon("en").attributes.get(attribute.rpartition(".")[2])
    return known is not None and known.many


@lru_cache(maxsize=8)
def load_lexicon(code: str) -> Lexicon:
    """Return the lexicon of a language, read once per process from the package's data.

    Raises:
        FileNotFoundError: if the package carries no lexicon for `code`.
    """
    path = resources.files("memforest") / "data" / "states" / f"{code}.toml"
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    attributes = {
        name: Attribute(name, table.get("type", "np"), bool(table.get("many", False)))
        for name, table in raw["attributes"].items()
    }
    cues, slot = raw["cues"], raw["macros"]["slot"]
    return Lexicon(
        code=code,
        possessive=raw["possessive"],
        words=_read_words(raw["words"]),
        forms=_read_forms(raw["verbs"]),
        attributes=attributes,
        nouns={noun: name for name, table in raw["attributes"].items() for noun in table.get("nouns", ())},
        kinds={kind: frozenset(listed) for kind, listed in raw["kinds"].items()},
        roles={word: role for role in _HEAD_ROLES for word in raw["words"].get(role, ())},
        stops=_compile_stops(raw["stops"]["words"]),
        dated=re.compile(raw["stops"]["dated"], re.IGNORECASE),
        ask=tuple(
            (name, _compile_cue(source.replace("~", "@"), slot))
            for name, table in raw["attributes"].items()
            for source in table.get("ask", ())
        ),
        cues={
            name: tuple(
                _compile_cue(source, slot) for source in ([listed] if isinstance(listed, str) else listed)
            )
            for name, listed in cues.items()
            if name not in raw["cue_words"]
        },
        cue_words={name: frozenset(listed) for name, listed in raw["cue_words"].items()},
        sources=_read_sources(raw),
        macros=raw["macros"],
    )


def _read_words(raw: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """Return the lists of function words, and ``front``: what may stand in front of a value's own words."""
    words = {role: frozenset(listed) for role, listed in raw.items()}
    words["front"] = words["articles"] | words["qualifiers"] | words["adverbs"]
    return words


def _read_forms(verbs: Mapping[str, str]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return every verb form with the (lemma, tag) pairs it may stand for."""
    forms: dict[str, list[tuple[str, str]]] = {}
    for lemma, table in verbs.items():
        forms.setdefault(lemma, []).append((lemma, "base"))
        for tag, listed in zip(("now", "past", "part", "ing"), table.split("/"), strict=True):
            for form in listed.split():
                forms.setdefault(form, []).append((lemma, tag))
    return {form: tuple(dict.fromkeys(pairs)) for form, pairs in forms.items()}


def _read_sources(raw: Mapping[str, Any]) -> dict[str, tuple[tuple[str, Sense, str], ...]]:
    """Return the pattern sources by verb: (attribute, sense, text behind the verb), in the file's order."""
    found: dict[str, list[tuple[str, Sense, str]]] = {}
    tables = [*raw["attributes"].items(), ("", raw["open"])]
    for attribute, table in tables:
        for sense in _SENSES:
            for source in table.get(sense, ()):
                head, _, rest = source.partition(" ")
                for lemma in head.split("|"):
                    found.setdefault(lemma, []).append((attribute, sense, rest))
    return {lemma: tuple(listed) for lemma, listed in found.items()}


def _compile_pattern(attribute: str, sense: Sense, source: str, macros: Mapping[str, str]) -> Pattern:
    """Return one statement pattern; see the head of the TOML files for the notation."""
    text = _MACRO.sub(lambda match: macros.get(match.group(1), match.group()), source)
    types: dict[str, str] = {}

    def group(match: re.Match[str]) -> str:
        name = {None: "value", "old": "previous"}.get(match["group"], match["group"])
        name = "noun" if match["type"] == "noun" else str(name)
        types[name] = match["type"]
        greedy = "*" if match.end() == len(text) else "*?"
        return rf"(?P<{name}>\S.{greedy})"

    # A blank stands for white space: in front of a value it also guards the verb's own end.
    body = _NESTED.sub(group, text).replace(" ", r"\s+")
    if text and not text.endswith(("}", ")", "\\b")):
        body += r"\b"
    regex = re.compile(rf"\s+{body}" if body else "", re.IGNORECASE)
    for name in regex.groupindex.keys() - {"owner"}:
        types.setdefault(name, "np")
    return Pattern(attribute, sense, regex, tuple(types.items()))


def _compile_cue(source: str, slot: str) -> re.Pattern[str]:
    """Return one question pattern: ``~`` is a gap of at most 60 characters, ``@`` "has § been" and the like."""
    text = source.replace("~", r"\b.{0,60}?(?<!\w)").replace("@", slot)
    return re.compile(text if text.startswith(("^", "\\b", "(", "§")) else rf"\b{text}", re.IGNORECASE)


def _compile_stops(words: Iterable[str]) -> re.Pattern[str]:
    """Return the pattern at which a value ends: punctuation, or white space and one of `words`."""
    listed = "|".join(word.replace(" ", r"\s+") for word in words)
    return re.compile(
        rf"""[(\[;—–!?\x00]|[,:](?!\d)|(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bSt)(?<!\bMrs)(?<!\bProf)\.(?=\s|$)"""
        rf"""|\s-+\s|\s\b(?:{listed})(?:(?<=\d)|(?!\w))""",
        re.IGNORECASE,
    )
