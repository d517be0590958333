"""Summaries and records by a chat model: one call for each node whose children are too long to be kept as they are.

A session, a stretch of conversation, a person and a theme each have a prompt of their own, and so have records that have an
instruction, a history or a window. A request may also name the prompt (`SummaryRequest.prompt`) of a memory that is
consolidated by the calendar (segment, session, day, week, profile), or of what is alike (memory).

Such a record is checked against all that it was made of, sent back once with what is wrong, and then given up: that record
alone has failed. Held strictly is what must never be made up: names, numbers, dates, quotations, and whose a line of a profile
is. Of the other words a part has to be there. It catches what a model made up, took from its instructions or from its
examples, or was talked into; it cannot tell a true record from a false one of the same words.

Source: TiMem (arXiv 2601.02845), §3: what a level holds; H-Mem (arXiv 2605.15701), §3.1: what is consolidated from day to
year. The prompts are our own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta, tzinfo
from functools import cached_property, lru_cache, partial
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo

from memforest.concurrency import all_of
from memforest.errors import ModelError, ModelRefusedError
from memforest.models.calls import Calls
from memforest.ports import UnchangedText, join_sections
from memforest.reading.date_phrases import DateSpan
from memforest.reading.figures import figures
from memforest.reading.prompts import (
    MAX_CHARS,
    Prompt,
    Value,
    ask,
    load_prompt,
    not_blank,
    numbered,
    readable,
    within,
)
from memforest.reading.replies import Profile, Summary
from memforest.reading.reply_checks import (
    ChunkSource,
    Lack,
    date_is_spelt,
    dates_of,
    folded,
    forms_of,
    invented,
    is_order,
    read_source,
    stands_in,
)
from memforest.reading.tokens import Code, count_words, detect_language, split_sentences
from memforest.records import Chunk, SummaryRequest, Turn
from memforest.text import cut, entity_key, fold, words
from memforest.times import LATEST, Interval, local_time

TOO_LONG = 1.5
"""Times the words allowed: a longer reply is sent back, a shorter one cut at a sentence."""
MIN_SHARED = 0.3
"""Part of a summary's content words that its children have to have; below that it is about something else."""

_ECHO = 8
"""Words in a row that a record may not have from its prompt, unless somebody said them."""
_QUOTED_WORDS = 3
"""Shorter quotations are titles, nicknames and words that are spoken about; their names and numbers are checked."""
_QUOTE = re.compile(r"“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|「([^「」]+)」|(?<!\w)\"([^\"]+)\"(?!\w)")
_LEFT_OUT = re.compile(r"…|\.{3,}|\[[^\[\]]*\]")
_ISO_DATE = re.compile(r"\b\d{4}-(?:\d{2}(?:-\d{2})?|W\d{2})\b")
_YEARS = 1000
_TURN_CHARS = 4_000
_SHOWN = 60


