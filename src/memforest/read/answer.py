"""Answering from ranked evidence; the local answerer steps in where a model fails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, tzinfo

from memforest.errors import ModelRefusedError
from memforest.ports import STANDS, Answer, AnswerEvidence, AnswersParts, Settled
from memforest.read.rerank import Known, LeafKey, SearchOutcome, leaf_key
from memforest.read.results import Evidence, context_lines, fit
from memforest.reading.answer_local import (
    log_odds,
    named,
    rank_logits,
    read_pieces,
    read_question,
    relevance_of,
)
from memforest.reading.clauses import asked_in
from memforest.reading.steps import Steps
from memforest.records import QuestionPlan
from memforest.search.change import CHANGES_ASKED
from memforest.search.filters import Part
from memforest.search.vectors import asks
from memforest.text import cut, lexical_tokens
from memforest.trees.index import FALLS_BACK

_NO_VALUE = ("since", "changed_back", "later")
"""Reasons to lead that tell no value, or one that the question names already."""


AnswerMade = tuple[Answer, str, tuple[str, ...]]
"""An answer, the name of the answerer that gave it, and warnings when that is the fallback."""


def without_questions(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Return the evidence without turns that only ask ("What is he, a cat?")."""
    return [one for one in evidence if one.kind != "turn" or not asks(one.text)]


async def answered(
    steps: Steps,
    question: str,
    *,
    plan: QuestionPlan,
    reference: datetime,
    evidence: Sequence[Evidence],
    known: Known,
    parts: Sequence[Part] = (),
) -> AnswerMade:
    """Return an answer from evidence; the local answerer's if the one that was asked fails.

    Where an index took the question apart and something was concluded about a part, an answerer that can puts the answer together
    of the conclusions and the evidence of all parts.
    """
    pieces = [piece_of(one, known) for one in evidence]
    settled = [Settled(one.sub.text, one.answer) for one in parts]
    answerer = steps.answerer
    try:
        if any(one.answer for one in settled) and isinstance(answerer, AnswersParts):
            answer = await answerer.answer_parts(
                question, plan=plan, reference=reference, evidence=pieces, parts=settled
            )
            return answer, answerer.parts_name, ()
        answer = await answerer.answer(question, plan=plan, reference=reference, evidence=pieces)
        return answer, answerer.name, ()
    except (*FALLS_BACK, ModelRefusedError) as exc:
        why = f"{cut(str(exc), 300)}: the local answerer answered"
        answer = await steps.fallback.answer(question, plan=plan, reference=reference, evidence=pieces)
        return answer, steps.fallback.name, (why,)


def piece_of(one: Evidence, known: Known) -> AnswerEvidence:
    """Return what an answerer, or the ranker, sees of evidence."""
    operator, _, value = one.why.partition(": ")
    return AnswerEvidence(
        text=one.text,
        quote=one.read,
        said=one.said,
        start=one.start,
        end=one.end,
        score=one.score,
        speaker=one.speaker,
        turns=one.turns,
        statement=one.statement,
        spoken=one.spoken,
        precision=one.precision,
        leads=bool(one.why) and not one.perhaps,
        value="" if operator.split(" ")[0] in _NO_VALUE else value,
        perhaps=bool(one.why) and one.perhaps,
        **{"relevance": one.relevance, **known.get(leaf_key(one), {})},
    )


LATER = "later: said last of what is asked for"
"""Why a statement leads that tells how something stands since; see `memforest.search.succession`."""
SURE, CHANGES, ANSWERS, OF_MANY, FEW = 1.25, 0.5, 0.2, 2.6, 8
"""Whether what was said later surely tells how things stand since, where a cross-encoder has read it, is the sum of a constant, of what the vectors
say, of the log odds of "it tells a change", and of by how much it answers better than the first piece, in logits; less a multiple of the logarithm of
how many times `FEW` statements the memory has: of many, one is sooner taken for what it is not. Chosen on four files of everyday cases, the last one on
two sets of conversations (docs/research/ranking.md)."""
RANKED = 20
"""Most pieces of evidence that the ranker reads."""
PERHAPS, OF_CHANGE = 2.5, 5.0
"""Added to the logit of what leads perhaps, beside its own weight, and where a question asks for a change: the fit has seen few (docs/research/ranking.md)."""


