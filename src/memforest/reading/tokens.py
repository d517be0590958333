"""Cuts a text into sentences, words and tokens, and guesses its language; rules and word lists, in linear time.

A sentence ends at ``. ! ? …`` followed by white space, at ``。！？`` anywhere, and at a line break. Abbreviations,
initials, decimals, clock times ("3 p.m.") and addresses of the web stay whole. Works for every script that
uses one of these marks; a text without any is one sentence. Clauses are not split: a statement keeps its "because".

The word lists are data, one file per language (`memforest/data/language/*.toml`).
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Literal

from memforest.text import STOP_WORDS, UNSPACED, word_set, words

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_PIECE_CHARS = 600
"""Most characters of a piece. A longer one is cut at white space, or hard if there is none."""

# One candidate for an end of sentence: marks and closing quotes, then white space or the end of the text.
_END = re.compile(
    r"""(?P<cjk>[。！？｡]+[」』”’）)"']*)|(?P<mark>[.!?…؟।]{1,32}["'”’»)\]*_]{0,4})(?=\s|$)|(?P<line>\n\s*)"""
)
# "am 5. März 2024": many languages write the number of a day so.
_DATE_GOES_ON = re.compile(r" [^\W\d_]{3,12}\.? \d{4}(?!\w)")
_LAST_WORD = re.compile(r"[\w.]+$")
# Never end a sentence, whatever follows.
_TITLES = word_set(
    "mr mrs ms dr prof st vs sr sra jr vol fig approx ca etc e.g i.e cf col gen lt sgt rev hon"
)
# End a sentence only before a capital letter.
_MAYBE_END = word_set(
    "p.m a.m pm am inc ltd co corp u.s u.k ee.uu etc jan feb mar apr jun jul aug sep sept oct nov dec"
)


@dataclass(frozen=True, slots=True)
class SentenceSpan:
    """A sentence of a turn: ``text == turn[start:end]``, trimmed."""

    start: int
    end: int
    text: str