class RecordCheck:
    """Finds errors in a record, given its sources.

    Args:
        request: that for the record.
        texts: the shown inputs and history, in this order.
        days: the first and the last day of the record, as they were shown.
        zone: whose calendar days are meant.
        prompt: id of the prompt that asked for it.
    """

    def __init__(
        self, request: SummaryRequest, texts: Sequence[str], days: Sequence[str], zone: tzinfo, prompt: str
    ) -> None:
        self._request = request
        self._zone = zone
        self._prompt = prompt
        self._texts = (*texts, *request.statements)
        self._told = "\n".join((request.label, request.window, *days))

    def problem(self, text: str) -> str | None:
        """Return what is wrong with a record, None if nothing; what costs least is looked at first."""
        return self.plain(text) or self.invention(text)

    def plain(self, text: str) -> str | None:
        """Return why a record is empty, too long or about something else; None if it is none of these."""
        return self.size(text) or self.about(text)

    def size(self, text: str) -> str | None:
        """Return why a record is empty or too long; None if it is neither."""
        size, most = count_words(text), self._request.max_words
        if not any(ch.isalnum() for ch in text):
            return "the summary is empty"
        return f"the summary has {size} words; at most {most} are allowed" if size > TOO_LONG * most else None

    def about(self, text: str) -> str | None:
        """Return why a record is not about its sources (it shares too few words with them); None if it is.

        If a turn gives an order to its reader, the record has to say something besides the order, or who gave it.
        """
        mine = forms_of(text)
        if self._language == detect_language(text) and len(mine & self._forms) < MIN_SHARED * len(mine):
            return "the summary is about something that is not in the notes"
        if mine and self._unordered is not None and mine.isdisjoint(self._unordered):
            return "the summary says only what an order in the notes asks for; the notes are quotations"
        return None

    def invention(self, text: str) -> str | None:
        """Return what a record makes up: a name, a number, a date, a quotation, words of its prompt; None if nothing."""
        language = detect_language(text)
        wrong = (
            self._made_up(piece.text, language)
            for piece in split_sentences(text)
            if folded(piece.text) not in self._sentences
        )
        return self._echoed(text) or next(filter(None, wrong), None) or self._misquoted(text)

    def misplaced(self, line: str, participant: str) -> str | None:
        """Return why a line of a profile does not belong to a participant; None if nothing tells against it.

        It names somebody else alone; it has a number or a name that the notes have of others alone; or the notes say it of
        others rather than of them.
        """
        others = [one for one in self._request.participants if one != participant]
        if not others:
            return None
        named = named_in(line, self._request.participants)
        if named and participant not in named:
            return f"the line {_cut(line)} names {', '.join(sorted(named))} and not {participant}, in whose section it is"
        own = [one for one in self._passages if not one[2] or participant in one[2]]
        foreign = [one for one in self._passages if one[2] and participant not in one[2]]
        if _is_of(line, own, foreign, self._people):
            return None
        return f"the line {_cut(line)} tells of somebody else than {participant}, in whose section it is"

    def _made_up(self, sentence: str, language: Code) -> str | None:
        plain, date = self._without_dates(sentence, language)
        if date is not None:
            return _not_there("a date", date)
        found = invented(plain, language, self._source)
        return None if found is None else _not_there(*found)

    def _without_dates(self, sentence: str, language: Code) -> tuple[str, str | None]:
        """Return a sentence without its supported dates, and the first unsupported date."""
        plain = _ISO_DATE.sub(lambda found: " " if found[0] in self._iso else found[0], sentence)
        for one in reversed(dates_of(plain, language, self._request.start, self._zone, None)):
            if one.direction == "for":
                continue  # how long something takes is checked as a number
            if not self._is_known(one):
                return plain, one.text
            plain = f"{plain[: one.start_char]} {plain[one.end_char :]}"
        left = _ISO_DATE.search(plain)
        return plain, None if left is None else left[0]

    def _is_known(self, span: DateSpan) -> bool:
        """Return whether the sources state a date's days or words; for "last week", whether they state a time within it."""
        known = self._days
        if any(meant.covers(other) for meant in span.readings for other in known):
            return True
        words, everything = folded(span.text), self._source.everything
        if any(stands_in(words, one.folded) for one in everything) or date_is_spelt(span.text, everything):
            return True
        counted = span.relative and not span.open_year
        return counted and any(meant.overlaps(other) for meant in span.readings for other in known)

    def _misquoted(self, text: str) -> str | None:
        for found in _QUOTE.finditer(text):
            inner = next(one for one in found.groups() if one is not None)
            for part in _LEFT_OUT.split(inner):
                if count_words(part) >= _QUOTED_WORDS and _squeezed(part) not in self._squeezed:
                    return f"the quotation {_cut(part.strip())} stands neither in the notes nor in the history, letter by letter"
        return None

    def _echoed(self, text: str) -> str | None:
        own = _runs_of(self._prompt)
        for run in _runs(text):
            if run in own and "".join(run) not in self._squeezed:
                return f"{_cut(' '.join(run))} is part of the instructions, and nobody said it"
        return None

    @cached_property
    def _source(self) -> ChunkSource:
        """All sources as the turns of a chunk; an order to the reader is a turn of its own, as it supports nothing."""
        start = self._request.start
        parts = [part for text in (*self._texts, self._told) for part in _parts(text)]
        turns = tuple(Turn(str(at), "", part, start, at, None) for at, part in enumerate(parts))
        read = read_source(Chunk("", 0, turns, (), self._request.participants), self._zone)
        years = {number for number in read.numbers if number >= _YEARS}
        # The digits of dates are no numbers, as every record has some.
        texts = (*(_ISO_DATE.sub(" ", part) for part in parts), *self._request.participants)
        told = (reading for text in texts for one in figures(text) for reading in one.readings)
        return replace(read, numbers=frozenset((*years, *told)))

    @cached_property
    def _days(self) -> tuple[Interval, ...]:
        start, end = self._request.start, self._request.end  # an instant is one millisecond
        own = [Interval(start, end)] if start < end else [Interval.at(start)] if start <= LATEST else []
        return (*self._source.stated, *own)

    @cached_property
    def _iso(self) -> frozenset[str]:
        """The dates in ISO form, of which two may stand together ("2031-05-05/2031-05-11")."""
        return frozenset(_ISO_DATE.findall("\n".join((*self._texts, self._told))))

    @cached_property
    def _language(self) -> Code:
        return detect_language("\n".join(self._texts))

    @cached_property
    def _sentences(self) -> frozenset[str]:
        return frozenset(folded(piece.text) for text in self._texts for piece in split_sentences(text))

    @cached_property
    def _squeezed(self) -> str:
        return "\n".join(_squeezed(text) for text in self._texts)

    @cached_property
    def _people(self) -> frozenset[str]:
        return frozenset(form for name in self._request.participants for form in forms_of(name))

    @cached_property
    def _forms(self) -> frozenset[str]:
        return forms_of("\n".join((*self._texts, self._told))) | self._people

    @cached_property
    def _unordered(self) -> frozenset[str] | None:
        """The forms of what stands before an order in each text, and of the names of people; None without an order."""
        split = [[piece.text for piece in split_sentences(text)] for text in self._texts]
        before = [list(takewhile(lambda piece: not is_order(piece), pieces)) for pieces in split]
        if all(len(kept) == len(pieces) for kept, pieces in zip(before, split, strict=True)):
            return None
        forms = forms_of("\n".join(piece for kept in before for piece in kept))
        return forms | self._people | forms_of(self._told)

    @cached_property
    def _passages(self) -> tuple[Passage, ...]:
        return tuple(passages(self._texts, self._request.participants))


