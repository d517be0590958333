"""The words and idioms of a language, read from ``memforest/data/time/<code>.toml``, and folding a text for them.

Adding a language is adding a file. Its tables give words for months, weekdays, units, seasons, fixed
holidays, numbers (or ranges, for "a few"), ordinals, decades and parts ("early"); all may be written
with their accents, which the reader's text may leave out. The rest of the file is rules:

- ``[[rule]]`` finds a date. `pattern` (or `patterns`) is a regular expression in which a space stands
  for one or two white-space characters and ``{name}`` for a macro; the group ``span``, if there is one,
  is what is reported, so that a preposition can be required without being part of the date. `op` names
  the function in `memforest.reading.date_rules` that works out the days; other keys are its arguments.
  `needs` lists the words of which a text must contain one before the pattern is tried at all
  (``@month``, ``@weekday``, ... stand for the words of a table, ``@digit`` for any digit, ``@slash`` for a slash,
  ``@wide`` for letters beyond ASCII, ``before+last`` for both words): that is what makes a text without dates cost
  almost nothing.
- ``[[prefix]]`` changes a date that stands right behind it ("the week before ..."), ``[[suffix]]`` one that stands right
  in front ("Monday week"), and ``[[anaphor]]`` stands for one that is so long before or after the date named last ("two
  days later").
- ``[macros]`` are shared fragments. One is made from every table: ``{month}``, ``{weekday}``,
  ``{unit}``, ``{season}``, ``{holiday}``, ``{number}``, ``{ordinal}``, ``{part}``, ``{decadename}`` (each
  a group of that name), ``{number2}``, ``{cycle}`` (all that comes again and has a last and a next one: units of a week
  or more, and ``{named}``, which are weekdays, months, seasons and holidays), ``{monthname}`` and ``{weekdayname}``
  (unambiguous full names), ``{weekdayskip}`` and ``{monthskip}`` (no group).
- The list ``spelt`` of ``[words]`` names long words that are read misspelt too, as months and weekdays then are.
- ``[[tense]]`` rows are patterns of verbs, each with the tense that it stands for, in order: see
  `memforest.reading.date_scene`. Alone of all they see accents. ``{irregular}`` stands for the list ``irregular_past`` of
  ``memforest/data/language/<code>.toml``.
- ``[scene]`` has `clause`, what ends a clause, and `perfect`, what makes "for two years" reach to the present;
  ``[doubt]`` the words that leave a date open: see `memforest.reading.date_scene`. ``[directions]`` are the words that turn
  a date into a bound. No two of their names are alike; how each pattern is framed stands in this module.

Rules of ``any.toml`` need no language and always run.

A folded text has its accents and typographic quotes levelled without moving a character; case is left to the regular
expressions, because lower-casing may change a text's length.

With the extra ``[languages]``, full dates in further languages ("5. März 2024") are read by the month names that the package
dateparser carries. The names of many languages make one table, as nobody has to know which one a text is in: a name that
means two months is left out. What names no year is no date, as there are no verbs to tell which one is meant.

Misspelt words ("tommorow", "thrusday", "febuary"): double letters count once, and one letter may be missing, added, another
one or in its neighbour's place. Only words of seven letters or more are mended, as shorter ones are too near to others
("sundae"). A plural is no misspelling.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from memforest.reading.tokens import load_word_lists, read_toml

_LAST_LATIN = 0x2100
QUOTES = {0x2018: 0x27, 0x2019: 0x27, 0x201B: 0x27, 0x02BC: 0x27, 0xFF07: 0x27}


@cache
def _levels() -> Mapping[int, int]:
    """Return the replacement of each accented letter and typographic quote, by code point."""
    levels = dict(QUOTES)
    for code in range(_LAST_LATIN):
        parts = unicodedata.normalize("NFD", chr(code))
        if len(parts) > 1 and all(map(unicodedata.combining, parts[1:])):
            levels[code] = ord(parts[0])
    return levels


def fold_word(text: str, *, lower: bool = True) -> str:
    """Return `text` composed, without accents, with single spaces, and in lower case if `lower`.

    Example:
        >>> fold_word("Miércoles  próximo")
        'miercoles proximo'
    """
    folded = unicodedata.normalize("NFC", text).translate(_levels())
    return " ".join(folded.lower().split()) if lower else folded


def fold_text(text: str) -> tuple[str, list[int] | None]:
    """Return `text` without accents, and the position that each of its characters came from.

    The positions are None when they are those of `text`, which is so for all composed (NFC) text. They
    have one entry more than the folded text, for its end.
    """
    if text.isascii():
        return text, None
    if unicodedata.is_normalized("NFC", text):
        return text.translate(_levels()), None
    kept: list[str] = []
    positions: list[int] = []
    for position, character in enumerate(text):
        if unicodedata.combining(character) and kept:
            continue  # the mark belongs to the letter before, which is what stays
        kept.append(character)
        positions.append(position)
    positions.append(len(text))
    return "".join(kept).translate(_levels()), positions


CODE = "mul"
"""The code of these languages together (ISO 639-2: multiple languages)."""

_DATA = "dateparser.data"
_LANGUAGES = 60
"""Number of dateparser's languages that are read, the most used first."""
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_RULES: tuple[Mapping[str, Any], ...] = (
    {
        "op": "date",
        "needs": ["@month"],
        "patterns": [
            r"{day}(?:\.|º|er)? (?:de |di |d')?{month}\.?,? (?:de |del )?{year}",
            r"{month}\.? {day}\.?,? {year}",
        ],
    },
    {"op": "named", "needs": ["@month"], "pattern": r"{month}\.? (?:de |del )?{year}"},
)
_MACROS = {
    "day": r"(?P<day>0?[1-9]|[12]\d|3[01])",
    "year": r"(?P<year>1[5-9]\d\d|2[01]\d\d)(?!\d|[:/%-]\d|[.,]\d|%)",
}


