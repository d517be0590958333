"""Answers without a model: a quote of the best evidence with speaker and day, or an abstention that names the nearest.

Nothing is composed, so it is the same in every language. Where a timeline leads and the quote has its value, the value
stands in front; where a question asks for a time and the evidence states one, the time does. Where no piece is sure alone,
others are quoted behind it, and the answer is right if one of them is. Below `Config.answer_threshold` nothing is
answered. The evidence is untrusted text: it is compared and quoted, never interpreted. Summaries are passed over, as nobody
said them.

A piece is judged as an exchange: the turn without the questions in it, its statement, and the turn before, which says what
it replies to. How likely each piece is a right answer is a softmax over the pieces and "none": the weight of a piece is the
exponential of a weighted sum of its features (`read_features`), that of "none" is 1. So pieces compete: of two that look alike
neither is sure. The weights come from `scripts/train_ranking.py`, fitted to which pieces were right answers in
conversations written for it; the chance of a piece is no promise for other talk. The same sums order the first pieces of every
search (`memforest.read.answer.ranked`).
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cache
from importlib.resources import files
from typing import Literal, get_args

from memforest.ports import Answer, AnswerEvidence
from memforest.reading.clauses import MARK, PASSAGE_CHARS, asked_in, passage, strip_address
from memforest.reading.date_language import load_language
from memforest.reading.drafts import asks_yes_or_no, with_name_spanish
from memforest.reading.tokens import detect_language, load_word_lists, read_toml
from memforest.records import QuestionPlan
from memforest.text import entity_key, fold, lexical_tokens, numbers, words
from memforest.times import EARLIEST, Interval, format_interval, one_line

Wanted = Literal["amount", "duration", "time", "reason"]

_WORD = re.compile(r"[^\W\d_]+")
_SINCE = ("since", "desde", "depuis", "seit")

Tables = Mapping[str, Mapping[str, re.Pattern[str]]]


@cache
def _tables(code: str) -> Tables:
    """Return the patterns of a language, by table and kind; empty if it has none."""
    return {
        table: {kind: re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE) for kind, words in rows.items()}
        for table, rows in read_toml("data", "asked_for.toml").get(code, {}).items()
    }


@cache
def date_words(code: str) -> frozenset[str]:
    """Return the date words of a language, folded; none of a language without a calendar."""
    found = load_language(code)
    if found is None:
        return frozenset()
    return frozenset((*found.months, *found.weekdays, *found.units, *found.seasons))


@cache
def _units(code: str) -> frozenset[str]:
    found = load_language(code)
    return frozenset(() if found is None else found.units)


def asked_for(question: str) -> frozenset[Wanted]:
    """Return the kinds of answer that a question asks for; none if its words do not tell or its language has no table.

    >>> sorted(asked_for("When did you meet?"))
    ['time']
    >>> sorted(asked_for("How old is she?"))
    ['amount']
    """
    text = " ".join(question.replace("’", "'").split())
    for code in ("en", "es", "fr", "de"):
        asks = _tables(code).get("asks", {})
        found = frozenset(kind for kind in get_args(Wanted) if kind in asks and asks[kind].search(text))
        if found:
            return found - {"amount"} if "duration" in found else found
    return frozenset()


def holds(kind: Wanted, text: str) -> bool:
    """Return whether a text without questions has an answer of a kind ("time", "amount", ...).

    >>> holds("duration", "It took three weeks."), holds("duration", "It took three friends.")
    (True, False)
    """
    code = detect_language(text)
    code = "en" if code == "other" and text.isascii() else code
    patterns = _tables(code).get("holds", {})
    if _has(patterns, kind, text):
        return True
    counted = any(one != "1" for one in numbers(text)) or _has(patterns, "amount", text)
    if kind in ("amount", "reason"):
        return kind == "amount" and counted
    said = frozenset(_WORD.findall(fold(text)))
    if kind == "time":
        return not said.isdisjoint(date_words(code)) or re.search(r"\d", text) is not None
    return not said.isdisjoint(_units(code) if counted else _SINCE)


def _has(patterns: Mapping[str, re.Pattern[str]], kind: str, text: str) -> bool:
    return kind in patterns and patterns[kind].search(text) is not None


BY_WORDS = ("place", "said", "hits", "replied", "lacks", "new", "leads", "perhaps", "by_assistant")
"""What counts without vectors."""
NAMES = (*BY_WORDS, "relevance", "succeeds", "ended")
"""What counts, beside the logit of a cross-encoder."""

Weights = Mapping[str, float]


@cache
def _scorers() -> Mapping[str, Mapping[str, Weights]]:
    text = files("memforest.data").joinpath("answer_scores.json").read_text(encoding="utf-8")
    found: Mapping[str, Mapping[str, Weights]] = json.loads(text)["scorers"]
    return found


def weights_for(scorer: str) -> Weights | None:
    """Return the weights for what is known: "words", "relevance", or a cross-encoder's id; None if it was not calibrated."""
    return _scorers()[scorer]["weights"] if scorer in _scorers() else None


