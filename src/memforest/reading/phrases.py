"""The noun phrases of a statement, and the wording by which English says that something begins, ends or is only thought of.

A statement is a fact's text: who said it, the question it answers if it is an answer, and its sentences. A
sentence's phrases are its capitalised runs and its runs of content words, with every shorter run inside them,
because which of "weekly rye bread", "rye bread" and "bread" is the thing shows only in the rest of the memory.

The wording is patterns and word lists of ``data/stance/en.toml``; they name classes of wording, no attributes. Words of change
govern the things behind them ("dropped the *oolong* for the *sencha*", "plays the *flute*"), whoever it is about. Where a
sentence sets two things against each other ("from *A* to *B*", "*B* instead of *A*", "*A* is history, *B* it is"), the words
between them and in front of them show which is the new one, whatever the verb is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

from memforest.reading.drafts import Voices, with_names
from memforest.reading.tokens import (
    Code,
    detect_language,
    is_verb_form,
    kinship,
    load_word_lists,
    read_toml,
    split_sentences,
)
from memforest.text import STOP_WORDS

Stance = Literal["is", "event", "start", "back", "end", "over", "unreal"]
"""``is``: so at the time of speaking. ``event``: something happened with it once, which may or may not be a
habit. ``start`` and ``back``: it began, or began again. ``end``: it ended. ``over``: it is told as long past.
``unreal``: a wish, a plan, a near miss, a denial, a loan or a visit."""


def word_list(name: str) -> frozenset[str]:
    """Return one of the word lists of English; they are read at the first use, as importing should cost nothing."""
    return load_word_lists("en")[name]


@lru_cache(maxsize=4_096)
def is_person(word: str) -> bool:
    """Return whether a common noun names somebody, by its form or its class: "dentist", "aunt", "guest".

    Who does something is called by the verb ("trainer", "driver") or by a suffix that things seldom have. What is
    written with a capital may be the name of anything, so that only its class counts: "Friends", but not "Meridian".
    """
    low = word.lower().removesuffix("-in-law")
    one = low.removesuffix("s")
    if low in _persons() or one in _persons():
        return True
    if word != low:
        return False
    if len(one) > LONGEST_SUFFIX and one.endswith(_OF_PERSONS):
        return True
    verbs = word_list("common_verbs")
    return one.endswith("er") and (
        one[:-1] in verbs or one[:-2] in verbs or (one[:-3] in verbs and one[-3] == one[-4])
    )


@lru_cache(maxsize=1)
def _persons() -> frozenset[str]:
    return listed("persons") | kinship("en")


_OF_PERSONS = ("man", "woman", "person", "ist", "ian", "eer", "yer", "grapher", "dresser", "keeper", "giver")
LONGEST_SUFFIX = 5
"""Letters of the longest suffix that is common; a word that is no longer names nobody by it."""


@lru_cache(maxsize=1)
def past_forms() -> frozenset[str]:
    """Return past forms that do not end in -ed."""
    return word_list("irregular_past") | frozenset(("was", "were", "had", "did"))


@lru_cache(maxsize=1)
def _raw() -> Mapping[str, Any]:
    return read_toml("data", "stance", "en.toml")


@lru_cache(maxsize=1)
def rules() -> Mapping[str, re.Pattern[str]]:
    """Return the patterns of every class of wording."""
    found = {}
    for name, sources in _raw().items():
        if isinstance(sources, str) or name == "clause":
            continue
        spelt = (  # the forms of each verb behind "~" are written out
            _VERBS.sub(
                lambda verbs: f"(?:{'|'.join(map(_forms, (verbs[1] or verbs[2]).split('|')))})", source
            )
            for source in sources
        )
        joined = "|".join(f"(?:{source})" for source in spelt)
        found[name] = re.compile(rf"(?<![\w-])(?:{joined})(?![\w-])", re.IGNORECASE)
    clauses = "|".join(re.escape(mark) for mark in _raw()["clause"])
    found["clause"] = re.compile(clauses)
    return found


_VERBS = re.compile(r"~(?:\(\?:([a-z|]+)\)|([a-z]+))")


def _forms(verb: str) -> str:
    """Return a pattern for all forms of a verb; regular ones by rule, a doubled consonant where there may be one."""
    entries = (entry.split() for entry in _raw()["irregular"].split(","))
    irregular = {name: forms for name, *forms in entries}
    own = "".join(f"|{form}" for form in irregular.get(verb, ()))
    if verb.endswith("e"):
        return f"{verb[:-1]}(?:es?|ed|ing){own}"
    if verb.endswith("y") and verb[-2] not in "aeou":
        return f"{verb[:-1]}(?:y|ies|ied|ying){own}"
    return f"{verb}(?:e?s|{verb[-1]}?(?:ed|ing))?{own}"


@lru_cache(maxsize=8)
def listed(name: str) -> frozenset[str]:
    """Return one of the plain word lists of the file."""
    return frozenset(_raw()[name].split())


Token = tuple[str, int, int]
"""A word with its start and end."""

MAX_WORDS = 5
"""Longest noun phrase, in words."""
_PREFIX = re.compile(r'(?P<who>[^:"\n]{1,60}?)(?:, asked "(?P<asked>[^"]*)")?: ')
TOKEN = re.compile(r"[^\W_]+(?:['’.&-][^\W_]+)*|&|[^\w\s]")
_CONNECTORS = frozenset(("&", "of", "the", "and", "de", "du", "la", "le", "del", "in", "on"))
_TITLES = frozenset(("Mr", "Mrs", "Ms", "Dr", "Prof", "Professor"))
"""What begins another name: "gave Ana *Dr Sun*"."""
_APART = frozenset(("and", "&", "in", "on"))
"""Connectors on either side of which there may be two names: "Ana and Bob", "the Blue Heron in Leeds"."""


_NO_NOUN = (
    "prepositions", "determiners", "adverbs", "finite", "irregular_past", "modals", "not_names", "backchannel",
    "interjections", "evaluative_topics", "generic_topics",
)  # fmt: skip
"""Word lists whose words neither begin a noun phrase nor are one."""


@lru_cache(maxsize=1)
def _breaks() -> frozenset[str]:
    """Return the words that are no part of a noun phrase."""
    return STOP_WORDS.union(listed("no_noun"), *(word_list(name) for name in _NO_NOUN))


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
class ParsedStatement:
    """A statement taken apart: who said it, the question it answers, its sentences, and their language."""

    speaker: str
    asked: str
    sentences: tuple[Sentence, ...]
    language: Code = "en"


@lru_cache(maxsize=16_384)  # more than a vocabulary reads, so that a write does not make it read all anew
def read_statement(text: str) -> ParsedStatement:
    """Return a statement's speaker, question and sentences; remembered, because statements do not change."""
    found = _PREFIX.match(text)
    body = text[found.end() :] if found else text
    if body[:1] == '"' and body[-1:] == '"':
        body = body[1:-1]
    body = body.replace("’", "'")
    who, asked = (found["who"], found["asked"] or "") if found else ("", "")
    language = detect_language(f"{asked} {body}")
    voices = Voices(who, None) if who else None
    named = (with_names(piece.text, voices, language) for piece in split_sentences(body))
    return ParsedStatement(who, asked, tuple(Sentence(one, tuple(_phrases(one))) for one in named), language)


