"""The files of published benchmarks as cases: read as streams, one case at a time, and refused where they are not whole.

Formats, as their repositories describe them:

- LoCoMo (https://github.com/snap-research/locomo): 1,986 questions, 1,540 without the adversarial ones of category 5.
- LongMemEval S, M and oracle (https://github.com/xiaowu0162/LongMemEval): a haystack for each of 500 questions; ids that end in
  ``_abs`` have no answer. Of an update the sessions before the last one with evidence told a stale value.
- REALTALK (https://github.com/danny911kr/REALTALK): a file a chat, its questions in ``qa``, in LoCoMo's form.
- LongMemEval-MAB: the rows ``longmemeval_s*`` of MemoryAgentBench (https://github.com/HUST-AI-HYZ/MemoryAgentBench), exported as
  JSON or JSON Lines; the ``context`` is a list of "Chat Time" lines and sessions, asked 60 questions.
- RealMem (https://github.com/zhiyuan5986/RealMemBench): a file a persona; a query sees the sessions before its own.
- LongMemEval-V2 (https://github.com/xiaowu0162/LongMemEval-V2): ``questions.jsonl``, beside it ``trajectories.jsonl`` and
  ``haystacks/``; a trajectory is a session, its text states are turns, and pictures are left out.
- LoCoMo-Plus (https://github.com/xjtuleeyf/Locomo-Plus): cue, trigger and gap of time; the cue is put into a conversation of the
  ``locomo10.json`` beside the file, in order, and the trigger is asked seven days behind its last session.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from memforest.errors import InputError
from memforest.evaluation.cases import (
    Case,
    Question,
    check_read,
    need,
    own_cases,
    read_moment,
    read_objects,  # fmt: skip
    sessions_of,
    turn_id,
    turn_key,
    with_ids,
)
from memforest.importers.files import FileReader, FileSession
from memforest.importers.tables import read_locomo, read_longmemeval, read_realtalk
from memforest.text import cut

__all__ = ["BENCHMARKS", "Benchmark", "read_cases"]

LOCOMO_TYPES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
REALTALK_TYPES = {1: "multi-hop", 2: "temporal", 3: "open-domain"}
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
"""Evidence ids are written by hand: "D1:3", "D:11:26", "D30:05", several in one text."""
_CHAT_TIME = re.compile(r"\s*Chat Time:\s*(.+?)\s*")
_GAP = re.compile(
    r"\b(\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\s+(day|week|month|year)s?\b"
)
_NUMBERS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",)  # fmt: skip
_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}

_Object = Mapping[str, Any]


@dataclass(slots=True)
class _One(FileReader):
    """A reader that has one object to give, so that an importer's reader makes sessions of it."""

    held: tuple[str, _Object] = ("", {})

    def objects(self) -> Iterator[tuple[str, _Object]]:
        """Yield the object."""
        yield self.held


def _sessions(
    reader: FileReader, where: str, value: _Object, read: Callable[[FileReader], Iterator[FileSession]]
) -> tuple[FileSession, ...]:
    one = _One(reader.source, reader.options, reader.skips, "object", ("", value))
    found = tuple(with_ids(session) for session in read(one))
    if reader.skips.wrong:
        reason = reader.skips.wrong[0]
        raise InputError(f"{where}{f', {reason.where}' if reason.where else ''}: {reason.reason}")
    check_read(reader)
    return found


def _locomo(path: Path) -> Iterator[Case]:
    for number, (reader, where, sample) in enumerate(read_objects(path)):
        case = Case(
            str(sample.get("sample_id", f"conv-{number}")), _sessions(reader, where, sample, read_locomo)
        )
        yield replace(case, questions=tuple(_numbered(case, sample, where, LOCOMO_TYPES)))


def _realtalk(path: Path) -> Iterator[Case]:
    for reader, where, chat in read_objects(path):
        case = Case(path.stem, _sessions(reader, where, chat, read_realtalk))
        yield replace(case, questions=tuple(_numbered(case, chat, where, REALTALK_TYPES)))


def _numbered(case: Case, sample: _Object, where: str, types: Mapping[int, str]) -> Iterator[Question]:
    """Yield the questions of ``qa``, whose evidence names turns."""
    named = {turn.key.rpartition("/")[2]: turn.key for turn in case.turns}
    for number, one in enumerate(need(sample, "qa", list, where)):
        at = f"{where}, qa[{number}]"
        if not isinstance(one, dict):
            raise InputError(f"{at}: a question should be an object")
        kind = types.get(one.get("category", 0))
        if kind is None:
            raise InputError(
                f"{at}: 'category' is {one.get('category')!r}; known: {', '.join(map(str, types))}"
            )
        told = one.get("evidence") or ()
        texts = [told] if isinstance(told, str) else told
        ids = (f"D{int(a)}:{int(b)}" for text in texts for a, b in _EVIDENCE.findall(str(text)))
        turns = frozenset(named[name] for name in ids if name in named)
        abstain = kind == "adversarial"
        yield Question(
            f"{case.id}:{number}", need(one, "question", str, at), str(one.get("answer", "")), kind, turns,
            sessions_of(turns, case), abstain=abstain, rubric="abstain" if abstain else "plain",
        )  # fmt: skip


