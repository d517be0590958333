"""Reads what the words of a question say: its time operator, its names, its parts, and how much of a memory it needs.

*Operator*: a table per language (`memforest/data/operators/*.toml`) says how it asks for what was so before, after, first and
so on, whatever that is. So a reading is sure of nothing: it is for an index that looks whether its memory has a timeline that
fits. The language is recognised by a question's own words; without a table only a date is heard. A table has `words`, lists
by name (``_`` is a space inside an entry), `macros`, and `patterns`: regular expressions in which ``..`` is up to eight
words, ``{name}`` a list or macro, ``<X>`` an anchor up to the end and ``<x>`` one of at most 80 characters; each begins and
ends with a word.

*Names* are looked up in the memory's own. The longest wins; a possessive 's does not hide it. Scripts without spaces are
searched at every character. A lower-case "will" or "may" is no name, and neither is one at the start of a question.

*Parts*: one for each person that a question puts beside another, and one for the event that it is relative to, by the words
of `memforest/data/parts.toml` (English and Spanish); a question in another language is one part. What somebody did with
another is one question, too. Source of scopes: H-Mem (arXiv 2605.15701) §3.3.

*Complexity*: one recorded fact, several put together, or a judgement over many, by `memforest/data/complexity.toml`. Source
of the three classes: TiMem (arXiv 2601.02845) §3.3.1.

*Core*: what a question asks for, without its time. "Where did Ana live before Porto?" asks where Ana lived; that it is about
the time before Porto says which of the answers is meant. A time that is only in the tense of a verb is none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from memforest.reading.entities import find_mentions
from memforest.reading.tokens import detect_language, read_toml
from memforest.records import Complexity, OperatorKind, QuestionPlan, SubQuery, SubQueryScope, TimeOperator
from memforest.text import lexical_tokens, lexical_words, word_set
from memforest.times import EARLIEST

LANGUAGES = ("en", "es", "fr", "de")
"""Languages with a table, in the order in which they are preferred."""
LEAST_SHARE = 5
"""A question is of a language if that language's table has at least one in so many of its words."""
_RELATIVE: tuple[OperatorKind, ...] = ("last", "changed_back", "since", "predecessor", "successor")
_NO_SIGNS = ("language", "view", "prepositions", "past")
_WORD = re.compile(r"[^\W\d_]{2,}")
_YEAR = re.compile(r"(?<!\d)(?:1[89]|20)\d\d(?!\d)")
_ENDS = " .,¿"

Patterns = Mapping[str, tuple[re.Pattern[str], ...]]
"""Those of one language, by name."""


@lru_cache(maxsize=len(LANGUAGES))
def _table(code: str) -> Mapping[str, Mapping[str, Any]]:
    return read_toml("data", "operators", f"{code}.toml")


@lru_cache(maxsize=len(LANGUAGES))
def _patterns_of(code: str) -> Patterns:
    """Return the patterns of one of `LANGUAGES`, read once per process from the package's data."""
    table = _table(code)
    parts = {name: f"(?:{'|'.join(text.split())})".replace("_", " ") for name, text in table["words"].items()}
    found: dict[str, list[re.Pattern[str]]] = {}
    for name, texts in table["patterns"].items():
        for text in texts:
            for part, pattern in {**parts, **table["macros"]}.items():
                text = text.replace(f"{{{part}}}", pattern)
            text = re.sub(r"\((?!\?)", "(?:", text).replace(" .. ", r"(?: [^\s,;?!]+){0,8}? ")
            text = text.replace("<X>", "(?P<anchor>.+)").replace("<x>", "(?P<anchor>[^,;?!]{1,80}?)")
            start, text = (r"^\W*", text[1:]) if text.startswith("^") else (r"(?<![\w-])", text)
            found.setdefault(name, []).append(re.compile(rf"{start}(?:{text})(?!\w)", re.IGNORECASE))
    return {name: tuple(patterns) for name, patterns in found.items()}


@lru_cache(maxsize=len(LANGUAGES))
def _words(code: str) -> frozenset[str]:
    """Return the words by which a language asks for a time."""
    table = _table(code)
    texts = [text for name in (*_RELATIVE, "first", "now") for text in table["patterns"][name]]
    texts += [text for name, text in table["words"].items() if name not in _NO_SIGNS]
    return frozenset(word for text in texts for word in _WORD.findall(re.sub(r"\{\w+\}|\\\w", " ", text)))


