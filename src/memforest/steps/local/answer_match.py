"""Which evidence answers a question: the words and names both share, nothing else.

A question is read into weighted content words, the names it is about and the form its answer takes; a piece
of evidence into its stems and names. Both come from untrusted text and are only compared.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memforest.steps.base import AnswerEvidence
from memforest.steps.local.answer_wording import Form, Wording, plain, read_wording, stems
from memforest.text import entity_key, words
from memforest.types import QuestionPlan

__all__ = [
    "MIN_COVERAGE",
    "ORDERED",
    "READ_CHARS",
    "Item",
    "Question",
    "Words",
    "about",
    "asked_type",
    "coverage",
    "folded_words",
    "is_dated",
    "matching_items",
    "read_item",
    "read_question",
]

MIN_COVERAGE = 0.6
"""Part of a question's content words that a statement must share to answer it.

Of two words it takes both, of three two, of four three. At one half, "Where did Ana buy a car?" would be answered
by "Ana bought a bike in Lugo". Names do not count (they are checked apart), and the noun after "which" or
"what" counts half, because an answer names the thing and not its type.
"""

MIN_COVERAGE_UNLISTED = 0.4
"""The same for a language without word lists, where question and function words cannot be told from content."""

TYPE_WEIGHT = 0.5
"""Weight of the noun that says what type of thing is asked for ("what *instrument* does …")."""

RANK_COST = 0.03
"""Coverage that one rank is worth: evidence lower down must share clearly more words to be preferred."""

IN_WINDOW = 0.3
"""Coverage that a statement gains which is dated within the time that the question names."""

OUT_OF_WINDOW = 0.5
"""Coverage that one loses which is dated, and outside of that time."""

READ_CHARS = 4_000
"""Characters read of a question, a statement or a quote."""

ORDERED = frozenset({"current", "as_of", "predecessor", "successor", "first", "last", "changed_back"})
"""Plan kinds whose evidence comes in the order of a time operator, which is kept."""


_SENTENCE_ENDS = re.compile(r"(?<=[.!?。！？؟\n])")
_HEADING_WORDS = 3
"""A question of so few words names what follows: "And work? I'm at the theatre." is about work."""


class Words:
    """The folded words of a text, asked for names."""

    def __init__(self, text: str) -> None:
        self._text = plain(text)
        self._words = folded_words(text)

    def name(self, pieces: frozenset[str]) -> bool:
        """Whether any piece of a name occurs: as a word, or inside one where scripts leave no spaces."""
        return not self._words.isdisjoint(pieces) or any(
            not piece.isascii() and len(piece) > 1 and piece in self._text for piece in pieces
        )


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of evidence with what it is compared by."""

    index: int
    evidence: AnswerEvidence
    stems: frozenset[str]
    said: Words
    quoted: Words


@dataclass(frozen=True, slots=True)
class Question:
    """A question as it is compared: content words with their weights, and the names it is about."""

    text: str
    asked: tuple[str, ...]
    wording: Wording | None
    form: Form
    plan: QuestionPlan
    weights: dict[str, float]
    names: tuple[frozenset[str], ...]
    attribute: frozenset[str]
    kinds: frozenset[str]
    """Things of the attribute's kind: a dog is a pet, and no cat."""

    @property
    def code(self) -> str:
        """The language whose stems are compared, "other" if it has no wording."""
        return self.wording.code if self.wording else "other"


# --- reading the question ----------------------------------------------------------------------------


def read_question(text: str, plan: QuestionPlan) -> Question:
    """Return a question as it is compared; the plan's kind says the form where the words do not."""
    wording = read_wording(text)
    asked = tuple(plain(word) for word in words(text))
    form: Form = wording.form(asked, "?" in text) if wording else "statement"
    if plan.kind in ("when", "since") and form not in ("ago", "how_long", "since"):
        form = "since" if plan.kind == "since" else "when"
    code = wording.code if wording else "other"
    names = _names(text, plan, wording)
    attribute, kinds = _attribute_words(plan, wording, code)
    weights = _content(text, plan, wording, frozenset().union(*names) if names else frozenset(), asked)
    return Question(text, asked, wording, form, plan, weights, names, attribute, kinds)


