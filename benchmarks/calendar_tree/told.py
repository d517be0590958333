"""How much of what answers a question is told by the evidence for it: by turns, and by memories that have their sentences.

A supporting turn is *found* if it is itself among the evidence, or if one of its whole sentences stands in the text of a memory,
word for word, and has `CONTENT_WORDS` words or more that are no function words. It is *told* also if one sentence of a memory
has all of these words: what the package states without a model has names in the place of "I" ("Ana took the kids to the lake"). A
model's summary in its own words tells nothing so: without an answering model nobody can say what it tells.

Evidence is walked from the top. In a budget of tokens, a piece costs the tokens of the line that is shown of it, and one that
does not fit ends the budget, as in `QueryResult.context`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from calendar_tree.counts import Ways
from locomo.baselines import turn_said
from locomo.conversations import Conversation
from memforest.read.results import Evidence
from memforest.reading.tokens import split_sentences
from memforest.text import count_tokens, lexical_tokens

__all__ = [
    "BUDGETS",
    "CONTENT_WORDS",
    "LEAVES",
    "MEASURES",
    "PIECES",
    "Piece",
    "Sentence",
    "Talked",
    "pieces_of",
    "talked",
    "walk",
]

BUDGETS = (256, 512, 1024, 2048)
"""Estimated tokens of context (`memforest.text`)."""
PIECES = (5, 10, 20, 30, 40, 50)
"""Pieces of evidence that are counted whatever their length."""
LEAVES = 20
"""Segments of the paper's budget of leaves."""
CONTENT_WORDS = 4
"""A shorter sentence ("Yes, I did.") stands in many texts."""

MEASURES = (
    f"leaves@{LEAVES}",
    *(f"found {budget}" for budget in BUDGETS),
    "found",
    *(f"told {budget}" for budget in BUDGETS),
    "told",
    "tokens",
    "pieces",
    *(f"found@{pieces}" for pieces in PIECES),
    *(f"tokens@{pieces}" for pieces in PIECES),
    *(f"memories@{pieces}" for pieces in PIECES),
)
"""The share of the supporting turns in the first `LEAVES` segments of which the evidence has a turn or the memory; the
share that is found in each budget, and in all evidence; the same of those that are told; the tokens and the pieces of all; and
of the first `PIECES`, whatever their length, the share that is found, their tokens, and how many of them are memories."""


class Piece(NamedTuple):
    """A piece of evidence: the tokens of its line, the turns that are shown, those of its segment, and a memory's text."""

    tokens: int
    turns: tuple[str, ...]
    leaf: tuple[str, ...]
    """Of a turn itself, of a segment all of its turns; empty of a higher memory."""
    text: str


class Sentence(NamedTuple):
    """A sentence, and its words that are no function words."""

    text: str
    words: frozenset[str]

    def stands_in(self, text: str) -> bool:
        """Return whether a text has it word for word."""
        return self.text in text

    def is_told_by(self, text: str) -> bool:
        """Return whether one sentence of a text has all of its words."""
        return any(self.words <= words for words in _words_by_sentence(text))


@dataclass(frozen=True, slots=True)
class Talked:
    """What was said in a conversation, as it is looked for."""

    sentences: Mapping[str, Sequence[Sentence]]
    """Turn id -> its sentences that can be told from others."""
    leaf: Mapping[str, int]
    """Turn id -> the number of its segment."""


def talked(conversation: Conversation, ways: Ways | None = None) -> Talked:
    """Return what is looked for in the evidence of a conversation's questions.

    Args:
        conversation: whose turns.
        ways: how segments are cut; an odd last turn that is in none is one by itself here.
    """
    exchanges = 1 if ways is None else ways.segment
    sentences, leaf, first = {}, {}, 0
    for session in conversation.sessions:
        for at, turn in enumerate(session.turns):
            name = str(turn["dia_id"])
            sentences[name] = tuple(tellable(turn_said(turn)))
            leaf[name] = first + at // (2 * exchanges)
        first += -(-len(session.turns) // (2 * exchanges))
    return Talked(sentences, leaf)


def tellable(text: str) -> list[Sentence]:
    """Return the sentences of a text that have enough words of their own to be recognised."""
    plain = [_plain(one.text) for one in split_sentences(text)]
    found = [(one, lexical_tokens(one)) for one in plain]
    return [Sentence(one, frozenset(tokens)) for one, tokens in found if len(tokens) >= CONTENT_WORDS]


def _plain(text: str) -> str:
    return " ".join(text.split())


@lru_cache(maxsize=4096)
def _words_by_sentence(text: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(lexical_tokens(one.text)) for one in split_sentences(text))


def pieces_of(evidence: Iterable[Evidence]) -> list[Piece]:
    """Return evidence as it is counted.

    Of a fact, the turn at which it was found is shown: the first one of its first source. Its other sources are not.
    """
    found = []
    for number, one in enumerate(evidence, 1):
        tokens = count_tokens(one.line(number)) + 1
        below = tuple(turn for source in one.sources for turn in source.turn_ids)
        if one.kind == "memory":
            found.append(Piece(tokens, (), () if one.level else below, _plain(one.text)))
        else:
            found.append(Piece(tokens, below[:1], below[:1], ""))
    return found


def walk(pieces: Sequence[Piece], gold: frozenset[str], said: Talked) -> list[float]:
    """Return one value per entry of `MEASURES`.

    Args:
        pieces: of evidence, the first to be shown first.
        gold: the supporting turns, at least one.
        said: what they and all others say.
    """
    leaves: dict[int, None] = {}
    found, told = set[str](), set[str]()
    at_budget: list[tuple[int, int]] = []
    at_piece = [(0, 0, 0)]
    used = 0
    for one in pieces:
        if len(leaves) < LEAVES:
            leaves.update(dict.fromkeys(said.leaf[turn] for turn in one.leaf))
        while len(at_budget) < len(BUDGETS) and used + one.tokens > BUDGETS[len(at_budget)]:
            at_budget.append((len(found), len(told)))
        used += one.tokens
        found |= gold.intersection(one.turns)
        if one.text:
            found |= {
                turn for turn in gold - found if any(x.stands_in(one.text) for x in said.sentences[turn])
            }
            told |= {
                turn for turn in gold - told if any(x.is_told_by(one.text) for x in said.sentences[turn])
            }
        told |= found
        at_piece.append((len(found), used, at_piece[-1][2] + bool(one.text)))
    at_budget += [(len(found), len(told))] * (len(BUDGETS) - len(at_budget) + 1)
    first = set(list(leaves)[:LEAVES])
    reached = sum(said.leaf[turn] in first for turn in gold) / len(gold)
    shares = [count / len(gold) for column in zip(*at_budget, strict=True) for count in column]
    shown = [at_piece[min(count, len(pieces))] for count in PIECES]
    return [
        reached,
        *shares,
        float(used),
        float(len(pieces)),
        *(count / len(gold) for count, _, _ in shown),
        *(float(tokens) for _, tokens, _ in shown),
        *(float(memories) for _, _, memories in shown),
    ]
