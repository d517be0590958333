"""What a ranking and an answer are worth: recall, ranks, overlap of words, pass@k, stale values, and bootstrap intervals.

Intervals are percentile bootstraps (Efron & Tibshirani 1993, ch. 13) over questions, and over conversations: there whole
conversations are drawn, as the questions of one are not independent. With a handful of conversations the latter are rough.
All draws are seeded.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memforest.evaluation.cases import Case, Question

__all__ = ["MEASURES", "Mean", "abstains", "contains", "fama", "key_span", "mean_of", "pass_at", "ranking",
    "rouge_l", "token_f1",]  # fmt: skip

Values = NDArray[np.float64]

TURNS_AT = (1, 5, 10, 20, 50)
ALL_AT = (5, 10, 20)
SESSIONS_AT = (1, 5, 10)
TOKENS_AT = (256, 512, 1024, 2048)
MEASURES: Mapping[str, str] = {
    **{f"R@{k}": f"recall of the turns that answer, in the first {k}" for k in TURNS_AT},
    **{f"all@{k}": f"questions with all their turns in the first {k}" for k in ALL_AT},
    "first": "questions whose first turn answers",
    "MRR": "reciprocal rank of the first turn that answers",
    "nDCG@10": "gain of the turns that answer; early places count more",
    **{f"SR@{k}": f"recall of the sessions that answer, in the first {k}" for k in SESSIONS_AT},
    **{f"Sall@{k}": f"questions with all their sessions in the first {k}" for k in SESSIONS_AT[1:]},
    **{f"R@{n}t": f"recall of the turns within {n} tokens of context" for n in TOKENS_AT},
    "stale": "updates whose stale turn stands before every current one",
}
"""Measure of a ranking -> what it is; each is in [0, 1]."""

DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with its 95% intervals over questions and over conversations, and how many questions it is of."""

    value: float
    questions: tuple[float, float]
    conversations: tuple[float, float]
    n: int


def ranking(
    ranked: Sequence[tuple[str, int]], question: Question, session_of: Mapping[str, str]
) -> dict[str, float]:
    """Return the measures of a ranking that the question allows: none of turns where it names no turns, and so on.

    Args:
        ranked: turns, best first, each once, with the tokens of the context up to and with the piece that named it.
        question: what was asked.
        session_of: turn -> session.
    """
    found: dict[str, float] = {}
    keys = [key for key, _ in ranked]
    if gold := question.turns:
        at = [i for i, key in enumerate(keys) if key in gold]
        found |= {f"R@{k}": sum(i < k for i in at) / len(gold) for k in TURNS_AT}
        found |= {f"all@{k}": float(sum(i < k for i in at) == len(gold)) for k in ALL_AT}
        found |= {"first": float(at[:1] == [0]), "MRR": 1 / (at[0] + 1) if at else 0.0}
        best = sum(1 / math.log2(i + 2) for i in range(min(10, len(gold))))
        found["nDCG@10"] = sum(1 / math.log2(i + 2) for i in at if i < 10) / best
        found |= {
            f"R@{n}t": sum(key in gold and used <= n for key, used in ranked) / len(gold) for n in TOKENS_AT
        }
    if wanted := question.sessions:
        sessions = list(dict.fromkeys(session_of[key] for key in keys if key in session_of))
        found |= {f"SR@{k}": len(wanted & set(sessions[:k])) / len(wanted) for k in SESSIONS_AT}
        found |= {f"Sall@{k}": float(wanted <= set(sessions[:k])) for k in SESSIONS_AT[1:]}
    if question.stale_turns and gold:
        first = next((key for key in keys if key in gold or key in question.stale_turns), None)
        found["stale"] = float(first in question.stale_turns)
    return found


def mean_of(values: Sequence[float], conversation: Sequence[str], seed: int) -> Mean:
    """Return a mean with its intervals; NaN values are left out, and a mean of none is NaN.

    Args:
        values: one per question, or the paired differences of two systems.
        conversation: of each question.
        seed: of the draws.
    """
    given = np.asarray(values, dtype=np.float64)
    kept = ~np.isnan(given)
    rows, names = given[kept], np.asarray(conversation, dtype=object)[kept]
    if not len(rows):
        return Mean(math.nan, (math.nan, math.nan), (math.nan, math.nan), 0)
    draws = np.random.default_rng(seed)
    # In slices: questions x draws would be a large array.
    means = np.array([rows[draws.integers(0, len(rows), len(rows))].mean() for _ in range(DRAWS)])
    different = sorted(set(names))
    sums = np.array([rows[names == name].sum() for name in different])
    sizes = np.array([(names == name).sum() for name in different])
    drawn = np.random.default_rng(seed).integers(0, len(sums), (DRAWS, len(sums)))
    wide = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    return Mean(float(rows.mean()), _middle(means), _middle(wide), len(rows))


