"""Finds the states that a statement asserts: (Bob, residence, Miami), and what it says of their change.

A statement is read from the left: its subject (a known name, "Caroline's brother Tom", "Caroline's new
car"), the front of its predicate, and then the lexicon's patterns of that verb, matched right behind it.
Because everything in front of the value has to be understood, an unknown construction yields nothing:
a wrong state is worse than a missed one. Questions, wishes, plans, quotations and travel are no states.

Spanish and English are read; a statement in any other language has no states. Work is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from memforest.language.lexicon import LANGUAGES, UNSPECIFIED, Lexicon, Pattern, holds_many, load_lexicon
from memforest.language.predicate import (
    MODAL,
    Change,
    Predicate,
    Token,
    change_of,
    is_own,
    lower_in_place,
    read_predicate,
    tokenise,
)
from memforest.language.sentences import MAX_PIECE_CHARS, Piece, split_sentences
from memforest.language.value import Span, accept_value
from memforest.types import State

__all__ = ["UNSPECIFIED", "find_states", "holds_many"]

_Found = tuple[str, Change, Span, "Span | None"]

MAX_REACH = 200
"""Characters behind a verb in which its value has to begin and end."""
MAX_CLAUSES = 8
"""Verbs read per sentence."""

_QUOTED = re.compile(r'"[^"]*"|“[^“”]*”|«[^«»]*»|「[^「」]*」')
_JOINT = re.compile(r"\s*,\s*(?:and\s+|y\s+)?|\s+(?:and|&|y|e)\s+", re.IGNORECASE)
# A text without this is one sentence, and need not be cut.
_SENTENCE_INSIDE = re.compile(r"[.!?…؟।。！？｡][^.]|\n")
_WORDS_OF_SPEECH = 4
_QUESTION_END = ("?", "？", "؟")


def find_states(text: str, *, subjects: Sequence[str]) -> tuple[State, ...]:
    """Return the states that a resolved third-person statement asserts, in its order.

    Args:
        text: the statement, e.g. ``"Bob moved from Davis to Miami in July 2024."``.
        subjects: the names that it mentions; only these (and a capitalised name behind "X's brother")
            can be the entity of a state.

    Example:
        >>> find_states("Bob moved from Davis to Miami in July 2024.", subjects=["Bob"])
        (State(entity='Bob', attribute='residence', value='Miami', previous='Davis', change='start'),)
    """
    names = _sorted_names(tuple(subjects))
    if not names:
        return ()
    flat = _mask_speech(text.replace("’", "'"))
    found: dict[State, None] = {}
    whole = len(flat) <= MAX_PIECE_CHARS and not _SENTENCE_INSIDE.search(flat)
    pieces = [Piece(0, len(flat), flat)] if whole else split_sentences(flat)
    for piece in pieces:
        if piece.text.endswith(_QUESTION_END) or piece.text.startswith("¿"):
            continue
        tokens = tokenise(piece.text)
        for code in LANGUAGES:
            reader = _Sentence(text[piece.start : piece.end], piece.text, tokens, load_lexicon(code), names)
            states = list(reader.states())
            found.update(dict.fromkeys(states))
            if states:
                break
    return tuple(found)


@lru_cache(maxsize=512)
def _sorted_names(subjects: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return (lower case, as given) pairs, the longest first."""
    pairs = {lower_in_place(name.replace("’", "'")): name for name in subjects if name.strip()}
    return tuple(sorted(pairs.items(), key=lambda pair: (-len(pair[0]), pair[0])))


def _mask_speech(text: str) -> str:
    """Return `text` with quotations of several words blanked by NUL; a quoted name stays."""
    if not any(mark in text for mark in '"“«「'):
        return text

    def blank(match: re.Match[str]) -> str:
        return "\0" * len(match.group()) if len(match.group().split()) >= _WORDS_OF_SPEECH else match.group()

    return _QUOTED.sub(blank, text)


@dataclass(frozen=True, slots=True)
class _Subject:
    """Who a clause is about: entities, and the noun phrase behind "X's" if there is one.

    `at` is the index of the first word of the predicate.
    """

    entities: tuple[str, ...]
    noun: tuple[str, ...]
    at: int
    start: int
    end: int


