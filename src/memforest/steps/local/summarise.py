"""Extractive summaries of tree nodes, without a model: the children's own sentences, chosen and in time order.

The method is budgeted maximum coverage. Every sentence is a set of weighted terms; numbers weigh most,
then names, then rare words (tf-idf over the children). Each child first offers the sentence that adds
most to what is already covered, read from the latest child back, so that a statement told twice is kept
as it was told last; what is left of the budget goes to the best remaining sentences of any child. A
sentence that adds neither a number, a name, a negation nor a good part of its own weight is a
near-duplicate and is left out.

Language: the weights look at digits, capitals, word length and counts, so they work in any script. Lists
of words (pleasantries, function words, negations, "from … to …") exist for English and Spanish and a few
neighbours; without them a text loses the removal of pleasantries and the bonus for transitions, no more.

Source: Lin & Bilmes, "A Class of Submodular Functions for Document Summarization" (ACL 2011), for greedy
gain over cost as a bounded approximation; Carbonell & Goldstein, "The Use of MMR" (SIGIR 1998), for novelty.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from memforest.language.shorten import UNSPACED, count_words, find_transition, shorten
from memforest.text import STOP_WORDS, shorten_runs
from memforest.types import SummaryRequest

__all__ = ["MAX_CHARS", "MAX_INPUTS", "LocalSummariser"]

MAX_CHARS = 64_000
"""Characters read of all inputs of one request together; a longer input keeps its head and its tail."""
MAX_INPUTS = 256
"""Inputs read of one request; of more, evenly spaced ones, with the first and the last."""
MIN_SHARE = 6
"""Words below which a trimmed sentence identifies nothing: fewer children are covered instead."""
NOVELTY = 0.25
"""Part of a sentence's own weight that must be new for it not to be a near-duplicate."""

_TOKEN = re.compile(r"\S{1,80}")
_UNSPACED_CHAR = re.compile(f"[{UNSPACED}]")
_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
_TERM = re.compile(r"\d+(?:[.,:/\-]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)*|\w")
# The look-behind lets a run of terminators be tried once only, which keeps hostile input linear.
_STOP = re.compile(r"(?<![.!?…؟।])([.!?…؟।]+)[\"')\]»”’]* |([。！？｡]+)[”’」』）]* ?")
_SPEAKER = re.compile(r"(?:\[[^\[\]]{1,60}\] ?)?([^\s:：.!?,]{1,30}(?: [^\s:：.!?,]{1,30}){0,2})[:：] ")
_ABBREVIATED = re.compile(
    r"(?:^|[\s(])(?:[^\W\d_]|\d{1,2}|(?:[^\W\d_]\.)+[^\W\d_]|dr|dra|mr|mrs|ms|sr|sra|st|prof|jr|vs|etc|no)$",
    re.I,
)


def _word_set(block: str) -> frozenset[str]:
    """Return the words of a block of text as a set."""
    return frozenset(block.split())


