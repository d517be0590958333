"""The noun phrases of a statement: what it names, and where.

A statement is a fact's text: who said it, the question it answers if it is an answer, and its sentences. A
sentence's phrases are its capitalised runs and its runs of content words, with every shorter run inside them,
because which of "weekly rye bread", "rye bread" and "bread" is the thing shows only in the rest of the memory.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

from memforest.language.aspect import listed, word_list
from memforest.language.language import Code, detect_language
from memforest.language.sentences import split_sentences
from memforest.language.tokens import is_verb_form
from memforest.text import STOP_WORDS

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
"""Word lists none of which may begin a noun phrase, or be one."""


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
class Statement:
    """A statement taken apart: who said it, the question it answers, its sentences, and their language."""

    speaker: str
    asked: str
    sentences: tuple[Sentence, ...]
    language: Code = "en"


@lru_cache(maxsize=16_384)  # more than a vocabulary reads, so that a write does not make it read all anew
def read_statement(text: str) -> Statement:
    """Return a statement's speaker, question and sentences; remembered, because statements do not change."""
    found = _PREFIX.match(text)
    body = text[found.end() :] if found else text
    if body[:1] == '"' and body[-1:] == '"':
        body = body[1:-1]
    body = body.replace("’", "'")
    sentences = tuple(Sentence(piece.text, tuple(_phrases(piece.text))) for piece in split_sentences(body))
    asked = (found["asked"] or "") if found else ""
    return Statement(found["who"] if found else "", asked, sentences, detect_language(f"{asked} {body}"))


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
            while end < len(tokens) and (
                is_content(tokens[end][0])
                or _is_gerund(tokens, end)
                or _is_modifier(tokens, end)
                or _is_inner_of(tokens, index, end)
                or (end == index and _is_participle(tokens, end))
            ):
                end += 1
            first = tokens[index][0]
            verb = first.endswith("ing") and len(first) >= SHORTEST_GERUND
            if end - index > 1 and verb and not _is_gerund(tokens, index):
                index += 1  # "baking rye bread": the bread counts
            yield from _parts(tokens, index, end, named=False)
        index = max(end, index + 1)


def _is_inner_of(tokens: list[Token], start: int, at: int) -> bool:
    """Return whether "of" stands between two content words: "chief of staff"."""
    return tokens[at][0] == "of" and start < at < len(tokens) - 1 and is_content(tokens[at + 1][0])


def _is_modifier(tokens: list[Token], at: int) -> bool:
    """Return whether a word that is no thing of its own stands in front of a noun: "*night* shift"."""
    follows = at + 1 < len(tokens) and is_content(tokens[at + 1][0])
    return follows and (tokens[at][0] in listed("no_noun") or tokens[at][0] in word_list("generic_topics"))


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
        return before in _before_participle()
    past = word.endswith("ed") or word in word_list("irregular_past")
    return past and before in word_list("determiners")


@lru_cache(maxsize=1)
def _before_participle() -> frozenset[str]:
    """Return the words behind which a word in -ing may qualify a noun."""
    return word_list("determiners") | listed("before_participle")


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
    from_start = (
        i == start
        or (i == start + 1 and (tokens[start][0] == "The" or _opens_small(tokens, start)))
        or tokens[i - 1][0] in _APART
    )
    cut = j < end and tokens[j][0] in _APART - {"&"}
    return not from_start or (not cut and any(token[0][0].isupper() for token in tokens[j:end]))


def _opens_small(tokens: list[Token], at: int) -> bool:
    """Return whether a word has its capital only because a sentence begins: "Her Acme", "Still Oslo"."""
    return tokens[at][1] == 0 and tokens[at][0].lower() in _breaks()
