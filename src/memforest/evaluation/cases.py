"""What is measured: a case is a memory to be made, with questions about it; a user's own file of sessions and questions.

The file is JSON Lines. A line is a session, ``{"session": "s1", "timestamp": "2024-03-01T09:00Z", "turns": [{"speaker": "Ana",
"text": "I moved to Davis."}]}``, or a question, ``{"question": "Where does Ana live?", "answer": "Davis", "evidence": ["moved to
Davis"]}``. What a question may have besides: ``id``; ``type``; ``asked``, the time at which it is asked; ``abstain``, true where
the memory has no answer; ``stale``, values that were right once; ``until``, a time after which nothing was said yet. A piece of
evidence is a turn (``"s1/2"``: session and turn id, which is its number from 1 where it has none) or words of one. ``memory`` in
any line names whose memory it is, where a file holds several.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

from memforest.errors import InputError, TimestampError
from memforest.importers.files import Archive, FileReader, FileSession, ReadOptions, kind_of, open_source
from memforest.memory.blocking import UserMemory
from memforest.reading.timestamps import parse_timestamp
from memforest.settings import CAPTION, ID, SPEAKER, TEXT, TIME_KEYS
from memforest.text import cut, fold

__all__ = ["Case", "Question", "Turn", "own_cases", "read_objects", "turn_key"]

ABSTENTION = "abstention"
"""The type of a question without an answer, where its file names no type."""


def turn_key(session_id: str, turn_id: str) -> str:
    """Return the name of a turn in a case: session and turn id."""
    return f"{session_id}/{turn_id}"


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn as baselines read it; `said` is aware UTC, and `key` as by `turn_key`."""

    key: str
    session: str
    speaker: str
    text: str
    said: datetime

    @property
    def line(self) -> str:
        """The turn as a line of a prompt, with its day."""
        return f"{self.said:%d %B %Y}, {self.speaker}: {self.text}"


@dataclass(frozen=True, slots=True)
class Question:
    """A question with what is known of its answer.

    `turns` are the keys of the turns that hold the answer and `sessions` their sessions; both are empty where the file does not
    say. `asked` is when it is asked (None: at the time of the last session), and `until` after when nothing was said yet.
    `stale` are values that were right once and `stale_turns` the turns that told them. `rubric` names the grading prompt.
    """

    id: str
    text: str
    answer: str
    type: str
    turns: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()
    asked: datetime | None = None
    until: datetime | None = None
    abstain: bool = False
    stale: tuple[str, ...] = ()
    stale_turns: frozenset[str] = frozenset()
    rubric: str = "plain"


@dataclass(frozen=True)
class Case:
    """A memory to be made, and the questions about it.

    Args:
        id: of the memory, unique in a benchmark.
        sessions: in the order in which they are written; every turn of them has an id of its own (`with_ids`).
        questions: about it; ids are unique in a benchmark.
    """

    id: str
    sessions: tuple[FileSession, ...]
    questions: tuple[Question, ...] = field(default=(), repr=False)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """All turns in the order of the sessions.

        Raises:
            InputError: if a turn has no time, and its session has none.
        """
        return tuple(
            _turn(session, number) for session in self.sessions for number in range(len(session.turns))
        )

    @cached_property
    def asked(self) -> datetime:
        """When questions are asked that name no time: at the last turn."""
        return max(turn.said for turn in self.turns)

    def before(self, question: Question) -> tuple[Turn, ...]:
        """Return the turns that had been said by the time that a question is bound to."""
        return (self.turns if question.until is None
            else tuple(one for one in self.turns if one.said <= question.until))  # fmt: skip


def with_ids(session: FileSession) -> FileSession:
    """Return a session whose turns have ids: their own, or their numbers from 1."""
    turns = (turn if any(turn.get(key) is not None for key in ID) else {**turn, "id": str(number)}
        for number, turn in enumerate(session.turns, 1))  # fmt: skip
    return replace(session, turns=tuple(turns))


def turn_id(turn: Mapping[str, Any]) -> str:
    """Return the id of a turn of `with_ids`."""
    return str(_first(turn, ID))