def chosen_phrases(sentence: Sentence, terms: Collection[str]) -> list[Phrase]:
    """Return the longest phrases among `terms`, none inside another."""
    found: list[Phrase] = []
    for phrase in sorted(sentence.phrases, key=lambda p: (p.start - p.end, p.start)):
        if phrase.term in terms and all(phrase.end <= o.start or o.end <= phrase.start for o in found):
            found.append(phrase)
    return sorted(found, key=lambda p: p.start)


def _phrases(text: str) -> Iterator[Phrase]:
    """Yield the noun phrases of a sentence: capitalised runs, runs of content words, and their parts."""
    tokens = [(m.group(), m.start(), m.end()) for m in TOKEN.finditer(text)]
    index = 0
    while index < len(tokens):
        end = _named_end(tokens, index)
        if end > index:
            owner = end == index + 1 and end < len(tokens) and tokens[index][0].endswith("'s")
            inner = _named_end(tokens, end) if owner else end
            if inner > end:  # "Queen's Cup" is one name
                words = [token[0].lower() for token in tokens[index:inner]]
                yield Phrase(" ".join(words), tokens[index][1], tokens[inner - 1][2], True)
            else:
                yield from _parts(tokens, index, end, named=True)
        else:
            end = index
            while end < len(tokens):
                word = tokens[end][0]
                follows = end + 1 < len(tokens) and is_content(tokens[end + 1][0])
                modifies = word in listed("no_noun") or word in word_list("generic_topics")  # "*night* shift"
                inner = word == "of" and index < end  # "chief of staff"
                if not (
                    is_content(word)
                    or _is_gerund(tokens, end)
                    or (follows and (modifies or inner))
                    or (end == index and _is_participle(tokens, end))
                ):
                    break
                end += 1
            first = tokens[index][0]
            verb = first.endswith("ing") and len(first) >= SHORTEST_GERUND
            if end - index > 1 and verb and not _is_gerund(tokens, index):
                index += 1  # "baking rye bread": the bread counts
            yield from _parts(tokens, index, end, named=False)
        index = max(end, index + 1)