_ARTICLES = _word_set(
    """
    a an the el la los las un una unos unas le les der die das ein eine il lo o os
    """
)
_NEGATIONS = _word_set(
    """
    not no never nor nobody nothing none without don't didn't doesn't won't isn't wasn't aren't can't couldn't
    nunca jamás nadie nada sin tampoco nicht kein keine nie pas jamais não non
    """
)
_FUNCTION = STOP_WORDS | _word_set(
    """
    over only would could should more most ours says
    para pero como este esta esto desde hasta cuando donde porque sobre entre también muy más
    mucho tiene había fue era ser está están dijo
    """
)
_FILLER = _word_set(
    """
    thanks thank thanx thx great wow cool awesome nice amazing wonderful fantastic perfect excellent lovely
    hi hey hello bye goodbye okay ok yes yeah yep yup sure absolutely definitely totally exactly indeed right
    sounds good glad happy hear welcome congrats congratulations appreciate haha lol hmm oh well course
    gracias genial estupendo hola adiós vale claro perfecto bien bueno encanta alegro felicidades enhorabuena
    merci bonjour salut super danke hallo toll ciao grazie obrigado obrigada
    """
)


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of one child; `names` are the terms that identify it."""

    child: int
    order: int
    speaker: str
    text: str
    words: int
    prefix: int
    terms: dict[str, float]
    names: frozenset[str]
    factor: float
    filler: bool
    key: tuple[str, ...]


class LocalSummariser:
    """Summarises inner nodes by extraction (port `Summariser`); deterministic, in any language.

    Time is linear in the characters read, which are at most `MAX_CHARS` per request.
    """

    name = "local-extractive-1"

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str]:
        """Return one summary per request, in order; the batch runs in one worker thread."""
        return await asyncio.to_thread(self._all, list(requests))

    def _all(self, requests: list[SummaryRequest]) -> list[str]:
        return [self.summarise_one(request) for request in requests]

    def summarise_one(self, request: SummaryRequest) -> str:
        """Return the summary of one node, at most ``request.max_words`` words (see `count_words`).

        It holds the children's own sentences in time order, without those of the history. One child that fits is returned
        as it is, where that may be; no input, blank inputs or ``max_words <= 0`` give an empty string.
        """
        inputs = _read(request.inputs)
        if not inputs or request.max_words <= 0:
            return ""
        alone = len(inputs) == 1 and request.summarise == "kept" and not request.history
        if alone and count_words(inputs[0]) <= request.max_words:
            return inputs[0]
        known = {one.key for one in _sentences(_read(request.history))}
        told = _distinct(_sentences(inputs))
        sentences = [one for one in told if one.key not in known] or told
        weights = _term_weights(sentences, len(inputs))
        chosen = _choose(sentences, weights, request.max_words)
        return shorten(_render(chosen), request.max_words)


def _read(inputs: Sequence[str]) -> list[str]:
    """Return the inputs that are not blank, within `MAX_INPUTS` and `MAX_CHARS`."""
    texts = [shorten_runs(stripped) for text in inputs if (stripped := text.strip())]
    if len(texts) > MAX_INPUTS:
        step = (len(texts) - 1) / (MAX_INPUTS - 1)
        texts = [texts[round(index * step)] for index in range(MAX_INPUTS)]
    if sum(map(len, texts)) <= MAX_CHARS:
        return texts
    share = MAX_CHARS // len(texts)
    return [
        text if len(text) <= share else f"{text[: share // 2]}…\n{text[-(share // 2) :]}" for text in texts
    ]


def _sentences(inputs: Sequence[str]) -> list[_Sentence]:
    """Cut every input into sentences; a speaker's name at a line's start goes with each of its sentences."""
    found: list[_Sentence] = []
    for child, text in enumerate(inputs):
        for line in text.splitlines():
            clean = " ".join(line.split())
            speaker, start = _speaker(clean)
            for piece in _split(clean, start):
                sentence = _sentence(child, len(found), speaker, piece, last=child == len(inputs) - 1)
                if sentence.words:
                    found.append(sentence)
    return found


def _speaker(line: str) -> tuple[str, int]:
    """Return the speaker a transcript line begins with, or "", and where its words begin."""
    match = _SPEAKER.match(line)
    if match is None:
        return "", 0
    name = match.group(1)
    parts = name.split(" ")
    # "She bought three things: …" is no speaker; names have no lower-case initials, roles are one word.
    if len(parts) > 1 and any(part[0].islower() for part in parts):
        return "", 0
    return (name, match.end()) if not name[0].isdigit() else ("", 0)


def _split(line: str, start: int) -> Iterable[str]:
    """Yield the sentences of one line with single spaces."""
    for match in _STOP.finditer(line, start):
        if match.group(1) == "." and _continues(line, match):
            continue
        yield line[start : match.end()].strip()
        start = match.end()
    yield line[start:].strip()


def _continues(line: str, match: re.Match[str]) -> bool:
    """Whether a full stop ends no sentence: an abbreviation, an initial, an ordinal, or lower case after it."""
    after = line[match.end() : match.end() + 1]
    return after.islower() or _ABBREVIATED.search(line, max(0, match.start() - 12), match.start()) is not None


def _sentence(child: int, order: int, speaker: str, text: str, *, last: bool) -> _Sentence:
    """Return a sentence with its terms weighed by their class."""
    terms: dict[str, float] = {}
    names: list[str] = []
    key = [speaker]
    before = ""
    pleasant, empty = False, True
    tokens = _TOKEN.findall(text)  # bounded, because each is remembered by `_words`
    begins = True
    for token in tokens:
        for low, weight, identifies, article, pleases, says in _words(token, begins):
            if not article:
                key.append(low)
            pleasant |= pleases
            empty &= not says
            if weight:
                terms[low] = weight
                if identifies:
                    names.append(low)
                if weight >= 1.5:
                    # "from Davis to Miami" and back, who lent whom: the order of names is itself content.
                    if before:
                        pair = before + ">" + low
                        terms[pair] = 0.5
                        names.append(pair)
                    before = low
        begins = False
    if not text.isascii():
        _add_bigrams(text, terms)
    changes = find_transition(text) is not None
    asks = text.endswith(("?", "？", "؟"))
    factor = (1.5 if changes else 1.0) * (0.5 if asks else 1.0) * (1.25 if last else 1.0)
    prefix = count_words(speaker) if speaker else 0
    filler = empty and len(tokens) <= 7 and (pleasant or not names)
    same = tuple(key) if len(key) > 1 else (speaker, text)
    return _Sentence(
        child,
        order,
        speaker,
        text,
        count_words(text) + prefix,
        prefix,
        terms,
        frozenset(names),
        factor,
        filler,
        same,
    )


_Word = tuple[str, float, bool, bool, bool, bool]
"""A word folded, its weight, and whether it identifies, is an article, is pleasant, says something.

