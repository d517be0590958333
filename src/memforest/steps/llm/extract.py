"""Extraction by a model: one call for each chunk, all chunks at once, and nothing of a reply taken unchecked.

A chunk that cannot be extracted fails by itself, with its reason; what the budget does not allow is left open. What a
statement has to pass is in `memforest.steps.llm.checks`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from memforest.concurrency import all_of
from memforest.errors import BudgetError, ModelRequestError, ModelUnavailableError, StepError
from memforest.models.calls import Calls
from memforest.steps.llm.checks import check_extraction
from memforest.steps.llm.prompt import Prompt, Value, load_prompt
from memforest.steps.llm.replies import Extraction
from memforest.steps.llm.source import MAX_TURN_CHARS, Source, SourceTurn, is_readable, read_source, show_time
from memforest.steps.llm.structured import CUT_SHORT, ask
from memforest.text import DATA_RUN, cut, shorten_runs
from memforest.types import Chunk, ChunkOutcome, Skipped

MAX_REPLY_TOKENS = 4096
"""Most tokens of a reply (reference configuration)."""

_CONTEXT_CHARS = 2_000
"""Characters shown of a turn that is there for understanding only; its end is nearest to what follows."""
_SHOWN_CHARS = 240


class ChatExtractor:
    """The `Extractor` that asks a chat model.

    Args:
        calls: the way to the model.
        timezone: the zone in which "yesterday" is meant and dates are written: a name or a tzinfo.
    """

    remote = True

    def __init__(self, calls: Calls, *, timezone: str | tzinfo = "UTC") -> None:
        self._calls = calls
        self._zone = ZoneInfo(timezone) if isinstance(timezone, str) else timezone
        self._prompt: Prompt[Extraction] = load_prompt("extract")
        self.name = self._prompt.maker(calls.model_id)

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Return one outcome per chunk, in order; all calls are under way at once.

        Raises:
            ModelRefusedError: if no call can succeed.
        """
        return await all_of(self._extract(chunk) for chunk in chunks)

    async def _extract(self, chunk: Chunk) -> ChunkOutcome:
        withheld = _withheld(chunk)
        source = await asyncio.to_thread(read_source, chunk, self._zone)
        if not source.said:
            return ChunkOutcome(skipped=withheld)
        try:
            reply = await ask(self._calls, self._prompt, _data(source), max_tokens=MAX_REPLY_TOKENS)
        except BudgetError as exc:
            return ChunkOutcome(failure=str(exc), left=True)
        except (StepError, ModelUnavailableError, ModelRequestError) as exc:
            return ChunkOutcome(failure=f"{type(exc).__name__}: {exc}")
        candidates, skipped = await asyncio.to_thread(check_extraction, reply, source)
        self._calls.trace_refused(
            self._prompt.step, [(one.turn, one.text, one.reason) for one in skipped if one.statement]
        )
        # What is complete is kept, and the chunk is read again by `resume`.
        failure = (
            f"{CUT_SHORT}: {len(candidates)} statements of it are kept" if CUT_SHORT in reply.notes else None
        )
        return ChunkOutcome(tuple(candidates), (*withheld, *skipped), failure)


def _withheld(chunk: Chunk) -> tuple[Skipped, ...]:
    """Return the pieces of a chunk that are not sent to the model, with reasons."""
    found = []
    for turn in chunk.turns:
        runs = DATA_RUN.findall(turn.text)
        found += [Skipped(turn.ordinal, cut(run, _SHOWN_CHARS), "data") for run in runs]
        if not is_readable(turn.text) and not runs:
            found.append(Skipped(turn.ordinal, cut(turn.text, _SHOWN_CHARS), "empty"))
        elif len(shown := shorten_runs(turn.text)) > MAX_TURN_CHARS:
            found.append(Skipped(turn.ordinal, cut(shown[MAX_TURN_CHARS:], _SHOWN_CHARS), "too long"))
    return tuple(found)


def _data(source: Source) -> Mapping[str, Value]:
    """Return the variables of the prompt."""
    return {
        "session": [{"participants": list(source.participants.values())}],
        "context": [_row(one, source, cut_at=_CONTEXT_CHARS) for one in source.context],
        "turns": [{"turn": number} | _row(one, source) for number, one in source.said.items()],
    }


def _row(said: SourceTurn, source: Source, *, cut_at: int | None = None) -> dict[str, Any]:
    """Return a turn as data; of one that is only context, the end."""
    role = {} if said.turn.role is None else {"role": said.turn.role}
    text = said.text if cut_at is None or len(said.text) <= cut_at else "…" + said.text[-cut_at:]
    time = {"time": show_time(said.turn.said, source.zone)} if cut_at is None else {}
    return {**time, "speaker": said.turn.speaker, **role, "text": text}