def further_data() -> Mapping[str, Any] | None:
    """Return the table of further languages as a language file has it; None without the extra."""
    if find_spec("dateparser") is None:
        return None
    order = import_module(f"{_DATA}.languages_info").language_order
    meant: dict[str, set[int]] = {}
    for code in order[:_LANGUAGES]:
        info = import_module(f"{_DATA}.date_translation_data.{code}").info
        for number, month in enumerate(_MONTHS, 1):
            for word in info.get(month, ()):
                if word.isalpha() and len(word) > 2:
                    meant.setdefault(word.lower(), set()).add(number)
    months: dict[str, list[str]] = {}
    for word in sorted(meant):
        if len(meant[word]) == 1:
            months.setdefault(str(min(meant[word])), []).append(word)
    return {"meta": {"code": CODE}, "months": months, "macros": _MACROS, "rule": _RULES}


_LEAST = 7
_DOUBLE = re.compile(r"(.)\1+")


Spelling = tuple[re.Pattern[str], Callable[[str], "str | None"]]
"""What every long word of a language looks like, and which one a folded word is a misspelling of."""


def spelling_of(listed: Iterable[str]) -> Spelling:
    """Return a pattern of possible misspellings of the long ones among some words, and a function that corrects one."""
    long = sorted({word for word in listed if len(word) >= _LEAST and word.isalpha()})
    known: dict[str, str] = {}
    for word in long:
        for near in _near(_DOUBLE.sub(r"\1", word)):
            known.setdefault(near, word)
    known |= {_DOUBLE.sub(r"\1", word): word for word in long}
    first = "".join(sorted({word[0] for word in long})) or "-"
    like = re.compile(rf"(?<!\w)[{first}][^\W\d_]{{5,10}}(?!\w)", re.IGNORECASE)
    return like, lru_cache(maxsize=4096)(lambda word: _meant(word, known))


def mended(
    text: str, positions: Sequence[int] | None, spellings: Sequence[Spelling]
) -> tuple[str, Sequence[int] | None]:
    """Return a folded text with misspelt words corrected, and the position that each of its characters came from.

    Args:
        text: folded; see `memforest.reading.date_language`.
        positions: of its characters and its end in the original; None if they are those of `text`.
        spellings: of the languages in use.
    """
    for like, meant in spellings:
        found = [
            (match, word) for match in like.finditer(text) if (word := meant(match[0].lower())) is not None
        ]
        if found:
            text, positions = _replaced(text, range(len(text) + 1) if positions is None else positions, found)
    return text, positions