def relevance_of(logits: Sequence[float], scorer: str) -> list[float]:
    """Return how likely each piece answers by itself, in [0, 1], given its `logits_of` with the weights of a scorer."""
    line = _scorers()[scorer]["relevance"]
    return [1 / (1 + math.exp(-line["slope"] * one - line["shift"])) for one in logits]


def logits_of(known: Sequence[Mapping[str, float]], weights: Weights) -> list[float]:
    """Return, for each piece, the logarithm of how much likelier it is a right answer than that none is."""
    return [
        weights["bias"] + sum(weights.get(name, 0.0) * value for name, value in one.items()) for one in known
    ]


def chances(sums: Sequence[float]) -> list[float]:
    """Return each piece's chance to be a right answer, in [0, 1], given their `logits_of`; the sum is the chance that any of them is.

    >>> [round(one, 2) for one in chances([1.0, -1.0])]
    [0.67, 0.09]
    """
    top = max([0.0, *sums])
    parts = [math.exp(one - top) for one in sums]
    total = sum(parts) + math.exp(-top)
    return [part / total for part in parts]


READ_CHARS = 4_000
"""Most characters read of a fact or a turn; of a longer turn only the sentences that were found are read."""
PREFIX = 4
"""Least characters that two forms of a word share at their beginning, and `ALIKE` of the longer one."""
ALIKE = 0.6
NO_CONTENT = 0.5
"""Share of its words that a piece says of a question that has only names and stop words: they cannot tell."""
ASKS = ("?", "？", "؟", "՞")

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？؟])\s*|\n\s*")


@dataclass(frozen=True, slots=True)
class QuestionWords:
    """A question prepared to be compared with evidence.

    `content` are the stems of its content words, `stems` those of all its words. `named` are the stems of each name that
    stands in it; `asker` is whom it means without that name, as by "I". `unknown` are capitalised
    words inside a sentence that are no name of the memory, and `anchor` are the words of the `event` that it is relative
    to.
    """

    plan: QuestionPlan
    content: tuple[str, ...]
    stems: frozenset[str]
    named: dict[str, frozenset[str]]
    asker: str | None
    unknown: tuple[str, ...]
    event: str
    anchor: frozenset[str]
    wanted: frozenset[Wanted]
    confirms: bool = False
    """Whether yes or no answers it, so that what says the same again is an answer."""


def read_question(text: str, plan: QuestionPlan) -> QuestionWords:
    """Return a question prepared to be compared with evidence."""
    stems = tuple(dict.fromkeys(lexical_tokens(text)))
    named = {
        name: frozenset(lexical_tokens(name)) or frozenset(filter(None, [entity_key(name)]))
        for name in plan.entities
    }
    here = {name: own for name, own in named.items() if own and not own.isdisjoint(stems)}
    asker = next((name for name in named if name not in here), None)
    operator = plan.operator or plan.kind_operator
    event = operator.anchor if operator and operator.kind in ("predecessor", "successor") else ""
    names = frozenset[str]().union(*here.values())
    anchor = frozenset(lexical_tokens(event)) - names
    dated = plan.start is not None or plan.end is not None or plan.as_of is not None
    dropped = names | anchor | _stop_stems(detect_language(text)) | (_date_stems() if dated else frozenset())
    content = tuple(one for one in stems if one not in dropped and not (dated and one.isdecimal()))
    inside = {word for one in sentences(text) for word in words(one)[1:] if word[:1].isupper()}
    unknown = tuple(
        one
        for one in plan.mentions
        if one in inside and one not in plan.entities and not set(lexical_tokens(one)).isdisjoint(content)
    )
    return QuestionWords(
        plan,
        content,
        frozenset(stems),
        here,
        asker,
        unknown,
        event,
        anchor,
        asked_for(text),
        asks_yes_or_no(text),
    )