def _longmemeval(path: Path) -> Iterator[Case]:
    for reader, where, one in read_objects(path):
        name, kind = need(one, "question_id", str, where), need(one, "question_type", str, where)
        sessions = _sessions(reader, where, one, read_longmemeval)
        marked: list[list[str]] = []
        kept = (
            talk for talk in need(one, "haystack_sessions", list, where) if talk
        )  # what the importer keeps
        for session, talk in zip(sessions, kept, strict=True):
            keys = [turn_key(session.session_id, turn_id(turn)) for turn in session.turns]
            marked.append([key for key, turn in zip(keys, talk, strict=True) if turn.get("has_answer")])
        case, turns = Case(name, sessions), frozenset(key for keys in marked for key in keys)
        told = {str(session) for session in one.get("answer_session_ids", ())}
        known = {session.session_id for session in sessions}
        abstain = name.endswith("_abs")
        asked = read_moment(one.get("question_date"), f"{where}, question_date")
        stale = _earlier(case, turns) if kind == "knowledge-update" else frozenset()
        yield replace(case, questions=(Question(
            name, need(one, "question", str, where), str(one.get("answer", "")), kind, turns - stale,
            frozenset(told & known) or sessions_of(turns, case), asked=asked, abstain=abstain, stale_turns=stale,
            rubric="abstain" if abstain else _LME_RUBRICS.get(kind, "plain"),),))  # fmt: skip


_LME_RUBRICS = {"temporal-reasoning": "temporal", "knowledge-update": "update",
    "single-session-preference": "preference",}  # fmt: skip


def _earlier(case: Case, turns: frozenset[str]) -> frozenset[str]:
    """Return the turns that are not of the last session which has some of them."""
    told = [turn for turn in case.turns if turn.key in turns]
    last = max(told, key=lambda turn: turn.said).session if told else ""
    return frozenset(turn.key for turn in told if turn.session != last)


def _mab(path: Path) -> Iterator[Case]:
    for number, (_, where, row) in enumerate(read_objects(path)):
        about = row.get("metadata") or {}
        if not str(about.get("source", "")).startswith("longmemeval"):
            continue
        context = need(row, "context", str, where)
        try:
            listed = ast.literal_eval(context)
        except (ValueError, SyntaxError, MemoryError, RecursionError) as exc:
            raise InputError(f"{where}: 'context' must be a list of sessions with their times") from exc
        case = Case(f"mab-{number}", tuple(_timed(listed, where)))
        questions, answers = need(row, "questions", list, where), need(row, "answers", list, where)
        if len(questions) != len(answers):
            raise InputError(f"{where}: there are {len(questions)} questions and {len(answers)} answers")
        yield replace(case, questions=tuple(
            _mab_question(case, n, str(text), gold, about) for n, (text, gold) in enumerate(zip(questions, answers, strict=True))
        ))  # fmt: skip


def _mab_question(case: Case, n: int, text: str, gold: object, about: _Object) -> Question:
    def of(key: str) -> str:
        listed = about.get(key) or ()
        return str(listed[n]) if n < len(listed) else ""

    kind, name, asked = (of("question_types") or "question", of("question_ids") or of("qa_pair_ids"),
        of("question_dates"),)  # fmt: skip
    answer = str(gold[0] if isinstance(gold, list) and gold else gold)
    abstain = name.endswith("_abs")
    return Question(
        f"{case.id}:{name or n}", text, answer, kind, asked=read_moment(asked, f"question {n}") if asked else None,
        abstain=abstain, rubric="abstain" if abstain else _LME_RUBRICS.get(kind, "plain"),
    )  # fmt: skip


def _timed(listed: object, where: str) -> Iterator[FileSession]:
    """Yield the sessions of a list in which the time of each stands before it."""
    when = None
    for number, one in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(one, str) and (found := _CHAT_TIME.fullmatch(one)):
            when = found[1]
        elif isinstance(one, list) and when is not None:
            turns = tuple({key: turn[key] for key in ("role", "content") if key in turn} for turn in one)
            yield with_ids(FileSession(f"session-{number}", turns, when, where=f"{where}, context[{number}]"))
        else:
            raise InputError(
                f"{where}, context[{number}]: there should be a 'Chat Time: ...' and then a session"
            )