def _is_gerund(tokens: list[Token], at: int) -> bool:
    """Return whether a word in -ing stands where a noun does: "took up *weaving*", not "is weaving"."""
    word, before = tokens[at][0], tokens[at - 1][0].lower() if at else "."
    following = tokens[at + 1][0].lower() if at + 1 < len(tokens) else "."
    if len(word) < SHORTEST_GERUND or not word.lower().endswith("ing") or (at and not word.islower()):
        return False
    if not before[0].isalnum():
        return not following[0].isalnum()  # an answer: "Weaving, mostly."
    ends = not following[0].isalnum() or following in _breaks()
    return ends and before not in listed("before_verb") and not before.endswith(("n't", "'s", "'m", "'re"))


SHORTEST_GERUND = 6
"""Letters of the shortest word in -ing that may name something one does: shorter ones are mostly nouns or verbs anyway."""


def _is_participle(tokens: list[Token], at: int) -> bool:
    """Return whether a participle qualifies the noun behind it: "a marketing assistant", "the split shift"."""
    word, before = tokens[at][0], tokens[at - 1][0].lower() if at else ""
    if not word.islower() or at + 1 == len(tokens) or not is_content(tokens[at + 1][0]):
        return False
    if word.endswith("ing"):
        return before in word_list("determiners") or before in listed("before_participle")
    past = word.endswith("ed") or word in word_list("irregular_past")
    return past and before in word_list("determiners")


def is_content(word: str) -> bool:
    """Return whether a word may be part of a noun phrase that is no name."""
    return (
        word[0].isalpha()
        and word[0].islower()
        and len(word) > 2
        and word not in _breaks()
        and not _is_verbal(word)
    )


@lru_cache(maxsize=16_384)
def _is_verbal(word: str) -> bool:
    """Return whether a word is a verb by its form, unless it is also a listed thing ("running", "baking")."""
    return is_verb_form(word) or (word.endswith(("ing", "ed")) and len(word) > 5)


def _named_end(tokens: list[Token], at: int) -> int:
    """Return where the capitalised run at `at` ends ("The Long Table", "Salt & Pine", "Acme phone")."""
    word = tokens[at][0]
    if not word[0].isupper() or word == "I":
        return at
    following = tokens[at + 1][0] if at + 1 < len(tokens) else "."
    low = word.lower()
    if low in _breaks() and not following[0].isupper():
        return at
    if low.endswith("days") and low[:-1] in word_list("not_names"):
        return at  # "on Mondays"
    if at == 0 and not following[0].isupper() and _is_verbal(word.lower()):
        return at  # "Living in Davis ..." begins a sentence, not a name
    end = at + 1
    while end < len(tokens) and end - at < MAX_WORDS and not tokens[end - 1][0].endswith("'s"):
        if tokens[end][0][0].isupper() and tokens[end][0] not in _TITLES:
            end += 1
        elif _connects(tokens, end):
            end += 2
        else:
            break
    while end < len(tokens) and end - at < MAX_WORDS and is_content(tokens[end][0]):
        end += 1
    return end


def _connects(tokens: list[Token], at: int) -> bool:
    """Return whether a small word joins two parts of a name: "Stoke on Trent", but not "Leeds in April"."""
    word, following = tokens[at][0].lower(), tokens[at + 1][0] if at + 1 < len(tokens) else "."
    dated = word in _APART and following.lower() in _breaks()
    return word in _CONNECTORS and following[0].isupper() and not dated


def _parts(tokens: list[Token], start: int, end: int, *, named: bool) -> Iterator[Phrase]:
    """Yield a run of words and its shorter runs; a name is not cut inside."""
    for i in range(start, end):
        for j in range(end, i, -1):
            if j - i > MAX_WORDS:
                continue
            words = [token[0].lower() for token in tokens[i:j]]
            words[-1] = words[-1].removesuffix("'s")
            if words[0] in _CONNECTORS - {"the"} or words[-1] in _CONNECTORS:
                continue
            if len(words) == 1 and words[0] in _breaks():
                continue
            capital = named and tokens[i][0][0].isupper()
            if capital and (_splits_name(tokens, start, end, i, j)):
                continue
            yield Phrase(" ".join(words), tokens[i][1], tokens[j - 1][2], capital)