@cache
def _stop_stems(code: str) -> frozenset[str]:
    """Return the stems of a language's question and function words; the lexical index leaves out the English ones."""
    if code == "other":
        return frozenset()
    lists = load_word_lists(code)
    return frozenset(lexical_tokens(" ".join(lists["question_words"] | lists["function_words"])))


@cache
def _date_stems() -> frozenset[str]:
    """Return the stems of the date words of all languages with a calendar."""
    return frozenset(lexical_tokens(" ".join(date_words("en") | date_words("es"))))


def sentences(text: str) -> list[str]:
    """Return the sentences of a text; it is cut at marks and line ends only, so in every language.

    >>> sentences("Me? I sing. 我唱歌。你呢？")
    ['Me?', 'I sing.', '我唱歌。', '你呢？']
    """
    return [one for part in _SENTENCE_END.split(text) if (one := part.strip())]


class TextStems:
    """The stems of a text, searchable by any form of a word, which is one that begins alike."""

    def __init__(self, *texts: str) -> None:
        self.stems = frozenset(stem for text in texts for stem in lexical_tokens(text[:READ_CHARS]))
        self._prefixes: dict[str, list[str]] = {}
        for stem in self.stems:
            if len(stem) >= PREFIX:
                self._prefixes.setdefault(stem[:PREFIX], []).append(stem)

    def say(self, stem: str) -> bool:
        """Return whether the text has a word or another form of it."""
        if stem in self.stems:
            return True
        for one in self._prefixes.get(stem[:PREFIX], ()):
            alike = math.ceil(ALIKE * max(len(stem), len(one)))
            if stem[:alike] == one[:alike]:
                return True
        return False


@dataclass(frozen=True, slots=True)
class EvidencePiece:
    """A piece of evidence prepared for comparison: the stems of the turn without its questions, and those of the turn before."""

    index: int
    evidence: AnswerEvidence
    told: str
    turn: TextStems
    before: TextStems

    @property
    def said(self) -> frozenset[str]:
        """The stems of the exchange."""
        return self.turn.stems | self.before.stems

    def says(self, stem: str) -> bool:
        """Return whether the turn, or the question that it replies to, has a word or another form of it."""
        return self.turn.say(stem) or (self.replies and self.before.say(stem))

    @property
    def replies(self) -> bool:
        """Whether somebody else asked something in the turn before."""
        speaker, text = self.evidence.before
        return speaker != self.evidence.speaker and text.rstrip().endswith(ASKS)


def read_pieces(evidence: Iterable[tuple[int, AnswerEvidence]]) -> list[EvidencePiece]:
    """Return pieces of evidence with their indices, prepared to be compared with a question."""
    pieces: list[EvidencePiece] = []
    for index, one in evidence:
        whole = len(one.quote) <= READ_CHARS or not one.spoken
        asserted = _told(one.quote if whole else one.spoken[-1].text)
        spanish = detect_language(asserted) == "es"
        named = (with_name_spanish(asserted, one.speaker) or "") if spanish else ""
        turn = TextStems(asserted, _told(one.text), one.speaker, named)  # "vivo" says "vive" of who says it
        pieces.append(EvidencePiece(index, one, asserted, turn, TextStems(one.before[1])))
    return pieces


def _told(text: str) -> str:
    """Return a text without its questions, as "How old is he?" does not say how old."""
    return " ".join(one for one in sentences(text[:READ_CHARS]) if not one.endswith(ASKS))


