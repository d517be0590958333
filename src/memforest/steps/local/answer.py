"""Answers without a model: a quote of the best evidence with speaker and day, or an abstention that names the nearest.

Nothing is composed, so it is the same in every language. Where a timeline leads and the quote has its value, the value
stands in front; where a question asks for a time and the evidence states one, the time does. How good the best evidence is,
is a score (`memforest.steps.local.relevance`), and below `Config.answer_threshold` nothing is answered. The evidence is
untrusted text: it is compared and quoted, never interpreted. Summaries are passed over, as nobody said them.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone, tzinfo

from memforest.config import ANSWER_THRESHOLD
from memforest.display import one_line
from memforest.errors import ModelError, StepError
from memforest.interval import EARLIEST, Interval, format_interval
from memforest.ports import Reranker
from memforest.steps.base import Answer, AnswerEvidence
from memforest.steps.local.relevance import (
    Asked,
    Piece,
    coverage,
    read_pieces,
    read_question,
    ruled_out,
    sentences,
    spoken_of,
    weights_for,
)
from memforest.text import cut, lexical_tokens
from memforest.types import QuestionPlan

__all__ = ["MAX_ITEMS", "TOP", "LocalAnswerer", "Scored", "quoted"]

TOP = 10
"""Pieces of evidence read, best first: the default ``top_k`` of a query."""
MAX_ITEMS = 5
"""Quotes in the answer to a list question."""
PLACE_COST = 0.1
"""Coverage that one place of the ranking is worth, where no cross-encoder chooses."""
QUOTE_CHARS = 300
"""Most characters of a quote; of a longer turn the sentences around the best one."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A piece that may answer, what is known of it, and its score."""

    piece: Piece
    coverage: float
    logit: float
    score: float


class LocalAnswerer:
    """Answers with quotes of evidence, or abstains (port `Answerer`); deterministic.

    Args:
        threshold: least score of an answer, in [0, 1].
        reranker: a cross-encoder that reads the candidates too; one without calibrated weights is not asked.
        zone: whose days are named.
    """

    name = "local-quote-1"

    def __init__(
        self,
        *,
        threshold: float = ANSWER_THRESHOLD,
        reranker: Reranker | None = None,
        zone: tzinfo = timezone.utc,
    ) -> None:
        self._threshold = threshold
        self._reranker = reranker if reranker and weights_for(reranker.model_id) else None
        self._zone = zone

    async def answer(
        self, question: str, *, plan: QuestionPlan, reference: datetime, evidence: Sequence[AnswerEvidence]
    ) -> Answer:
        """Return quotes of evidence, or an answer whose text is None, with the nearest evidence if there is any.

        Raises:
            StepError: if the cross-encoder cannot be used.
        """
        told = [(at, _by_statement(one)) for at, one in enumerate(evidence) if one.turns is None][:TOP]
        if not told:
            why = "the evidence is summaries only, which are no statements to quote"
            return Answer(None, reason=why if evidence else "no evidence")
        asked, pieces = await asyncio.to_thread(lambda: (read_question(question, plan), read_pieces(told)))
        if not spoken_of(asked, pieces):
            pieces = [replace(piece, evidence=replace(piece.evidence, leads=False)) for piece in pieces]
        why = ruled_out(asked, pieces)
        able = [] if why else [piece for piece in pieces if _may_answer(asked, piece)]
        if not able:
            why = why or "nothing that was found is about who and when the question asks"
            return Answer(None, reason=why, nearest=pieces[0].index)
        ranked = await self.ranked(question, asked, able, pieces)
        best = ranked[0]
        if best.score < self._threshold:
            why = f"the nearest evidence scores {best.score:.2f}, and an answer needs {self._threshold:.2f}"
            return Answer(None, reason=why, nearest=best.piece.index, score=best.score)
        chosen = [one for one in ranked if one.score >= self._threshold] if plan.kind == "list" else [best]
        return self._answered(asked, _distinct(chosen)[:MAX_ITEMS], best.score)

    async def ranked(
        self, question: str, asked: Asked, able: Sequence[Piece], pieces: Sequence[Piece]
    ) -> list[Scored]:
        """Return the pieces that may answer with their scores; best first, what a timeline leads with before all."""
        shares = [coverage(asked, piece, pieces) for piece in able]
        logits, model = [0.0] * len(able), None
        if self._reranker is not None and _is_latin(question):
            texts = [f"{one.evidence.speaker}: {one.evidence.quote}" for one in able]
            try:
                logits = (await self._reranker.score(question, texts)).tolist()
            except ModelError as exc:
                raise StepError(f"{exc}: evidence is judged by words alone") from exc
            model = self._reranker.model_id
        weights = weights_for(model)
        assert (
            weights is not None
        )  # of the words there always are, of a reranker it was asked when it was taken
        scored = [
            Scored(piece, share, logit, weights.score(share, piece.evidence.leads, logit))
            for piece, share, logit in zip(able, shares, logits, strict=True)
        ]
        worth = [
            one.coverage - PLACE_COST * at if model is None else one.logit for at, one in enumerate(scored)
        ]
        order = sorted(range(len(scored)), key=lambda at: (not able[at].evidence.leads, -worth[at]))
        return [scored[at] for at in order]

    def _answered(self, asked: Asked, chosen: Sequence[Scored], score: float) -> Answer:
        parts = [self._worded(asked, one.piece.evidence) for one in chosen]
        return Answer("; ".join(parts), tuple(one.piece.index for one in chosen), score=score)

    def _worded(self, asked: Asked, one: AnswerEvidence) -> str:
        """Return the quote, and in front of it the value of a timeline, or the time for which it was asked."""
        words = _passage(asked, one.quote)
        if len(one.spoken) > 1 and one.spoken[-1].speaker == one.speaker:  # a bare answer behind its question
            words = " – ".join(part.text for part in one.spoken)
        quote = quoted(words, one.speaker, one.said, self._zone)
        front = _as_written(one.value, one.quote) if one.leads else ""
        if asked.plan.kind in ("when", "since"):
            front = self._stated(one)
        return f"{front[0].upper()}{front[1:]}. {quote}" if front else quote

    def _stated(self, one: AnswerEvidence) -> str:
        """Return the time that evidence states, "" if it states none: it is then stored as so since it was said."""
        if one.start is None or one.start == one.said or (one.start == EARLIEST and one.end is None):
            return ""
        end = one.end if one.end is not None and one.end > one.start else None
        return format_interval(Interval(one.start, end), one.precision, zone=self._zone)