@lru_cache(maxsize=64)
def language_of(question: str) -> str | None:
    """Return the language whose table has most words of a question; None if no table has enough of them."""
    words = _WORD.findall(question.lower())
    signs = {code: _words(code).union(_table(code)["words"]["language"].split()) for code in LANGUAGES}
    votes = {code: sum(word in signs[code] for word in words) for code in LANGUAGES}
    best = max(LANGUAGES, key=votes.__getitem__)
    return best if votes[best] * LEAST_SHARE >= len(words) > 0 else None


def _plain(question: str) -> str:
    """Return a question in one line, with straight apostrophes and without the mark at its end."""
    return " ".join(question.replace("’", "'").split()).rstrip("?！？. ")


def _find(name: str, text: str, patterns: Patterns) -> re.Match[str] | None:
    """Return the match of the first pattern of a name that is in a text."""
    return next((found for one in patterns[name] if (found := one.search(text))), None)


def read_operator(question: str, *, dated: bool) -> TimeOperator | None:
    """Return the kind and anchor of a question's time operator, or None if it shows no sign of one.

    Args:
        question: as it was typed.
        dated: whether it states a date or a stretch of time.

    Example:
        >>> found = read_operator("Which newspaper did Zoë read before Kurier?", dated=False)
        >>> found.kind, found.anchor
        ('predecessor', 'Kurier')
    """
    whole = text = _plain(question)
    code = language_of(whole)
    if code is None:
        return TimeOperator("as_of") if dated else None
    patterns = _patterns_of(code)
    for idiom in patterns["idioms"]:
        text = idiom.sub(lambda found: "\0" * len(found.group()), text)
    if _find("unreal", text, patterns):
        return None
    for kind in _RELATIVE:
        if found := _find(kind, text, patterns):
            span = found.span("anchor") if "anchor" in found.re.groupindex else (0, 0)
            if kind not in ("predecessor", "successor"):
                return TimeOperator(kind, whole[slice(*span)].strip(_ENDS))
            return TimeOperator("as_of") if dated else _neighbour(kind, whole, span, patterns)
    if _find("now", text, patterns) and not _find("past", whole, patterns):
        return TimeOperator("current")
    if dated:
        return TimeOperator("as_of")
    if _find("first", text, patterns):
        return TimeOperator("first")
    present = not _find("past", whole, patterns) and not _find("not_present", whole, patterns)
    return TimeOperator("current") if present and _find("present", text, patterns) else None


def _neighbour(
    kind: OperatorKind, whole: str, span: tuple[int, int], patterns: Patterns
) -> TimeOperator | None:
    """Return an operator relative to a span of text, without what follows it; None if that is a date not understood."""
    start, end = span
    for cut in patterns["cut"]:
        behind = cut.search(whole, start + 1, end)
        end = behind.start() if behind else end
    anchor = whole[start:end].strip(_ENDS)
    return None if _YEAR.search(anchor) else TimeOperator(kind, anchor)


def asks(name: str, question: str) -> bool:
    """Return whether a question matches the patterns of a name in its language's table.

    Args:
        name: of the patterns: ``manner`` (how or why something was, which no state answers), ``asks_when`` ("In which
            year"), ``asks_list`` (several things: "How many", "What are") or ``span`` ("Since when", "How long").
        question: as it was typed.
    """
    text = _plain(question)
    code = language_of(text)
    return code is not None and _find(name, text, _patterns_of(code)) is not None


def operator_words(question: str) -> frozenset[str]:
    """Return the words by which a question's language asks for a time, as search tokens: none is its topic."""
    code = language_of(_plain(question))
    return frozenset() if code is None else frozenset(lexical_tokens(" ".join(_words(code))))


MASK = "§"
"""Stands for a name in a masked question."""

MAX_NAME_WORDS = 6
MAX_UNSPACED_CHARS = 16
_UNSPACED = re.compile("[\u2e80-\u9fff\u3040-\u30ff\uac00-\ud7af\u0e00-\u0eff]")
"""A character of a script that is written without spaces."""