def read_features(
    asked: QuestionWords, able: Sequence[EvidencePiece], pieces: Sequence[EvidencePiece]
) -> list[dict[str, float]]:
    """Return the features, by name, of each piece in `able`; `pieces` are all that were read.

    - ``place``: the logarithm of its place in the ranking;
    - ``said``, ``hits``: the share and number of the question's content words that it says, or the question that it replies to;
    - ``replied``: the share that the turn before says, where it asks and another speaker replies;
    - ``new``: the logarithm of how many words are not the question's;
    - ``leads``, ``perhaps``: whether time order put it first, for sure or perhaps;
    - ``by_assistant``, ``succeeds``, ``ended``: as in `AnswerEvidence`;
    - ``relevance``: the logarithm of the odds of its relevance, where it has one;
    - ``logit``: that of a cross-encoder, where one has read it.
    """
    found = []
    for piece in able:
        one = piece.evidence
        says = [piece.says(stem) for stem in asked.content]
        before = [piece.before.say(stem) for stem in asked.content]
        found.append(
            {
                "place": math.log1p(pieces.index(piece) if one.place is None else one.place),
                "said": _share(asked, says, empty=NO_CONTENT),
                "hits": float(sum(says)),
                "replied": piece.replies * _share(asked, before, empty=0.0),
                "lacks": float(_lacks(asked, piece)),
                "new": math.log1p(len(piece.turn.stems - asked.stems)),
                "leads": float(one.leads),
                "perhaps": float(one.perhaps),
                "by_assistant": float(one.by_assistant),
                "succeeds": one.succeeds,
                "ended": one.ended,
                "relevance": 0.0 if one.relevance is None else log_odds(one.relevance),
                "logit": one.logit or 0.0,
            }
        )
    return found


def log_odds(share: float) -> float:
    """Return the logarithm of the odds of a chance; of none, and of certainty, that of one in 10,000."""
    return math.log(max(share, 1e-4) / max(1 - share, 1e-4))


def rank_logits(
    asked: QuestionWords, able: Sequence[EvidencePiece], pieces: Sequence[EvidencePiece], reranker: str = ""
) -> tuple[list[float], str]:
    """Return, for each piece in `able`, the logarithm of how much likelier it is a right answer than that none is, and the scorer.

    The scorer whose weights count is that of what is known of all of them: words, relevance too, or a cross-encoder's logits as well.

    Args:
        asked: the question.
        able: the pieces that may answer.
        pieces: all that were read.
        reranker: the cross-encoder's id, "" for none.
    """
    told, scorer = [piece.evidence for piece in able], "words"
    if all(one.relevance is not None for one in told):
        scorer = "relevance"
        if all(one.logit is not None for one in told) and weights_for(reranker):
            scorer = reranker
    weights = weights_for(scorer)
    assert weights is not None, "the weights for words and for relevance are in the package"
    return logits_of(read_features(asked, able, pieces), weights), scorer


def named(one: AnswerEvidence) -> AnswerEvidence:
    """Return a piece whose text is its statement, or the turn with its speaker, so that it has the person who acts."""
    return replace(one, text=one.statement or f"{one.speaker}: {one.text}")


def _share(asked: QuestionWords, said: Sequence[bool], *, empty: float) -> float:
    return sum(said) / len(said) if asked.content else empty


def _lacks(asked: QuestionWords, piece: EvidencePiece) -> bool:
    """Return whether a turn lacks the kind of answer asked for; never if none is, or if a timeline chose the turn."""
    one = piece.evidence
    if not asked.wanted or one.leads or ("time" in asked.wanted and one.start not in (None, one.said)):
        return False
    return not any(holds(kind, piece.told) for kind in asked.wanted)


def spoken_of(asked: QuestionWords, pieces: Sequence[EvidencePiece]) -> bool:
    """Return whether the pieces say most words of a question's topic; a timeline about another topic is no answer."""
    topic = asked.plan.topic
    stems = asked.content if topic is None else lexical_tokens(" ".join(topic))
    said = [any(piece.says(stem) for piece in pieces) for stem in stems]
    return sum(said) * 2 > len(said) or not said


def ruled_out(asked: QuestionWords, pieces: Sequence[EvidencePiece]) -> str:
    """Return why no piece can answer, "" if one may: none mentions a name or event of the question."""
    for name in asked.unknown:
        if not any(piece.says(stem) for stem in lexical_tokens(name) for piece in pieces):
            return f"no evidence mentions {name}"
    if asked.anchor and not any(piece.says(stem) for stem in asked.anchor for piece in pieces):
        return f"no evidence mentions {asked.event!r}"
    return ""


