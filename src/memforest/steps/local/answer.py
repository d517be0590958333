"""Extractive answers without a model: the statement that answers, dated and quoted, or an honest abstention.

What a question asks for (a date, a duration, a number, yes or no, a statement) is read from how it begins;
which evidence answers is decided by the words both share. English and Spanish have wordings of their own
(`answer_wording`). In any other language the best statement itself is the answer, without a date in
words, and questions are not read for their form: only the plan's kind counts.

An answer is refused when there is no evidence, when a name in the question occurs nowhere in it, or when
no statement covers enough of the question's content words (`MIN_COVERAGE`). The evidence is untrusted
text: it is compared and quoted, never interpreted. Summaries are passed over: nobody said them, and what they hold
of a question may be about several things and days.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from memforest.display import one_line
from memforest.interval import EARLIEST
from memforest.language.shorten import shorten
from memforest.steps.base import Answer, AnswerEvidence
from memforest.steps.local.answer_match import (
    MIN_COVERAGE,
    ORDERED,
    READ_CHARS,
    Item,
    Question,
    asked_type,
    coverage,
    folded_words,
    is_dated,
    matching_items,
    read_item,
    read_question,
)
from memforest.steps.local.answer_wording import Wording, is_calendar_window, plain, stems
from memforest.text import cut, words
from memforest.types import QuestionPlan

__all__ = ["MAX_ITEMS", "MIN_COVERAGE", "TOP", "LocalAnswerer"]

TOP = 10
"""Pieces of evidence read, best first: the default ``top_k`` of a query."""

MAX_ITEMS = 5
"""Statements joined into one answer to a list question."""

MAX_QUOTE_WORDS = 20

_CLAUSE_MARK = re.compile(r"[,;:.!?()—–]")
_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[,;:.!?()—–]")


class LocalAnswerer:
    """Answers from evidence by extraction, citing it, or abstains (port `Answerer`); deterministic."""

    name = "local-extractive-1"

    async def answer(
        self, question: str, *, plan: QuestionPlan, reference: datetime, evidence: Sequence[AnswerEvidence]
    ) -> Answer:
        """Return an answer that cites its evidence, or one whose text is None; runs in a worker thread."""
        return await asyncio.to_thread(self.answer_one, question, plan, reference, tuple(evidence))

    def answer_one(
        self, question: str, plan: QuestionPlan, reference: datetime, evidence: Sequence[AnswerEvidence]
    ) -> Answer:
        """Return the answer to one question.

        Args:
            question: as the user typed it.
            plan: how the question wants to be answered; its kind decides which evidence comes first.
            reference: aware UTC; durations that go on are counted up to it.
            evidence: ranked, best first; for a time operator already in the operator's order.
        """
        if not evidence:
            return Answer(None, reason="no evidence")
        told = [(index, _by_statement(piece)) for index, piece in enumerate(evidence) if piece.turns is None]
        if not told:
            return Answer(None, reason="the evidence is summaries only, which are no statements to quote")
        asked = read_question(question, plan)
        items = [read_item(index, piece, asked.code) for index, piece in told[:TOP]]
        for name in asked.names:
            if not any(item.said.name(name) or item.quoted.name(name) for item in items):
                return Answer(None, reason=f"nothing known about {' '.join(sorted(name))}")
        matching = matching_items(asked, items)
        if not matching:
            return Answer(None, reason="the evidence shares too few words with the question")
        found = _worded(asked, matching, reference)
        text = one_line(found.text or "")
        if found.text is not None and not text:  # blank, or marks that nobody sees
            return Answer(None, reason="the evidence has no words to show")
        return replace(found, text=text or None)


def _by_statement(piece: AnswerEvidence) -> AnswerEvidence:
    """Return a piece with its statement, or the turn and its speaker, as its text: who did it stands in it."""
    if piece.statement:
        return replace(piece, text=piece.statement)
    return replace(piece, text=f"{piece.speaker}: {piece.text}") if piece.spoken else piece


# --- wording the answer ------------------------------------------------------------------------------


def _worded(asked: Question, matching: Sequence[Item], reference: datetime) -> Answer:
    best = matching[0]
    wording = asked.wording
    if asked.plan.kind == "list":
        return _listed(asked, matching)
    if wording is None:
        return Answer(_statement(best.evidence, asked), (best.index,))
    if asked.form == "yes_no":
        return _yes_no(asked, wording, matching)
    if asked.form in ("times", "how_many"):
        return _how_many(asked, wording, matching)
    if asked.form in ("ago", "how_long"):
        return _how_long(asked, wording, matching, reference)
    if asked.form in ("when", "since"):
        dated = next((item for item in matching if is_dated(item.evidence)), None)
        # A statement with its date is preferred to a better one without, if it shares as many words.
        if dated is not None and coverage(asked, dated) >= coverage(asked, best):
            best = dated
        return Answer(_when(best.evidence, wording, asked), (best.index,))
    return Answer(_statement(best.evidence, asked), (best.index,))


def _bare(evidence: AnswerEvidence) -> str:
    return " ".join(evidence.text[:READ_CHARS].split()) or cut(evidence.quote or "…", 400)


def _statement(evidence: AnswerEvidence, asked: Question) -> str:
    """Return the statement with its date and the words it was said in, e.g. ``… (said 7 May 2023: “…”)``."""
    text, wording = _bare(evidence), asked.wording
    if wording is None:
        return text
    said = wording.day(evidence.said)
    note = wording.phrases["said"].format(date=said)
    if is_dated(evidence):
        date = wording.date(evidence.start, evidence.end)
        if plain(date) not in plain(text) and date != said:
            note = wording.phrases["dated"].format(date=date, said=note)
    quote = _quote(evidence, asked)
    if quote:
        note = f"{note}: {wording.phrases['open_quote']}{quote}{wording.phrases['close_quote']}"
    return f"{text.rstrip('.')} ({note})."


def _quote(evidence: AnswerEvidence, asked: Question) -> str:
    """Return the sentence of the quote that shares most with question and statement, or "" if it adds nothing."""
    quote = " ".join(evidence.quote[:READ_CHARS].split())
    if not quote or plain(quote) in plain(evidence.text) or plain(evidence.text) in plain(quote):
        return ""
    sought = frozenset(stems(evidence.text[:READ_CHARS], asked.code)) | asked.weights.keys()
    pieces = re.split(r"(?<=[.!?。！？]) ", quote)
    best = max(pieces, key=lambda piece: len(sought & frozenset(stems(piece, asked.code))))
    return cut(shorten(best, MAX_QUOTE_WORDS), 200)


def _listed(asked: Question, matching: Sequence[Item]) -> Answer:
    """Return up to `MAX_ITEMS` different statements, each with its date."""
    distinct = _distinct(matching)[:MAX_ITEMS]
    parts: list[str] = []
    for item in distinct:
        text = _bare(item.evidence).rstrip(".")
        if asked.wording is not None:
            piece = item.evidence
            date = (
                asked.wording.date(piece.start, piece.end)
                if is_dated(piece)
                else asked.wording.day(piece.said)
            )
            text = text if plain(date) in plain(text) else f"{text} ({date})"
        parts.append(text)
    return Answer("; ".join(parts) + ".", tuple(item.index for item in distinct))


def _distinct(items: Sequence[Item]) -> list[Item]:
    """Return the items without those whose statement says the same words."""
    seen: dict[str, Item] = {}
    for item in items:
        seen.setdefault(plain(" ".join(words(item.evidence.text))), item)
    return list(seen.values())


def _when(evidence: AnswerEvidence, wording: Wording, asked: Question) -> str:
    text, phrases, said = _bare(evidence), wording.phrases, wording.day(evidence.said)
    since = asked.form == "since"
    if is_dated(evidence):
        known = evidence.start is not None and evidence.start != EARLIEST
        if since and known:
            # A state that began in May 2023 holds since then, whenever it ended.
            window = evidence.end if is_calendar_window(evidence.start or EARLIEST, evidence.end) else None
            return phrases["since"].format(date=wording.date(evidence.start, window), text=text)
        return _sentence(phrases["when"].format(date=wording.date(evidence.start, evidence.end), text=text))
    if _hedged(text, wording):
        return phrases["undated"].format(date=said, text=text)
    return phrases["since_by" if since else "by"].format(date=said, text=text)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _hedged(text: str, wording: Wording) -> bool:
    return not wording.lists["hedge"].isdisjoint(folded_words(text))


# --- durations and numbers ---------------------------------------------------------------------------


def _how_long(asked: Question, wording: Wording, matching: Sequence[Item], reference: datetime) -> Answer:
    """Return a duration: as stated, between the stated bounds, or up to `reference` for what goes on."""
    perfect = not wording.lists["perfect"].isdisjoint(asked.asked)
    past = not perfect and not wording.lists["past"].isdisjoint(asked.asked)
    for item in matching:
        text = _duration(item.evidence, wording, reference, ago=asked.form == "ago", past=past)
        if text is not None:
            return Answer(_sentence(text), (item.index,))
    if perfect and asked.form == "how_long" and matching[0].evidence.said < reference:
        piece = matching[0].evidence
        length = wording.duration(piece.said, reference)
        text = wording.phrases["at_least"].format(
            duration=length, date=wording.day(piece.said), text=_bare(piece)
        )
        return Answer(text, (matching[0].index,))
    return Answer(None, reason="the evidence does not say since when or how long")


def _duration(
    evidence: AnswerEvidence, wording: Wording, reference: datetime, *, ago: bool, past: bool
) -> str | None:
    text, phrases = _bare(evidence), wording.phrases
    stated = None if ago else _stated_duration(text, wording)
    if stated is not None:
        return phrases["stated"].format(duration=stated, date=wording.day(evidence.said), text=text)
    start, end = evidence.start, evidence.end
    if start is None or start == EARLIEST:
        return None
    window = is_calendar_window(start, end)
    if past and not ago:
        if end is None or window:
            return None
        return phrases["spanning"].format(
            duration=wording.duration(start, end), date=wording.date(start, end), text=text
        )
    if start >= reference:
        return None
    length = wording.duration(start, reference)
    if window in ("week", "month", "year"):
        length = phrases["about"].format(duration=length)
    date = wording.date(start, end if window else None)
    return phrases["ago" if ago else "lasting"].format(duration=length, date=date, text=text)


def _stated_duration(text: str, wording: Wording) -> str | None:
    """Return the first "4 years" or "three weeks" in a text that is no "… ago", in the wording's words."""
    found = [plain(word) for word in words(text)]
    for at in range(len(found) - 1):
        number, unit = _number(found[at], wording), wording.units.get(found[at + 1])
        around = (*found[at - 1 : at], *found[at + 2 : at + 3])
        if number is not None and unit is not None and not wording.lists["ago"] & set(around):
            return wording.amount(unit, number)
    return None


