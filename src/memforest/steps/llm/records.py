"""Records of a memory that is consolidated by the calendar (segment, session, day, week, profile), or of what is alike (memory).

Each has a prompt of its own, which a request names (`SummaryRequest.prompt`). A reply is checked against all that it
was made of (`memforest.steps.llm.record_checks`), sent back once with what is wrong, and then given up: that record alone has
failed.

Source: TiMem (arXiv 2601.02845), §3: what a level holds; H-Mem (arXiv 2605.15701), §3.1: what is consolidated from day to year. The prompts are our own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any, Literal, get_args

from memforest.interval import local_time
from memforest.language.counting import count_words
from memforest.models.calls import Calls
from memforest.profiles import join_sections
from memforest.steps.base import Kept
from memforest.steps.llm.passages import participant_named
from memforest.steps.llm.prompt import Prompt, Value, load_prompt
from memforest.steps.llm.record_checks import RecordCheck
from memforest.steps.llm.replies import Profile, Summary
from memforest.steps.llm.shown import MAX_CHARS, not_blank, numbered, readable, within
from memforest.steps.llm.structured import ask
from memforest.types import SummaryRequest

Level = Literal["segment", "session", "day", "week", "profile"]
LEVELS: tuple[Level, ...] = get_args(Level)
"""What `SummaryRequest.prompt` may name of a calendar's levels, from the lowest up."""
MEMORY = "memory"
"""What it names for the memory that is consolidated of things alike, whatever its level."""

MIN_CHARS = 400
"""Characters that an input is shown with at least: of more inputs than have room so, evenly spaced ones are shown."""
_LEAST_TOKENS, _MOST_TOKENS = 2_048, 8_192
_TOKENS_A_WORD = 4
_TICK = timedelta(milliseconds=1)


class RecordWriter:
    """Asks a chat model for records, a call each.

    Args:
        calls: the way to the model.
        zone: whose days are shown.
    """

    def __init__(self, calls: Calls, zone: tzinfo) -> None:
        self._calls = calls
        self._zone = zone
        self._prompts: Mapping[str, Prompt[Any]] = {
            **{level: load_prompt(f"timem_{level}") for level in LEVELS},
            MEMORY: load_prompt("hmem_memory"),
        }

    def writes(self, request: SummaryRequest) -> bool:
        """Return whether a request is for one of these records."""
        return request.prompt in self._prompts

    def maker_of(self, request: SummaryRequest) -> str | None:
        """Return what is recorded as the maker of a record: ``"timem_day@1:model"``; None if it is none of these."""
        found = self._prompts.get(request.prompt)
        return None if found is None else found.maker(self._calls.model_id)

    async def write(self, request: SummaryRequest) -> str:
        """Return a record in at most so many words as the request has; "" where there is nothing to tell, without a call.

        A memory of one text is that text, if it fits and may be kept: nothing was consolidated.

        A profile is the text of its sections (`memforest.profiles`); what is too long of it goes line by line, from the end of
        the longest section.

        Raises:
            ReplyError: if the model's replies are unusable, also the one that was asked for again.
            BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
        """
        inputs = readable(_spaced(not_blank(request.inputs)))
        if not inputs or request.max_words <= 0:
            return ""
        if _stands_alone(request, inputs):
            return Kept(inputs[0])
        history = readable(not_blank(request.history))
        prompt = self._prompts[request.prompt]
        days = _days(request, self._zone)
        check = RecordCheck(request, (*inputs, *history), days, self._zone, prompt.id)
        tokens = min(max(_LEAST_TOKENS, _TOKENS_A_WORD * request.max_words), _MOST_TOKENS)
        values = _values(request, days, inputs, history)
        if request.prompt == "profile":
            profile: Profile = await ask(
                self._calls,
                prompt,
                values,
                max_tokens=tokens,
                check=lambda reply: _profile_problem(reply, request, check),
            )
            return join_sections(_shortened(_sections(profile, request), request.max_words))
        reply: Summary = await ask(
            self._calls,
            prompt,
            values,
            max_tokens=tokens,
            check=lambda reply: _problem(reply.summary, check),
        )
        return within(reply.summary, request.max_words)


def _stands_alone(request: SummaryRequest, inputs: Sequence[str]) -> bool:
    """Return whether a memory is of one text, which may stand as it is and fits."""
    alone = request.prompt == MEMORY and len(inputs) == 1 and request.summarise == "kept"
    return alone and count_words(inputs[0]) <= request.max_words


def _values(
    request: SummaryRequest, days: Sequence[str], inputs: Sequence[str], history: Sequence[str]
) -> Mapping[str, Value]:
    """Return the variables of a level's prompt."""
    node: dict[str, Any] = {request.prompt: request.label}
    node |= {"window": request.window} if request.window else {}
    node |= {"from": days[0], "to": days[1], "participants": list(request.participants)}
    told = "turn" if request.prompt == "segment" else "note"
    people = max(1, len(request.participants)) if request.prompt == "profile" else 1
    before = {} if request.prompt == MEMORY else {"history": numbered("record", history)}
    return {
        "node": [node],
        **before,
        f"{told}s": numbered(told, inputs),
        "words": max(1, request.max_words // people),
    }


def _problem(text: str, check: RecordCheck) -> str | None:
    """Return what is wrong with a record, None if nothing; what costs least is looked at first."""
    return check.size(text) or check.about(text) or check.invention(text)


def _profile_problem(reply: Profile, request: SummaryRequest, check: RecordCheck) -> str | None:
    """Return what is wrong with a profile, None if nothing."""
    people = request.participants
    for section in reply.sections:
        if people and participant_named(section.name, people) is None:
            return f"there is a section for {section.name!r}; sections are for {', '.join(people)} alone"
    sections = _sections(reply, request)
    text = "\n".join(line for _, lines in sections for line in lines)
    wrong = _problem(text, check)
    if wrong is not None:
        return wrong
    found = (check.misplaced(line, name) for name, lines in sections for line in lines)
    return next((problem for problem in found if problem is not None), None)


def _sections(reply: Profile, request: SummaryRequest) -> list[tuple[str, list[str]]]:
    """Return the sections of a profile in the order of the participants, under their names as the memory has them."""
    held: dict[str, list[str]] = {name: [] for name in request.participants}
    for section in reply.sections:
        name = participant_named(section.name, request.participants) or section.name
        held.setdefault(name, []).extend(line for line in section.lines if line.strip())
    return [(name, list(dict.fromkeys(lines))) for name, lines in held.items() if lines]


def _shortened(sections: list[tuple[str, list[str]]], most: int) -> list[tuple[str, list[str]]]:
    """Return sections of which lines are left out until there are at most so many words; of the last line, whole sentences."""
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
    """Return at most so many texts as can be shown with `MIN_CHARS` each: evenly spaced, the first and the last among them."""
    most = MAX_CHARS // MIN_CHARS
    if len(texts) <= most or sum(map(len, texts)) <= MAX_CHARS:
        return texts
    return [texts[round(at * (len(texts) - 1) / (most - 1))] for at in range(most)]


def _days(request: SummaryRequest, zone: tzinfo) -> tuple[str, str]:
    """Return the first and the last day of a record; its end is not part of it."""
    last = request.end - _TICK if request.end > request.start else request.start
    return _day(request.start, zone), _day(last, zone)


def _day(moment: datetime, zone: tzinfo) -> str:
    return local_time(moment, zone).date().isoformat()