@dataclass(frozen=True, slots=True)
class MaskedQuestion:
    """A question with its names found.

    `text` is the question in NFC with straight apostrophes, `masked` the same in lower case with `MASK` for
    each name, `origin` the index in `text` of every character of `masked` (and of its end). `entities`
    are (display name, start in `text`) in order of appearance.
    """

    text: str
    masked: str
    origin: tuple[int, ...]
    entities: tuple[tuple[str, int], ...]

    def without(self, spans: Sequence[tuple[int, int]], words: Collection[str] = ()) -> MaskedQuestion:
        """Return the question with the given spans of `text`, and all of some words (lower case), blanked."""
        text, masked = list(self.text), list(self.masked)
        folded = self.text.casefold()
        for word in words:
            for found in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", folded):
                spans = (*spans, (found.start(), found.start() + len(word)))
        for start, end in spans:
            text[start:end] = " " * (end - start)
        for at, origin in enumerate(self.origin[:-1]):
            if text[origin] == " ":
                masked[at] = " "
        return MaskedQuestion("".join(text), "".join(masked), self.origin, self.entities)


def read_mentions(question: str, names: Mapping[str, str], common: Collection[str]) -> MaskedQuestion:
    """Return a question with the names it mentions.

    Args:
        question: as it was typed.
        names: case-folded surface form -> display name.
        common: lower-case words that are a name only with a capital inside the question ("will").
    """
    text = unicodedata.normalize("NFC", question).replace("’", "'").replace(MASK, " ")
    folded = text.casefold()
    inside = [ch.isalnum() or unicodedata.category(ch).startswith("M") for ch in folded]  # of a word
    origin = [at for at, ch in enumerate(text) for _ in ch.casefold()]
    masked: list[str] = []
    back: list[int] = []
    entities: list[tuple[str, int]] = []
    at = 0
    while at < len(folded):
        end = _name_end(folded, inside, at, names)
        name, place = folded[at:end], origin[at]
        inner = place > 0 and text[place].isupper() and any(ch.isalnum() for ch in text[:place])
        back.append(place)
        if end > at and (inner or name not in common):
            entities.append((names[name], place))
            masked.append(MASK)
            at = end
        else:
            masked.append(folded[at])
            at += 1
    return MaskedQuestion(text, "".join(masked), (*back, len(text)), tuple(entities))


def _name_end(folded: str, inside: Sequence[bool], at: int, names: Mapping[str, str]) -> int:
    """Return where the longest name that starts at `at` ends, or `at` if none does."""
    found = at
    if _UNSPACED.match(folded, at):
        for end in range(at + 1, min(len(folded), at + MAX_UNSPACED_CHARS) + 1):
            if folded[at:end] in names:
                found = end
        return found
    if not inside[at] or (at > 0 and inside[at - 1]):
        return at
    words = 0
    for end in range(at + 1, len(folded) + 1):
        goes_on = end < len(folded) and inside[end] and not _UNSPACED.match(folded, end)
        if goes_on or not inside[end - 1]:
            continue
        words += 1
        if folded[at:end] in names:
            found = end
        if words == MAX_NAME_WORDS or end - at > 120:
            break
    return found


MOST = 5
"""Most parts of a question; a question with more is left whole."""
_OF_A_TIME = word_set("when current as_of predecessor successor first last since changed_back")
_NO_PEOPLE = ("place", "organisation", "event", "product", "work", "date", "time", "thing")
_DOES = re.compile(r"\s+(?:does|do|did|is|was|has|had|can|will)\b", re.IGNORECASE)
_HELPS = re.compile(
    r"(?<!\w)(?:d(?:id|oes|o)|can|could|will|would|should|might|may|must)(?:n't)?(?!\w)", re.IGNORECASE
)
"""Behind such a verb the next one is the same for one as for several: "did they *do*", "did she *do*"."""
_POSSESSIVE = re.compile(r"['’]s(?!\w)")


_Words = Mapping[str, Any]
"""What shows in one language how a question is made: patterns by name, "when" and "agree" as they stand in the data."""


@cache
def _tables() -> Mapping[str, _Words]:
    found: dict[str, _Words] = {}
    for code, table in read_toml("data", "parts.toml").items():
        any_of = {name: f"(?:{'|'.join(words)})" for name, words in table.items() if isinstance(words, list)}
        frames = {
            "joiners": r" ?%s ?",
            "joint": r"(?<!\w)%s",
            "than": r"(?:,|(?<!\s))\s{1,8}%s\s{1,8}$",
        }
        found[code] = table | {
            name: re.compile(frames.get(name, r"(?<!\w)%s(?!\w)") % words, re.IGNORECASE)
            for name, words in any_of.items()
        }
    return found


