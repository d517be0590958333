"""The wording by which a merge compares statements: their words without everything that may differ.

Two statements are worded the same when they differ in nothing but case, punctuation, articles, intensifiers,
contractions, a few everyday synonyms ("mum"), number words, and the end of the clause at which a
circumstance stands ("On Monday Ann left." / "Ann left on Monday."). Every other word decides: pronouns,
prepositions, tense, modality, plural. The word lists are data (``data/merge_words.toml``); a language without
any keeps case and punctuation as the only freedom.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from importlib.resources import files
from itertools import pairwise

from memforest.language.language import detect_language, load_word_lists
from memforest.text import numbers, word_set, words

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_VERSION = 1
"""Grows with every change of the code below that gives a text another wording."""

_CLAUSE_END = re.compile(r"[.!?;:…]+(?=[\s\"”')\]]|$)|[。¿¡「」『』]+|[\"“”«»\[\]]")
_COMMA = re.compile(r",(?!\d)|[、，]| [-–—] ")
_SIGNS = frozenset("?¿👍👎✅❌✔✖")
"""Signs that decide what a statement means although they are no words."""
_MARK = "\x00"  # stands for a comma among the words; no word of a text can be it
_SYMBOL = re.compile(r"[-+<=>|~$&%#@]|[^\x00-\x7f]")
_NAMED = {"&": "and", "%": "percent", "#": "number", "@": "at"}
_ORDINALS = word_set("""
    first second third fourth fifth sixth seventh eighth ninth tenth twice thrice dozen
    """)
"""Numbers that count differently from their cardinal: "her first race" is not "her one race"."""
_COUNTED_ARTICLE = word_set("few little")
"""Behind these "a" decides: "few friends" are not "a few friends"."""


@dataclass(frozen=True, slots=True)
class _Lists:
    fillers: Mapping[str, frozenset[str]]
    unspaced: re.Pattern[str]
    same: Mapping[str, str]
    clitics: Mapping[str, str]
    negatives: Mapping[str, str]
    subjects: frozenset[str]
    after_is: frozenset[str]
    movable: frozenset[str]
    fixing: frozenset[str]
    participles: frozenset[str]
    english: frozenset[str]
    """Function words of English that are none of Spanish."""
    spanish: frozenset[str]


@dataclass(frozen=True, slots=True)
class Wording:
    """A statement's words, clause by clause, and the signs in it that decide (a question mark)."""

    clauses: tuple[tuple[str, ...], ...]
    signs: frozenset[str]

    @property
    def bag(self) -> tuple[frozenset[str], tuple[tuple[str, ...], ...]]:
        """What two equal wordings share in any order; for finding them without comparing all pairs."""
        return (self.signs, tuple(tuple(sorted(w for w in clause if w != _MARK)) for clause in self.clauses))


@lru_cache(maxsize=1)
def _lists() -> _Lists:
    raw = tomllib.loads(files("memforest.data").joinpath("merge_words.toml").read_text(encoding="utf-8"))
    lists = {name: word_set(text) for name, text in raw["lists"].items()}
    english, spanish = (load_word_lists(code).lists["function_words"] for code in ("en", "es"))
    return _Lists(
        fillers={code: word_set(text) for code, text in raw["fillers"].items()},
        unspaced=re.compile("|".join(map(re.escape, raw["unspaced_fillers"].split()))),
        same=raw["same"],
        clitics=raw["clitics"],
        negatives=raw["negatives"],
        subjects=lists["subjects"],
        after_is=lists["after_is"],
        movable=lists["movable"],
        fixing=lists["fixing"],
        participles=load_word_lists("en").lists["participles"],
        english=english - spanish,
        spanish=spanish - english,
    )


@lru_cache(maxsize=1)
def wording_rules() -> bytes:
    """Return 16 bytes that change whenever a text may get another wording: of the word lists and the code."""
    data = files("memforest.data")
    lists = [
        data.joinpath("merge_words.toml"),
        *(data.joinpath("language", f"{c}.toml") for c in ("en", "es")),
    ]
    state = blake2b(str(_VERSION).encode(), digest_size=16)
    for one in lists:
        state.update(one.read_bytes())
    return state.digest()


@lru_cache(maxsize=256)  # a write asks three times: for what is near, for the plan, and for the store
def wording(text: str) -> Wording:
    """Return the wording of a statement.

    Example:
        >>> wording("Ann doesn't really like the 2 dogs!").clauses
        (('ann', 'does', 'not', 'like', '2', 'dogs'),)
        >>> wording("Ann does not like two dogs.") == wording("Ann doesn't really like the 2 dogs!")
        True
    """
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").replace("ʼ", "'")
    plain = "".join(_spelled(plain, at) for at in range(len(plain))) if _SYMBOL.search(plain) else plain
    fillers = _lists().fillers.get(_language(plain), frozenset())
    clauses = (_clause(piece, fillers) for piece in _CLAUSE_END.split(plain))
    return Wording(
        tuple(clause for clause in clauses if clause), _SIGNS.intersection(text.replace("？", "?"))
    )