def _by_statement(piece: AnswerEvidence) -> AnswerEvidence:
    """Return a piece with its statement, or the turn and its speaker, as its text: who did it stands in it."""
    if piece.statement:
        return replace(piece, text=piece.statement)
    return replace(piece, text=f"{piece.speaker}: {piece.text}")


def quoted(text: str, speaker: str, said: datetime, zone: tzinfo) -> str:
    """Return words with who said them and when, on one line: ``"I moved to Porto" - Ana, 4 May 2026``."""
    who = f"{one_line(speaker)}, " if speaker else ""
    return f'"{one_line(text)}" - {who}{format_interval(Interval.at(said), "day", zone=zone)}'


def _may_answer(asked: Asked, piece: Piece) -> bool:
    """Whether a piece tells something beyond the question, of the people and the time that it names."""
    one = piece.evidence
    if not one_line(one.quote) or not _of_people(asked, piece):
        return False
    return one.leads or (bool(piece.told - asked.stems) and _in_window(asked.plan, one))


def _of_people(asked: Asked, piece: Piece) -> bool:
    """Whether everybody whom the question names speaks or is named in an exchange, and the asker takes part in it.

    Where the question names several, it will do that one of them is spoken to: "Where did Ida and Bo go?" "To the sea."
    """
    one = piece.evidence
    talkers = (one.speaker, one.before[0])
    here = {name for name, stems in asked.named.items() if not stems.isdisjoint(piece.said)}
    if asked.named and (not here or not asked.named.keys() - here <= {one.before[0]}):
        return False
    return (
        asked.asker is None
        or asked.asker in talkers
        or not piece.said.isdisjoint(lexical_tokens(asked.asker))
    )


def _in_window(plan: QuestionPlan, one: AnswerEvidence) -> bool:
    """Whether evidence was said in the time that the question states, or states a time that meets it."""
    if plan.start is None and plan.end is None:
        return True

    def meets(start: datetime, end: datetime | None) -> bool:
        begun = plan.end is None or start < plan.end
        return begun and (plan.start is None or end is None or end > plan.start)

    if meets(one.said, one.said + timedelta(microseconds=1)):
        return True
    stated = one.start is not None and one.start != one.said
    holds = plan.kind in ("current", "as_of") and one.start is not None
    return (stated or holds) and meets(one.start or one.said, one.end)


def _distinct(scored: Sequence[Scored]) -> list[Scored]:
    """Return what is left without pieces of the same words."""
    return list({one_line(one.piece.evidence.quote).casefold(): one for one in reversed(scored)}.values())[
        ::-1
    ]


def _passage(asked: Asked, quote: str) -> str:
    """Return a quote, of a long one the sentence that has most of the question's words with those behind it that fit."""
    parts = [one_line(one) for one in sentences(quote)]
    if len(" ".join(parts)) <= QUOTE_CHARS:
        return " ".join(parts)
    wanted = frozenset(asked.content)
    at = max(range(len(parts)), key=lambda i: (len(wanted.intersection(lexical_tokens(parts[i]))), -i))
    end = at + 1
    while end < len(parts) and len(" ".join(parts[at : end + 1])) <= QUOTE_CHARS:
        end += 1
    text = cut(" ".join(parts[at:end]), QUOTE_CHARS)
    return ("… " if at else "") + text + (" …" if end < len(parts) else "")


def _as_written(value: str, quote: str) -> str:
    """Return a value as it stands in a quote; "" if it does not stand there."""
    text = one_line(quote)
    at = text.casefold().find(value.casefold()) if value else -1
    found = text[at : at + len(value)] if at >= 0 else ""
    return found if found.casefold() == value.casefold() else ""  # folding may change lengths


def _is_latin(text: str) -> bool:
    """Whether most letters are Latin: the cross-encoders that were calibrated know no other script."""
    latin = ["LATIN" in unicodedata.name(char, "") for char in text if char.isalpha()]
    return sum(latin) * 2 >= len(latin)