def _realmem(path: Path) -> Iterator[Case]:
    for _, where, value in read_objects(path):
        talks = need(value, "dialogues", list, where)
        about = value.get("_metadata") or {}
        sessions: list[FileSession] = []
        asked: list[tuple[str, _Object, str, int]] = []
        names: dict[str, str] = {}
        for number, talk in enumerate(talks):
            at = f"{where}, dialogues[{number}]"
            name = need(talk, "session_identifier", str, at)
            names[str(talk.get("session_uuid"))] = name
            turns = need(talk, "dialogue_turns", list, at)
            said = tuple({"role": str(one.get("speaker", "")).lower(), "content": one.get("content", "")}
                for one in turns)  # fmt: skip
            sessions.append(with_ids(FileSession(name, said, talk.get("current_time"), where=at)))
            asked += [(at, one, name, n) for n, one in enumerate(turns) if one.get("is_query") is True]
        case = Case(str(about.get("person_name", path.stem)), tuple(sessions))
        when = {session.session_id: read_moment(session.timestamp, session.where) for session in sessions}
        replies = {(talk["session_identifier"], n): str(one.get("content", ""))
                   for talk in talks for n, one in enumerate(talk["dialogue_turns"])}  # fmt: skip
        yield replace(case, questions=tuple(Question(
            str(one.get("query_id") or f"{case.id}:{name}:{n}"), need(one, "content", str, at), replies.get((name, n + 1), ""),
            "query", sessions=frozenset(
            names[uuid] for uuid in map(str, _reply(talks, name, n).get("memory_session_uuids") or ()) if uuid in names
            ) - {name}, asked=when[name], until=when[name] - timedelta(milliseconds=1), rubric="reply",)
            for at, one, name, n in asked))  # fmt: skip


def _reply(talks: Sequence[_Object], session: str, number: int) -> _Object:
    """Return the turn that says which memories a query needs: its own, or the reply behind it."""
    turns = next(talk["dialogue_turns"] for talk in talks if talk["session_identifier"] == session)
    found: _Object = next((one for one in turns[number : number + 2] if one.get("memory_session_uuids")), {})
    return found


def _longmemeval_v2(path: Path) -> Iterator[Case]:
    stacks = sorted((path.parent / "haystacks").glob("*.json"))
    told = path.parent / "trajectories.jsonl"
    if not stacks or not told.is_file():
        raise InputError(
            f"{path.name}: beside it should be trajectories.jsonl and haystacks/*.json, as the benchmark lays them out"
        )
    with stacks[-1].open("rb") as stream:  # the small tier, which sorts behind the medium one
        haystacks: dict[str, list[str]] = json.load(stream)
    wanted = {name for ids in haystacks.values() for name in ids}
    sessions = {name: session for _, where, one in read_objects(told)
                if (name := str(one.get("id"))) in wanted for session in [_trajectory(name, one, where)]}  # fmt: skip
    for _, where, one in read_objects(path):
        name = need(one, "id", str, where)
        if missing := [n for n in haystacks.get(name, ()) if n not in sessions]:
            raise InputError(
                f"{where}: the haystack of {name!r} names the trajectory {missing[0]!r}, which does not exist"
            )
        kind = str(one.get("question_type", "question"))
        rubric = next((rubric for part, rubric in _V2_RUBRICS.items()
            if part in f"{kind} {one.get('eval_function', '')}"), "plain",)  # fmt: skip
        question = Question(name, need(one, "question", str, where), str(one.get("answer", "")), kind,
            abstain=rubric == "abstain", rubric=rubric,)  # fmt: skip
        yield Case(name, tuple(sessions[n] for n in haystacks.get(name, ())), (question,))


_V2_RUBRICS = {"abstention": "abstain", "premise": "abstain", "gotcha": "insight"}


def _trajectory(name: str, one: _Object, where: str) -> FileSession:
    """Return a trajectory as a session: what was to be done, and each state's text, in order, a second apart."""
    texts = [str(one.get("goal") or one.get("task") or one.get("instruction") or "")]
    for state in one.get("states") or ():
        texts.append(
            "\n".join(str(v) for key, v in state.items() if isinstance(v, (str, int)) and key != "screenshot")
        )
    turns = tuple(
        {"role": "user" if not n else "assistant", "content": text} for n, text in enumerate(texts) if text
    )
    return with_ids(
        FileSession(name, turns, one.get("timestamp") or one.get("time") or "2025-01-01", where=where)
    )