TOP = 10
"""Pieces of evidence read, best first: the default ``top_k`` of a query."""
MAX_ITEMS, QUOTES = 5, 3
"""Most quotes in the answer to a list question, and to another."""
ENOUGH = 0.8
"""Chance that one of the quotes is right at which no more are added, but to a list."""
WORTH = 0.2
"""Least chance of a further quote, as a share of the best one's."""
FOLLOWED = 0.3
"""How likely another piece tells how a thing stands since, from which on both are quoted."""
SURE = 3.0
"""Added to the logit of what time order surely chose: the conversations of the fit have too little of that to tell."""


@dataclass(frozen=True, slots=True)
class ScoredPiece:
    """A piece that may answer, and its chance to be a right answer."""

    piece: EvidencePiece
    chance: float


class LocalAnswerer:
    """Answers with quotes of evidence, or abstains (port `Answerer`); deterministic.

    Args:
        threshold: least score of an answer, in [0, 1]; that of the scorer (`answer_scores.json`; some 4 to 11% of what has no answer scores higher) when not given.
        reranker: id of the cross-encoder whose logits evidence has, "" for none.
        zone: whose days are named.
    """

    name = "local-quote-1"

    def __init__(
        self,
        *,
        threshold: float | None = None,
        reranker: str = "",
        zone: tzinfo = timezone.utc,
    ) -> None:
        self._threshold = threshold
        self._reranker = reranker
        self._zone = zone

    async def answer(
        self, question: str, *, plan: QuestionPlan, reference: datetime, evidence: Sequence[AnswerEvidence]
    ) -> Answer:
        """Return quotes of evidence, or an answer whose text is None, with the nearest evidence if there is any."""
        question = asked_in(question)
        given = [(at, named(one)) for at, one in enumerate(evidence) if one.turns is None]
        given = ([one for one in given if one[1].logit is not None] or given)[:TOP]
        if not given:
            why = "the evidence has only summaries, which cannot be quoted"
            return Answer(None, reason=why if evidence else "no evidence")
        asked, pieces = await asyncio.to_thread(lambda: (read_question(question, plan), read_pieces(given)))
        if plan.attribute is None and not spoken_of(asked, pieces):  # else who moved there lives there
            pieces = [replace(piece, evidence=replace(piece.evidence, leads=False)) for piece in pieces]
        why = ruled_out(asked, pieces)
        able = [] if why else [piece for piece in pieces if _may_answer(asked, piece)]
        # What a timeline leads with does not compete with the other values of that timeline.
        able = [piece for piece in able if piece.evidence.leads][:1] or able
        if not able:
            why = why or "no evidence is about the person and the time of the question"
            return Answer(None, reason=why, nearest=pieces[0].index)
        scored, scorer = self.scored(asked, able, pieces)
        least = _scorers()[scorer]["answer"]["threshold"]
        threshold = least if self._threshold is None else self._threshold
        most, enough = (MAX_ITEMS, 1.0) if plan.kind == "list" else (QUOTES, ENOUGH)
        chosen, score = quotes(scored, most=most, enough=enough)
        if score < threshold:
            below = math.floor(score * 100) / 100  # rounded up it might look like enough
            why = f"the nearest evidence scores {below:.2f}, and an answer needs {threshold:.2f}"
            return Answer(None, reason=why, nearest=chosen[0].piece.index, score=score)
        # What another piece may well have followed is not shown without it.
        later = max(scored, key=lambda one: one.piece.evidence.succeeds)
        if later not in chosen and max(one.piece.evidence.ended for one in chosen) >= FOLLOWED:
            chosen = [*chosen, later]
        parts = [self._worded(asked, one.piece.evidence) for one in chosen]
        return Answer("; ".join(parts), tuple(one.piece.index for one in chosen), score=score)

    def scored(
        self, asked: QuestionWords, able: Sequence[EvidencePiece], pieces: Sequence[EvidencePiece]
    ) -> tuple[list[ScoredPiece], str]:
        """Return the pieces that may answer with their chances, in the order of the ranking, and the scorer."""
        logits, scorer = rank_logits(asked, able, pieces, self._reranker)
        shares = chances([one + SURE * piece.evidence.leads for one, piece in zip(logits, able, strict=True)])
        return [ScoredPiece(*one) for one in zip(able, shares, strict=True)], scorer

    def _worded(self, asked: QuestionWords, one: AnswerEvidence) -> str:
        """Return the quote, with the value of a timeline or the time that was asked for in front of it."""
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
        """Return the time that evidence states; "" if it states none, so that it holds since it was said."""
        if one.start is None or one.start == one.said or (one.start == EARLIEST and one.end is None):
            return ""
        end = one.end if one.end is not None and one.end > one.start else None
        return format_interval(Interval(one.start, end), one.precision, zone=self._zone)


