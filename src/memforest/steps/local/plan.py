"""Plans a question by rule: whom it is about, which state attribute, and which time operator.

Cues live in the state lexicon. "before", "first" or "last" alone make no transition question: one of the
operators on states needs an attribute (or says "right before"), so that a question about an event keeps
the kind ``simple``, ``when`` or ``list``. English is covered fully, Spanish in its main forms; a question
in another language gets a ``simple`` plan with its entities and window.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone, tzinfo
from itertools import pairwise

from memforest.calendar.question import QuestionTime, question_time
from memforest.language.lexicon import Lexicon, Pattern, load_lexicon
from memforest.language.predicate import tokenise
from memforest.language.value import accept_value, trim_value
from memforest.steps.local.mentions import MASK, MaskedQuestion, read_mentions
from memforest.steps.local.talk import as_talk
from memforest.steps.local.whose_words import asked_entities, read_asked
from memforest.steps.local.wording import with_wording
from memforest.types import QuestionKind, QuestionPlan

__all__ = ["RulePlanner", "TimeReader", "plan_question"]

TimeReader = Callable[[str, datetime, tzinfo], QuestionTime]
"""Reads what a question, asked at a reference in a zone, says about time."""

_QUOTED = re.compile(r'"[^"]*"|“[^“”]*”|«[^«»]*»|「[^「」]*」')
_BLANK = "\0"
_LAST_INSTANT = timedelta(milliseconds=1)
_OWNED = re.compile(rf"(?:{MASK}(?:'s|')|\b(?:his|her|their|my|our|su|sus)) ((?:[^\W_][\w'&-]*\s?){{1,7}})")
# An owned noun phrase is asked about behind a copula or in front of a verb of change; elsewhere it is an aside.
_COPULA_FRONT = re.compile(
    r"(?:\b(?:is|was|are|were|been|be|es|era|fue|replaced)|'s)"
    r"(?: (?:still|now|currently|the|name|of|still the)| [\w-]+ still|MASK| MASK)*\s*$".replace("MASK", MASK)
)
_CHANGE_BEHIND = re.compile(r"\s*(?:used to|use to|change|changed|go up|increase|before|after|be\b|been\b)")
_NOUN_FIRST = re.compile(
    rf"\b(?:what|which)(?:'s)? ((?:[\w'-]+ ){{1,4}}?)(?:do|does|did|is|was|has|had|are) (?:{MASK}|he|she|they|i)\b"
)
_NOUN_OF = re.compile(rf"\b((?:[\w'-]+ ){{1,3}})(?:of|de) {MASK}")
# A kind of the lexicon that is the value type of an attribute of another name.
_KIND_ATTRIBUTE = {"language": "language learning", "service": "subscription"}
_KINDS = ("editor", "tool", "phone", "computer", "vehicle", "service", "instrument", "diet")
_LOOSE_KINDS = ("pet", "language", "sport", "hobby")
_ANCHOR_END = re.compile(r"[?？!¿;\x00]|,(?!\d)|\.(?=\s|$)")


class RulePlanner:
    """Plans questions without a model, deterministically."""

    name = "rule-planner-1"

    def __init__(self, *, zone: tzinfo = timezone.utc, window: TimeReader = question_time) -> None:
        """Make a planner.

        Args:
            zone: in which "last May" begins and ends.
            window: reads the dates of a question.
        """
        self._zone = zone
        self._window = window

    async def plan(self, question: str, *, reference: datetime, names: Mapping[str, str]) -> QuestionPlan:
        """Return the plan of a question; see `Planner.plan`."""
        return plan_question(question, reference=reference, names=names, zone=self._zone, window=self._window)


def plan_question(
    question: str,
    *,
    reference: datetime,
    names: Mapping[str, str],
    zone: tzinfo = timezone.utc,
    window: TimeReader = question_time,
) -> QuestionPlan:
    """Return the plan of a question.

    `anchor` is the value ("Miami") when its verb is one of the attribute that is asked for, else the whole
    event ("moving to Miami" in "Where did Bob work before moving to Miami?").

    Args:
        question: as it was typed.
        reference: aware UTC; what "now" and "last month" are relative to.
        names: case-folded surface form -> display name.
        zone: in which days begin.
        window: reads the dates of a question.
    """
    lexicon = _lexicon_of(question)
    asked = read_mentions(question, names, lexicon.cue_words["common_names"])
    who = read_asked(asked, names, lexicon.code)
    time = window(asked.text, reference, zone)
    reading = _Reading(asked, lexicon, asked_entities(asked, who, names), time, reference)
    plan = reading.plan()
    plan = replace(
        plan,
        start=time.window.start if time.window else None,
        end=time.window.end if time.window else None,
        as_of=plan.as_of or time.as_of,
        dates=time.words,
        open_year=time.open_year,
        speakers=who.speakers,
        asker=who.asker,
    )
    undated = asked.without(time.places)
    plan = with_wording(plan, question, [name for name, _ in reading.entities], undated, who.acts)
    return as_talk(plan, asked.masked)


def _lexicon_of(question: str) -> Lexicon:
    """Return the lexicon of a question's language: Spanish if it asks with a Spanish word, else English."""
    spanish = load_lexicon("es")
    words = {token.low for token in tokenise(question)}
    asks = "¿" in question or not words.isdisjoint(spanish.words["question"])
    return spanish if asks else load_lexicon("en")