def _locomo_plus(path: Path) -> Iterator[Case]:
    beside = path.parent / "locomo10.json"
    if not beside.is_file():
        raise InputError(
            f"{path.name}: beside it should be locomo10.json, into whose conversations the cues are put"
        )
    talks = [(case, one["conversation"])
        for (_, _, one), case in zip(read_objects(beside), _locomo(beside), strict=True)]  # fmt: skip
    for number, (_, where, one) in enumerate(read_objects(path)):
        case, talk = talks[number % len(talks)]
        names = {"A": str(talk.get("speaker_a", "A")), "B": str(talk.get("speaker_b", "B"))}
        cue, trigger = (
            _spoken(need(one, key, str, where), names) for key in ("cue_dialogue", "trigger_query")
        )
        gap = _GAP.search(need(one, "time_gap", str, where).lower())
        if gap is None or not cue or not trigger:
            raise InputError(
                f"{where}: a cue and a trigger have lines 'A: ...' and 'B: ...', and the gap is such as 'two weeks later'"
            )
        count = int(gap[1]) if gap[1].isdigit() else 1 if gap[1] in ("a", "an") else _NUMBERS.index(gap[1])
        asked = case.asked + timedelta(days=7)
        said = asked - timedelta(days=count * _DAYS[gap[2]])
        told = with_ids(FileSession("cue", tuple(cue), said.isoformat(), where=where))
        keys = frozenset(turn_key("cue", turn_id(turn)) for turn in told.turns)
        question = Question(
            f"plus:{number}", "\n".join(f"{turn['speaker']}: {turn['text']}" for turn in trigger),
            "\n".join(f"{turn['speaker']}: {turn['text']}" for turn in cue), "cognitive", keys, frozenset({"cue"}),
            asked=asked, rubric="cue",
        )  # fmt: skip
        yield Case(f"plus-{number}", (*case.sessions, told), (question,))


def _spoken(text: str, names: Mapping[str, str]) -> list[dict[str, str]]:
    lines = (line.strip().partition(":") for line in text.splitlines())
    return [{"speaker": names[who], "text": said.strip()} for who, _, said in lines
        if who in names and said.strip()]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: what it is called, and how its file is read."""

    name: str
    title: str
    read: Callable[[Path], Iterator[Case]]


BENCHMARKS: Mapping[str, Benchmark] = {one.name: one for one in (
    Benchmark("own", "a file of your own", own_cases), Benchmark("locomo", "LoCoMo", _locomo),
    Benchmark("longmemeval", "LongMemEval S, M or oracle", _longmemeval),
    Benchmark("longmemeval-mab", "LongMemEval of MemoryAgentBench", _mab),
    Benchmark("longmemeval-v2", "LongMemEval-V2", _longmemeval_v2),
    Benchmark("locomo-plus", "LoCoMo-Plus", _locomo_plus), Benchmark("realtalk", "REALTALK", _realtalk),
    Benchmark("realmem", "RealMem", _realmem),)}  # fmt: skip
"""Name on the command line -> benchmark."""


def read_cases(
    bench: str,
    paths: Sequence[Path],
    *,
    types: Sequence[str] = (),
    only: frozenset[str] = frozenset(),
    most: int | None = None,
) -> Iterator[Case]:
    """Yield the cases of files that have questions to ask.

    Args:
        bench: a name of `BENCHMARKS`.
        paths: its files.
        types: of the questions that are asked; all when empty. One with a leading ``-`` is left out.
        only: ids of the questions that are asked; all when empty.
        most: how many cases are read at most.

    Raises:
        InputError: if there is no such benchmark, a file is not of its format, or an id of a memory or question comes twice.
    """
    if bench not in BENCHMARKS:
        raise InputError(f"unknown benchmark {cut(repr(bench), 40)}; known: {', '.join(BENCHMARKS)}")
    left = {one[1:] for one in types if one.startswith("-")}
    wanted = {one for one in types if not one.startswith("-")}
    cases: set[str] = set()
    ids: set[str] = set()
    for path in paths:
        for case in BENCHMARKS[bench].read(path):
            asked = [
                one for one in case.questions if one.type not in left and (not wanted or one.type in wanted)
            ]
            asked = [one for one in asked if not only or one.id in only]
            seen = [one.id for one in asked]
            twice = next((one for n, one in enumerate(seen) if one in ids or one in seen[:n]),
                case.id if case.id in cases else None,)  # fmt: skip
            if twice is not None:
                raise InputError(
                    f"{path.name}: the id {cut(repr(twice), 60)} is used twice; ids must be unique"
                )
            if most is not None and len(cases) >= most:
                return
            cases.add(case.id)
            ids |= set(seen)
            if asked:
                yield replace(case, questions=tuple(asked))
