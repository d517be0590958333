"""Extraction by a model: one call for each chunk, all chunks at once, and nothing of a reply taken unchecked.

A chunk that cannot be extracted fails by itself, with its reason; what the budget does not allow is left open.

A model invents, copies its examples, obeys what it reads, and counts days wrongly. So nothing is taken on its word: a
statement quotes a turn of the chunk, says what that says (`memforest.reading.reply_checks`), and is dated by a date that it
states. What fails becomes a `Skipped` that says why.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, get_args

from pydantic import ValidationError

from memforest.concurrency import all_of
from memforest.errors import BudgetError, ModelRequestError, ModelUnavailableError, StepError
from memforest.reading.entities import MAX_MENTIONS, MAX_TOPICS, find_mentions, find_topics, merge_mentions
from memforest.reading.prompts import CUT_SHORT, PromptStep, Value, ask
from memforest.reading.replies import EntityReply, Extraction, FactReply
from memforest.reading.reply_checks import (
    MAX_TURN_CHARS,
    ChunkSource,
    Refused,
    SourceTurn,
    check_relations,
    date_statement,
    find_quote,
    folded,
    is_name,
    is_question,
    is_readable,
    read_source,
    show_time,
    stands_in,
    unsupported,
)
from memforest.reading.timestamps import valid_time
from memforest.reading.tokens import Code, detect_language, has_foreign_words, split_sentences
from memforest.records import Chunk, ChunkOutcome, EntityKind, ExtractedFact, Mention, Skipped
from memforest.text import DATA_RUN, cut, entity_key, fold, negated, shorten_runs

STATEMENT_CHARS = 150
"""Characters of a long turn for which it may have a statement."""
MAX_STATEMENT_CHARS = 600
"""Most characters of a statement; a longer one is a copy of the conversation."""
_READ_PER_KEPT = 4
_MAX_NAME_CHARS = 80
_MAX_TOPIC_CHARS = 40

# Not behind a capital: "World War I".
_FIRST_PERSON = re.compile(
    r"(?:^|(?<=[^\w ])|\b[a-z][\w'’]{0,40}[,;:]?) ?I(?:['’](?:m|ve|d|ll))? |\b(?:[Mm]y|me|[Mm]yself|mine)\b"
)


def most_statements(turns: int, chars: int = 0) -> int:
    """Return the most statements of a chunk by its turns (reference configuration: 15, or 7.5 a turn) or characters."""
    return max(15, 15 * turns // 2, chars // STATEMENT_CHARS)


def check_extraction(reply: Extraction, source: ChunkSource) -> tuple[list[ExtractedFact], list[Skipped]]:
    """Return the facts of a reply that pass the checks, in order, and what was left out, with reasons."""
    facts: dict[str, ExtractedFact] = {}
    skipped: list[Skipped] = []

    def skip(turns: Sequence[int], text: str, reason: str, *, statement: bool = False) -> None:
        turn = min((one for one in turns if one in source.said), default=min(source.said, default=0))
        skipped.append(Skipped(turn, cut(text, _SHOWN_CHARS), reason, statement))

    most = most_statements(len(source.said), sum(len(one.text) for one in source.said.values()))
    read = reply.statements[: _READ_PER_KEPT * most]
    for statement in read:
        key = fold(statement.text).rstrip(".")
        made = "over the limit" if len(facts) >= most else _checked(statement, source)
        if key in facts:
            made = "repeated"
        if isinstance(made, str):
            skip(statement.turns, statement.text, made, statement=True)
            continue
        facts[key], refused = made
        for text, reason in refused:
            skip(facts[key].turns, text, reason)
    if len(reply.statements) > len(read):
        skip((), f"{len(reply.statements) - len(read)} more statements", "over the limit")
    for note in reply.notes:
        skip((), "", note)
    return [*facts.values()], skipped


def _checked(statement: FactReply, source: ChunkSource) -> tuple[ExtractedFact, Refused] | str:
    """Return the fact that a statement makes and what of it was left out; or the reason why it makes none."""
    text = " ".join(statement.text.split())
    if not any(ch.isalnum() for ch in text):
        return "empty"
    if len(text) > MAX_STATEMENT_CHARS:
        return "too long"
    if is_question(text):
        return "question"
    found = find_quote(statement.quote, statement.turns, source)
    if found is None:
        return "its quote does not stand in the chunk"
    said, quote = found
    if all(is_question(piece.text) for piece in split_sentences(statement.quote)):
        return "its quote only asks"
    language = detect_language(text)
    if source.language == "other" and has_foreign_words(text):  # "in" and "am" are German, too
        language = "other"
    spoken = {source.language, *(one.language for one in source.everything)}
    # A turn of a few names tells no language.
    if language not in ("other", *spoken) and (spoken != {"other"} or has_foreign_words(said.told)):
        return "another language than that of the turns"
    dated = date_statement(statement, text, language, said, quote, source)
    if dated.invented is not None:
        return "not supported by the turns (a date)"
    lack = unsupported(text, dated.dateless, language, statement.entities, said, quote, source)
    if lack is not None:
        return f"not supported by the turns ({lack})"
    own = _mentions(statement.entities, text, language, source)
    mentions = merge_mentions((*own, Mention(said.turn.speaker, "participant", "other")))
    states, relations, refused = check_relations(statement, text, mentions)
    start, end, precision = valid_time(dated.span)
    names = {word for one in mentions for word in one.name.lower().split()}
    in_person = language == "en" and _FIRST_PERSON.search(text) is not None
    named = bool(own) and (not in_person or text.startswith(f"{said.turn.speaker}: "))
    fact = ExtractedFact(
        # "The rent is 640 euros." does not say whose, nor "I" who.
        text=text if named else f"{said.turn.speaker}: {text}",
        turns=tuple(sorted({said.turn.ordinal, *_named(statement, said, source)})),
        speaker=said.turn.speaker,
        quote=quote,
        start=start,
        end=end,
        precision=precision,
        dates=dated.dates,
        negated=statement.negated or negated(text),
        mentions=mentions,
        topics=_topics(statement.topics, source) or find_topics(text, names=names),
        states=states,
        relations=relations,
    )
    return fact, refused if dated.left_out is None else (dated.left_out, *refused)


def _named(statement: FactReply, said: SourceTurn, source: ChunkSource) -> list[int]:
    """Return the turns of the chunk that a statement names; none if the turn of its quote is not among them."""
    return (
        [one for one in statement.turns if one in source.said] if said.turn.ordinal in statement.turns else []
    )


def _mentions(
    entities: Iterable[EntityReply], text: str, language: Code, source: ChunkSource
) -> tuple[Mention, ...]:
    """Return the entities of a text: those that the local code finds, and those that the model listed.

    Of a language whose names are not known by their capitals, the local code finds the participants only.
    """
    found = find_mentions(text, participants=source.participants, known=source.names, language=language)
    if language == "other":
        found = tuple(one for one in found if one.kind == "participant")
    listed = [one for entity in entities if (one := _mention(entity, text, source)) is not None]
    return merge_mentions((*found, *listed))[:MAX_MENTIONS]


def _mention(entity: EntityReply, text: str, source: ChunkSource) -> Mention | None:
    """Return a listed entity as a mention; None if it is no name, or the text does not have it."""
    name, key = " ".join(entity.name.split()), entity_key(entity.name)
    whole, own = folded(text), folded(name)
    if key is None or not is_name(entity) or len(name) > _MAX_NAME_CHARS or not stands_in(own, whole):
        return None
    role: Literal["subject", "other"] = "subject" if whole.startswith(own) else "other"
    if key in source.participants:
        return Mention(source.participants[key], "participant", role)
    kinds: Mapping[str, EntityKind] = {one: one for one in get_args(EntityKind)}
    return Mention(name, kinds.get(entity.type.strip().lower(), "unknown"), role)


def _topics(topics: Iterable[str], source: ChunkSource) -> tuple[str, ...]:
    """Return the first few topics that are no participant's name, folded."""
    folded = dict.fromkeys(fold(one) for one in topics)
    return tuple(
        one
        for one in folded
        if one and len(one) <= _MAX_TOPIC_CHARS and entity_key(one) not in source.participants
    )[:MAX_TOPICS]