def _words_of(question: str) -> _Words | None:
    """Return the words of a question's language, guessed by its asking words, else by all; None if there is no table."""
    return _tables().get(language_of(question) or detect_language(question))


def parts_of(plan: QuestionPlan, question: str, *, most: int = MOST) -> list[SubQuery]:
    """Return the parts of a question, each behind those it depends on; those of its plan if it has any.

    People who are named side by side, or compared, get a part each. What was before or after an event is asked for behind a part
    that asks for the event. Where there would be more than `most`, the question is its only part.

    Args:
        plan: that of the question.
        question: as it was typed, not blank.
        most: most parts.

    Raises:
        InputError: if the question is blank.

    Example:
        >>> plan = QuestionPlan(mentions=("Ana", "Bo"))
        >>> [one.text for one in parts_of(plan, "What do Ana and Bo both collect?")]
        ['What does Ana collect?', 'What does Bo collect?']
    """
    if plan.sub_queries and len(plan.sub_queries) <= most:
        return list(plan.sub_queries)
    text = " ".join(question.replace("’", "'").split())
    words = _words_of(text)
    anchor = None if words is None else _anchor(plan, words)
    texts = [] if words is None else _of_each(text, _names(plan, text, words), words)
    if words is None or len(texts) + (anchor is not None) > most:
        anchor, texts = None, [" ".join(question.split())]
    parts = [] if anchor is None else [SubQuery("1", anchor, scope="short")]
    timed = plan.start is not None or plan.end is not None
    return parts + [
        SubQuery(
            id=str(at),
            text=one,
            depends_on=tuple(one.id for one in parts),
            scope=scope_of(plan, one),
            interval=(plan.start or EARLIEST, plan.end) if timed else None,
        )
        for at, one in enumerate(texts, 1 + len(parts))
    ]


def alone(plan: QuestionPlan, question: str) -> SubQuery:
    """Return a question as its only part."""
    return parts_of(plan, question, most=0)[0]


def scope_of(plan: QuestionPlan, question: str) -> SubQueryScope:
    """Return which memories answer a question: turns, the texts about longer times, or both.

    ``"long"`` for habits, likes and relationships, ``"short"`` for a time, a state, a person or a place; else ``"mixed"``.

    Example:
        >>> scope_of(QuestionPlan(), "Where does Ana work?"), scope_of(QuestionPlan(), "Where does Ana usually eat?")
        ('short', 'long')
    """
    words = _words_of(question)
    if plan.complexity == "complex" or (words is not None and words["long"].search(question)):
        return "long"
    asks = words is not None and words["short"].search(question) is not None
    return "short" if plan.kind in _OF_A_TIME or (asks and plan.kind == "simple") else "mixed"


def _anchor(plan: QuestionPlan, words: _Words) -> str | None:
    """Return the question for the event that a question is relative to; None if it is relative to none, or to a name alone.

    Where the event's words name none of the question's entities, these stand in front of them.
    """
    operator = plan.operator
    if operator is None or operator.kind not in ("predecessor", "successor"):
        return None
    named = {token for name in plan.mentions for token in lexical_tokens(name)}
    tokens = set(lexical_tokens(operator.anchor))
    if not tokens - named:
        return None
    asked = words["when"].format(operator.anchor)
    about = plan.entities and all(tokens.isdisjoint(lexical_tokens(name)) for name in plan.entities)
    return f"{', '.join(plan.entities)}: {asked}" if about else asked[0].upper() + asked[1:]


def _names(plan: QuestionPlan, text: str, words: _Words) -> list[re.Match[str]]:
    """Return where a question names people, in the order in which they stand in it; the words around tell who is one."""
    found: list[re.Match[str]] = []
    for name in sorted(dict.fromkeys((*plan.mentions, *plan.entities)), key=len, reverse=True):
        spelt = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)
        for part in () if spelt else name.split():  # "Ana" for "Ana Costa"
            spelt = spelt or (
                re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) if part[:1].isupper() else None
            )
        if spelt and not any(one.start() < spelt.end() and spelt.start() < one.end() for one in found):
            found.append(spelt)
    kinds = {one.name: one.kind for one in find_mentions(text, participants={}, language="en")}
    people = (  # "compared to Bo" looks like a place
        one
        for one in found
        if kinds.get(one[0]) not in _NO_PEOPLE or words["than"].search(text[: one.start()])
    )
    return sorted(people, key=lambda one: one.start())