def _splits_name(tokens: list[Token], start: int, end: int, i: int, j: int) -> bool:
    """Return whether ``tokens[i:j]`` is only a piece of a run's capitalised words; without "The" is no piece."""
    first = tokens[start]  # with a capital only because a sentence begins: "Her Acme", "Still Oslo"
    small = first[0] == "The" or (first[1] == 0 and first[0].lower() in _breaks())
    from_start = i == start or (i == start + 1 and small) or tokens[i - 1][0] in _APART
    cut = j < end and tokens[j][0] in _APART - {"&"}
    return not from_start or (not cut and any(token[0][0].isupper() for token in tokens[j:end]))


def contrasted(text: str, phrases: Sequence[Phrase], found: Mapping[Phrase, Stance]) -> dict[Phrase, Stance]:
    """Return the changed stances of those phrases that a sentence sets against each other; empty if it sets none.

    Args:
        text: of a sentence.
        phrases: of it, things of one kind, from left to right.
        found: how the sentence stands to each of them alone.
    """
    turned: dict[Phrase, Stance] = {}
    for one, other in pairwise(phrases):
        if one.term == other.term or _BESIDE.fullmatch(text[one.end : other.start]):
            continue
        order = _order(text, one, other, found)
        if order is None:
            continue
        old, new = order
        turned[old] = "end"
        if found[new] != "back" and (new is other or found[new] != "is"):
            turned[new] = "start"
        else:
            turned[new] = found[new]
    return turned


def _order(
    text: str, one: Phrase, other: Phrase, found: Mapping[Phrase, Stance]
) -> tuple[Phrase, Phrase] | None:
    """Return two phrases as the old and the new one, or None if the sentence does not tell."""
    linked = linked_order(text, one, other)
    if linked is not None:
        taken_back = linked[0] is other and (found[one] == "unreal" or found[other] == "back")
        return None if taken_back else linked
    between, behind = text[one.end : other.start], text[other.end :]
    if found[other] in ("unreal", "over", "end") or not _NEXT.search(between):
        return None
    gone = found[one] in ("end", "over") or rules()["gone"].match(text[one.end :].lstrip())
    not_it = found[one] in ("event", "unreal") and (
        found[other] in ("start", "back") or _LATELY.search(between + behind) is not None
    )
    return (one, other) if gone or not_it else None


def linked_order(text: str, one: Phrase, other: Phrase) -> tuple[Phrase, Phrase] | None:
    """Return two phrases as the old and the new one by the words between them, or None if these do not tell."""
    before, between = text[: one.start], text[one.end : other.start]
    if len(between) > LONGEST_LINK:
        return None
    handed = _FROM.search(before) or _CHANGED.search(before) or "over to" in between
    if handed and _ONTO.fullmatch(between):
        return one, other
    wording = rules()
    if wording["for_old"].search(between) or wording["of_new"].fullmatch(between.strip()):
        return other, one
    return None


LONGEST_LINK = 60
"""Characters between two things that a sentence may still set against each other by a word or two."""


_BESIDE = re.compile(
    r"(?:,| and| or| &|,? as well as)(?: (?:the|an?|her|his|their|my|our))?\s*", re.IGNORECASE
)
"""Stands between two things that do not replace each other."""
_FROM = re.compile(r"\bfrom(?: (?:the|an?|her|his|their|my|our|old|\w+'s)){0,3}\s+$", re.IGNORECASE)
_CHANGED = re.compile(r"\bchang\w+(?: (?:the|an?|her|his|their|my|our|old|\w+'s)){0,3}\s+$", re.IGNORECASE)
_ONTO = re.compile(
    r".*(?<!\w)(?:to|into|onto|for|with)(?: (?:the|an?|her|his|their|my|our|new|\w+'s)){0,3}\s+$",
    re.IGNORECASE,
)
_NEXT = re.compile(r"[,;:]|\b(?:and|so|but|then|now)\b", re.IGNORECASE)
"""Leads from the old thing to the new one."""
_LATELY = re.compile(r"\b(?:now|these days|nowadays|instead|since)\b", re.IGNORECASE)