def _middle(means: Values) -> tuple[float, float]:
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normal_tokens(text: str) -> list[str]:
    """Return the tokens of an answer as lexical measures compare them: NFKC, lower case, without punctuation and articles.

    Source: SQuAD's evaluation (arXiv 1606.05250), as H-Mem normalises (arXiv 2605.15701, App. A.3) and TiMem does.
    """
    lowered = unicodedata.normalize("NFKC", text).lower()
    plain = "".join(ch for ch in lowered if unicodedata.category(ch)[0] not in "PS")
    return _ARTICLES.sub(" ", plain).split()


def token_f1(answer: str, gold: str) -> float:
    """Return the F1 of the token multisets of an answer and the right one, in [0, 1]; 1 where both are empty.

    >>> token_f1("The blue car.", "a blue bus")
    0.5
    """
    said, wanted = normal_tokens(answer), normal_tokens(gold)
    common = sum((Counter(said) & Counter(wanted)).values())
    if not said or not wanted:
        return float(said == wanted)
    return 2 * common / (len(said) + len(wanted))


def rouge_l(answer: str, gold: str) -> float:
    """Return the F measure of the longest common subsequence of tokens (ROUGE-L, Lin 2004), in [0, 1].

    >>> round(rouge_l("she moved to Davis in May", "moved to Davis"), 3)
    0.667
    """
    said, wanted = normal_tokens(answer), normal_tokens(gold)
    if not said or not wanted:
        return float(said == wanted)
    row = [0] * (len(wanted) + 1)
    for one in said:
        above = 0
        for at, other in enumerate(wanted, 1):
            above, row[at] = row[at], above + 1 if one == other else max(row[at], row[at - 1])
    return 2 * row[-1] / (len(said) + len(wanted))


def pass_at(judged: Sequence[float | None], k: int) -> float:
    """Return whether one of the first k grades is right: their largest; NaN where none of them is there."""
    given = [one for one in judged[:k] if one is not None]
    return max(given) if given else math.nan


def contains(text: str, value: str) -> bool:
    """Return whether a text holds a value word by word, after normalisation; an empty value is in no text.

    >>> contains("She lives in San José now.", "san josé"), contains("Carolina", "Carol")
    (True, False)
    """
    said, wanted = normal_tokens(text), normal_tokens(value)
    return bool(wanted) and any(
        said[at : at + len(wanted)] == wanted for at in range(len(said) - len(wanted) + 1)
    )


_UNKNOWN = re.compile(
    r"\b(not (known|mentioned|stated|specified|provided|enough|clear|available|in (the )?(memory|evidence))|no (information|evidence|"
    r"mention|record|answer)|unknown|cannot (be )?(tell|determine|answer|know)|(do|does)(n't| not) (know|say|mention)|unanswerable)\b", re.I,
)  # fmt: skip


def abstains(answer: str | None) -> bool:
    """Return whether an answer says that there is none: it is empty, or says so in usual words."""
    return not (answer or "").strip() or _UNKNOWN.search(answer or "") is not None


def fama(right: float, answer: str, stale: Sequence[str]) -> float:
    """Return how right an answer is, less the share of stale values that it holds, at least 0.

    Memora (arXiv 2604.20006) calls it forgetting-aware accuracy: what is obsolete and used is taken off what is right. Values are
    found by their words, as ForgetEval does (arXiv 2606.15903); the weight of 1 is ours.
    """
    used = sum(contains(answer, one) for one in stale)
    return max(0.0, right - used / len(stale)) if stale else right


def key_span(question: Question, case: Case) -> frozenset[str]:
    """Return the words of an answer that its turns must have told: its numbers and names, or all its words where it has neither.

    Only words that are in the turns count. It is the key span of Ent-GR (MemForest, arXiv 2605.23986, App. D): a question is
    retained where one fact made from its turns still has it.
    """
    said = {word for turn in case.turns if turn.key in question.turns for word in normal_tokens(turn.text)}
    named = {word for at in _NAMED.findall(question.answer) for word in normal_tokens(at)}
    return frozenset((named & said) or (set(normal_tokens(question.answer)) - _USUAL) & said)


_NAMED = re.compile(r"(?<!^)\b[A-Z][\w'-]+|\b\d[\w:.]*")
_USUAL = {"and", "at", "by", "for", "from", "in", "is", "of", "on", "or", "to", "was", "with"}
