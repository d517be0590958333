"""Arguments of the public verbs as the memory takes them: times, windows, moments, questions, statements, corrections, deletions.

Types and ranges are checked before, by the signature of a verb (`memforest.memory.verbs`); here is what needs the configuration, or
looks at several arguments together.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from inspect import signature
from pathlib import Path
from typing import Any, BinaryIO

from memforest.config import Config
from memforest.errors import ConfigError, InputError, TimestampError
from memforest.memory.open import check_embedder_and_key
from memforest.progress import Report, no_report
from memforest.read.query import Query
from memforest.reading.date_phrases import question_time
from memforest.reading.timestamps import parse_timestamp
from memforest.search.as_of import Moment
from memforest.settings import MAX_FACT_CHARS, QUESTION_CHARS, brief, with_article
from memforest.times import floor_ms, shown, to_ms
from memforest.trees.attached import make_index
from memforest.write.correct import Update
from memforest.write.delete import DeleteTarget
from memforest.write.rebuild import Rebuild
from memforest.write.turns import GivenStatement, check_id, json_object

TimeLike = datetime | date | str | int | float
"""An aware or naive datetime, a date, an ISO 8601 or written date, or UNIX seconds; see
`memforest.reading.timestamps.parse_timestamp`. Cut to the millisecond, towards the past."""
ExportTarget = str | Path | BinaryIO
ImportSource = str | Path | BinaryIO

_END = QUESTION_CHARS // 2 - 1
"""Characters of each end of a question that is longer than `QUESTION_CHARS`."""


def read_time(value: TimeLike | None, config: Config, name: str) -> datetime | None:
    """Return an aware UTC datetime, None for None.

    Words that a person uses are read by the clock, in English and Spanish: "yesterday", "last June"; but not of what is stored, by
    ``timestamp``. Of an instant it is the last moment of the days named, or now if they are not over, as in a question; else
    their first.

    Raises:
        TimestampError: if the value is no time; the message names it.
    """
    if value is None:
        return None
    try:
        return parse_timestamp(value, timezone=config.zone, field=name, day_first=config.day_first)[0]
    except TimestampError:
        found = _in_words(value.strip(), config, name) if isinstance(value, str) else None
        if found is None or name == "timestamp":
            raise
        return found


def _in_words(text: str, config: Config, name: str) -> datetime | None:
    """Return the time that words name, if they name nothing else."""
    now = config.clock().astimezone(timezone.utc)
    asked = question_time(text, now, config.zone)
    if asked.places != ((0, len(text)),) or asked.window is None or asked.open_year:
        return None
    start, end = asked.window.start, asked.window.end
    if name not in INSTANTS or end is None:
        return start
    return now if start <= now < end else end - timedelta(milliseconds=1)


INSTANTS = ("as_of", "said_by", "known_at")
"""The options that are an instant, which what was so on a day is told at the end of."""


def to_ms_or_none(when: datetime | None) -> int | None:
    """Return a time in UTC ms, None for None."""
    return None if when is None else to_ms(when)


def read_moment(
    said_by: TimeLike | None,
    known_at: TimeLike | None,
    config: Config,
    filters: Mapping[str, Any] | None = None,
) -> Moment | None:
    """Return the moment of what had been said by a time, was held at a time and has metadata; None when nothing is given.

    Raises:
        TimestampError: if a value is no time; the message names it.
        InputError: if the filters are no mapping of texts to JSON values.
    """
    if said_by is None and known_at is None and not filters:
        return None
    wanted = {} if filters is None else json_object(filters, "filters")
    having = json.dumps(wanted, sort_keys=True, ensure_ascii=False) if wanted else None
    said, known = read_time(said_by, config, "said_by"), read_time(known_at, config, "known_at")
    return Moment(to_ms_or_none(known), to_ms_or_none(said), having)


def read_window(during: Any, config: Config) -> tuple[datetime, datetime] | None:
    """Return a stretch of time, None for None.

    Raises:
        InputError: if it is no pair, or does not start before its end.
        TimestampError: if one of its times is none.
    """
    if during is None:
        return None
    if not isinstance(during, (tuple, list)) or len(during) != 2:
        raise InputError("during= takes a pair (start, end)")
    start, end = (read_time(value, config, f"during[{i}]") for i, value in enumerate(during))
    if start is None or end is None or start >= end:
        raise InputError("during= takes a start before its end")
    return start, end


def read_question(config: Config, question: str, **options: Any) -> Query:
    """Return a question with the options of `AsyncUserMemory.search`; the configuration decides those that are None or missing.

    Raises:
        InputError: if the question is empty, or an option cannot be.
        ConfigError: if there is no such index.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if not question.strip():
        raise InputError("the question is empty; give some text")
    if "index" in given:
        make_index(given["index"])
    times = {
        name: read_time(given[name], config, name) for name in ("reference_date", "as_of") if name in given
    }
    moment = window = None
    if given.keys() & {"said_by", "known_at", "filters"}:
        moment = read_moment(given.get("said_by"), given.get("known_at"), config, given.get("filters"))
    if "during" in given:
        window = read_window(given["during"], config)
    warnings: tuple[str, ...] = ()
    if (length := len(question)) > QUESTION_CHARS:
        question = f"{question[:_END]}\n{question[-_END:]}"
        warnings = (f"the question has {length:,} characters; the first and the last {_END:,} are read",)
    return Query(
        question=question,
        reference=times.get("reference_date") or floor_ms(config.clock()),
        reference_given="reference_date" in given,
        as_of=times.get("as_of"),
        during=window,
        moment=moment,
        top_k=given.get("top_k", config.top_k),
        min_relevance=given.get("min_relevance", config.min_relevance),
        max_tokens=given.get("max_tokens"),
        index=given.get("index"),
        ranking=given.get("ranking", config.ranking),
        mode=given.get("mode", config.mode),
        budget=given.get("budget", config.query_budget),
        explain=given.get("explain", False),
        warnings=warnings,
    )


