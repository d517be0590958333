"""How a statement stands to the things it names: is it so, since when, is it over, or only thought of?

"Bob still trains at Kinetik", "Bob left Kinetik for Torque", "Bob might try Torque": three stances to a gym,
and nothing in them is about gyms. This module reads the stance of a sentence to each noun phrase in it from
aspect, tense and modality alone, so that a timeline can be made of any attribute, also of those that the
state lexicon (`memforest.steps.local.states`) has never heard of.

English has rules (``data/stance/en.toml``); a statement in another language has no stances, and questions
about it are answered from its states.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Literal

from memforest.steps.local.language import load_word_lists
from memforest.steps.local.lexicon import load_lexicon
from memforest.steps.local.sentences import split_sentences
from memforest.steps.local.tokens import is_verb_form
from memforest.text import STOP_WORDS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "Phrase",
    "Sentence",
    "Stance",
    "Statement",
    "held_phrases",
    "is_thing",
    "read_statement",
    "stances_of",
    "turning_points",
]

Stance = Literal["is", "event", "start", "back", "end", "over", "unreal"]
"""``is``: so at the time of speaking. ``event``: something happened with it once, which may or may not be a
habit. ``start`` and ``back``: it began, or began again. ``end``: it ended. ``over``: it is told as long past.
``unreal``: a wish, a plan, a near miss, a denial, a loan or a visit."""

MAX_WORDS = 5
"""Longest noun phrase, in words."""
_REACH = 48
"""Characters in front of a phrase in which the word that governs it stands."""

_WORDS = load_word_lists("en").lists
_LEXICON = load_lexicon("en")
_KIN = _LEXICON.words["kin"]
_PREFIX = re.compile(r'(?P<who>[^:"\n]{1,60}?)(?:, asked "(?P<asked>[^"]*)")?: ')
_TOKEN = re.compile(r"[^\W_]+(?:['’.&-][^\W_]+)*|&|[^\w\s]")
_CONNECTORS = frozenset(("&", "of", "the", "and", "de", "du", "la", "le", "del", "in", "on"))
_BREAKS = (
    STOP_WORDS
    | _WORDS["prepositions"]
    | _WORDS["determiners"]
    | _WORDS["adverbs"]
    | _WORDS["finite"]
    | _WORDS["irregular_past"]
    | _WORDS["modals"]
    | _WORDS["not_names"]
    | _WORDS["backchannel"]
    | _WORDS["interjections"]
    | _WORDS["evaluative_topics"]
    | _WORDS["generic_topics"]
    | frozenset(
        [
            "year",
            "years",
            "month",
            "months",
            "week",
            "weeks",
            "day",
            "days",
            "ago",
            "last",
            "next",
            "minute",
            "minutes",
            "hour",
            "hours",
            "morning",
            "evening",
            "afternoon",
            "night",
            "spring",
            "summer",
            "autumn",
            "winter",
            "nothing",
            "something",
            "anything",
            "everything",
            "nowhere",
            "everywhere",
            "anywhere",
            "far",
            "late",
            "early",
            "half",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "only",
            "all",
            "one",
            "ones",
            "couple",
            "usual",
            "regular",
        ]
    )
)
_PAST = _WORDS["irregular_past"] | frozenset(("was", "were", "had", "did"))


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase of a sentence: lower-case `term`, and where it stands. `named`: written with a capital."""

    term: str
    start: int
    end: int
    named: bool


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence and its noun phrases, with every shorter phrase inside them."""

    text: str
    phrases: tuple[Phrase, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement taken apart: who said it, the question it answers, its sentences."""

    speaker: str
    asked: str
    sentences: tuple[Sentence, ...]


@lru_cache(maxsize=1)
def _rules() -> Mapping[str, re.Pattern[str]]:
    """Return the patterns of every class of wording."""
    path = resources.files("memforest") / "data" / "stance" / "en.toml"
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    found = {}
    for name, listed in raw.items():
        if name in ("language", "clause", "things"):
            continue
        joined = "|".join(f"(?:{source})" for source in listed)
        found[name] = re.compile(rf"(?<![\w-])(?:{joined})(?![\w-])", re.IGNORECASE)
    clauses = "|".join(re.escape(mark) for mark in raw["clause"])
    found["clause"] = re.compile(clauses)
    return found