def _of_each(text: str, names: Sequence[re.Match[str]], words: _Words) -> list[str]:
    """Return the question once for each person that it lists or compares, else the question itself."""
    if len(names) < 2 or words["joint"].search(text):
        return [text]
    group = [names[0]]  # the first who stand side by side: "Ana and Bo", "Ana, Bo or Cy", "Ana's and Bo's"
    for one in names[1:]:
        between = _POSSESSIVE.sub("", text[group[-1].end() : one.start()])
        if words["joiners"].fullmatch(between):
            group.append(one)
        elif len(group) > 1:
            break
        else:
            group = [one]
    texts: list[str] = []
    if len(group) > 1:
        front, behind = text[: group[0].start()], text[group[-1].end() :]
        texts = [_agreeing(front, one[0], behind, words) for one in group]
    else:
        for one, other in pairwise(names):  # "Does Ana ski more than Bo?"
            than = words["than"].search(text[: other.start()])
            if than is not None and than.start() >= one.end():
                verb = _DOES.match(text, other.end())
                first = text[: than.start()] + text[verb.end() if verb else other.end() :]
                texts = [first, first[: one.start()] + other[0] + first[one.end() :]]
                break
    # Words for both go, and blanks that they leave.
    return [re.sub(r" ([?.!,])", r"\1", " ".join(words["both"].sub("", one).split())) for one in texts] or [
        text
    ]


def _agreeing(front: str, name: str, behind: str, words: _Words) -> str:
    """Return a sentence about one instead of several: the verb next to the name agrees with it."""
    if _POSSESSIVE.match(behind):
        return front + name + behind  # their possessions may still be several
    front = re.sub(rf"(?:{words['both'].pattern})\s*$", "", front, flags=re.IGNORECASE)
    before, after = re.search(r"([\w']+)\s*$", front), re.match(r"\s*([\w']+)", behind)
    verb = before if before and before[1].lower() in words["agree"] else after
    if verb is None or verb[1].lower() not in words["agree"] or (verb is after and _HELPS.search(front)):
        return front + name + behind
    agreed = words["agree"][verb[1].lower()]
    agreed = agreed.capitalize() if verb[1][0].isupper() else agreed
    if verb is before:
        return f"{front[: verb.start()]}{agreed} {name}{behind}"
    return f"{front}{name} {agreed}{behind[verb.end() :]}"


@cache
def _complexity_tables() -> Mapping[str, Mapping[str, re.Pattern[str]]]:
    """Return the patterns by language and complexity."""
    return {
        code: {
            name: re.compile(rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)", re.IGNORECASE)
            for name, patterns in table.items()
        }
        for code, table in read_toml("data", "complexity.toml").items()
    }


def complexity_of(question: str, plan: QuestionPlan) -> Complexity | None:
    """Return how much of a memory a question needs, by its words and its kind; None if they do not tell.

    A list, a count, a comparison and a course of change are put together of several facts; what somebody is like, prefers or
    would do, and what is good for them, is a judgement. A time and a state are one fact. Of another question the rules cannot
    tell.

    Args:
        question: as it was typed.
        plan: with its kind.

    Example:
        >>> complexity_of("What kind of person is Ana?", QuestionPlan())
        'complex'
        >>> complexity_of("How many lamps did Ana buy?", QuestionPlan())
        'hybrid'
        >>> complexity_of("Who is Ana?", QuestionPlan()) is None
        True
    """
    text = " ".join(question.replace("’", "'").split())
    table = _complexity_tables().get(language_of(question) or "en", {})
    if "complex" in table and table["complex"].search(text):
        return "complex"
    if plan.kind == "list" or ("hybrid" in table and table["hybrid"].search(text)):
        return "hybrid"
    return None if plan.kind == "simple" else "simple"