def read_update(
    config: Config, text: str | None, valid_from: TimeLike | None, valid_to: TimeLike | None
) -> Update:
    """Return what a correction changes; its text without blanks around it.

    Raises:
        InputError: if the text is empty or too long, nothing changes, or the time ends before it begins.
    """
    if text is not None and not text.strip():
        raise InputError("the text is empty; forget(fact_id) hides a fact without a new one")
    if text is not None and len(text) > MAX_FACT_CHARS:
        raise InputError(f"the text has {len(text)} characters; a fact has {MAX_FACT_CHARS} at most")
    start, end = read_time(valid_from, config, "valid_from"), read_time(valid_to, config, "valid_to")
    if text is None and start is None and end is None:
        raise InputError("update() has nothing to change; give text, valid_from or valid_to")
    if start is not None and end is not None and end <= start:
        raise InputError(f"valid_to ({end.isoformat()}) is not after valid_from ({start.isoformat()})")
    return Update(None if text is None else text.strip(), start, end)


def read_statements(config: Config, statements: Sequence[Mapping[str, Any]]) -> tuple[GivenStatement, ...]:
    """Return the statements that come with messages: mappings with the arguments of `read_statement`, which also says what it raises.

    Raises:
        InputError: if one is no mapping, or has another field.
    """
    known = [*signature(read_statement).parameters][1:]
    for given in statements:
        if not isinstance(given, Mapping) or not {"statement"} <= {*given} <= {*known}:
            raise InputError(
                f"statements: each is a mapping with {', '.join(known)}; only the first is required"
            )
    return tuple(read_statement(config, **given) for given in statements)


def read_statement(
    config: Config,
    statement: str,
    about: str | None = None,
    attribute: str | None = None,
    value: str | None = None,
    since: TimeLike | None = None,
    until: TimeLike | None = None,
    replaces: str | None = None,
    source: str | None = None,
) -> GivenStatement:
    """Return a statement that a caller has understood.

    Raises:
        InputError: if a text is empty or none, there is a value without an attribute or the other way round, or the time ends before
            it begins.
        TimestampError: if a time cannot be read.
    """
    texts = {"about": about, "attribute": attribute, "value": value, "replaces": replaces, "source": source}
    for name, text in {"statement": statement, **texts}.items():
        if text is not None or name == "statement":
            check_id(text, name, MAX_FACT_CHARS)
    if (value is None) != (attribute is None):
        raise InputError("attribute and value go together; give both, or none")
    start, end = read_time(since, config, "since"), read_time(until, config, "until")
    if start is not None and end is not None and end <= start:
        raise InputError(f"until ({end.isoformat()}) is not after since ({start.isoformat()})")
    return GivenStatement(statement.strip(), start=start, end=end, **texts)