Weights: number 3, name 2, other word 1, function word 0. A plain tuple, as it is read for every word.
"""


@lru_cache(maxsize=32_768)
def _words(token: str, begins: bool) -> tuple[_Word, ...]:
    """Return the words of what stands between two spaces; `begins` for the first of a sentence."""
    found = _TERM.findall(token)
    return tuple(_word(word, begins and index == 0) for index, word in enumerate(found))


def _word(token: str, begins: bool) -> _Word:
    """Return what kind of word a token is."""
    low = token.casefold()
    weight, identifies = _class_weight(token, low, begins)
    pleasant = low in _FILLER
    called = token[0].isupper() and not begins
    says = not pleasant and (low in _NEGATIONS or token[0].isdigit() or (weight >= 1.0 and not called))
    return low, weight, identifies, low in _ARTICLES, pleasant, says


def _class_weight(token: str, low: str, begins: bool) -> tuple[float, bool]:
    """Return a word's weight and whether it identifies what is told."""
    if token[0].isdigit():
        return 3.0, True
    if low in _NEGATIONS:
        return 1.0, True
    stem = low.replace("’", "'").partition("'")[0]  # "that's", "I'm"
    if stem in _FUNCTION or (len(token) <= 3 and token.isascii() and token.islower()):
        return 0.0, False
    if token[0].isupper() and not begins and len(token) > 1:
        return 2.0, True
    if token[0].isupper():
        # A sentence's first word has its capital from its place; a short one is hardly a name.
        return (1.5, True) if len(token) > 3 else (0.2, False)
    return 1.0, False


def _add_bigrams(text: str, terms: dict[str, float]) -> None:
    """Replace each run of a script without spaces by its character pairs."""
    for run in _UNSPACED_RUN.findall(text):
        terms.pop(run, None)
        for at in range(max(1, len(run) - 1)):
            terms[run[at : at + 2]] = 1.0


def _distinct(sentences: list[_Sentence]) -> list[_Sentence]:
    """Drop pleasantries and all but the last telling of equal sentences (articles, case and marks aside)."""
    telling = [sentence for sentence in sentences if not sentence.filler] or sentences
    last = {sentence.key: sentence for sentence in telling}
    return sorted(last.values(), key=lambda sentence: sentence.order)


def _term_weights(sentences: Sequence[_Sentence], children: int) -> dict[str, float]:
    """Return each term's weight: its class times sqrt(tf) times ln(1 + children / df)."""
    count: Counter[str] = Counter()
    spread: Counter[str] = Counter()
    kind: dict[str, float] = {}
    for _, told in groupby(sentences, key=lambda sentence: sentence.child):
        seen: set[str] = set()
        for sentence in told:
            count.update(sentence.terms.keys())
            kind.update(sentence.terms)
            seen.update(sentence.terms)
        spread.update(seen)
    once = math.log1p(children)
    return {
        term: kind[term] * (once if times == 1 else math.sqrt(times) * math.log1p(children / spread[term]))
        for term, times in count.items()
    }