def _replaced(
    text: str, positions: Sequence[int], found: Sequence[tuple[re.Match[str], str]]
) -> tuple[str, Sequence[int]]:
    pieces: list[str] = []
    places: list[int] = []
    done = 0
    for match, word in found:
        start, end = match.span()
        pieces += text[done:start], word.capitalize() if match[0][0].isupper() else word
        places += positions[done:start]
        places += (positions[min(start + at, end - 1)] for at in range(len(word)))
        done = end
    return "".join([*pieces, text[done:]]), [*places, *positions[done:]]


def _meant(word: str, known: Mapping[str, str]) -> str | None:
    """Return the word that a misspelling stands for; None if it is no misspelling."""
    for near in _near(_DOUBLE.sub(r"\1", word)):
        meant = known.get(near)
        if meant and meant[0] == word[0] and abs(len(meant) - len(word)) < 3:
            return None if word.startswith(meant) else meant
    return None


def _near(word: str) -> Iterator[str]:
    """Yield a word, then the word without each of its letters but the first."""
    yield word
    for at in range(1, len(word)):
        yield word[:at] + word[at + 1 :]


DIGIT, SLASH, WIDE = "@digit", "@slash", "@wide"
"""Stand for any digit, a slash, and any letter that is not of ASCII, among the words that rules need."""
BOUNDS: tuple[Literal["since", "until", "before", "after"], ...] = ("since", "until", "before", "after")
"""The words in front of a date that make it a bound."""
_SHORT = frozenset(("minute", "hour", "day"))
"""Nobody names "the last" or "the next" one of these units as a date."""
_RULE, _PREFIX, _SUFFIX = r"(?<!\w)(?:%s)(?!\w)", r"(?<!\w)(?:%s)$", r"(?:%s)(?!\w)"
_NEVER = "(?!)"
_FRAMES = {
    **dict.fromkeys(("clause", "behind", "clock", "title"), "%s"),
    **dict.fromkeys(("perfect", "frame_before", "frame_behind"), "(?:%s)"),
    **dict.fromkeys(("recurring", "told", "fiction"), _RULE),
    **dict.fromkeys(("joint", "through"), r"\s?(?:%s)\s?(?:\w{2,4}\s)?"),
    **dict.fromkeys(("between", "as_of"), r"(?<!\w)(?:%s) (?:\w{2,3} )?$"),
    **dict.fromkeys(("bound", "media"), r"(?<!\w)%s$"),
    "ahead": r"(?<!\w)(?:%s) (?:\w{2,5} )?$",
    "onwards": r" (?:%s)(?!\w)",
    "placed": _PREFIX,
    "in_front": "(?:%s)$",
}
"""What stands around each of the patterns that are read beside a date.

``ahead`` is a word in front of a date that looks ahead ("until", "by", "from"), and ``bound`` one that makes it a bound;
``frame_before`` stands between a frame and the date within it ("next week on Tuesday"), ``frame_behind`` between a date and
the frame behind it ("Tuesday of next week"); ``through`` makes a range of two neighbours by itself ("to", but not "and").
"""
Span = tuple[int, int]

_CODE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z0-9]+)*")
_MACRO = re.compile(r"\{([a-z]\w*)\}")
# A space is elastic, except in a character class or a look-behind, which must have a fixed width.
_SPACES = re.compile(r"\(\?<[!=][^()]*\)|\[[^\]]*\]| ")


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled pattern, the operation it calls and that operation's arguments."""

    op: str
    regex: re.Pattern[str]
    args: Mapping[str, Any]
    words: frozenset[str] = frozenset()
    """The rule is tried only on texts with one of these folded words; none where it does not matter."""


@dataclass(frozen=True, slots=True)
class Language:
    """The compiled tables of one language; words are folded (lower case, no accents)."""

    code: str
    day_first: bool | None
    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    units: Mapping[str, str]
    seasons: Mapping[str, str]
    holidays: Mapping[str, str]
    numbers: Mapping[str, Span]
    ordinals: Mapping[str, int]
    decades: Mapping[str, int]
    parts: Mapping[str, str]
    capital: frozenset[str]
    verbs: re.Pattern[str] | None
    """Each row of ``[[tense]]`` is a group called by its tense and its number: ``past_3``."""
    beside: Mapping[str, re.Pattern[str]]
    """What is read beside a date, by the names of `_FRAMES`; a pattern that the file lacks matches nothing."""
    spelling: Spelling | None
    """Of its months, weekdays and a few other words; None where nothing is read misspelt."""
    rules: tuple[Rule, ...]
    prefixes: tuple[Rule, ...]
    suffixes: tuple[Rule, ...]
    anaphors: tuple[Rule, ...]
    triggers: Mapping[str, tuple[tuple[int, frozenset[str]], ...]]
    """Word -> the positions of the rules that it triggers, and the other words that the text must have."""