def _parts(text: str) -> list[str]:
    """Return a text in parts of bounded length; a sentence that gives an order to its reader is one by itself."""
    made: list[str] = []
    room = 0
    for piece in split_sentences(text):
        if is_order(piece.text):
            made.append(piece.text)
            room = 0
        elif len(piece.text) <= room:
            made[-1] += f"\n{piece.text}"
            room -= len(piece.text)
        else:
            made.append(piece.text)
            room = _TURN_CHARS - len(piece.text)
    return made


def _is_of(line: str, own: Sequence[Passage], foreign: Sequence[Passage], people: frozenset[str]) -> bool:
    """Return whether a line may be taken from a participant's own passages, rather than from those of others alone."""
    mine = forms_of(line) - people
    here, there = (frozenset(form for _, forms, _ in some for form in forms) for some in (own, foreign))
    if any(form[0].isdigit() for form in mine & there - here):
        return False
    best, other = (max((len(mine & forms) for _, forms, _ in some), default=0) for some in (own, foreign))
    return len(mine & here) >= len(mine & there) or best >= other


def _squeezed(text: str) -> str:
    """Return only the letters and digits of a text, folded, so that quotations are compared without their marks."""
    return "".join(ch for ch in fold(text) if ch.isalnum())


def _runs(text: str) -> list[tuple[str, ...]]:
    tokens = ["".join(ch for ch in word if ch.isalnum()) for word in fold(text).split()]
    plain = [token for token in tokens if token]
    return [tuple(plain[at : at + _ECHO]) for at in range(len(plain) - _ECHO + 1)]


