"""Answers without a model: a quote of the best evidence with speaker and day, or an abstention that names the nearest.

Nothing is composed, so it is the same in every language. Where a timeline leads and the quote has its value, the value
stands in front; where a question asks for a time and the evidence states one, the time does. Every piece has a chance to be
a right answer (`memforest.steps.local.chances`). Two pieces that are a turn and the reply to it are one exchange: quoted
together, they are right if either is. Below `Config.answer_threshold` nothing is answered. The evidence is
untrusted text: it is compared and quoted, never interpreted. Summaries are passed over, as nobody said them.
"""

from __future__ import annotations

import asyncio
import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone, tzinfo

from memforest.config import ANSWER_THRESHOLD
from memforest.display import one_line
from memforest.errors import ModelError, StepError
from memforest.interval import EARLIEST, Interval, format_interval
from memforest.language.quoting import MARK, PASSAGE_CHARS, passage
from memforest.language.requests import asked_in
from memforest.ports import Reranker
from memforest.steps.base import Answer, AnswerEvidence
from memforest.steps.local.chances import chances, weights_for
from memforest.steps.local.relevance import (
    Asked,
    Piece,
    read_features,
    read_pieces,
    read_question,
    ruled_out,
    spoken_of,
)
from memforest.text import lexical_tokens
from memforest.types import QuestionPlan

TOP = 10
"""Pieces of evidence read, best first: the default ``top_k`` of a query."""
MAX_ITEMS = 5
"""Quotes in the answer to a list question."""
LEAST_CHANCE = 0.05
"""Of either turn of an exchange that is quoted as a whole."""
LISTED = 0.25
"""Chance of a quote in a list, in parts of that of the best one, from which on it is quoted."""
BEFORE_CHARS = 120
"""Characters of the turn before that a cross-encoder reads in front of a piece."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A piece that may answer, what is known of it by name, and its chance to be a right answer."""

    piece: Piece
    known: Mapping[str, float]
    chance: float


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
        question = asked_in(question)
        told = [(at, _by_statement(one)) for at, one in enumerate(evidence) if one.turns is None][:TOP]
        if not told:
            why = "the evidence is summaries only, which are no statements to quote"
            return Answer(None, reason=why if evidence else "no evidence")
        asked, pieces = await asyncio.to_thread(lambda: (read_question(question, plan), read_pieces(told)))
        if plan.attribute is None and not spoken_of(asked, pieces):  # else who moved there lives there
            pieces = [replace(piece, evidence=replace(piece.evidence, leads=False)) for piece in pieces]
        why = ruled_out(asked, pieces)
        able = [] if why else [piece for piece in pieces if _may_answer(asked, piece)]
        # What a timeline leads with does not compete with the other values of that timeline.
        able = [piece for piece in able if piece.evidence.leads][:1] or able
        if not able:
            why = why or "nothing that was found is about who and when the question asks"
            return Answer(None, reason=why, nearest=pieces[0].index)
        scored = await self.scored(question, asked, able, pieces)
        chosen, score = listed(scored) if plan.kind == "list" else best(scored)
        if score < self._threshold:
            below = math.floor(score * 100) / 100  # rounded up it might look like enough
            why = f"the nearest evidence scores {below:.2f}, and an answer needs {self._threshold:.2f}"
            nearest = max(chosen, key=lambda one: one.chance).piece.index
            return Answer(None, reason=why, nearest=nearest, score=score)
        return self._answered(asked, chosen, score)

    async def scored(
        self, question: str, asked: Asked, able: Sequence[Piece], pieces: Sequence[Piece]
    ) -> list[Scored]:
        """Return the pieces that may answer with their chances, in the order of the ranking."""
        known, model = read_features(asked, able, pieces), None
        if self._reranker is not None and _is_latin(question):
            try:
                logits = await self._reranker.score(question, [_exchange(one.evidence) for one in able])
            except ModelError as exc:
                raise StepError(f"{exc}: evidence is judged by words alone") from exc
            known = [{**one, "logit": float(logit)} for one, logit in zip(known, logits, strict=True)]
            model = self._reranker.model_id
        weights = weights_for(model)
        assert (
            weights is not None
        )  # of the words there always are, of a reranker it was asked when it was taken
        return [Scored(*one) for one in zip(able, known, chances(known, weights), strict=True)]

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
            time = self._stated(one)  # our words, as a sentence; a value stays as it was written
            front = time[:1].upper() + time[1:]
        return f"{front}. {quote}" if front else quote

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
    beyond = piece.turn.stems - asked.stems - frozenset(lexical_tokens(one.speaker))
    return one.leads or (bool(beyond) and _in_window(asked.plan, one))


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

    stated = one.start is not None and one.start != one.said
    holds = plan.kind in ("current", "as_of") and one.start is not None
    if (stated or holds) and meets(one.start or one.said, one.end):
        return True
    return not stated and meets(one.said, one.said + timedelta(microseconds=1))


def _exchange(one: AnswerEvidence) -> str:
    """Return a turn with its speaker, behind the end of the turn before, as a cross-encoder reads it."""
    speaker, text = one.before
    front = f"{speaker}: {text[-BEFORE_CHARS:]} " if text else ""
    return f"{front}{one.speaker}: {one.quote}"


def best(scored: Sequence[Scored]) -> tuple[list[Scored], float]:
    """Return the piece with the best chance, or the turn and its reply that have a better one together."""
    spoken = {(one.piece.evidence.speaker, one.piece.evidence.quote): one for one in scored}
    found = [([one], one.chance) for one in scored]
    for one in scored:
        first = spoken.get(one.piece.evidence.before)
        if first is None or first.piece.evidence.speaker == one.piece.evidence.speaker:
            continue
        if min(first.chance, one.chance) >= LEAST_CHANCE:
            found.append(([first, one], first.chance + one.chance))
    return max(found, key=lambda of: of[1])


def listed(scored: Sequence[Scored]) -> tuple[list[Scored], float]:
    """Return the piece with the best chance and those of other words that are not much less likely, and the chance of any.

    At most `MAX_ITEMS`, best first.
    """
    by_chance = sorted(scored, key=lambda one: -one.chance)
    kept = list({one_line(one.piece.evidence.quote).casefold(): one for one in reversed(by_chance)}.values())[
        ::-1
    ]
    chosen = [one for one in kept[:MAX_ITEMS] if one.chance >= LISTED * kept[0].chance]
    return chosen, sum(one.chance for one in chosen)


def _passage(asked: Asked, quote: str) -> str:
    """Return a quote, of a long one the sentences that say the question's words, with those behind them that fit."""
    whole = one_line(quote)
    if len(whole) <= PASSAGE_CHARS:
        return whole
    parts = [one_line(one) for one in passage(quote, asked.content).split(MARK)]
    begun, goes_on = not whole.startswith(parts[0]), not whole.endswith(parts[-1])
    return f"{f'{MARK} ' * begun}{f' {MARK} '.join(parts)}{f' {MARK}' * goes_on}"


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