def ranked(found: SearchOutcome, question: str, plan: QuestionPlan) -> SearchOutcome:
    """Return what was found, the first turns and facts in the order of how likely each of them answers the question.

    What leads stays in front, and summaries keep their places. Where no relevance is known, as without vectors, the order stays. Each place keeps its score; what it adds to that of who stands
    there now is the part "ranker". The relevance of each is what the ranker makes of all that is known of it,
    times how likely the question asks for anything that was told.

    Args:
        found: the candidates, best first.
        question: as it was asked.
        plan: of it.
    """
    places = [at for at, one in enumerate(found.evidence) if one.kind != "memory"][:RANKED]
    old = [found.evidence[at] for at in places]
    if any(one.relevance is None for one in old):
        return found
    asked = read_question(asked_in(question), plan)
    pieces = read_pieces((at, named(piece_of(one, found.known))) for at, one in enumerate(old))
    # Where there is a reranker only what it has read competes; the relevance of the rest is told without it.
    count = sum(found.reranker is None or leaf_key(one) in found.places for one in old)
    first, rest = pieces[:count], pieces[count:]
    logits, scorer = rank_logits(asked, first, first, found.reranker or "")
    likely = relevance_of(logits, scorer) + relevance_of(*rank_logits(asked, rest, pieces))
    old = [replace(one, relevance=found.seeks * own) for one, own in zip(old, likely, strict=True)]
    leads = [found.leads.get(leaf_key(one), 0) if one.why and not one.perhaps else 0 for one in old]
    operator = plan.operator or plan.kind_operator
    above = OF_CHANGE if operator is not None and operator.kind in CHANGES_ASKED else PERHAPS
    order = sorted(range(count), key=lambda at: (-leads[at], -logits[at] - above * old[at].perhaps))
    # What leads perhaps takes its places in the order of time, where that counts.
    told = [at for at in order if old[at].perhaps]
    in_time = iter(sorted(told, key=lambda at: -found.leads.get(leaf_key(old[at]), 0)))
    order = [next(in_time) if old[at].perhaps else at for at in order]
    evidence = list(found.evidence)
    for place, at in zip(places, [*order, *range(count, len(old))], strict=True):
        one, score = old[at], found.evidence[place].score
        parts = one.scores if score == one.score else {**one.scores, "ranker": score - one.score}
        evidence[place] = replace(one, score=score, scores=parts)
    return replace(found, evidence=evidence)


def within_budget(evidence: Sequence[Evidence], max_tokens: int, zone: tzinfo) -> Sequence[Evidence]:
    """Return the longest prefix whose lines of `QueryResult.context` stay within the budget, and the pinned ones behind it."""
    lines = context_lines(evidence, zone)
    pinned = [at for at, one in enumerate(evidence) if one.pinned]
    return [evidence[at] for at in fit(lines, max_tokens, first=pinned)]


def with_later(found: SearchOutcome, question: str) -> SearchOutcome:
    """Return what was found, led by what was said later of the thing that the first piece tells of, if anything surely was.

    What led until then was the value as the rules read it, which is in doubt now. The first piece has ended, but where what was
    said later says again what it says beyond the question: "Still in Leeds" ends nothing.
    """
    sure = {key: _sure(found, key) for key in found.later}
    pieces = {leaf_key(one): one for one in found.evidence}
    key = max(sure.keys() & pieces.keys(), key=lambda one: (sure[one], str(one)), default=None)
    if key is None or sure[key] < 0:
        return found
    later = replace(pieces.pop(key), why=LATER, perhaps=False)
    others = {at: replace(one, why="") for at, one in pieces.items()}
    if found.earlier in others:
        first = others[found.earlier]
        before, since = (set(lexical_tokens(one.statement or one.text)) for one in (first, later))
        value = before.difference(lexical_tokens(" ".join((question, first.speaker, later.speaker))))
        if value and value.isdisjoint(since):
            others[found.earlier] = replace(first, end=later.start, ended_by=later.sources)
    return replace(
        found, evidence=[later, *others.values()], leads={key: found.leads.get(found.earlier or key, 0) + 1}
    )


def _sure(found: SearchOutcome, key: LeafKey) -> float:
    """Return the logit of whether something was surely said later, given what the vectors and a cross-encoder tell."""
    above, stands = found.later[key], found.stands.get(key)
    if stands is None:
        return above
    share = dict(zip(STANDS, stands, strict=True))
    later, first = (found.known.get(one or key, {}).get("logit", 0.0) for one in (key, found.earlier))
    changes = CHANGES * log_odds(share["changes"] + share["ends"]) + ANSWERS * (later - first)
    return float(SURE + above + changes - OF_MANY * math.log(max(found.statements / FEW, 1)))