@lru_cache(maxsize=16)
def _runs_of(prompt: str) -> frozenset[tuple[str, ...]]:
    """Return the runs of words in a prompt's instructions, without its examples, whose names and numbers give them away."""
    one = load_prompt(prompt)
    return frozenset((*_runs(one.system), *_runs(one.user)))


def _not_there(lack: Lack, text: str) -> str:
    return f"{lack} that stands neither in the notes nor in the history: {_cut(text)}"


def _cut(text: str) -> str:
    return repr(cut(text, _SHOWN))


_SPEAKER = re.compile(r"([^\s:：][^:：\n]{0,80}?)[:：] ")
_HEADING, _DASH = "## ", "- "


Passage = tuple[str, frozenset[str], frozenset[str]]
"""A sentence, its content words, and the participants it is about; none where it may be about anybody."""


def passages(texts: Iterable[str], participants: Sequence[str]) -> Iterator[Passage]:
    """Yield the sentences of texts in order, each with the participants it is about.

    A line of a transcript ("Ana: I sing.") belongs to its speaker and those it names; a line of a section of a profile, to those
    whose section it is; another sentence, to those it names, or else to those of the sentence before it.
    """
    calls = _calls_by_name(participants)
    for text in texts:
        section: frozenset[str] | None = None
        before: frozenset[str] = frozenset()
        for line in text.splitlines():
            if line.startswith(_HEADING):
                section = _only(participant_named(line.removeprefix(_HEADING), participants))
                continue
            said = _SPEAKER.match(line)
            speaker = None if said is None else participant_named(said[1], participants)
            own = section if section is not None else _only(speaker)
            for piece in split_sentences(line.removeprefix(_DASH)):
                named = _named(piece.text, calls)
                owners = own if section is not None else own | named or before
                yield piece.text, forms_of(piece.text), owners
                before = own | named or before


def participant_named(name: str, participants: Sequence[str]) -> str | None:
    """Return the participant with a name, whatever its case and accents; None if there is none.

    >>> participant_named(" josé ", ["Ana", "José"]), participant_named("Eva", ["Ana"])
    ('José', None)
    """
    key = entity_key(name)
    return next((one for one in participants if key is not None and entity_key(one) == key), None)


def named_in(text: str, participants: Sequence[str]) -> frozenset[str]:
    """Return the participants that a text names, in full or by a first name that only one of them has.

    >>> sorted(named_in("Ana told Bo of it.", ["Ana Lima", "Bo", "Eva"]))
    ['Ana Lima', 'Bo']
    """
    return _named(text, _calls_by_name(participants))


def _named(text: str, calls: Mapping[str, str]) -> frozenset[str]:
    whole = folded(text)
    return frozenset(name for call, name in calls.items() if stands_in(call, whole))


def _calls_by_name(participants: Sequence[str]) -> dict[str, str]:
    """Return the participants by full name and by first name, without first names that several have."""
    firsts = [folded(parts[0]) if (parts := words(name)) else "" for name in participants]
    single = {
        first: name
        for first, name in zip(firsts, participants, strict=True)
        if len(first) > 1 and firsts.count(first) == 1
    }
    return single | {folded(name): name for name in participants if folded(name)}


def _only(name: str | None) -> frozenset[str]:
    return frozenset() if name is None else frozenset((name,))


LEVELS = ("segment", "session", "day", "week", "profile")
"""What `SummaryRequest.prompt` may name of a calendar's levels, from the lowest up."""
MEMORY = "memory"
"""The prompt of a memory consolidated of similar texts, whatever its level."""

MIN_CHARS = 400
"""Characters that an input is shown with at least: of more inputs than have room so, evenly spaced ones are shown."""
_LEAST_TOKENS, _MOST_TOKENS = 2_048, 8_192
_TOKENS_A_WORD = 4
_TICK = timedelta(milliseconds=1)