class _Coverage:
    """What the chosen sentences already say."""

    def __init__(self, weights: dict[str, float]) -> None:
        self._weights = weights
        self._covered: set[str] = set()

    def gain(self, sentence: _Sentence) -> float:
        """Return the weight the sentence would add per square root of its words; 0 when it is redundant.

        The root stands between the cost-blind gain, which prefers the longest sentence, and gain per
        word, which prefers fragments.
        """
        weights, covered = self._weights, self._covered
        full = new = 0.0
        for term in sentence.terms:
            weight = weights[term]
            full += weight
            if term not in covered:
                new += weight
        if new < NOVELTY * full and sentence.names <= covered:
            return 0.0
        # A sentence of function words alone still says something when nothing else does.
        return (new + 0.01) * sentence.factor / math.sqrt(sentence.words)

    def add(self, sentence: _Sentence) -> None:
        """Count the sentence's terms as said."""
        self._covered.update(sentence.terms)


def _choose(
    sentences: list[_Sentence], weights: dict[str, float], budget: int
) -> list[tuple[_Sentence, str]]:
    """Return the chosen sentences with the text to print, in time order."""
    coverage = _Coverage(weights)
    first = _one_per_child(sentences, coverage, budget)
    chosen, left = _share(first, budget)
    taken = {sentence.order for sentence, _ in chosen}
    rest = [sentence for sentence in sentences if sentence.order not in taken and sentence.words <= left]
    chosen.extend((sentence, sentence.text) for sentence in _fill(rest, coverage, left))
    return sorted(chosen, key=lambda pair: pair[0].order)


def _one_per_child(sentences: Sequence[_Sentence], coverage: _Coverage, budget: int) -> list[_Sentence]:
    """Return the sentence of each child that adds most, as many as the budget can hold legibly."""
    by_child: dict[int, list[_Sentence]] = {}
    for sentence in sentences:
        by_child.setdefault(sentence.child, []).append(sentence)
    offers: list[tuple[float, _Sentence]] = []
    for child in sorted(by_child, reverse=True):
        gain, _, best = max((coverage.gain(item), -item.order, item) for item in by_child[child])
        if gain > 0.0:
            offers.append((gain, best))
            coverage.add(best)
    room = max(1, budget // MIN_SHARE)
    needs = sum(offer[1].words for offer in offers)
    if len(offers) > room and needs > budget:
        # The latest state (the first offer) stays; of the others the most informative.
        latest, *others = offers
        others.sort(key=lambda offer: (-offer[0], offer[1].order))
        offers = [latest, *others[: room - 1]]
    return [sentence for _, sentence in offers]


def _share(sentences: Sequence[_Sentence], budget: int) -> tuple[list[tuple[_Sentence, str]], int]:
    """Give each sentence its part of the budget, what the short ones leave going to the long ones.

    Returns the sentences with the text to print, and the words left over.
    """
    shared: list[tuple[_Sentence, str]] = []
    waiting = sorted(sentences, key=lambda sentence: (sentence.words, sentence.order))
    for index, sentence in enumerate(waiting):
        part = budget // (len(waiting) - index)
        text, cost = sentence.text, sentence.words
        if cost > part:
            text = shorten(text, part - sentence.prefix)
            cost = sentence.prefix + count_words(text)
        if text:
            shared.append((sentence, text))
            budget -= cost
    return shared, budget


def _fill(sentences: Sequence[_Sentence], coverage: _Coverage, budget: int) -> list[_Sentence]:
    """Return the sentences that add most within the budget: lazy greedy, as gains only ever shrink."""
    heap = [(-gain, item.order, item) for item in sentences if (gain := coverage.gain(item)) > 0.0]
    heapq.heapify(heap)
    filled: list[_Sentence] = []
    while heap and budget > 0:
        _, order, sentence = heapq.heappop(heap)
        gain = coverage.gain(sentence)
        if sentence.words > budget or gain <= 0.0:
            continue
        if heap and -gain > heap[0][0]:
            heapq.heappush(heap, (-gain, order, sentence))
            continue
        filled.append(sentence)
        coverage.add(sentence)
        budget -= sentence.words
    return filled


def _render(chosen: Sequence[tuple[_Sentence, str]]) -> str:
    """Return the texts as prose; a speaker is named once per run of sentences of one child."""
    parts: list[str] = []
    before: tuple[int, str] | None = None
    for sentence, text in chosen:
        here = (sentence.child, sentence.speaker)
        prefix = f"{sentence.speaker}: " if sentence.speaker and here != before else ""
        end = text[-1:]
        if end.isalnum():
            end = "。" if _UNSPACED_CHAR.match(end) else "."
            text += end
        parts.append(prefix + text)
        before = here
    return " ".join(parts)