def quoted(text: str, speaker: str, said: datetime, zone: tzinfo) -> str:
    """Return a quote with its speaker and day, on one line: ``"I moved to Porto" - Ana, 4 May 2026``."""
    who = f"{one_line(speaker)}, " if speaker else ""
    return f'"{one_line(text)}" - {who}{format_interval(Interval.at(said), "day", zone=zone)}'


def _may_answer(asked: QuestionWords, piece: EvidencePiece) -> bool:
    """Return whether a piece adds something to the question, about the people and the time that it names."""
    one = piece.evidence
    if not one_line(one.quote) or not _of_people(asked, piece):
        return False
    beyond = piece.turn.stems - asked.stems - frozenset(lexical_tokens(one.speaker))
    return one.leads or ((bool(beyond) or asked.confirms) and _in_window(asked.plan, one))


def _of_people(asked: QuestionWords, piece: EvidencePiece) -> bool:
    """Return whether everybody named in the question speaks or is named in an exchange that the asker takes part in.

    Who is only addressed ("Thanks, Ida!") is not named, and of the turn before names count where it asks. Where the question names
    several, it will do that one of them says it to the other: "Where did Ida and Bo go?" "To the sea."; and of a list each piece tells of one.
    """
    one = piece.evidence
    talkers = (one.speaker, one.before[0])
    called = {part.lower() for name in asked.named for part in (name, *name.split())}
    stated = "" if one.quote in one.text else one.text  # as a model or a person worded it
    texts = (piece.told, stated, one.before[1] if piece.replies else "")
    spoken = (strip_address(part, called) for text in texts for part in sentences(text[:READ_CHARS]))
    said = frozenset(lexical_tokens(" ".join((one.speaker, *spoken))))
    here = {name for name, stems in asked.named.items() if not stems.isdisjoint(said)}
    to_other = asked.named.keys() - here <= ({one.before[0]} if one.speaker in asked.named else set())
    if asked.named and not (here and (asked.plan.kind == "list" or to_other)):
        return False
    return (
        asked.asker is None
        or asked.asker in talkers
        or not piece.said.isdisjoint(lexical_tokens(asked.asker))
    )


def _in_window(plan: QuestionPlan, one: AnswerEvidence) -> bool:
    """Return whether evidence was said in the question's window, or states a time that overlaps it."""
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


def quotes(scored: Sequence[ScoredPiece], *, most: int, enough: float) -> tuple[list[ScoredPiece], float]:
    """Return the likeliest pieces, each worded otherwise, until there are enough or one of them is likely enough to be right; and that chance."""
    chosen: list[ScoredPiece] = []
    score = 0.0
    least = WORTH * max(one.chance for one in scored)
    for one in sorted(scored, key=lambda one: -one.chance):
        said = {one_line(each.piece.evidence.quote).casefold() for each in chosen}
        if len(chosen) == most or score >= enough or one.chance < least:
            break
        if one_line(one.piece.evidence.quote).casefold() not in said:
            chosen, score = [*chosen, one], score + one.chance
    return chosen, score


def _passage(asked: QuestionWords, quote: str) -> str:
    """Return a quote; of a long one the sentences with the question's words, and as many behind them as fit."""
    whole = one_line(quote)
    if len(whole) <= PASSAGE_CHARS:
        return whole
    parts = [one_line(one) for one in passage(quote, asked.content).split(MARK)]
    begun, goes_on = not whole.startswith(parts[0]), not whole.endswith(parts[-1])
    return f"{f'{MARK} ' * begun}{f' {MARK} '.join(parts)}{f' {MARK}' * goes_on}"


def _as_written(value: str, quote: str) -> str:
    """Return a value as a quote writes it; "" if the quote does not have it."""
    text = one_line(quote)
    at = text.casefold().find(value.casefold()) if value else -1
    found = text[at : at + len(value)] if at >= 0 else ""
    return found if found.casefold() == value.casefold() else ""  # folding may change lengths