def _values(
    request: SummaryRequest,
    prompt: Prompt[Any],
    days: Sequence[str],
    inputs: Sequence[str],
    history: Sequence[str],
) -> Mapping[str, Value]:
    """Return the variables of a request's prompt."""
    node: dict[str, Any] = {_CALLED.get(prompt.id, request.prompt): request.label}
    node |= {"level": request.level} if prompt.id == _RECORD else {}
    node |= {"window": request.window} if request.window else {}
    node |= {"from": days[0], "to": days[1]}
    node |= {} if prompt.id in _TREES else {"participants": list(request.participants)}
    people = max(1, len(request.participants)) if request.prompt == "profile" else 1
    values: dict[str, Value] = {
        "node": [node],
        "instruction": [{"text": request.instruction}],
        "history": numbered("record", history),
        "notes": numbered("note", inputs),
        "turns": numbered("turn", inputs),
        "words": max(1, request.max_words // people),
    }
    return {name: values[name] for name in prompt.variables}


def _profile_problem(reply: Profile, request: SummaryRequest, check: RecordCheck) -> str | None:
    """Return what is wrong with a profile, None if nothing."""
    people = request.participants
    for section in reply.sections:
        if people and participant_named(section.name, people) is None:
            return f"there is a section for {section.name!r}; sections are for {', '.join(people)} alone"
    sections = _sections(reply, request)
    text = "\n".join(line for _, lines in sections for line in lines)
    found = (check.misplaced(line, name) for name, lines in sections for line in lines)
    return check.problem(text) or next(filter(None, found), None)


def _sections(reply: Profile, request: SummaryRequest) -> list[tuple[str, list[str]]]:
    """Return the sections of a profile in the order of the participants, under their names as the memory has them."""
    held: dict[str, list[str]] = {name: [] for name in request.participants}
    for section in reply.sections:
        name = participant_named(section.name, request.participants) or section.name
        held.setdefault(name, []).extend(line for line in section.lines if line.strip())
    return [(name, list(dict.fromkeys(lines))) for name, lines in held.items() if lines]


def _shortened(sections: list[tuple[str, list[str]]], most: int) -> list[tuple[str, list[str]]]:
    """Return sections of at most `most` words: lines are left out, and a last single line is cut at a sentence."""
    kept = [(name, list(lines)) for name, lines in sections]
    while (size := count_words(join_sections(kept))) > most:
        name, lines = max(kept, key=lambda one: sum(map(count_words, one[1])))
        if len(lines) > 1:
            lines.pop()
            continue
        if len(kept) == 1:
            room = most - (size - count_words(lines[0]))
            return [(name, [within(lines[0], room)])] if room > 0 else kept
        kept.remove((name, lines))
    return kept


def _spaced(texts: list[str]) -> list[str]:
    """Return as many texts as can be shown with `MIN_CHARS` each: evenly spaced, with the first and the last."""
    most = MAX_CHARS // MIN_CHARS
    if len(texts) <= most or sum(map(len, texts)) <= MAX_CHARS:
        return texts
    return [texts[round(at * (len(texts) - 1) / (most - 1))] for at in range(most)]


def _days(request: SummaryRequest, zone: tzinfo) -> tuple[str, str]:
    """Return the first and the last day of a node; its end is not part of it."""
    last = request.end - _TICK if request.end > request.start else request.start
    days = [local_time(moment, zone).date().isoformat() for moment in (request.start, last)]
    return days[0], days[1]


VERBATIM = 3
"""Times the words of a summary that a node inside a tree keeps as they are. Every call saved is a call that cannot
lose a fact; what stands above reads the facts themselves. Ten sessions one by one took 0.84 calls a turn with 2, 0.71
with 3 (`benchmarks/write_path.py`)."""

_RECORD = "consolidate"
_CALLED = {
    "summarise_session": "conversation",
    "summarise_entity": "entry",
    "summarise_scene": "theme",
    "summarise_conversation": "stretch",
    _RECORD: "record",
}
"""Prompts of nodes without one of their own, and what each calls the label."""
_TREES = _CALLED.keys() - {_RECORD}
_OWN = {**{level: f"timem_{level}" for level in LEVELS}, MEMORY: "hmem_memory"}
"""Prompts by the name in a request (`SummaryRequest.prompt`)."""


class ChatSummariser:
    """The `Summariser` that asks a chat model.

    A node keeps its children's texts without a call when they have few words together: as many as a summary may have
    for a root, `VERBATIM` times as many for a node inside a tree and for the root of a scene; not if every node is to be
    summarised (`SummaryRequest.summarise`).

    Args:
        calls: the way to the model.
        timezone: the zone in which a node's days are written: a name or a tzinfo.
    """

    remote = True

    def __init__(self, calls: Calls, *, timezone: str | tzinfo = "UTC") -> None:
        self._calls = calls
        self._zone = ZoneInfo(timezone) if isinstance(timezone, str) else timezone
        self._prompts = {id: load_prompt(id) for id in (*_CALLED, *_OWN.values())}
        versions = (self._prompts[id].version for id in _CALLED)
        self.name = f"summarise@{'.'.join(map(str, versions))}:{calls.model_id}"

    def maker_of(self, request: SummaryRequest) -> str:
        """Return the maker that is stored with a request's summary.

        That is the prompt of a level that has one of its own, with version and model: ``"timem_day@1:model"``; else `name`.
        """
        own = _OWN.get(request.prompt)
        return self.name if own is None else self._prompts[own].maker(self._calls.model_id)

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Return one summary per request, in order, with an error in the place of one that could not be made.

        Raises:
            ModelRefusedError: if no call can succeed.
        """
        return await all_of(self._summarise(request) for request in requests)

    async def _summarise(self, request: SummaryRequest) -> str | ModelError:
        try:
            return await self._made(request)
        except ModelRefusedError:
            raise
        except ModelError as exc:
            return exc

    async def _made(self, request: SummaryRequest) -> str:
        """Return the summary of a node; "" where there is nothing to tell, without a call.

        A profile is the text of its sections (`memforest.ports`); if it is too long, lines are left out from the end of the
        longest section.
        """
        inputs = not_blank(request.inputs)
        if not inputs or request.max_words <= 0:
            return ""
        if _may_stay(request, inputs):
            return UnchangedText("\n".join(inputs))
        prompt, days = self._prompts[_prompt_of(request)], _days(request, self._zone)
        inputs, history = readable(_spaced(inputs)), readable(not_blank(request.history))
        check = RecordCheck(request, (*inputs, *history), days, self._zone, prompt.id)
        written = partial(
            ask,
            self._calls,
            prompt,
            _values(request, prompt, days, inputs, history),
            max_tokens=min(max(_LEAST_TOKENS, _TOKENS_A_WORD * request.max_words), _MOST_TOKENS),
        )
        if request.prompt == "profile":
            profile: Profile = await written(check=lambda reply: _profile_problem(reply, request, check))
            return join_sections(_shortened(_sections(profile, request), request.max_words))
        problem = check.problem if request.prompt in _OWN else check.plain
        reply: Summary = await written(check=lambda reply: problem(reply.summary))
        return within(reply.summary, request.max_words)


def _may_stay(request: SummaryRequest, inputs: Sequence[str]) -> bool:
    """Return whether a node keeps its children's texts; a memory keeps that of an only one, another record none."""
    if request.summarise != "kept" or request.prompt in LEVELS:
        return False
    if request.prompt == MEMORY:
        return len(inputs) == 1 and count_words(inputs[0]) <= request.max_words
    whole = request.root and request.kind != "scene"
    return sum(map(count_words, inputs)) <= (1 if whole else VERBATIM) * request.max_words


def _prompt_of(request: SummaryRequest) -> str:
    """Return the id of the prompt that a request needs: its own, that of records, or that of its kind of tree."""
    if request.prompt in _OWN:
        return _OWN[request.prompt]
    if request.instruction or request.window or request.history:
        return _RECORD
    kind = f"summarise_{request.kind}"
    return kind if kind in _TREES else "summarise_scene"