def _first(turn: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((turn[key] for key in keys if turn.get(key) not in (None, "")), None)


def _turn(session: FileSession, number: int) -> Turn:
    turn = session.turns[number]
    caption = _first(turn, CAPTION)
    text = f"{_first(turn, TEXT) or ''} {f'[image: {caption}]' if caption else ''}".strip()
    when = _first(turn, TIME_KEYS) or session.timestamp
    said = read_moment(when, session.place(number))
    speaker = str(_first(turn, (*SPEAKER, "role")) or "user")
    return Turn(turn_key(session.session_id, turn_id(turn)), session.session_id, speaker, text, said)


def read_moment(value: object, where: str) -> datetime:
    """Return a time of a file, aware UTC; one without an offset is read as UTC.

    Raises:
        InputError: if it is missing or no time.
    """
    try:
        return parse_timestamp(value, timezone=timezone.utc, field="time")[0]
    except TimestampError as exc:
        raise InputError(f"{where}: {exc}") from exc


def read_objects(path: Path) -> Iterator[tuple[FileReader, str, Mapping[str, Any]]]:
    """Yield the objects of a JSON list, of JSON Lines, or the one there is, as a stream, each with its reader and place.

    Raises:
        InputError: if the file cannot be read, or something in it is no object; the message names the place.
    """
    source = open_source(path)
    if isinstance(source, Archive):
        source.close()
        raise InputError(f"{path.name}: this is an archive; unpack it and name one of its files")
    with path.open("rb") as stream:
        head = next((line for line in stream if line.strip()), b"").strip()
    reader = FileReader(source, ReadOptions(), shape="array" if head.startswith(b"[") else "lines")
    if head.startswith(b"{"):
        try:
            json.loads(head)
        except ValueError:  # an object over several lines
            reader.shape = "object"
    found = False
    for where, value in reader.objects():
        found = True
        check_read(reader)
        yield reader, f"{path.name}, {where}" if where else path.name, value
    check_read(reader)
    if not found:
        raise InputError(f"{path.name}: the file is empty; give a JSON list of objects, or JSON Lines")


def check_read(reader: FileReader) -> None:
    """Refuse a file of which a part could not be read: what is measured on a part is not what it is called.

    Raises:
        InputError: if there is one; it names the first.
    """
    if reader.skips.wrong:
        first = reader.skips.wrong[0]
        raise InputError(f"{reader.source.name}{f', {first.where}' if first.where else ''}: {first.reason}")


def need(value: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    """Return a field of an object.

    Raises:
        InputError: if it is missing, empty text, or of another kind.
    """
    found = value.get(key)
    if not isinstance(found, kind) or found == "":
        names: dict[type, str] = {str: "a text", list: "a list", dict: "an object"}
        is_ = f"is {kind_of(found)}" if key in value else "is missing"
        raise InputError(f"{where}: {key!r} {is_}; it should be {names.get(kind, kind.__name__)}")
    return found


def case_of(memory: UserMemory) -> Case:
    """Return what was said in a user's memory, to be asked about."""
    sessions = []
    for one in memory.sessions():
        said = memory.turns(one.session_id)
        turns = ({"id": t.id, "speaker": t.speaker, "role": t.role, "text": t.text,
            "timestamp": t.said.isoformat(),} for t in said)  # fmt: skip
        kept = ({key: value for key, value in turn.items() if value is not None} for turn in turns)
        sessions.append(FileSession(one.session_id, tuple(kept)))
    return Case(memory.user_id, tuple(sessions))


def own_cases(path: Path, memory: Case | None = None) -> Iterator[Case]:
    """Yield the cases of a user's own file (see the module), one for each memory that it names.

    Args:
        path: the file.
        memory: what the questions of a file without sessions are about.

    Raises:
        InputError: if a line is no session and no question, evidence is no turn and no words of one, or an id comes twice.
    """
    sessions: dict[str, list[FileSession]] = {}
    asked: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for _, where, line in read_objects(path):
        name = str(line.get("memory", path.stem))
        if "question" in line:
            asked.setdefault(name, []).append((where, line))
            continue
        if "session" not in line:
            raise InputError(
                f"{where}: this is neither a session nor a question; give 'session' and 'turns', or 'question'"
            )
        turns = need(line, "turns", list, where)
        if bad := next((one for one in turns if not isinstance(one, dict) or not _first(one, TEXT)), None):
            raise InputError(
                f"{where}: a turn should be an object with 'speaker' and 'text', not {cut(repr(bad))}"
            )
        of_line = FileSession(str(line["session"]), tuple(turns), line.get("timestamp"), where=where)
        sessions.setdefault(name, []).append(with_ids(of_line))
    if not asked:
        raise InputError(
            f'{path.name}: the file has no questions; a line with one is {{"question": ..., "answer": ...}}'
        )
    for name, lines in asked.items():
        case = Case(name, tuple(sessions[name])) if name in sessions else memory
        if case is None:
            raise InputError(
                f"{lines[0][0]}: the file has no sessions of the memory {name!r}; add them, or name the memory "
                "that the questions are about (--user)"
            )
        yield Case(
            case.id, case.sessions, tuple(_own_question(case, n, *line) for n, line in enumerate(lines, 1))
        )


def _own_question(case: Case, number: int, where: str, line: Mapping[str, Any]) -> Question:
    text, abstain = need(line, "question", str, where), line.get("abstain") is True
    if not abstain and "answer" not in line and "evidence" not in line:
        raise InputError(
            f"{where}: give 'answer', 'evidence' or both, or \"abstain\": true if there is no answer"
        )
    stale = tuple(str(one) for one in _list(line.get("stale")))
    turns = frozenset(key for one in _list(line.get("evidence")) for key in _found(case, str(one), where))
    moments = {key: read_moment(line[key], f"{where}, {key}") for key in ("asked", "until")
        if line.get(key) is not None}  # fmt: skip
    return Question(str(line.get("id", f"{case.id}:{number}")), text, str(line.get("answer", "")),
        str(line.get("type", ABSTENTION if abstain else "question")), turns, sessions_of(turns, case),
        **moments, abstain=abstain, stale=stale, stale_turns=_telling(case, stale) - turns,
        rubric="abstain" if abstain else "plain",)  # fmt: skip


def _list(value: object) -> Iterable[object]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _found(case: Case, wanted: str, where: str) -> list[str]:
    """Return the turns that a piece of evidence means."""
    keys = [turn.key for turn in case.turns if turn.key == wanted]
    keys = keys or [turn.key for turn in case.turns if fold(wanted) in fold(turn.text)]
    if not keys:
        raise InputError(
            f"{where}: the evidence {cut(repr(wanted))} is not the id of a turn, and no turn has these words"
        )
    return keys


def _telling(case: Case, values: Sequence[str]) -> frozenset[str]:
    return frozenset(turn.key for turn in case.turns if any(fold(one) in fold(turn.text) for one in values))


def sessions_of(turns: frozenset[str], case: Case) -> frozenset[str]:
    """Return the sessions that turns are of."""
    return frozenset(turn.session for turn in case.turns if turn.key in turns)