@lru_cache(maxsize=65_536)
def read_statement(text: str) -> Statement:
    """Return a statement's speaker, question and sentences; remembered, because statements do not change."""
    found = _PREFIX.match(text)
    body = text[found.end() :] if found else text
    if body[:1] == '"' and body[-1:] == '"':
        body = body[1:-1]
    body = body.replace("’", "'")
    sentences = tuple(Sentence(piece.text, tuple(_phrases(piece.text))) for piece in split_sentences(body))
    return Statement(found["who"] if found else "", (found["asked"] or "") if found else "", sentences)


def _phrases(text: str) -> Iterator[Phrase]:
    """Yield the noun phrases of a sentence: capitalised runs, runs of content words, and their parts."""
    tokens = [(m.group(), m.start(), m.end()) for m in _TOKEN.finditer(text)]
    index = 0
    while index < len(tokens):
        end = _named_end(tokens, index)
        if end > index:
            yield from _parts(tokens, index, end, named=True)
            if end == index + 1 and tokens[index][0].endswith("'s") and _named_end(tokens, end) > end:
                words = [token[0].lower() for token in tokens[index : _named_end(tokens, end)]]
                last = tokens[_named_end(tokens, end) - 1]
                yield Phrase(" ".join(words), tokens[index][1], last[2], True)  # "King's Gambit"
        else:
            end = index
            while end < len(tokens) and (_is_content(tokens[end][0]) or _is_inner_of(tokens, index, end)):
                end += 1
            yield from _parts(tokens, index, end, named=False)
        index = max(end, index + 1)


def _is_inner_of(tokens: list[tuple[str, int, int]], start: int, at: int) -> bool:
    """Return whether "of" stands between two content words: "chief of staff"."""
    return tokens[at][0] == "of" and start < at < len(tokens) - 1 and _is_content(tokens[at + 1][0])


def _is_content(word: str) -> bool:
    return (
        word[0].isalpha()
        and word[0].islower()
        and len(word) > 2
        and word not in _BREAKS
        and not _is_verbal(word)
    )


@lru_cache(maxsize=16_384)
def _is_verbal(word: str) -> bool:
    """Return whether a word is a verb by its form, unless it is also a listed thing ("running", "baking")."""
    return (is_verb_form(word) or (word.endswith(("ing", "ed")) and len(word) > 5)) and word not in _things()


def _named_end(tokens: list[tuple[str, int, int]], at: int) -> int:
    """Return where the capitalised run at `at` ends ("The Reading Room", "Stone & Rope", "Sony phone")."""
    word = tokens[at][0]
    if not word[0].isupper() or word == "I":
        return at
    following = tokens[at + 1][0] if at + 1 < len(tokens) else "."
    if word.lower() in _BREAKS and not following[0].isupper():
        return at
    end = at + 1
    while end < len(tokens) and end - at < MAX_WORDS and not tokens[end - 1][0].endswith("'s"):
        if tokens[end][0][0].isupper():
            end += 1
        elif (
            tokens[end][0].lower() in _CONNECTORS
            and end + 1 < len(tokens)
            and tokens[end + 1][0][0].isupper()
        ):
            end += 2
        else:
            break
    while end < len(tokens) and end - at < MAX_WORDS and _is_content(tokens[end][0]):
        end += 1
    return end


def _parts(tokens: list[tuple[str, int, int]], start: int, end: int, *, named: bool) -> Iterator[Phrase]:
    """Yield a run of words and its shorter runs; a name is not cut inside."""
    for i in range(start, end):
        for j in range(end, i, -1):
            if j - i > MAX_WORDS:
                continue
            words = [token[0].lower() for token in tokens[i:j]]
            words[-1] = words[-1].removesuffix("'s")
            if words[0] in _CONNECTORS - {"the"} or words[-1] in _CONNECTORS:
                continue
            if len(words) == 1 and words[0] in _BREAKS:
                continue
            capital = named and tokens[i][0][0].isupper()
            if capital and (_splits_name(tokens, start, end, i, j)):
                continue
            yield Phrase(" ".join(words), tokens[i][1], tokens[j - 1][2], capital)


def turning_points(sentence: Sentence, uses: Mapping[str, int]) -> list[tuple[str, Stance]]:
    """Return the phrases right behind a word of change: (term, ``end`` | ``start`` | ``back``), in order.

    Of the phrases that overlap, the one that the memory uses most, for its length, counts.
    """
    found: list[tuple[int, str, Stance]] = []
    left = -1
    for start, phrases in _by_place(sentence, uses):
        before = _DETERMINERS.sub("", sentence.text[:start])
        stance = _governor(before)
        if stance is None and left >= 0 and _ONWARD.search(sentence.text[left : len(before)]):
            stance = "start"
        if stance is None:
            continue
        best = max(phrases, key=lambda p: (uses.get(p.term, 0) * len(p.term.split()), len(p.term)))
        if found and found[-1][0] >= best.start:
            continue
        left = best.end if stance == "end" else left
        found.append((best.end, best.term, stance))
    return [(term, stance) for _, term, stance in found]