def _number(word: str, wording: Wording) -> int | None:
    if word.isdecimal() and len(word) <= 9:
        return int(word)
    return wording.numbers.get(word)


def _how_many(asked: Question, wording: Wording, matching: Sequence[Item]) -> Answer:
    """Return the number stated for the thing counted, else how many different statements say it happened.

    Statements are counted only for "how many times": of "how many cars" they may repeat one car.
    """
    counted = "" if asked.form == "times" else asked_type(asked.asked, wording, asked.code)
    for item in matching:
        number = _stated_number(_bare(item.evidence), counted, wording)
        if number:
            text = wording.phrases["number"].format(number=number, text=_bare(item.evidence))
            return Answer(_sentence(text), (item.index,))
    full = [
        item
        for item in _distinct(matching)
        if coverage(asked, item) == 1.0 and not _denied(asked, wording, item)
    ]
    if asked.form != "times" or not full:
        return Answer(None, reason="the evidence states no number")
    text = "; ".join(_bare(item.evidence).rstrip(".") for item in full[:MAX_ITEMS]) + "."
    return Answer(wording.phrases["count"].format(number=len(full), text=text), tuple(i.index for i in full))


def _stated_number(text: str, counted: str, wording: Wording) -> str:
    """Return the number that stands at most two words before the thing counted, as written, or ""."""
    found = words(text)
    targets = {stem for stem in (counted,) if stem} or {
        s for unit in _TIMES for s in stems(unit, wording.code)
    }
    for at, word in enumerate(found):
        if targets.isdisjoint(stems(word, wording.code) or [plain(word)]):
            continue
        for before in reversed(found[max(0, at - 3) : at]):
            if _number(plain(before), wording) is not None or before[0].isdigit():
                return before
    return ""