_REACH = 48
"""Characters in front of a phrase in which the word that governs it stands."""


@dataclass(frozen=True, slots=True)
class PhrasePosition:
    """The phrases that start at one place of a sentence, and the change that the words before them express."""

    phrases: tuple[Phrase, ...]
    before: int
    """Where the text before them ends, without articles and owners."""
    stance: Stance | None
    """``end``, ``start`` or ``back`` behind a word of change."""
    held: bool
    """Behind a verb in the present, or owned."""


def places(sentence: Sentence) -> tuple[PhrasePosition, ...]:
    """Return the places of a sentence from left to right; they depend on its text alone."""
    at: dict[int, list[Phrase]] = {}
    for phrase in sentence.phrases:
        at.setdefault(phrase.start, []).append(phrase)
    found = []
    for start, phrases in sorted(at.items()):
        text = sentence.text[:start]
        before = _DETERMINERS.sub("", text)
        found.append(
            PhrasePosition(tuple(phrases), len(before), _governor(before), _HOLDER.search(text) is not None)
        )
    return tuple(found)


def turning_points(
    text: str, places: Sequence[PhrasePosition], uses: Mapping[str, int]
) -> list[tuple[str, Stance]]:
    """Return the phrases right behind a word of change: (term, ``end`` | ``start`` | ``back``), in order.

    Of the phrases that overlap, the one that the memory uses most, for its length, counts.

    Args:
        text: of a sentence.
        places: of it.
        uses: how often the memory uses each term; phrases of others do not count.
    """
    found: list[tuple[int, str, Stance]] = []
    left = -1
    for place in places:
        stance = place.stance
        if stance is None and left < 0:
            continue
        best = _most_used(place, uses)
        if best is None:
            continue
        if stance is None and _ONWARD.search(text[left : place.before]):
            stance = "start"
        if stance is None or (found and found[-1][0] >= best.start):
            continue
        left = best.end if stance == "end" else left
        found.append((best.end, best.term, stance))
    return [(term, stance) for _, term, stance in found]


def exchanged(text: str, places: Sequence[PhrasePosition], uses: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return (old, new) terms where the words between them show that the new one replaces the old one."""
    found = [best for place in places if (best := _most_used(place, uses)) is not None]
    orders = (linked_order(text, one, other) for one, other in pairwise(found) if one.end <= other.start)
    return [(old.term, new.term) for old, new in filter(None, orders) if old.term != new.term]


def held_phrases(places: Sequence[PhrasePosition], uses: Mapping[str, int]) -> Iterator[str]:
    """Yield the phrases that are the object of a verb in the present or a possession: "plays the *flute*"."""
    for place in places:
        if place.held and (best := _most_used(place, uses)) is not None:
            yield best.term


def _most_used(place: PhrasePosition, uses: Mapping[str, int]) -> Phrase | None:
    """Return the phrase of a place that the memory uses most, for its length; None if it uses none of them."""
    best = most_used([phrase.term for phrase in place.phrases], uses)
    return next((phrase for phrase in place.phrases if phrase.term == best), None)


def most_used(terms: Sequence[str], uses: Mapping[str, int]) -> str | None:
    """Return the term that the memory uses most, for its length, of those that begin at one place."""
    known = [term for term in terms if term in uses]
    return max(known, key=lambda term: (uses[term] * len(term.split()), len(term)), default=None)


_HOLDER = re.compile(
    r"(?:\w(?:s|ing)|\b(?:has|have|had|been|is|am|are))(?: (?:still|now|also|currently|already|just))?(?: (?:at|in|on|with|to|for|by|as|of|after))?"
    r"(?:\s+(?:an?|the|that|his|her|their|my|[\w']+'s))?\s+$"
)


_DETERMINERS = re.compile(
    r"(?<!\s)(?:\s+(?:a|an|the|his|her|their|my|its|some|new|old|another|that|this|[\w']{1,40}'s)){0,8}\s*$",
    re.IGNORECASE,
)


_ONWARD = re.compile(r"\b(?:to|for|with|onto|into)$", re.IGNORECASE)


def _governor(before: str) -> Stance | None:
    """Return the change that the last words of a text express, or None."""
    wording = rules()
    tail = before[-_REACH:]
    for name, stance in _TURNS:
        if any(match.end() == len(tail) for match in wording[name].finditer(tail)):
            return stance
    return None


_TURNS: tuple[tuple[str, Stance], ...] = (("again", "back"), ("leave", "end"), ("enter", "start"))