_WORDS: dict[OperatorKind, str] = {
    "current": "(?:right )?now|nowadays|current(?:ly)?|present(?:ly)?|at present|these days|at the moment|today|still|"
    "as of (?:now|today)|at this point|ahora(?: mismo)?|actualmente|hoy(?: en día)?|en este momento|todavía",
    "first": "(?:at )?first|original(?:ly)?|initial(?:ly)?|earliest|(?:to|in the) (?:begin|start|beginning)(?: with)?|"
    "primer[oa]?|al principio|originalmente",
    "last": "last|latest|most recent(?:ly)?|por última vez|últim[oa]",
    "since": "since when|as of when|from when|(?:for )?how long|desde cuándo|(?:desde )?hace cuánto",
    "changed_back": "back|again|de nuevo|otra vez",
    "predecessor": "before|prior to|until|till|antes del?|hasta",
    "successor": "after|following|después del?|tras",
}
_SHADES = "(?:(?:right|just|shortly|immediately|directly|justo) )?"
_OUT = {
    kind: re.compile(
        rf"^\W*{_SHADES}(?:{found})\b[^,?]+,|\b{_SHADES}(?:{found})\s[^?？.;]+?(?=[?？.;]|$|\sas\s)"
        if kind in ("predecessor", "successor")
        else rf"\b(?:{found})\b,?",
        re.IGNORECASE,
    )
    for kind, found in _WORDS.items()
}
_DATE = re.compile(
    r"(?:\b(?:as of|back in|in|on|at|by|during|of|around|en|el|durante) )? {3,},?", re.IGNORECASE
)
"""Where a date was blanked, with the preposition in front of it."""


def core_of(kind: OperatorKind, question: str) -> str | None:
    """Return a question without the words for its time, or None if it has none or nothing else.

    Args:
        kind: of the question's time operator.
        question: with its dates blanked.

    Example:
        >>> core_of("predecessor", "Where did Ana live right before Porto?")
        'Where did Ana live?'
        >>> core_of("current", "Which car does Ana drive?")
    """
    pattern = _DATE if kind == "as_of" else _OUT[kind]
    core, times = pattern.subn(" ", question)
    core = re.sub(r"[ ,]{1,4}(?=[?？.]|$)", "", " ".join(core.split()))
    return core if times and lexical_tokens(core) else None


_NAME_WORD = re.compile(r"(?<!\w)[^\W\d_a-z][\w-]*")


def with_wording(
    plan: QuestionPlan,
    question: str,
    named: Sequence[str],
    undated: MaskedQuestion,
    acts: Collection[str],
) -> QuestionPlan:
    """Return a plan with its question's topic, keywords and other wording, which an index may look up.

    Args:
        plan: with everything else.
        question: as it was typed.
        named: display names of all entities that it mentions, in order.
        undated: the question with its dates blanked.
        acts: its words for acts of speech (lower case), which only say who speaks.
    """
    spoken = undated.without((), acts)
    places = zip(spoken.masked, spoken.origin, spoken.origin[1:], strict=False)
    known = {at for ch, start, end in places if ch == MASK for at in range(start, end)}
    mentions = dict.fromkeys(named)
    # At the start of a sentence a capital is a name only in front of 's.
    for found in _NAME_WORD.finditer(spoken.text):
        before, behind = spoken.text[: found.start()].rstrip(" \"'“”‘’«»([¿¡"), spoken.text[found.end() :]
        starts = not before or before[-1] in _SENTENCE_ENDS
        capital = found.group()[0].isupper() and (not starts or behind.startswith(("'s", "’s")))
        if found.start() not in known and capital and lexical_tokens(found.group()):
            mentions[found.group()] = None
    # The topic is the question without names, dates, numbers and words of change.
    drop = {token for name in plan.entities for token in lexical_tokens(name)} | operator_words(spoken.text)
    topic: list[str] = []
    for word, tokens in lexical_words(spoken.text):
        kept = [token for token in tokens if token not in drop and not token.isdecimal()]
        topic += [word] if kept and len(kept) == len(tokens) else kept  # of an unspaced script: its pieces
    return replace(
        plan,
        core=None if plan.operator is None else core_of(plan.operator.kind, undated.text),
        owners=tuple(name for name in plan.entities if f"{name}'s " in question or f"{name}’s " in question),
        mentions=tuple(mentions),
        topic=tuple(dict.fromkeys(topic)),
        complexity=complexity_of(question, plan),
        keywords=tuple(dict.fromkeys(word for word, tokens in lexical_words(spoken.masked) if tokens)),
    )


_SENTENCE_ENDS = frozenset(".?!;。？！")