def held_phrases(sentence: Sentence, uses: Mapping[str, int]) -> Iterator[str]:
    """Yield the phrases that are the object of a verb in the present or a possession: "plays the *flute*"."""
    for start, phrases in _by_place(sentence, uses):
        if _HOLDER.search(sentence.text[:start]):
            yield max(phrases, key=lambda p: (uses.get(p.term, 0) * len(p.term.split()), len(p.term))).term


_HOLDER = re.compile(
    r"(?:\w(?:s|ing)|\b(?:has|have|had|been|is|am|are))(?: (?:still|now|also|currently|already|just))?(?: (?:at|in|on|with|to|for|by|as|of|after))?"
    r"(?:\s+(?:an?|the|that|his|her|their|my|[\w']+'s))?\s+$"
)
_DETERMINERS = re.compile(
    r"(?:\s+(?:a|an|the|his|her|their|my|its|some|new|old|another|that|this|[\w']+'s))*\s*$", re.IGNORECASE
)
_ONWARD = re.compile(r"\b(?:to|for|with|onto|into)$", re.IGNORECASE)


def _by_place(sentence: Sentence, uses: Mapping[str, int]) -> Iterator[tuple[int, list[Phrase]]]:
    """Yield the phrases that start at the same place, from left to right; only what the memory uses."""
    places: dict[int, list[Phrase]] = {}
    for phrase in sentence.phrases:
        if phrase.term in uses:
            places.setdefault(phrase.start, []).append(phrase)
    yield from sorted(places.items())


def _governor(before: str) -> Stance | None:
    """Return the change told by the word of change that ends a text, if one does."""
    rules = _rules()
    tail = before[-_REACH:]
    for name, stance in _TURNS:
        if any(match.end() == len(tail) for match in rules[name].finditer(tail)):
            return stance
    return None


_TURNS: tuple[tuple[str, Stance], ...] = (("again", "back"), ("leave", "end"), ("enter", "start"))


def _splits_name(tokens: list[tuple[str, int, int]], start: int, end: int, i: int, j: int) -> bool:
    """Return whether ``tokens[i:j]`` is only a piece of a run's capitalised words; without "The" is no piece."""
    from_start = i == start or (i == start + 1 and tokens[start][0].lower() in _BREAKS)
    return not from_start or any(token[0][0].isupper() for token in tokens[j:end])


def is_thing(term: str) -> bool:
    """Return whether a phrase names a thing of a common kind, by its last word: "corn snake", "head nurse"."""
    words = term.split()
    return words[-1] in _things() or term in _things()


@lru_cache(maxsize=1)
def _things() -> frozenset[str]:
    path = resources.files("memforest") / "data" / "stance" / "en.toml"
    listed = tomllib.loads(path.read_text(encoding="utf-8"))["things"].split()
    return frozenset(listed) | _LEXICON.kinds["role"] | _LEXICON.kinds["language"]


# -- whose, and how ----------------------------------------------------------------------------------


def stances_of(
    statement: Statement, who: str, others: Collection[str], terms: Mapping[str, float]
) -> Iterator[tuple[str, Stance]]:
    """Yield (term, stance) for every phrase among `terms` that a statement connects with a person.

    Args:
        statement: as `read_statement` returns it.
        who: the person's name.
        others: the other names of people in the memory.
        terms: the phrases that matter, with their weight; of two that overlap, the longer counts, and of
            several in a sentence the heaviest and what it takes the place of.
    """
    previous = ""
    if statement.asked:
        previous = _answers_about(statement, who, others)
    for sentence in statement.sentences:
        chosen = chosen_phrases(sentence, terms)
        subject = _subject(sentence.text, who, others, previous)
        if statement.asked and previous and sentence is statement.sentences[0]:
            subject = previous
        previous = subject if subject not in ("", "?") else _mentioned(sentence.text, who, others, previous)
        if not chosen:
            continue
        mine = subject == who or (subject == "" and statement.speaker == who and _elliptical(sentence.text))
        if not mine and not _is_affected(sentence.text, who, subject):
            continue
        best = max(chosen, key=lambda p: terms[p.term])
        found = {phrase: _stance(sentence.text, phrase, who) for phrase in chosen}
        for phrase, stance in found.items():
            if _is_somebody_elses(sentence.text, who, phrase) or _is_person_with_role(sentence.text, phrase):
                continue
            if phrase is best or (stance in _CHANGES and found[best] in _CHANGES and stance != found[best]):
                yield phrase.term, "is" if statement.asked and stance == "event" else stance