_TIMES = ("times", "veces")

# --- yes and no --------------------------------------------------------------------------------------


def _yes_no(asked: Question, wording: Wording, matching: Sequence[Item]) -> Answer:
    """Return yes or no by the latest statement that has all of the question's content words and names."""
    # For a time operator the first piece is the state asked about; a match further down is another time's.
    asserted = matching[:1] if asked.plan.kind in ORDERED else matching
    full = [item for item in asserted if asked.weights and _says_all(asked, item)]
    sure = [item for item in full if not _hedged_beyond(asked, wording, item)]
    if not sure:
        reason = (
            "the evidence speaks of it as uncertain" if full else "no statement says all of what is asked"
        )
        return Answer(None, reason=reason)
    decisive = max(sure, key=lambda item: (item.evidence.start or item.evidence.said, -item.index))
    word = wording.phrases["no" if _denied(asked, wording, decisive) else "yes"]
    return Answer(f"{word}: {_statement(decisive.evidence, asked)}", (decisive.index,))


def _says_all(asked: Question, item: Item) -> bool:
    """Whether the statement itself has every content word and every name of the question, names in its order.

    The quote does not count: it may be a question, or about somebody else. "Ana lent Eva" is not "Eva lent Ana".
    """
    text = item.evidence.text[:READ_CHARS]
    if not asked.weights.keys() <= set(stems(text, asked.code)):
        return False
    order = [plain(word).removesuffix("'s") for word in words(text)]
    places = sorted((_first_place(name, asked.asked), _first_place(name, order)) for name in asked.names)
    found = [place for _, place in places]
    return len(order) not in found and found == sorted(found)


