"""Files of benchmarks as cases: what is asked, what answers it, and clear errors for wrong files. All talk is invented here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.table import each

from memforest.errors import InputError
from memforest.evaluation.cases import Case, Question
from memforest.evaluation.loaders import BENCHMARKS, read_cases

Write = Callable[[str, Any], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a value as JSON, or a list of lines as JSON Lines."""

    def written(name: str, value: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        lines = name.endswith(".jsonl") and isinstance(value, list)
        path.write_text("\n".join(map(json.dumps, value)) if lines else json.dumps(value), encoding="utf-8")
        return path

    return written


def asked(bench: str, path: Path, **options: Any) -> tuple[list[Case], list[Question]]:
    """Return the cases of a file and all of their questions."""
    cases = list(read_cases(bench, [path], **options))
    return cases, [one for case in cases for one in case.questions]


TALK = {
    "speaker_a": "Ida", "speaker_b": "Jon",
    "session_1": [
        {"speaker": "Ida", "dia_id": "D1:1", "text": "I keep bees on the roof."},
        {"speaker": "Jon", "dia_id": "D1:2", "text": "Look!", "blip_caption": "a jar of honey"},
    ],
    "session_1_date_time": "1:56 pm on 8 May, 2023",
    "session_2": [{"speaker": "Ida", "dia_id": "D2:1", "text": "A swarm left yesterday."}],
    "session_2_date_time": "1:14 pm on 25 May, 2023",
}  # fmt: skip
QA = [
    {"question": "What does Ida keep?", "answer": "bees", "evidence": ["D1:1"], "category": 4},
    {
        "question": "When did a swarm leave?",
        "answer": "24 May 2023",
        "evidence": ["D:2:01; D9:9"],
        "category": 2,
    },
    {"question": "What does Jon keep?", "adversarial_answer": "bees", "evidence": ["D1:1"], "category": 5},
    {"question": "How many hives?", "answer": 3, "evidence": [], "category": 1},
]
SAMPLE = {"sample_id": "bees", "conversation": TALK, "qa": QA}


def test_locomo(write: Write) -> None:
    """Categories are types, hand-written evidence is found, adversarial questions have no answer, and types can be chosen."""
    path = write("locomo.json", [SAMPLE])
    [case], found = asked("locomo", path)
    assert [(q.type, q.answer, sorted(q.turns), q.abstain) for q in found] == [
        ("single-hop", "bees", ["session_1/D1:1"], False),
        ("temporal", "24 May 2023", ["session_2/D2:1"], False),
        ("adversarial", "", ["session_1/D1:1"], True),
        ("multi-hop", "3", [], False),
    ]
    assert [turn.text for turn in case.turns][1] == "Look! [image: a jar of honey]"
    assert f"{case.asked:%Y-%m-%d}" == "2023-05-25"
    assert [q.type for q in asked("locomo", path, types=["-adversarial", "-multi-hop"])[1]] == [
        "single-hop",
        "temporal",
    ]
    assert [q.id for q in asked("locomo", path, only=frozenset({"bees:1"}))[1]] == ["bees:1"]


def haystack(name: str, kind: str, **more: Any) -> dict[str, Any]:
    """Return a question of LongMemEval with three sessions, two of which tell of a town."""
    told = [
        {"role": "user", "content": "I live in Ulm.", "has_answer": True},
        {"role": "assistant", "content": "Nice."},
    ]
    now = [{"role": "user", "content": "I have moved to Graz.", "has_answer": True}]
    other = [{"role": "user", "content": "What is a quince?"}]
    return {
        "question_id": name, "question_type": kind, "question": "Where do I live?", "answer": "Graz", "question_date": "2023/06/01 (Thu) 10:00",
        "haystack_session_ids": ["a", "b", "c"], "haystack_dates": ["2023/05/01 (Mon) 10:00", "2023/05/03 (Wed) 10:00", "2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [told, other, now], "answer_session_ids": ["a", "c"], **more,
    }  # fmt: skip


def test_longmemeval(write: Write) -> None:
    """Each question has its memory; of an update the earlier session is stale; ``_abs`` has no answer; types have their rubrics."""
    path = write(
        "lme.json",
        [
            haystack("q1", "knowledge-update"),
            haystack("q2_abs", "multi-session"),
            haystack("q3", "temporal-reasoning"),
        ],
    )
    cases, (update, absent, temporal) = asked("longmemeval", path)
    assert [case.id for case in cases] == ["q1", "q2_abs", "q3"]
    assert (update.turns, update.stale_turns) == (frozenset({"c/1"}), frozenset({"a/1"}))
    assert update.sessions == {"a", "c"}
    assert f"{update.asked:%Y-%m-%d %H:%M}" == "2023-06-01 10:00"
    assert (absent.abstain, absent.rubric, temporal.rubric, temporal.turns) == (
        True,
        "abstain",
        "temporal",
        frozenset({"a/1", "c/1"}),
    )
    assert "has_answer" not in json.dumps(
        [dict(turn) for case in cases for session in case.sessions for turn in session.turns]
    )


def test_realtalk(write: Write) -> None:
    """A chat's questions name its messages."""
    chat = {
        "session_1": [
            {
                "speaker": "Kim",
                "dia_id": "D1:1",
                "clean_text": "My exam is on Friday.",
                "date_time": "29.12.2023, 10:00:00",
            }
        ],
        "session_1_date_time": "29.12.2023, 10:00:00",
        "qa": [{"question": "What is on Friday?", "answer": "an exam", "evidence": ["D1:1"], "category": 1}],
    }
    _, [question] = asked("realtalk", write("chat.json", chat))
    assert (question.type, question.turns) == ("multi-hop", frozenset({"session_1/D1:1"}))


def test_longmemeval_of_memory_agent_bench(write: Write) -> None:
    """Sessions follow their times in a context that is a list in text; other sources are passed over."""
    context = repr(
        [
            "Chat Time: 2022/11/17 (Thu) 12:04",
            [{"role": "user", "content": "The keys hang by the door.", "has_answer": True}],
        ]
    )
    about = {
        "source": "longmemeval_s*",
        "question_types": ["single-session-user"],
        "question_ids": ["k1_abs"],
        "question_dates": ["2023/01/01 (Sun) 09:00"],
    }
    row = {
        "context": context,
        "questions": ["Where are the keys?"],
        "answers": [["by the door"]],
        "metadata": about,
    }
    path = write(
        "mab.jsonl", [{"context": "x", "questions": [], "answers": [], "metadata": {"source": "ruler"}}, row]
    )
    [case], [question] = asked("longmemeval-mab", path)
    assert [turn.text for turn in case.turns] == ["The keys hang by the door."]
    assert (question.id, question.answer, question.type, question.abstain) == (
        "mab-1:k1_abs",
        "by the door",
        "single-session-user",
        True,
    )
    with pytest.raises(InputError, match="1 questions and 0 answers"):
        asked("longmemeval-mab", write("short.jsonl", [{**row, "answers": []}]))
    with pytest.raises(InputError, match="must be a list of sessions"):
        asked("longmemeval-mab", write("bad.jsonl", [{**row, "context": "Chat Time"}]))


def test_realmem(write: Write) -> None:
    """A query sees what was said before its session; the memories of its reply are the sessions that answer."""
    first = {"session_identifier": "trip:1", "session_uuid": "u1", "current_time": "2024-01-02 10:00",
             "dialogue_turns": [{"speaker": "User", "content": "I hate flying.", "is_query": False}]}  # fmt: skip
    second = {"session_identifier": "trip:2", "session_uuid": "u2", "current_time": "2024-02-02 10:00", "dialogue_turns": [
        {"speaker": "User", "content": "How do I get to Rome?", "is_query": True, "query_id": "Q1"},
        {"speaker": "Assistant", "content": "By night train.", "memory_used": [], "memory_session_uuids": ["u1", "u2"]},
    ]}  # fmt: skip
    [case], [question] = asked(
        "realmem", write("p.json", {"_metadata": {"person_name": "Lu"}, "dialogues": [first, second]})
    )
    assert (case.id, question.id, question.answer, question.sessions) == (
        "Lu",
        "Q1",
        "By night train.",
        frozenset({"trip:1"}),
    )
    assert [turn.text for turn in case.before(question)] == ["I hate flying."]


def test_longmemeval_v2(write: Write) -> None:
    """Trajectories beside the questions are sessions, of the small haystack; one that is missing is named."""
    write(
        "trajectories.jsonl",
        [
            {
                "id": "t1",
                "goal": "Close ticket 7",
                "states": [{"text": "The close button is hidden.", "screenshot": "x.png"}],
            }
        ],
    )
    write("haystacks/lme_v2_medium.json", {"q": ["t1", "gone"]})
    write("haystacks/lme_v2_small.json", {"q": ["t1"]})
    line = {
        "id": "q",
        "domain": "web",
        "question": "Where is the button?",
        "answer": "hidden",
        "question_type": "gotchas",
    }
    [case], [question] = asked("longmemeval-v2", write("questions.jsonl", [line]))
    assert [turn.text for turn in case.turns] == ["Close ticket 7", "The close button is hidden."]
    assert question.rubric == "insight"
    write("haystacks/lme_v2_small.json", {"q": ["gone"]})
    with pytest.raises(InputError, match="the trajectory 'gone', which does not exist"):
        asked("longmemeval-v2", write("questions.jsonl", [line]))


def test_locomo_plus(write: Write) -> None:
    """The cue is a session of its own so long before the trigger, with the names of the conversation."""
    write("locomo10.json", [SAMPLE])
    plus = {
        "cue_dialogue": "A: I lost a bet.\nB: Oh dear.",
        "trigger_query": "A: I will not gamble again.",
        "time_gap": "about two weeks later",
    }
    [case], [question] = asked("locomo-plus", write("plus.json", [plus]))
    cue = [turn for turn in case.turns if turn.session == "cue"]
    assert [(turn.speaker, turn.text) for turn in cue] == [("Ida", "I lost a bet."), ("Jon", "Oh dear.")]
    assert question.asked is not None
    assert (question.asked - cue[0].said).days == 14
    assert question.sessions == {"cue"}
    with pytest.raises(InputError, match="two weeks later"):
        asked("locomo-plus", write("plus.json", [{**plus, "time_gap": "soon"}]))


OWN: list[dict[str, Any]] = [
    {"session": "s1", "timestamp": "2023-05-01T09:00:00Z", "turns": [{"speaker": "Bo", "text": "I live in Bonn."}, {"speaker": "Al", "text": "Since when?"}]},
    {"session": "s2", "timestamp": "2024-05-01T09:00:00Z", "turns": [{"speaker": "Bo", "text": "I moved to Kiel."}]},
    {"question": "Where does Bo live?", "answer": "Kiel", "evidence": ["moved to kiel"], "stale": ["Bonn"]},
    {"question": "What did Al ask?", "answer": "since when", "evidence": ["s1/2"], "type": "talk", "asked": "2024-06-01"},
    {"question": "How old is Bo?", "abstain": True},
]  # fmt: skip


def test_own(write: Write) -> None:
    """Evidence is a turn or words of one, stale values name the turns that told them, and a question may have no answer."""
    [case], (town, talk, age) = asked("own", write("own.jsonl", OWN))
    assert case.id == "own"
    assert (town.turns, town.stale_turns, town.stale) == (frozenset({"s2/1"}), frozenset({"s1/1"}), ("Bonn",))
    assert (talk.turns, talk.type, f"{talk.asked:%Y-%m-%d}") == (frozenset({"s1/2"}), "talk", "2024-06-01")
    assert (age.type, age.abstain, age.rubric) == ("abstention", True, "abstain")


@each(
    ("bench", "lines", "message"),
    (
        ("own", [*OWN[:2], {"question": "Q?", "answer": "A", "evidence": ["nobody said this"]}], "line 3: the evidence 'nobody said this' is not the id of a turn"),
        ("own", [OWN[2]], "no sessions of the memory 'f'"),
        ("own", [{"what": 1}], "line 1: this is neither a session nor a question"),
        ("own", OWN[:2], "the file has no questions"),
        ("own", [*OWN[:2], {"question": "Q?"}], "give 'answer', 'evidence' or both"),
        ("own", [*OWN[:2], {**OWN[2], "asked": "some day"}], "line 3, asked"),
        ("own", [{"session": "s", "turns": ["hi"]}, OWN[2]], "a turn should be an object"),
        ("own", [*OWN[:2], {**OWN[2], "id": "x"}, {**OWN[3], "id": "x"}], "the id 'x' is used twice"),
        ("locomo", [{**SAMPLE, "qa": [{"question": "Q?", "category": 9}]}], "'category' is 9"),
        ("locomo", [{"sample_id": "a", "conversation": TALK}], "'qa' is missing"),
        ("locomo", [{"sample_id": "a", "qa": QA}], "no 'conversation'"),
        ("locomo", [3], "there is a number where an object should be"),
        ("longmemeval", [{**haystack("q", "x"), "question_date": None}], "question_date"),
        ("longmemeval", [{**haystack("q", "x"), "haystack_sessions": 1}], "haystack_sessions"),
        ("realmem", [{"dialogues": "none"}], "'dialogues' is text; it should be a list"),
        ("longmemeval-v2", [{"id": "q"}], "beside it should be trajectories.jsonl"),
        ("locomo-plus", [{"cue_dialogue": "A: x"}], "beside it should be locomo10.json"),
        ("none-such", OWN, "unknown benchmark 'none-such'"),
    )
)  # fmt: skip
def test_wrong_files_are_refused_with_their_place(
    tmp_path: Path, bench: str, lines: list[Any], message: str
) -> None:
    """A file that is not of its format ends the reading, and the message says where and what."""
    path = tmp_path / "f.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        list(read_cases(bench, [path]))
    assert message in str(caught.value)


@pytest.mark.parametrize("bench", [one for one in BENCHMARKS if one not in ("longmemeval-v2", "locomo-plus")])
def test_a_file_that_is_no_json_is_refused(tmp_path: Path, bench: str) -> None:
    """A torn, empty or other file is no benchmark."""
    path = tmp_path / "f.json"
    for text in ('[{"a": 1}, {"b"', "hello", ""):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError):
            list(read_cases(bench, [path]))