_CHANGES = ("start", "back", "end")


def chosen_phrases(sentence: Sentence, terms: Collection[str]) -> list[Phrase]:
    """Return the longest phrases among `terms`, none inside another."""
    found: list[Phrase] = []
    for phrase in sorted(sentence.phrases, key=lambda p: (p.start - p.end, p.start)):
        if phrase.term in terms and all(phrase.end <= o.start or o.end <= phrase.start for o in found):
            found.append(phrase)
    return sorted(found, key=lambda p: p.start)


def _answers_about(statement: Statement, who: str, others: Collection[str]) -> str:
    """Return whom the question is about that a statement answers."""
    asked = statement.asked
    if _place(asked, who) >= 0:
        return who
    named = [name for name in others if _place(asked, name) >= 0]
    if named:
        return named[0]
    return statement.speaker if re.search(r"\byou(?:r|rs|'re|'ve)?\b", asked, re.IGNORECASE) else ""


def _place(text: str, name: str) -> int:
    """Return where a name stands in a text, or -1."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if (at == 0 or not text[at - 1].isalnum()) and (end == len(text) or not text[end].isalnum()):
            return at
        at = text.find(name, at + 1)
    return -1


def _subject(text: str, who: str, others: Collection[str], previous: str) -> str:
    """Return the name of the person that a sentence is about, "?" for somebody unnamed, "" for nobody."""
    first = text.split(" ", 1)[0].rstrip(",.;:").lower()
    if first in ("he", "she", "he's", "she's", "his", "her"):
        return previous or "?"
    places = [(at, name) for name in (who, *others) if (at := _place(text, name)) >= 0]
    person = _rules()["persons"].search(text)
    if not places:
        return "?" if person and person.start() < 24 else ""
    at, name = min(places, key=lambda pair: (pair[0], -len(pair[1])))
    if person and person.start() < at and _TOKEN.match(text) and person.start() < 16:
        return "?"
    return name


def _mentioned(text: str, who: str, others: Collection[str], previous: str) -> str:
    places = [name for name in (who, *others) if _place(text, name) >= 0]
    return places[0] if len(places) == 1 else previous


def _elliptical(text: str) -> bool:
    """Return whether a sentence without a person leaves out its speaker: "Still in Davis", "Here in Davis …"."""
    return _rules()["elliptical"].match(text) is not None


def _is_affected(text: str, who: str, subject: str) -> bool:
    """Return whether the person is what somebody unnamed acts on: "The shelter brought Bob a dog"."""
    return subject == "?" and _place(text, who) > 0


def _is_somebody_elses(text: str, who: str, phrase: Phrase) -> bool:
    """Return whether a phrase belongs to somebody whom the person only has: "Bob's dentist trains at …"."""
    owner = text.find(f"{who}'s ")
    if owner < 0 or owner > phrase.start:
        return False
    between = text[owner + len(who) + 3 : phrase.start].lower()
    words = [token.group() for token in _TOKEN.finditer(between)]
    roles = _LEXICON.kinds["role"]
    for i, word in enumerate(words[:4]):
        if word in _KIN or word in roles or _rules()["persons"].fullmatch(word):
            return who.lower() not in words[i + 1 :]
        if word in _WORDS["finite"] or word in _PAST or word in _WORDS["prepositions"]:
            return False
    return False


_BEING = re.compile(
    r"\b(?:is|was|are|be|been|being|as|becom\w+|became|to|into|from|now|still|an?|says?|for|title|job|role|post|position|of)"
    r"\s+(?:(?:the|an?|our|their|his|her|\w+) )?$",
    re.IGNORECASE,
)


def _is_person_with_role(text: str, phrase: Phrase) -> bool:
    """Return whether an occupation stands for somebody who has it: "the teacher left", not "is a teacher"."""
    words = phrase.term.split()
    if phrase.named or words[-1] not in _LEXICON.kinds["role"]:
        return False
    return _BEING.search(text[: phrase.start]) is None


def _stance(text: str, phrase: Phrase, who: str) -> Stance:
    """Return how a sentence of a person stands to one phrase in it."""
    rules = _rules()
    start, end = _clause(text, phrase)
    clause = text[start:end]
    before = text[max(0, phrase.start - _REACH) : phrase.start]
    if _is_unreal(text, clause):
        return "unreal"
    if rules["over"].search(clause):
        return "over"
    turned = _turn(before, text[phrase.end : phrase.end + 24])
    if turned is not None:
        return "unreal" if turned != "end" and _denied(text, phrase) else turned
    if rules["brief"].search(clause):
        return "unreal"
    if rules["steady"].search(clause) or _owned(before, who):
        return "is"
    if rules["regard"].search(clause) and _modifies(text, phrase):
        return "event"
    return "event" if _is_past(clause, who) and not _is_known(before, phrase) else "is"


def _modifies(text: str, phrase: Phrase) -> bool:
    """Return whether a phrase only qualifies the noun behind it ("cello music"), which is not itself had."""
    behind = _TOKEN.match(text, phrase.end + 1)
    return behind is not None and text[phrase.end] == " " and _is_content(behind.group())


def _is_known(before: str, phrase: Phrase) -> bool:
    """Return whether "the" stands in front of a phrase: something that is already known of the person."""
    return re.search(r"\bthe (?:\w+ )?$", before, re.IGNORECASE) is not None or phrase.term.startswith("the ")


def _clause(text: str, phrase: Phrase) -> tuple[int, int]:
    """Return the clause in which a phrase stands, with a fragment that hangs on to it ("…, just dreaming")."""
    start, end = 0, len(text)
    for match in _rules()["clause"].finditer(text):
        if match.end() <= phrase.start:
            start = match.end()
        elif match.start() >= phrase.end and not _FRAGMENT.match(text, match.end()):
            end = match.start()
            break
    return start, end


_FRAGMENT = re.compile(r"(?:just|only|not|maybe|perhaps|once|for fun|and no more)\b", re.IGNORECASE)


def _is_unreal(text: str, clause: str) -> bool:
    """Return whether a clause, or the whole sentence by an "if", is only thought of or denied."""
    rules = _rules()
    plain = rules["kept"].sub(" ", clause)
    if rules["unreal"].search(plain):
        return True
    return re.search(r"\b(?:if|would|might)\b", rules["kept"].sub(" ", text), re.IGNORECASE) is not None


def _turn(before: str, behind: str) -> Stance | None:
    """Return the change that the words around a phrase tell, if they do."""
    rules = _rules()
    last = {name: _last(rules[name], before) for name in ("leave", "enter", "again")}
    if rules["again"].match(behind.lstrip()):
        return "back"
    if rules["arrive"].match(behind.lstrip()):
        return "start"
    best = max(last, key=lambda name: last[name])
    if last[best] < 0:
        pair = _last(re.compile(r"\b(?:to|for|with|and now|on to)\b"), before)
        return "start" if pair >= 0 and rules["leave"].search(before[:pair]) else None
    if best == "leave":
        tail = before[last["leave"] :]
        onward = re.search(r".\w.{0,40}\b(?:to|for|into|onto|and)\b", tail[4:])
        return "start" if onward else "end"
    return "back" if best == "again" else "start"


def _last(pattern: re.Pattern[str], text: str) -> int:
    """Return where the last match of a pattern starts, or -1."""
    at = -1
    for match in pattern.finditer(text):
        at = match.start()
    return at


def _denied(text: str, phrase: Phrase) -> bool:
    """Return whether an adversative clause takes back what a sentence told: "enrolled, but it was cancelled"."""
    return re.search(r"[,;] (?:but|then|and then|until)\b", text[phrase.end :]) is not None


def _owned(before: str, who: str) -> bool:
    """Return whether a possessive stands right in front: "her Tesla", "Bob's new Tesla"."""
    return (
        re.search(rf"(?:\b(?:his|her|their|its|my)|{re.escape(who)}'s) (?:\w+ ){{0,2}}$", before) is not None
    )


def _is_past(clause: str, who: str) -> bool:
    """Return whether the first verb of a clause is a simple past."""
    for match in _TOKEN.finditer(clause.replace(who, " ")):
        word = match.group().lower()
        if word in _PAST or (word.endswith("ed") and len(word) > 4):
            return True
        if word in _WORDS["finite"] or (word.endswith("s") and word[:-1] in _WORDS["common_verbs"]):
            return False
    return False