def _first_place(name: frozenset[str], order: Sequence[str]) -> int:
    """Return the index of the first word that belongs to a name, the number of words if none does."""
    return next((at for at, word in enumerate(order) if word.removesuffix("'s") in name), len(order))


def _hedged_beyond(asked: Question, wording: Wording, item: Item) -> bool:
    """Whether the statement wants, plans or doubts what the question asks as a fact."""
    found = wording.lists["hedge"] & folded_words(item.evidence.text[:READ_CHARS])
    return not _comparable(found, asked.code) <= _comparable(asked.asked, asked.code)


def _comparable(found: Iterable[str], code: str) -> set[str]:
    return {stem for word in found for stem in stems(word, code) or [word]}


def _denied(asked: Question, wording: Wording, item: Item) -> bool:
    """Whether one of the question's content words stands in the reach of a negation.

    A negation reaches to the end of its clause: "Ana did not drive but moved" denies the driving only. A
    state that "no longer" holds is denied for the present, not for a question about the past.
    """
    past = not wording.lists["past"].isdisjoint(asked.asked)
    reach = False
    found = [plain(token) for token in _TOKEN.findall(item.evidence.text[:READ_CHARS])]
    for at, token in enumerate(found):
        if _CLAUSE_MARK.match(token) or token in wording.lists["clause"]:
            reach = False
        elif token in wording.lists["negation"] or token.endswith("n't"):
            ended = any(tuple(found[at : at + len(phrase)]) == phrase for phrase in wording.ceased)
            reach = not (past and ended)
        elif reach and not asked.weights.keys().isdisjoint(stems(token, asked.code)):
            return True
    return False