def read_deletion(
    config: Config,
    fact_id: str | None,
    turn: tuple[str, str] | None,
    session_id: str | None,
    entity: str | None,
    during: tuple[TimeLike | None, TimeLike] | None,
) -> DeleteTarget:
    """Return the one thing that is to be deleted.

    Raises:
        InputError: if not exactly one is given, or the window has no end or ends before it begins.
    """
    if sum(one is not None for one in (fact_id, turn, session_id, entity, during)) != 1:
        raise InputError(
            "delete() takes exactly one of fact_id, turn, session_id, entity, during; delete_all() deletes everything"
        )
    window = None
    if during is not None:
        if not isinstance(during, (tuple, list)) or len(during) != 2:
            raise InputError("delete(during=...) takes a pair of times, [start, end)")
        start, end = (read_time(one, config, "during") for one in during)
        if end is None:
            raise InputError("delete(during=...) needs an end; delete_all() deletes everything")
        if start is not None and start >= end:
            raise InputError(f"delete(during=...): {start} is not before {end}; give the earlier time first")
        window = start, end
    return DeleteTarget(turn, session_id, fact_id, entity, window)


def read_rebuild(*, stale: bool, index: str | None, embedder: bool, progress: Report | None) -> Rebuild:
    """Return what `rebuild` is to make anew.

    Raises:
        InputError: if arguments exclude each other.
    """
    if index is not None and (stale or embedder):
        raise InputError("rebuild(index=...) rebuilds one index; leave out stale and embedder")
    if embedder and stale:
        raise InputError("rebuild(embedder=True) makes all vectors again; leave out stale")
    return Rebuild(stale=stale, index=index, embedder=embedder, report=progress or no_report)


def check_forest(directory: Any, config: object, max_workers: object) -> str:
    """Check the arguments of a forest, as far as that needs no I/O, and return its directory.

    Raises:
        ConfigError: if one is of the wrong type or out of range, or the configuration names
            an embedder or index that there is not, or has a key and SQLCipher is not installed.
    """
    given = os.fspath(directory) if isinstance(directory, (str, os.PathLike)) else None
    if not (isinstance(given, str) and given and "\0" not in given and _has_bytes(given)):
        raise ConfigError(f"MemForest(directory) takes a path, not {shown(directory)}")
    if config is not None and not isinstance(config, Config):
        names = ", ".join(f"{key}=..." for key in config) if isinstance(config, Mapping) else "top_k=5"
        kind = with_article(type(config).__name__)
        raise ConfigError(
            f"MemForest(config=...) takes a Config, not {kind}; write MemForest(directory, Config({names}))"
        )
    if not isinstance(max_workers, int) or isinstance(max_workers, bool) or max_workers < 1:
        raise ConfigError(f"max_workers={shown(max_workers)}: give a whole number of at least 1")
    if config is not None:
        check_embedder_and_key(config)
    return given


def _has_bytes(path: str) -> bool:
    try:
        return bool(os.fsencode(path))
    except UnicodeEncodeError:  # half of a character
        return False


def check_path(verb: str, name: str, value: object, stream: str | None = None) -> None:
    """Raise unless an argument is a path, or a stream of bytes where one will do.

    Args:
        verb: for the message.
        name: for the message.
        value: the argument.
        stream: the method that a stream has to have; None where only a path will do.

    Raises:
        InputError: if it is something else.
    """
    if isinstance(value, (str, Path)) and str(value):
        try:
            os.lstat(value)
        except (OSError, ValueError) as exc:  # ValueError: of what no path holds
            if not isinstance(exc, (FileNotFoundError, NotADirectoryError, PermissionError)):
                why = getattr(exc, "strerror", None) or exc
                raise InputError(f"{verb}({name}): {brief(value)} is not a path: {why}") from None
        return
    if stream is None or not hasattr(value, stream) or isinstance(value, io.TextIOBase):
        takes = "a path" if stream is None else "a path, or a stream of bytes"
        raise InputError(f"{verb}({name}) takes {takes}, not {brief(value)}")