@dataclass(frozen=True, slots=True)
class _Anchor:
    """The text behind "before" and its place in the question."""

    text: str
    start: int
    end: int


class _Reading:
    """One question under one lexicon."""

    __slots__ = ("asked", "attribute", "cued", "entities", "instant", "interval", "lexicon", "reference")

    def __init__(
        self,
        asked: MaskedQuestion,
        lexicon: Lexicon,
        entities: tuple[tuple[str, int], ...],
        time: QuestionTime,
        reference: datetime,
    ) -> None:
        self.asked = asked
        self.lexicon = lexicon
        self.entities = entities
        self.interval = time.window
        self.instant = time.as_of
        self.reference = reference
        self.cued = self._blank(asked.masked)
        self.attribute = self._find_attribute()

    # -- the kind --------------------------------------------------------------------------------

    def plan(self) -> QuestionPlan:
        """Return the plan, its window still to be filled in."""
        if self.entities or self.attribute:
            for step in (self._changed_back, self._since, self._neighbour, self._end_of_line):
                plan = step()
                if plan is not None:
                    return plan
        return self._plain()

    def _changed_back(self) -> QuestionPlan | None:
        """Return the plan of "did she ever go back to Acme?"."""
        first = self.cued.split(maxsplit=1)[:1]
        if not (first and first[0].strip("¿") in self.lexicon.cue_words["yes_no"]) or not self._has(
            "changed_back"
        ):
            return None
        anchor = self._anchor("anchor_back")
        if anchor is None and self.attribute is None:
            return None
        return self._make("changed_back", anchor, self._attribute_or_kind(anchor, _KINDS))

    def _since(self) -> QuestionPlan | None:
        """Return the plan of "how long has …" and of "when did … move to …"."""
        change = self._has("when_change")
        if not (change or self._has("since")):
            return None
        anchor = self._anchor("anchor_since")
        attribute = self._attribute_or_kind(anchor, _KINDS + _LOOSE_KINDS)
        if change and attribute is None:
            return None
        return self._make("since", anchor or self._anchor("anchor_event"), attribute)

    def _neighbour(self) -> QuestionPlan | None:
        """Return the plan of "before" and "after"."""
        asks_when = self._has("when")
        for kind, cue in (("predecessor", "anchor_before"), ("successor", "anchor_after")):
            if not self._has(kind):
                continue
            anchor = self._anchor(cue)
            if anchor is not None and self._is_date(anchor.text):
                return self._at_date(anchor)
            attribute = self._attribute_or_kind(anchor, _KINDS)
            if asks_when or not (attribute or (anchor and self._has("near"))):
                continue
            return self._make("predecessor" if kind == "predecessor" else "successor", anchor, attribute)
        return None

    def _end_of_line(self) -> QuestionPlan | None:
        """Return the plan of "first" and "last"."""
        if self._has("last") and (self.attribute or self._names_time("last")):
            return self._make("last", None if self.attribute else self._anchor("anchor_event"))
        if self._has("first") and (self.attribute or self._names_time("first")):
            return self._make("first", None if self.attribute else self._anchor("anchor_event"))
        return None

    def _names_time(self, cue: str) -> bool:
        """Return whether a question without an attribute asks for an extreme in time ("the last time")."""
        return any(match is not None for match in self._search(f"{cue}_event"))

    def _plain(self) -> QuestionPlan:
        """Return the plan of a question without a transition."""
        if self._has("when"):
            return self._make("when", self._anchor("anchor_event"))
        if self._has("list"):
            return self._make("list", None)
        if self.attribute is None:
            return self._make("as_of" if self.instant and self.entities else "simple", None)
        dated = self._at_date(None)
        if dated is not None:
            return dated
        during = self._anchor("anchor_during")
        if during is not None or self._has("as_of"):
            return self._make("simple", during)  # only the memory knows when "the wedding" was
        if self._has("current") or (self._has("present") and not self._has("past")):
            return self._make("current", None)
        return self._make("simple", None)

    def _at_date(self, anchor: _Anchor | None) -> QuestionPlan | None:
        """Return the plan of "in March 2024" and "before 2023": the state at the window's last instant."""
        if self.attribute is None:
            return None
        moment = self.instant
        if moment is None and self.interval is not None:
            end = self.interval.end
            moment = self.interval.start if end is None else end - _LAST_INSTANT
            within = self.interval.start <= self.reference and (end is None or self.reference < end)
            moment = self.reference if within and anchor is None else moment
        return None if moment is None else replace(self._make("as_of", None), as_of=moment)

    def _make(self, kind: QuestionKind, anchor: _Anchor | None, attribute: str | None = None) -> QuestionPlan:
        """Return a plan; a name inside the anchor is no entity of the question if there is another one."""
        names = [(name, at) for name, at in self.entities if not (anchor and anchor.start <= at < anchor.end)]
        owned = self._possessors()
        kept = [name for name, at in names if at not in owned] or [name for name, _ in names or self.entities]
        attribute = attribute or self.attribute
        return QuestionPlan(
            kind=kind,
            entities=tuple(dict.fromkeys(kept)),
            attribute=attribute,
            anchor=self._anchor_text(anchor, attribute) if anchor else None,
        )

    # -- cues ------------------------------------------------------------------------------------

    def _blank(self, masked: str) -> str:
        """Return a masked question with quotations and idioms ("before bed") blanked."""
        text = _QUOTED.sub(lambda match: _BLANK * len(match.group()), masked)
        for pattern in self.lexicon.cues["ignore"]:
            text = pattern.sub(lambda match: _BLANK * len(match.group()), text)
        return text

    def _search(self, cue: str) -> Iterator[re.Match[str] | None]:
        """Yield the match of every pattern of a cue."""
        return (pattern.search(self.cued) for pattern in self.lexicon.cues[cue])

    def _has(self, cue: str) -> bool:
        """Return whether the question has a cue."""
        return any(match is not None for match in self._search(cue))

    # -- anchors ---------------------------------------------------------------------------------

    def _anchor(self, cue: str) -> _Anchor | None:
        """Return the text behind the first pattern of a cue that matches."""
        for match in self._search(cue):
            if match is None:
                continue
            start, end = match.span("anchor")
            stop = _ANCHOR_END.search(self.cued, start, end)
            end = stop.start() if stop else end
            text = self.asked.original(start, end).strip()
            if text:
                return _Anchor(text, self.asked.origin[start], self.asked.origin[end])
        return None

    def _is_date(self, text: str) -> bool:
        """Return whether an anchor is nothing but a date."""
        words = [token.low for token in tokenise(text)]
        dates = self.lexicon.cue_words["date_words"]
        return bool(words) and all(word in dates or word[0].isdecimal() for word in words)

    def _anchor_text(self, anchor: _Anchor, attribute: str | None) -> str:
        """Return the value an anchor names if its verb belongs to the attribute asked for, else the event."""
        lexicon = self.lexicon
        verb = next((m for p in lexicon.cues["anchor_verb"] if (m := p.match(anchor.text))), None)
        start = 0
        if verb is not None and verb.end() < len(anchor.text) and self._is_verb_of(anchor.text, attribute):
            start = verb.end()
        cut_start, cut_end, _ = trim_value(anchor.text, (start, len(anchor.text)), lexicon, region=True)
        return " ".join((anchor.text[cut_start:cut_end] or anchor.text).split())

    def _is_verb_of(self, text: str, attribute: str | None) -> bool:
        """Return whether an event may be one of the attribute: "moving to X" of a residence, not an employer."""
        stated: set[str] = set()
        for token in tokenise(text)[:3]:
            for lemma, _ in self.lexicon.forms.get(token.low, ()):
                for pattern in self.lexicon.patterns(lemma):
                    match = pattern.regex.match(text, token.end)
                    if match and self._has_types(pattern, match):
                        stated.add(pattern.attribute)
        return attribute is None or not stated or attribute.rpartition(".")[2] in stated

    def _has_types(self, pattern: Pattern, match: re.Match[str]) -> bool:
        """Return whether every value of a statement pattern has its type."""
        return all(
            accept_value(match.string, match.span(group), kind, self.lexicon, last=True) is not None
            for group, kind in pattern.types
            if kind != "noun" and match[group] is not None
        )

    def _attribute_or_kind(self, anchor: _Anchor | None, kinds: tuple[str, ...]) -> str | None:
        """Return the attribute asked for, or the one that the anchor's value belongs to ("before Notion")."""
        if self.attribute is not None or anchor is None:
            return self.attribute
        text = self._anchor_text(anchor, None)
        words = text.lower().split()[:5]
        if not words or not (text.split()[-1][0].isupper() or text[-1].isdecimal()):
            words = words[-2:]  # "basketball career" is no sport: the last word says what it is
            words = [" ".join(words), *words[-1:]]
        words += list(map(" ".join, pairwise(words)))
        for kind in kinds:
            attribute = _KIND_ATTRIBUTE.get(kind, kind)
            listed = self.lexicon.kinds.get(kind, frozenset())
            if attribute in self.lexicon.attributes and not listed.isdisjoint(words):
                return attribute
        return None

    # -- attributes ------------------------------------------------------------------------------

    def _find_attribute(self) -> str | None:
        """Return the attribute that the question asks about: the first that it names in its main clause."""
        text = self._blank_quotes(self.asked.masked)
        main = self._main_clause(text)
        for part in (main, text):
            asked = self._by_question(part)
            named = self._by_noun(part)
            kin = self._kin(part)
            if asked and (named is None or asked[0] <= named[0] or (kin and asked[1] != named[1])):
                return f"{kin}.{asked[1]}" if kin and kin not in asked[2] else asked[1]
            if named:
                return named[1]
        return None

    def _blank_quotes(self, masked: str) -> str:
        """Return a masked question with quotations blanked."""
        return _QUOTED.sub(lambda match: _BLANK * len(match.group()), masked)

    def _main_clause(self, text: str) -> str:
        """Return the question up to "before" or "after", or what follows an opening clause of that kind."""
        starts = [m.start() for cue in ("anchor_before", "anchor_after") for m in self._search(cue) if m]
        cut = min(starts, default=len(text))
        if cut <= 1:
            comma = text.find(",")
            return text[comma + 1 :] if comma > 0 else text
        return text[:cut]

    def _by_question(self, text: str) -> tuple[int, str, str] | None:
        """Return (end, attribute, source) of the question pattern that ends first."""
        found = (
            (match.end(), name, pattern.pattern)
            for name, pattern in self.lexicon.ask
            if (match := pattern.search(text))
        )
        return min(found, key=lambda pair: pair[0], default=None)

    def _by_noun(self, text: str) -> tuple[int, str] | None:
        """Return (end, attribute) of the first noun phrase of the question that names an attribute."""
        for pattern in (_OWNED, _NOUN_FIRST, _NOUN_OF):
            for match in pattern.finditer(text):
                words = self._phrase(match.group(1))
                behind = text[match.start(1) + len(" ".join(words)) :]
                if pattern is _OWNED and not (
                    _COPULA_FRONT.search(text, 0, match.start()) or _CHANGE_BEHIND.match(behind)
                ):
                    continue
                noun = self.lexicon.noun(words)
                if noun is not None and (noun.known or (pattern is _OWNED and self._asks_open(words))):
                    return match.end(), noun.attribute
        return None

    def _asks_open(self, words: list[str]) -> bool:
        """Return whether an unknown noun may be an attribute: "What is Bob's shoe brand now?"."""
        return len(words) <= 3 and self._has("current") and self._has("present")

    def _phrase(self, text: str) -> list[str]:
        """Return the words of a noun phrase, up to a word that cannot belong to it."""
        words: list[str] = []
        ends = self.lexicon.cue_words["noun_stops"] | self.lexicon.words["question"]
        for word in text.split():
            role = self.lexicon.roles.get(word)
            if word in ends or (
                role and not (role == "adverbs" and word in self.lexicon.words["qualifiers"])
            ):
                break
            words.append(word)
        return words

    def _kin(self, text: str) -> str | None:
        """Return "brother" for "Bob's brother" if the question is about him and does not name him."""
        for match in _OWNED.finditer(text):
            words = self._phrase(match.group(1))[:2]
            for i, word in enumerate(words):
                bare = word.removesuffix("'s")
                if bare in self.lexicon.words["kin"] and all(
                    w in self.lexicon.words["qualifiers"] for w in words[:i]
                ):
                    behind = text[match.start(1) :].split(maxsplit=i + 2)[i + 1 : i + 2]
                    return None if behind and behind[0].startswith(MASK) else bare
        return None

    def _possessors(self) -> frozenset[int]:
        """Return where names stand that only say whose brother another name is: "Bob's brother Tom"."""
        found = set()
        for match in re.finditer(rf"{MASK}'s (\w+) {MASK}", self.asked.masked):
            if match.group(1) in self.lexicon.words["kin"]:
                found.add(self.asked.origin[match.start()])
        return frozenset(found)