@lru_cache(maxsize=64)
def load_language(code: str) -> Language | None:
    """Return a language by its BCP 47 code, trying ``pt`` for ``pt-BR``; None if there is no file.

    "any" is the set of rules that need no language, "mul" that of `memforest.reading.date_language`.
    """
    if code == CODE:
        data = further_data()
        return None if data is None else _compile(data)
    if not _CODE.fullmatch(code):
        return None
    for name in (code.lower().replace("_", "-"), re.split("[-_]", code)[0]):
        with suppress(FileNotFoundError):
            return _compile(read_toml("data", "time", f"{name}.toml"))
    return None


def _compile(data: Mapping[str, Any]) -> Language:
    table = _Tables(data)
    rules: list[Rule] = []
    triggers: dict[str, list[tuple[int, frozenset[str]]]] = {}
    for entry in data.get("rule", ()):
        for rule in table.rules(entry, _RULE):
            for wanted in table.needs(entry["needs"]):
                first, *others = sorted(wanted)
                triggers.setdefault(first, []).append((len(rules), frozenset(others)))
            rules.append(rule)
    return Language(
        code=data["meta"]["code"],
        day_first=data["meta"].get("day_first"),
        **{name: table.inverted(name, value) for name, (_, value) in _TABLES.items()},
        capital=frozenset(map(fold_word, table.words("capital"))),
        verbs=table.verbs(),
        beside=table.beside(),
        spelling=table.spelling(),
        rules=tuple(rules),
        prefixes=tuple(rule for entry in data.get("prefix", ()) for rule in table.rules(entry, _PREFIX)),
        suffixes=tuple(rule for entry in data.get("suffix", ()) for rule in table.rules(entry, _SUFFIX)),
        anaphors=tuple(rule for entry in data.get("anaphor", ()) for rule in table.rules(entry, _RULE)),
        triggers={word: tuple(indices) for word, indices in triggers.items()},
    )