MAX_REPLY_TOKENS = 4096
"""Most tokens of a reply (reference configuration)."""

_CONTEXT_CHARS = 2_000
"""Characters shown of a turn that is there for understanding only; its end is nearest to what follows."""
_SHOWN_CHARS = 240


class ChatExtractor(PromptStep[Extraction]):
    """The `Extractor` that asks a chat model."""

    prompt = "extract"
    remote = True

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
            reply = _kept(chunk) or await ask(
                self._calls, self._prompt, _data(source), max_tokens=MAX_REPLY_TOKENS
            )
        except BudgetError as exc:
            return ChunkOutcome(failure=str(exc), left=True)
        except (StepError, ModelUnavailableError, ModelRequestError) as exc:
            return ChunkOutcome(failure=f"{type(exc).__name__}: {exc}")
        facts, skipped = await asyncio.to_thread(check_extraction, reply, source)
        self._calls.trace_refused(
            self._prompt.step, [(one.turn, one.text, one.reason) for one in skipped if one.statement]
        )
        # The complete facts are kept, and `resume` reads the chunk again.
        failure = f"{CUT_SHORT}: {len(facts)} statements of it are kept" if CUT_SHORT in reply.notes else None
        told = None if failure else reply.to_json()
        return ChunkOutcome(tuple(facts), (*withheld, *skipped), failure, reply=told)


def _kept(chunk: Chunk) -> Extraction | None:
    """Return the reply that is kept of a chunk; None where there is none, and of one that is not whole, which is not mended."""
    notes: list[str] = []
    with suppress(ValidationError):
        kept = Extraction.model_validate_json(chunk.reply or "", context=notes)
        return None if notes else kept
    return None


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


def _data(source: ChunkSource) -> Mapping[str, Value]:
    """Return the variables of the prompt."""
    return {
        "session": [{"participants": list(source.participants.values())}],
        "context": [_row(one, source, cut_at=_CONTEXT_CHARS) for one in source.context],
        "turns": [{"turn": number} | _row(one, source) for number, one in source.said.items()],
    }


def _row(said: SourceTurn, source: ChunkSource, *, cut_at: int | None = None) -> dict[str, Any]:
    """Return a turn as data; only the end of it if it is context."""
    role = {} if said.turn.role is None else {"role": said.turn.role}
    text = said.text if cut_at is None or len(said.text) <= cut_at else "…" + said.text[-cut_at:]
    time = {"time": show_time(said.turn.said, source.zone)} if cut_at is None else {}
    return {**time, "speaker": said.turn.speaker, **role, "text": text}