def _names(text: str, plan: QuestionPlan, wording: Wording | None) -> tuple[frozenset[str], ...]:
    """Return the word sets of the names in a question: the plan's entities and, with a wording, capitals.

    In other languages a capital may mark every noun, so only the plan's entities count. The first word is
    no name by its capital alone, nor is a word of a title-cased question, a month or a weekday.
    """
    names = [key_words for name in plan.entities if (key_words := _name_words(name))]
    found = words(text)
    if wording is None or sum(word[0].isupper() for word in found) * 2 > len(found):
        return tuple(names)
    known = frozenset().union(*names) if names else frozenset()
    run: list[str] = []
    for index, word in enumerate([*found, ""]):
        folded = plain(word)
        capital = index > 0 and word[:1].isupper() and len(word) > 1 and folded not in wording.calendar_words
        if capital and "'" not in folded.removesuffix("'s"):
            run.append(word)
            continue
        candidate = _name_words(" ".join(run))
        if candidate and not candidate & known:
            names.append(candidate)
        run = []
    return tuple(names)


def _name_words(name: str) -> frozenset[str]:
    """Return the words under which a name is looked for."""
    parts = (entity_key(part) for part in name[:200].split())
    found = frozenset(piece for part in parts if part for piece in part.split())
    return frozenset(piece for piece in found if len(piece) > 1) or found