class _Tables:
    """One language file while it is being compiled."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self._macros = {name: _one_line(text) for name, text in data.get("macros", {}).items()}
        for name, (group, _) in _TABLES.items():
            self._macros[group] = f"(?P<{group}>{_any_of(self._all(name))})"
        for group in ("number", "number2"):
            self._macros[group] = (
                rf"(?P<{group}>\d{{1,4}}|{self._tens_and_ones()}|{_any_of(self._all('numbers'))})"
            )
        units = [
            word
            for name, words in data.get("units", {}).items()
            if name not in _SHORT
            for word in words
            if not any(word in (f"{one}s", f"{one}es") for one in words)
        ]
        self._macros["named"] = "(?:{weekday}|{month}|{season}|{holiday})"
        self._macros["cycle"] = f"(?:(?P<unit>{_any_of(units)})|{{named}})"
        doubtful = {*self.words("capital"), *self.words("names")}
        full = [words[0] for words in data.get("months", {}).values() if words[0] not in doubtful]
        self._macros["monthname"] = f"(?P<month>{_any_of(full)})"
        full = [words[0] for words in data.get("weekdays", {}).values()]
        self._macros["weekdayname"] = f"(?P<weekday>{_any_of(full)})"
        self._macros["weekdayskip"] = f"(?:{_any_of(self._all('weekdays'))})"
        self._macros["monthskip"] = f"(?:{_any_of(self._all('months'))})"
        self._macros["dayname"] = f"(?P<dayname>{_any_of(self._all('weekdays'))})"
        self._macros["irregular"] = _any_of(_irregular_past(data.get("meta", {}).get("code", "")))

    def _tens_and_ones(self) -> str:
        """Return the pattern of "twenty-five"; of nothing where numbers are put together in another way."""
        tens, ones = (
            _any_of(
                word
                for n in numbers
                for word in self._data.get("numbers", {}).get(str(n), ())
                if len(word) > 2
            )
            for numbers in (range(20, 91, 10), range(1, 10))
        )
        return f"(?:{tens})[- ](?:{ones})" if self._data.get("meta", {}).get("tens_and_ones") else _NEVER

    def words(self, name: str) -> list[str]:
        return list(self._data.get("words", {}).get(name, ()))

    def _all(self, name: str) -> list[str]:
        return [word for words in self._data.get(name, {}).values() for word in words]

    def inverted(self, name: str, value: Any) -> dict[str, Any]:
        return {fold_word(w): value(key) for key, words in self._data.get(name, {}).items() for w in words}

    def needs(self, wanted: Iterable[str]) -> tuple[frozenset[str], ...]:
        """Return sets of folded words; a text that has all of one set lets the rule run. "before+last" is a set of two."""
        found: set[frozenset[str]] = set()
        for entry in wanted:
            if entry.startswith("@") and entry not in (DIGIT, SLASH, WIDE):
                found |= {
                    frozenset((max(re.findall(r"\w+", fold_word(word)), key=len),))
                    for word in self._all(entry[1:] + "s")
                }
            else:
                found.add(frozenset(fold_word(word) for word in entry.split("+")))
        return tuple(found)

    def rules(self, entry: Mapping[str, Any], frame: str) -> list[Rule]:
        patterns = entry.get("patterns") or [entry["pattern"]]
        frame = "%s" if entry.get("open") else frame
        args = {
            key: value for key, value in entry.items() if key not in ("pattern", "patterns", "needs", "op")
        }
        words = frozenset(word for wanted in self.needs(entry.get("needs", ())) for word in wanted)
        return [Rule(entry["op"], self._build(pattern, frame), args, words) for pattern in patterns]

    def verbs(self) -> re.Pattern[str] | None:
        rows = [
            f"(?P<{row['verb']}_{at}>{_one_line(row['pattern'])})"
            for at, row in enumerate(self._data.get("tense", ()))
        ]
        if not rows:
            return None
        return self._build("|".join(rows), r"(?<![\w'])(?:%s)(?![\w'])", fold=False)

    def spelling(self) -> Spelling | None:
        """Return the misspellings of months, weekdays and the words of the list ``spelt``; None without that list."""
        listed = self.words("spelt")
        return (
            spelling_of(map(fold_word, [*listed, *self._all("months"), *self._all("weekdays")]))
            if listed
            else None
        )

    def beside(self) -> dict[str, re.Pattern[str]]:
        texts: dict[str, str] = {}
        for section in ("scene", "doubt", "directions"):
            texts |= self._data.get(section, {})
        bounds = "|".join(f"(?P<{way}>{texts[way]})" for way in BOUNDS if way in texts)
        if bounds:
            texts["bound"] = f"(?:{bounds}) (?:{texts['skip']})?"
        return {name: self._build(texts.get(name, _NEVER), frame) for name, frame in _FRAMES.items()}

    def _build(self, pattern: str, frame: str, *, fold: bool = True) -> re.Pattern[str]:
        text = frame.replace("%s", _one_line(pattern))
        while _MACRO.search(text):
            text = _MACRO.sub(lambda match: self._macros[match[1]], text)
        text = _SPACES.sub(lambda match: r"(?:\s{1,2})" if match[0] == " " else match[0], text)
        return re.compile(fold_word(text, lower=False) if fold else text, re.IGNORECASE)


def _irregular_past(code: str) -> frozenset[str]:
    """Return the irregular past forms of a language, from its word lists; none if it has no such list."""
    with suppress(FileNotFoundError):
        return load_word_lists(code).get("irregular_past", frozenset())
    return frozenset()


def _one_line(text: str) -> str:
    return re.sub(r"\n\s*", "", text)


def _any_of(words: Iterable[str]) -> str:
    # An empty table matches nothing rather than the empty string.
    return (
        "|".join(re.escape(w).replace(r"\ ", " ") for w in sorted(set(words), key=lambda w: (-len(w), w)))
        or _NEVER
    )


def _pair(text: str) -> Span:
    low, _, high = text.partition("-")
    return int(low), int(high or low)


_TABLES: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "months": ("month", int),
    "weekdays": ("weekday", int),
    "units": ("unit", str),
    "seasons": ("season", str),
    "holidays": ("holiday", str),
    "numbers": ("number", _pair),
    "ordinals": ("ordinal", int),
    "decades": ("decadename", int),
    "parts": ("part", str),
}
"""Each table of a language with the group of its words in a pattern, and how its keys are read."""