class _Sentence:
    """One sentence under one lexicon."""

    __slots__ = ("flat", "index", "lexicon", "low", "names", "text", "tokens")

    def __init__(
        self, text: str, flat: str, tokens: list[Token], lexicon: Lexicon, names: tuple[tuple[str, str], ...]
    ) -> None:
        self.text = text
        self.flat = flat
        self.low = lower_in_place(flat)
        self.tokens = tokens
        self.index = {token.start: i for i, token in enumerate(tokens)}
        self.lexicon = lexicon
        self.names = names

    # -- clauses ---------------------------------------------------------------------------------

    def states(self) -> Iterator[State]:
        """Yield the states of every clause whose subject is known."""
        if self.lexicon.forms.keys().isdisjoint(token.low for token in self.tokens):
            return
        subject = self._first_subject()
        at = subject.at if subject else len(self.tokens)
        if at < len(self.tokens) and self.tokens[at].low in self.lexicon.words["who"]:
            at += 1
        for _ in range(MAX_CLAUSES):
            if subject is None or at >= len(self.tokens):
                return
            head = self._predicate(subject, at)
            if isinstance(head, Predicate):
                yield from self._read(subject, head)
            following = self._next_clause(subject, at + 1, free=head != MODAL)
            if following is None:
                return
            subject, at = following

    def _first_subject(self) -> _Subject | None:
        """Return the subject of the first clause, behind at most two leading phrases ("In May, …")."""
        at = 0
        for _ in range(3):
            if at >= len(self.tokens):
                return None
            subject = self._subject(at)
            if subject is not None:
                return subject
            word = self.tokens[at].low
            comma = self.flat.find(", ", self.tokens[at].end, self.tokens[at].end + 80)
            if word in self.lexicon.words["leading"] and comma > 0:
                at = self.index.get(comma + 2, len(self.tokens))
            elif word in self.lexicon.words["adverbs"]:
                at += 1
            else:
                return None
        return None

    def _next_clause(self, subject: _Subject, at: int, *, free: bool) -> tuple[_Subject, int] | None:
        """Return the next clause from word `at` on: its subject (maybe the same again) and its first word."""
        words = self.lexicon.words
        for i in range(at, len(self.tokens)):
            token = self.tokens[i]
            gap = self.flat[self.tokens[i - 1].end : token.start]
            joined = token.low in words["but"] or token.low in words["who"]
            if not (joined or gap.lstrip().startswith((",", ";"))):
                continue
            after = i + 1 if joined else i
            while after < len(self.tokens) and self.tokens[after].low in words["but"] | words["adverbs"]:
                after += 1
            if after >= len(self.tokens):
                return None
            new = self._subject(after)
            if new is not None:
                return new, new.at
            if free and self.tokens[after].low in words["pronouns"]:
                return subject, after + 1
            if (
                free
                and self._is_finite(self.tokens[after].low)
                and (token.low not in words["who"] or i == subject.at)
            ):
                return subject, after
        return None

    def _is_finite(self, word: str) -> bool:
        """Return whether a word can only be a verb of its own clause: "lives", "moved", "has", not "work"."""
        if self.lexicon.roles.get(word) in ("be", "have", "do", "inceptive", "cessative"):
            return True
        return any(
            tag in ("now", "past") and word != lemma for lemma, tag in self.lexicon.forms.get(word, ())
        )

    # -- subjects --------------------------------------------------------------------------------

    def _name_at(self, at: int) -> tuple[str, int] | None:
        """Return the known name that starts at word `at`, and the index of the word behind it."""
        if at >= len(self.tokens):
            return None
        start = self.tokens[at].start
        for low, name in self.names:
            if self.low.startswith(low, start):
                end = start + len(low)
                if end == len(self.low) or not (self.low[end].isalnum() or self.low[end] == "_"):
                    return name, end
        return None

    def _subject(self, at: int) -> _Subject | None:
        """Return the subject that starts at word `at`: names, "X's noun" or "X's brother Tom"."""
        named = self._name_at(at)
        if named is None:
            return self._of_subject(at)
        name, end = named
        start = self.tokens[at].start
        if self.low.startswith("'s ", end) or (self.low.startswith("' ", end) and self.low[end - 1] in "sxz"):
            return self._owned(name, start, self._word_from(end + 2))
        entities = [name]
        behind = self._word_from(end)
        while behind < len(self.tokens):
            more = self._joined_name(behind, end)
            if more is None:
                break
            entities.append(more[0])
            end = more[1]
            behind = self._word_from(end)
        return _Subject(tuple(entities), (), behind, start, end)

    def _joined_name(self, behind: int, end: int) -> tuple[str, int] | None:
        """Return the next of several names joined by "and" or a comma, and where it ends."""
        gap = self.flat[end : self.tokens[behind].start]
        token = self.tokens[behind]
        if token.low in self.lexicon.words["and"] and gap.strip(" ,") == "":
            following = self._name_at(behind + 1)
        elif gap.strip() in (",", "&"):
            following = self._name_at(behind)
        else:
            return None
        if following is None or self.low.startswith("'s", following[1]):
            return None
        return following

    def _word_from(self, position: int) -> int:
        """Return the index of the first word that starts at `position` or later."""
        for i, token in enumerate(self.tokens):
            if token.start >= position:
                return i
        return len(self.tokens)

    def _owned(self, owner: str, start: int, at: int) -> _Subject | None:
        """Return the subject "owner's …": another known name behind it, or its noun phrase."""
        words: list[str] = []
        for i in range(at, min(at + 6, len(self.tokens))):
            token = self.tokens[i]
            named = self._name_at(i)
            kin = bool(words) and words[-1] in self.lexicon.words["kin"]
            if named is not None and words:
                return _Subject((named[0],), (), self._word_from(named[1]), start, named[1])
            if self._ends_noun(token.low, plural=kin and words[-1].endswith("s")):
                return _Subject((owner,), tuple(words), i, start, token.start) if words else None
            if kin and self.flat[token.start].isupper():
                return _Subject((self.text[token.start : token.end],), (), i + 1, start, token.end)
            if words and self.flat[self.tokens[i - 1].end : token.start].strip():
                return None
            words.append(token.low)
        return None

    def _ends_noun(self, word: str, *, plural: bool) -> bool:
        """Return whether a noun phrase ends before `word`, because it is a verb."""
        role = self.lexicon.roles.get(word)
        if role == "adverbs":
            return word not in self.lexicon.words["qualifiers"]
        return (
            role is not None
            or word.endswith("n't")
            or self._is_finite(word)
            or (plural and word in self.lexicon.forms)
        )

    def _of_subject(self, at: int) -> _Subject | None:
        """Return the subject "el trabajo de Bob": a noun phrase, "de" and a known name."""
        of = self.lexicon.words["of"]
        if not of or self.tokens[at].low not in self.lexicon.words["articles"]:
            return None
        for i in range(at + 2, min(at + 6, len(self.tokens))):
            named = self._name_at(i) if self.tokens[i - 1].low in of else None
            if named is not None:
                noun = tuple(token.low for token in self.tokens[at : i - 1])
                return _Subject((named[0],), noun, self._word_from(named[1]), self.tokens[at].start, named[1])
        return None

    # -- predicates ------------------------------------------------------------------------------

    def _predicate(self, subject: _Subject, at: int) -> Predicate | str | None:
        """Return the predicate at word `at`; reported speech of the subject about itself is looked into."""
        head = read_predicate(self.flat, self.tokens, at, self.lexicon, copula=bool(subject.noun))
        if head != "report":
            return head
        own = {name.lower() for name in subject.entities} | self.lexicon.words["pronouns"]
        for i in range(at + 1, min(at + 6, len(self.tokens))):
            if self.tokens[i].low in own:
                inner = read_predicate(self.flat, self.tokens, i + 1, self.lexicon)
                if isinstance(inner, Predicate):
                    inner.reported = True
                return inner
        return MODAL

    def _read(self, subject: _Subject, head: Predicate) -> Iterator[State]:
        """Yield the states of one clause."""
        limit = min(len(self.flat), head.rest + MAX_REACH)
        if subject.noun:
            named = list(self._read_noun(subject, head, limit))
            if named or subject.noun[-1] not in self.lexicon.words["kin"]:
                yield from named
                return
        prefix = f"{subject.noun[-1]}." if subject.noun else ""
        for attribute, change, value, previous in self._matches(subject, head, limit):
            for entity in subject.entities:
                yield self._state(entity, prefix + attribute, value, previous, change)
        if not subject.noun:
            yield from self._read_inverse(subject, head)

    def _state(
        self, entity: str, attribute: str, value: Span, previous: Span | None, change: Change
    ) -> State:
        """Return a state whose values are cut from the text as it was written, white space folded."""
        before = None if previous is None else " ".join(self.text[previous[0] : previous[1]].split())
        return State(entity, attribute, " ".join(self.text[value[0] : value[1]].split()), before, change)

    def _tail(self, head: Predicate) -> tuple[bool, bool, bool]:
        """Return whether the text behind a verb dates it, says that it ended, and says "any more"."""
        if not (head.past or head.negated):
            return False, False, False
        tail = self.low[head.rest : head.rest + MAX_REACH]
        words = self.lexicon.words
        return (
            self.lexicon.dated.search(tail) is not None,
            any(f" {word} " in tail for word in words["until"]),
            any(word in tail for word in words["ceased_tail"]),
        )

    def _matches(self, subject: _Subject, head: Predicate, limit: int) -> Iterator[_Found]:
        """Yield (attribute, change, value, previous) of the first pattern that fits, per attribute."""
        seen: set[str] = set()
        dated, ended, any_more = self._tail(head)
        for pattern in self.lexicon.patterns(head.lemma):
            if pattern.attribute in seen or (seen and not pattern.attribute) or pattern.sense == "noun_start":
                continue
            match = pattern.regex.match(self.flat, head.rest, limit)
            if match is None or not is_own(match, subject.entities):
                continue
            change = change_of(pattern.sense, head, dated=dated, ended=ended, any_more=any_more)
            fitted = self._fit(pattern, match, head) if change else None
            if not change or not fitted:
                continue
            attribute, value, previous = fitted
            seen.add(attribute)
            yield attribute, change, value, previous
            for more in self._more(pattern, value, limit):
                yield attribute, change, more, None

    def _more(self, pattern: Pattern, value: Span, limit: int) -> Iterator[Span]:
        """Yield the further values of an enumeration ("a dog and a cat") if the attribute holds many."""
        kind = dict(pattern.types).get("value", "")
        known = self.lexicon.attributes.get(pattern.attribute)
        for _ in range(MAX_CLAUSES if known and known.many and kind in self.lexicon.kinds else 0):
            joint = _JOINT.match(self.flat, value[1], limit)
            span = joint and accept_value(self.flat, (joint.end(), limit), kind, self.lexicon, last=True)
            if not span:
                return
            value = span
            yield value

    def _fit(
        self, pattern: Pattern, match: re.Match[str], head: Predicate
    ) -> tuple[str, Span, Span | None] | None:
        """Return (attribute, value, previous) if every value of the match has its type."""
        attribute, noun_type = pattern.attribute, ""
        spans: dict[str, Span] = {"value": head.surface}
        types = dict(pattern.types)
        if types.pop("noun", None):
            noun = self.lexicon.noun(match["noun"].lower().split())
            if noun is None:
                return None
            attribute, noun_type = noun.attribute, noun.type
        for group, kind in types.items():
            if match[group] is None:
                continue
            kind = noun_type if noun_type and kind in ("np", "solid") else kind
            span = accept_value(
                self.flat, match.span(group), kind, self.lexicon, last=match.end(group) == match.end()
            )
            if span is None or (group == "value" and self._is_bare_noun(span, attribute)):
                return None
            if group == "previous" and self.low[span[0] : span[1]] in self.lexicon.nouns:
                continue  # "his old laptop" names the attribute, no value
            spans[group] = span
        if not attribute and "previous" not in spans:
            return None
        return attribute or UNSPECIFIED, spans["value"], spans.get("previous")

    def _is_bare_noun(self, span: Span, attribute: str) -> bool:
        """Return whether a value only names its attribute: "joined a gym" does not say which."""
        return self.lexicon.nouns.get(self.low[span[0] : span[1]]) == attribute

    def _read_noun(self, subject: _Subject, head: Predicate, limit: int) -> Iterator[State]:
        """Yield the state of "X's noun is value" and "X's noun changed from a to b"."""
        noun = self.lexicon.noun(subject.noun)
        if noun is None or len(noun.attribute.split()) > 4 or head.negated:
            return
        if head.lemma in ("be", "become", "ser", "llamar"):
            span = accept_value(self.flat, (head.rest, limit), noun.type, self.lexicon, last=True)
            over = noun.former or head.past or head.phase == "end"
            if span is not None and (noun.known or not over):
                change: Change = "start" if head.lemma == "become" else "end" if over else "is"
                yield self._state(subject.entities[0], noun.attribute, span, None, change)
            return
        for pattern in self.lexicon.patterns(head.lemma):
            match = (
                pattern.regex.match(self.flat, head.rest, limit) if pattern.sense == "noun_start" else None
            )
            if match is None or head.progressive:
                continue
            value = accept_value(self.flat, match.span("value"), noun.type, self.lexicon, last=True)
            previous = None
            if match["previous"] is not None:
                previous = accept_value(
                    self.flat, match.span("previous"), noun.type, self.lexicon, last=False
                )
            if value is not None:
                yield self._state(subject.entities[0], noun.attribute, value, previous, "start")
                return

    def _read_inverse(self, subject: _Subject, head: Predicate) -> Iterator[State]:
        """Yield the state of "Tom is Bob's new manager": Bob's, with Tom as the value."""
        if (
            head.lemma not in ("be", "become")
            or head.negated
            or head.progressive
            or len(subject.entities) != 1
        ):
            return
        inner = self._name_at(self._word_from(head.rest))
        if inner is None or not self.low.startswith("'s ", inner[1]):
            return
        words = [token.low for token in self.tokens[self._word_from(inner[1] + 2) :][:5]]
        for size in range(len(words), 0, -1):
            noun = self.lexicon.noun(words[:size])
            if noun is not None and noun.known and (noun.type in ("name", "org") or ":" in noun.attribute):
                over = head.past or noun.former
                change: Change = "end" if over else "start" if head.lemma == "become" else "is"
                yield self._state(inner[0], noun.attribute, (subject.start, subject.end), None, change)
                return