def _spelled(text: str, at: int) -> str:
    """Return a character, written out where it stands for a word: "€5" is not "$5", "-5" not "5"."""
    ch = text[at]
    if ch in _NAMED:
        return f" {_NAMED[ch]} "
    if ch == "-":
        before, after = text[at - 1 : at], text[at + 1 : at + 2]
        return " minus " if after.isdecimal() and not before.isalnum() else ch
    return f" {unicodedata.name(ch, ch).casefold()} " if unicodedata.category(ch) in ("Sm", "Sc") else ch


def _language(text: str) -> str:
    """Return the language whose fillers may be left out: "en", "es" or "".

    Stricter than what the extractor needs to know: in "A Lucía llamó Mateo" the "a" says who called whom.
    """
    if detect_language(text) == "other":
        return ""
    lists, found = _lists(), words(text)
    english, spanish = (sum(word in known for word in found) for known in (lists.english, lists.spanish))
    if spanish > english:
        return "es"
    return "en" if english or text.isascii() else ""


def _clause(text: str, fillers: frozenset[str]) -> tuple[str, ...]:
    """Return the words of one clause that count, with `_MARK` where a comma stands between two of them."""
    lists = _lists()
    if not text.isascii():
        text = lists.unspaced.sub("", text)
    out: list[str] = []
    for piece in _COMMA.split(text):
        if out and out[-1] != _MARK:
            out.append(_MARK)
        found = _expanded(words(piece))
        out += [_number(word) for word in found if word not in fillers]
    while out and out[-1] == _MARK:
        out.pop()
    return tuple(out)


def _expanded(found: list[str]) -> list[str]:
    """Return words with contractions written out and synonyms replaced."""
    lists = _lists()
    out: list[str] = []
    for word, after in pairwise([*found, ""]):
        if word == "a" and after in _COUNTED_ARTICLE:
            out.append("some")
        elif word in lists.negatives:
            out += lists.negatives[word].split()
        elif word.endswith("n't"):
            out += [word[:-3], "not"]
        elif "'" in word:
            out += _split_clitic(word, after)
        else:
            out += lists.same.get(word, word).split()
    return out


def _split_clitic(word: str, after: str) -> list[str]:
    """Return the two words that an apostrophe joins; a possessive keeps its mark."""
    lists = _lists()
    head, _, tail = word.rpartition("'")
    head = lists.same.get(head, head)
    if tail in lists.clitics:
        return [head, lists.clitics[tail]]
    done = after in lists.participles or after.endswith("ed")
    if tail == "d":
        return [head, "had" if done else "would"]
    if tail == "s" and (head in lists.subjects or after in lists.after_is):
        return [head, "has" if done else "is"]
    return [head, "'" + tail]


def _number(word: str) -> str:
    """Return a cardinal in digits ("two", "1,500") and any other word as it is."""
    found = numbers(word) if word not in _ORDINALS else ()
    return found[0] if len(found) == 1 and (word.isalpha() or word.replace(",", "").isdecimal()) else word


def same_wording(a: Wording, b: Wording) -> bool:
    """Return whether two wordings say the same in the same words.

    Every clause of one must equal its counterpart, or be it with a circumstance moved from one end to the
    other. A clause with a conjunction, a reporting verb, "only" or a negation must equal it as it stands,
    because there the place decides what the circumstance belongs to.
    """
    return (
        a.signs == b.signs
        and len(a.clauses) == len(b.clauses)
        and all(_same_clause(x, y) for x, y in zip(a.clauses, b.clauses, strict=True))
    )


def _same_clause(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    left, right = _without_commas(a), _without_commas(b)
    if left == right:
        return True
    lists = _lists()
    if sorted(left) != sorted(right) or lists.fixing.intersection(left):
        return False
    return _moved(a, right) and _moved(b, left)


def _moved(clause: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether `clause` turned at one place is `other`, with a circumstance as one part.

    A comma may stand where the clause is turned and nowhere else: `other` has none.
    """
    for at in range(1, len(clause)):
        front, back = clause[:at], clause[at:]
        front = front[:-1] if front[-1] == _MARK else front
        back = back[1:] if back[0] == _MARK else back
        if back + front == other and (front[0] in _lists().movable or back[0] in _lists().movable):
            return True
    return False


def _without_commas(clause: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in clause if word != _MARK)