def _attribute_words(
    plan: QuestionPlan, wording: Wording | None, code: str
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words that ask for the plan's attribute, and those of things of its kind."""
    if plan.attribute is None:
        return frozenset(), frozenset()
    none: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
    listed, kinds = wording.attributes.get(plan.attribute, none) if wording else none
    named = frozenset(stems(plan.attribute.replace("_", " "), code))
    return listed | named - kinds, kinds


def _content(
    text: str, plan: QuestionPlan, wording: Wording | None, names: frozenset[str], asked: Sequence[str]
) -> dict[str, float]:
    """Return the stems of a question that its answer should share, with their weights.

    Not among them: names, words that only say how to answer, the words of a date that the plan resolved,
    and the anchor of "before …", which the neighbouring state need not mention.
    """
    code = wording.code if wording else "other"
    dropped = {stem for name in names for stem in stems(name, code)}
    if plan.kind in ("predecessor", "successor", "as_of") and plan.anchor:
        dropped.update(stems(plan.anchor, code))
    if wording is not None:
        dropped |= wording.stop
    dated = plan.start is not None or plan.end is not None or plan.as_of is not None
    found: dict[str, float] = {}
    for word in words(text):
        folded = plain(word)
        in_date = dated and (folded.isdigit() or (wording is not None and folded in wording.calendar_words))
        if not in_date:
            found.update((stem, 1.0) for stem in stems(word, code) if stem not in dropped)
    kind = asked_type(asked, wording, code)
    if kind in found and len(found) > 1:
        found[kind] = TYPE_WEIGHT
    return found


def asked_type(asked: Sequence[str], wording: Wording | None, code: str) -> str:
    """Return the stem of the noun after "what", "which" or "how many", or ""."""
    if wording is None:
        return ""
    openers = {beginning[-1] for beginning, form in wording.beginnings if form in ("what", "how_many")}
    at = next((index + 1 for index, word in enumerate(asked) if word in openers), len(asked))
    while at < len(asked) and asked[at] in openers:
        at += 1  # "how" and then "many"
    if at + 2 < len(asked) and asked[at + 1] in ("of", "de"):
        at += 2  # "what kind of dog"
    found = stems(asked[at], code) if at < len(asked) else []
    return found[0] if found and found[0] not in wording.stop else ""


# --- comparing it with the evidence ------------------------------------------------------------------


def read_item(index: int, evidence: AnswerEvidence, code: str) -> Item:
    """Return a piece of evidence as it is compared, its stems those of the question's language."""
    text, quote = evidence.text[:READ_CHARS], evidence.quote[:READ_CHARS]
    told = "".join(piece for piece in _SENTENCE_ENDS.split(quote) if not _asks(piece))
    return Item(index, evidence, frozenset(stems(f"{text} {told}", code)), Words(text), Words(quote))


def _asks(sentence: str) -> bool:
    """Return whether a sentence is a question: who asks "How old is he?" has not said how old."""
    if not sentence.endswith(("?", "？", "؟")):
        return False
    return len(sentence.split()) > _HEADING_WORDS or (not sentence.isascii() and len(words(sentence)) == 1)


def is_dated(evidence: AnswerEvidence) -> bool:
    """Return whether a statement says when it holds; one that does not is stored as so from when it was said."""
    if evidence.end is not None:
        return True
    return evidence.start is not None and evidence.start != evidence.said


def _in_time(asked: Question, evidence: AnswerEvidence) -> float:
    """Return what the statement's own date adds or takes when the question names a time."""
    first, last = asked.plan.start, asked.plan.end
    if asked.plan.kind not in ("simple", "list") or first is None or last is None or not is_dated(evidence):
        return 0.0
    begins = evidence.start is None or evidence.start < last
    return IN_WINDOW if begins and (evidence.end is None or evidence.end > first) else -OUT_OF_WINDOW


def folded_words(text: str) -> frozenset[str]:
    """Return the `plain` words of a text, possessive endings removed."""
    return frozenset(piece for word in words(text) for piece in plain(word).removesuffix("'s").split("'"))


def coverage(asked: Question, item: Item) -> float:
    """Return the weight of the question's content words that the evidence shares, 0 to 1; 1 if it has none."""
    total = sum(asked.weights.values())
    if not total:
        return 1.0
    return sum(weight for stem, weight in asked.weights.items() if _shares(asked, item, stem)) / total


def _shares(asked: Question, item: Item, stem: str) -> bool:
    if stem in item.stems:
        return True
    if stem not in asked.attribute:
        return False
    # "Where does Ana live?" is answered by "Ana moved to Lugo": another word for the same state.
    return not (asked.attribute | asked.kinds).isdisjoint(item.stems)


def about(asked: Question, item: Item) -> float:
    """Return how far the evidence is about the question's names, 0 to 1: half for one only in its quote."""
    if not asked.names:
        return 1.0
    said = sum(
        1.0 if item.said.name(name) else 0.5 if item.quoted.name(name) else 0.0 for name in asked.names
    )
    return said / len(asked.names)


def matching_items(asked: Question, items: Sequence[Item]) -> list[Item]:
    """Return the evidence that may answer, best first; in the given order for a time operator."""
    least = MIN_COVERAGE if asked.wording else MIN_COVERAGE_UNLISTED
    scored: list[tuple[float, Item]] = []
    for rank, item in enumerate(items):
        on, shared = about(asked, item), coverage(asked, item)
        if on and shared >= least:
            new = asked.form in ("who", "where") and _names_something_new(asked, item)
            worth = shared + 0.5 * on + (0.1 if new else 0.0) + _in_time(asked, item.evidence)
            scored.append((worth - RANK_COST * rank, item))
    if asked.plan.kind not in ORDERED:
        scored.sort(key=lambda pair: (-pair[0], pair[1].index))
    return [item for _, item in scored]


def _names_something_new(asked: Question, item: Item) -> bool:
    """Whether the statement has a capital that the question has not: a person or place that may be asked for."""
    return any(
        word[0].isupper() and plain(word).removesuffix("'s") not in asked.asked
        for word in words(item.evidence.text[:READ_CHARS])[1:]
    )