def split_sentences(text: str) -> list[SentenceSpan]:
    """Return the sentences of `text` in order, trimmed, none empty, none longer than `MAX_PIECE_CHARS`.

    A piece without any letter or digit (an emoji, a row of dashes) joins the piece before it.

    >>> [p.text for p in split_sentences("Dr. Wu came at 3 p.m. today. It cost 3.50! 好。行")]
    ['Dr. Wu came at 3 p.m. today.', 'It cost 3.50!', '好。', '行']
    """
    bounds: list[tuple[int, int]] = []
    begin = 0
    for match in _END.finditer(text):
        if match.lastgroup != "mark" or not _is_inside(text, begin, match):
            bounds.append((begin, match.start() if match.lastgroup == "line" else match.end()))
            begin = match.end()
    pieces: list[SentenceSpan] = []
    for low, high in (*bounds, (begin, len(text))):
        piece = text[low:high].strip()
        if not piece:
            continue
        begin = text.index(piece, low)
        end = begin + len(piece)
        if len(piece) <= 64 and pieces and not any(ch.isalnum() for ch in piece):
            last = pieces[-1].start
            if end - last <= MAX_PIECE_CHARS:
                pieces[-1] = SentenceSpan(last, end, text[last:end])
                continue
        while end - begin > MAX_PIECE_CHARS:
            at = text.rfind(" ", begin + MAX_PIECE_CHARS // 2, begin + MAX_PIECE_CHARS)
            at = at if at > 0 else begin + MAX_PIECE_CHARS
            pieces.append(SentenceSpan(begin, at, text[begin:at]))
            begin = at + (text[at] == " ")
        pieces.append(SentenceSpan(begin, end, text[begin:end]))
    return pieces


def _is_inside(text: str, begin: int, match: re.Match[str]) -> bool:
    """Return whether a mark belongs to an abbreviation, initial or number, and ends no sentence."""
    if match.group() != ".":
        return False
    before = _LAST_WORD.search(text, max(begin, match.start() - 12), match.start())
    if before is None:
        return False
    word = before.group()
    lowered = word.lower()
    after = text[match.end() : match.end() + 40].lstrip()[:1]
    if lowered in _TITLES:
        return True
    if lowered == "no":
        return after.isdecimal()
    if lowered in _MAYBE_END:
        return bool(after) and not after.isupper()
    if len(word) == 1 and word.isupper() and word != "I":
        return after.isupper()
    if lowered.isdecimal() and _DATE_GOES_ON.match(text, match.end()):
        return True
    line = text[begin : begin + 8]
    return lowered.isdecimal() and before.start() == begin + len(line) - len(line.lstrip())  # a list's number


def find_names(text: str, names: Collection[str]) -> list[tuple[int, str]]:
    """Return where names stand as whole words, and which: of two that begin at one place or overlap, the longer, then the first.

    Compiling a pattern of the names of every statement costs more than reading it.

    >>> find_names("Ann Lee met Ann", ["Ann", "Lee", "Ann Lee"])
    [(0, 'Ann Lee'), (12, 'Ann')]
    """
    found: list[tuple[int, int, str]] = []
    for name in names:
        at = text.find(name)
        while at >= 0:
            end = at + len(name)
            if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
                found.append((at, -len(name), name))
            at = text.find(name, at + 1)
    spans: list[tuple[int, str]] = []
    for at, _, name in sorted(found):
        if not spans or at >= spans[-1][0] + len(spans[-1][1]):
            spans.append((at, name))
    return spans


WORD = re.compile(rf"[{UNSPACED}]{{1,2}}|[^\s…。{UNSPACED}]{{1,24}}")


def count_words(text: str) -> int:
    """Return the number of words of a text in any script.

    A word is a run of up to 24 non-space characters (a longer run counts once per 24 begun), or two
    characters of a script without spaces. An ellipsis counts nothing.

    >>> count_words("Bob moved to Miami."), count_words("我住在北京"), count_words("")
    (4, 3, 0)
    """
    if text.isascii():
        parts = text.split()
        if max(map(len, parts), default=0) <= 24:
            return len(parts)  # what the expression counts, five times faster
    return len(WORD.findall(text))


def cut_words(text: str, limit: int) -> str:
    """Return the first `limit` words of a text, with an ellipsis if there are more; a shorter text as it is.

    >>> cut_words("Bob moved from Miami to Lima.", 4)
    'Bob moved from Miami…'
    """
    if count_words(text) <= limit:
        return text
    end = 0
    for _, word in zip(range(limit), WORD.finditer(text), strict=False):
        end = word.end()
    while end and end < len(text) and unicodedata.category(text[end]).startswith("M"):
        end -= 1  # never part a letter from its mark
    kept = text[:end].rstrip(" ,;:—–，、；،")
    return f"{kept}…" if kept else ""


Code = Literal["en", "es", "other"]
"""The languages with rules of their own; ``"other"`` is everything else."""

# Frequent words of other Latin-script languages that are no English or Spanish word.
_OTHER_LATIN = word_set("""
    je il nous vous est une dans avec pour sur pas mon ma mes ce cette j'ai c'est des ich nicht und der das ist wir
    sie ein eine mit auf für habe bin zu gli che sono non è per ho della nel uma não eu você mas com meu minha um ik
    het een niet och jag är på att w się jest nie ve bir ben bu için
    """)
_SAMPLE_CHARS = 600
_LAST_LATIN = 0x2FF


def read_toml(*path: str) -> dict[str, Any]:
    """Return the content of a TOML file of the package.

    Raises:
        FileNotFoundError: if there is no such file.
    """
    return tomllib.loads(resources.files("memforest").joinpath(*path).read_text(encoding="utf-8"))


@lru_cache(maxsize=8)
def _language_file(code: str) -> dict[str, Any]:
    return read_toml("data", "language", f"{code}.toml")


@lru_cache(maxsize=8)
def load_word_lists(code: str) -> Mapping[str, frozenset[str]]:
    """Return the word lists of a language by name, all lower case, read once per process.

    Raises:
        FileNotFoundError: if the package has no lists for `code`.
    """
    return {name: frozenset(text.split()) for name, text in _language_file(code)["lists"].items()}


@lru_cache(maxsize=8)
def kinship(code: str) -> frozenset[str]:
    """Return the words of a language by which somebody is somebody's relative; none of ``"other"``."""
    lists = load_word_lists(code)
    return frozenset().union(*(lists.get(f"kinship_{one}", ()) for one in ("male", "female", "other")))


def load_word_tables(code: str) -> Mapping[str, Mapping[str, str]]:
    """Return the replacement tables of a language by name, all lower case: word -> what stands for it.

    Raises:
        FileNotFoundError: if the package has no tables for `code`.
    """
    tables: Mapping[str, Mapping[str, str]] = _language_file(code)["tables"]
    return tables


@lru_cache(maxsize=1)
def _function_words() -> dict[str, str]:
    """Return the language of each function word; "both" for English and Spanish."""
    english, spanish = (load_word_lists(code)["function_words"] for code in ("en", "es"))
    table = dict.fromkeys(_OTHER_LATIN, "other")
    table |= (
        dict.fromkeys(english, "en") | dict.fromkeys(spanish, "es") | dict.fromkeys(english & spanish, "both")
    )
    return table


def detect_language(text: str) -> Code:
    """Return the language whose function words `text` uses, looking at its first 600 characters.

    Without any function word, a text in plain ASCII counts as English when it is at most four words
    ("Pottery!"); everything else is ``"other"``, which means: quoted, never rewritten.
    """
    found = [word.lower().replace("’", "'") for word in words(text[:_SAMPLE_CHARS])]
    if not found:
        return "other"
    table = _function_words()
    votes = Counter(table[word] for word in found if word in table)
    english = votes["en"] + votes["both"]
    spanish = votes["es"] + votes["both"]
    other = votes["other"]
    if "¿" in text or "¡" in text:
        spanish += 3
    if not other:  # "terminé" is French, too
        spanish += sum(not word.isascii() and word in load_word_tables("es")["verbs"] for word in found)
    best = max(english, spanish, other)
    if best == 0:
        english_verb = not load_word_lists("en")["irregular_past"].isdisjoint(found)
        return "en" if text.isascii() and (len(found) <= 4 or english_verb) else "other"
    if best * 10 < len(found) or (other == best and other > english and other > spanish):
        return "other"
    return "en" if english >= spanish and english >= other else "es" if spanish >= other else "other"


def has_foreign_words(text: str) -> bool:
    """Return whether a text has a function word, or letters, of a language without rules."""
    found = words(text[:_SAMPLE_CHARS])
    return any(word.lower() in _OTHER_LATIN or ord(max(word)) > _LAST_LATIN for word in found)


_EN = load_word_lists("en")
_FINITE = _EN["finite"] | frozenset(load_word_tables("es")["verbs"].values())
_COMMON_VERBS = _EN["common_verbs"]
_POOR_TOPICS = (
    STOP_WORDS
    | _EN["backchannel"]
    | _COMMON_VERBS
    | _FINITE
    | _EN["irregular_past"]
    | _EN["adverbs"]
    | _EN["not_verbs"]
    | _EN["evaluative_topics"]
    | _EN["generic_topics"]
    | _EN["modals"]
    | _EN["not_names"]
    | _EN["prepositions"]
)
_TOKEN = re.compile(
    r"""(?P<url>https?://\S{1,500})|(?P<tag>[#＃]\w{2,60})|(?P<handle>(?<!\w)@\w{2,60})"""
    r"""|(?P<quote>"[^"\n]{2,80}"|“[^”\n]{2,80}”|«[^»\n]{2,80}»|「[^」\n]{1,80}」|『[^』\n]{1,80}』|《[^》\n]{1,80}》)"""
    r"""|(?P<word>[^\W_]+(?:[-'’&][^\W_]+)*)|(?P<mark>[.,;:!?()&。、，]|[—–]| - )"""
)
_UNSPACED = re.compile(f"[{UNSPACED}]")
_DAYS = frozenset(word for word in _EN["not_names"] if len(word) > 5)


class Token:
    """A token of a sentence, with its context-free properties.

    `kind` is "word", "mark", "quote", "tag", "handle" or "url". `bare` is the text without a possessive, `lower`
    that in lower case. `capital`: may be (part of) a name. `verb`: a verb by its form; `present`: a frequent verb
    in -s. `content`: can be a topic; `nounlike`: a frequent verb that is a noun behind a determiner.
    """

    __slots__ = (
        "bare", "capital", "content", "kind", "lower", "nounlike", "possessive", "present", "text", "verb",
    )  # fmt: skip

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        self.text = text
        self.possessive = kind == "word" and text.endswith(("'s", "’s"))
        self.bare = text[:-2] if self.possessive else text
        self.lower = self.bare.lower().replace("’", "'")
        contracted = "'" in self.lower and self.lower in _FINITE  # "They're"
        self.capital = (
            kind == "word"
            and text[0].isupper()
            and self.lower not in _EN["not_names"]
            and self.lower.removesuffix("s") not in _DAYS  # "Thursdays"
            and not contracted
        )
        lower, plain = self.lower, kind == "word" and not self.capital and not self.possessive
        self.verb = plain and (
            lower in _FINITE or lower in _EN["irregular_past"] or (len(lower) > 4 and lower.endswith("ed"))
        )
        self.present = plain and lower.endswith("s") and bool({lower[:-1], lower[:-2]} & _COMMON_VERBS)
        self.nounlike = kind == "word" and lower in _COMMON_VERBS and lower not in STOP_WORDS
        self.content = (
            kind == "word"
            and not self.capital
            and len(lower) > 2
            and lower not in _POOR_TOPICS
            and not is_verb_form(lower)
            and not lower[0].isdigit()
            and not _UNSPACED.match(lower)
        )


_token = lru_cache(maxsize=32_768)(Token)
"""Remembered, as tokens are never changed and a vocabulary is small."""


def tokenise(sentence: str) -> list[Token]:
    """Return the tokens of a sentence, each cut to 90 characters."""
    return [_token(match.lastgroup or "", match.group()[:90]) for match in _TOKEN.finditer(sentence)]


def is_verb_form(lower: str) -> bool:
    """Return whether `lower` is an inflected frequent verb: "helps", "wanted", "making"."""
    for ending in ("s", "es", "ed", "d", "ing"):
        if lower.endswith(ending):
            stem = lower[: -len(ending)]
            if stem in _COMMON_VERBS or (
                ending == "ing" and (stem + "e" in _COMMON_VERBS or stem[:-1] in _COMMON_VERBS)
            ):
                return True
    return lower.endswith("ly")
