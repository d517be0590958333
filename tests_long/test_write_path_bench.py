"""The benchmarks of the model-guided path: what they compute, and small runs of each."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from tests.doubles import Fault, Schedule

import model_faults
import refresh_calls
from memforest import Config, MemForest
from writing.bound import Call, chain, floor_s, path_s, waves_s, work_s
from writing.costs import COSTS, CostModel
from writing.measured import BATCH, ONE_BY_ONE, Measured, StepCost, breakdown, rows, verdicts
from writing.mem0_replies import is_mem0, reply_to_mem0
from writing.mem0_run import messages_of
from writing.ours import run_cold, run_ours
from writing.server import Double, most_at_once
from writing.sessions import Session, read_sessions
from writing.waves import Recorded, Recorder, calls_of

SECOND = CostModel(0.0, 0.0, 1.0)
"""A completion token takes a second, and nothing else does."""


def call(
    seconds: int, *, arrival: str = "s", stage: int = 0, step: str = "extract", needs: tuple[int, ...] = ()
) -> Call:
    """Return a call that takes so many seconds under `SECOND`."""
    return Call(arrival, step, stage, 100, seconds, needs=needs)


SESSIONS = [
    Session(
        f"s{day}",
        (
            {"speaker": "Ana", "text": f"I bought a red kayak in Oslo on {day} March 2024."},
            {"speaker": "Bob", "text": "I work at Acme in Lisbon now.", "blip_caption": "a photo of a tram"},
            {"speaker": "Ana", "text": "My sister Carla adopted two cats."},
        ),
        f"2024-03-{day + 1:02}T10:00:00Z",
    )
    for day in (3, 5)
]  # fmt: skip


def test_the_floor_is_a_wave_of_chunks_and_the_levels_over_them() -> None:
    """For each arrival the longest chunk, and a summary at the median for each level that nine chunks need; no repairs."""
    calls = [call(3), *[call(1)] * 8, call(9, needs=(0,)), call(4, stage=1, step="judge")]
    assert waves_s(calls, SECOND) == 3
    calls += [call(length, stage=2, step="summarise") for length in (1, 2, 50)]
    assert waves_s(calls, SECOND) == 3 + 2 * 2
    assert waves_s([*calls, call(7, arrival="t")], SECOND) == 3 + 2 * 2 + 7
    assert floor_s(calls, SECOND, 64) == 7
    assert floor_s(calls, SECOND, 1) == work_s(calls, SECOND) == 77


def test_needless_order_does_not_raise_the_floor() -> None:
    """The same calls, of which each waited for the one before, have a longer path and the same floor."""
    levels = [call(2, stage=2, step="summarise") for _ in range(4)]
    chained = [call(2, stage=2, step="summarise", needs=(at,) if at else ()) for at in range(len(levels))]
    chunks = [call(3), call(1)]
    assert path_s(chunks + chained, SECOND) > path_s(chunks + levels, SECOND)
    assert floor_s(chunks + chained, SECOND, 64) == floor_s(chunks + levels, SECOND, 64)


def test_the_path_follows_what_calls_need() -> None:
    """A tree that is slow below and one that is slow above do not wait for each other."""
    trees = [call(9, stage=2), call(1, stage=2), call(1, stage=2, needs=(0,))]
    trees.append(call(9, stage=2, needs=(1,)))
    assert path_s(trees, SECOND) == 10
    assert chain(trees) == 2
    before = [call(4), call(2)]
    assert path_s([*before, call(3, stage=1)], SECOND) == 7
    assert chain([*before, call(3, stage=1), call(1, arrival="t")]) == 2
    assert chain([]) == 0


def test_what_is_made_beside_a_later_write_is_on_no_path() -> None:
    """It holds up none: of what is made behind writes, only what was begun when the last one had returned counts."""
    recorder = Recorder("s1")
    recorder(record("extract", "system", "turns"))
    recorder(record("summarise", operation="refresh"))
    recorder.arrival = "s2"
    recorder.written_s = 0.0
    recorder(record("summarise", operation="refresh"))
    calls = calls_of(recorder.records)
    assert [one.arrival for one in calls] == ["s1", "", "s2"]
    assert (path_s(calls, SECOND), work_s(calls, SECOND)) == (2, 3)


def test_the_declared_costs_are_charged_for_kept_tokens_too() -> None:
    """150 ms, 0.05 ms a prompt token and 8 ms a completion token, as the target is stated."""
    assert COSTS["reference"].seconds(1000, 100, 900) == pytest.approx(0.15 + 0.05 + 0.8)
    assert COSTS["reference"].declared.startswith("150 ms + 0.05 ms per prompt token + 8 ms")


def record(
    step: str, *texts: str, reply: str = "", tokens: int = 1, operation: str = "ingest"
) -> dict[str, Any]:
    """Return a record of the trace, as far as it is read."""
    return {
        "operation": operation, "step": step, "reply": reply, "error": None, "prompt_tokens": 10, "completion_tokens": tokens,
        "cached_tokens": 0, "seconds": 1.0, "messages": [{"role": "user", "content": text} for text in texts],
    }  # fmt: skip


def summary(label: str, notes: str, reply: str) -> dict[str, Any]:
    """Return the record of a summary."""
    node = json.dumps({"entry": label, "from": "2024-01-01", "to": "2024-01-02"})
    data = f"<node>\n{node}\n</node>\n<notes>\n{json.dumps({'note': 1, 'text': notes})}\n</notes>"
    return record("summarise", "system", data, reply=json.dumps({"summary": reply}))


def test_needs_are_read_off_the_texts() -> None:
    """A repair needs its first try, a node what is below it."""
    first = record("extract", "system", "turns")
    repair = record("extract", "system", "turns", "not JSON", "mend it")
    low, other = summary("Ana", "many facts", "Ana bought kayaks."), summary("Bob", "more", "Bob works.")
    high = summary("Ana", "Ana bought kayaks. And more.", "Ana buys.")
    same_words = summary("Bob", "Ana bought kayaks.", "Bob knows of kayaks.")
    times = [(first, 2), (repair, 3), (low, 5), (other, 6), (high, 8), (same_words, 7)]
    calls = calls_of([Recorded("s", one, ended) for one, ended in times])
    by_end = [(one.step, one.stage, one.needs) for one in calls]
    assert by_end == [
        ("extract", 0, ()),
        ("extract", 0, (0,)),
        ("summarise", 2, ()),
        ("summarise", 2, ()),
        ("summarise", 2, ()),
        ("summarise", 2, (2,)),
    ]
    assert chain(calls) == 4


def test_a_recorder_lets_nothing_be_written() -> None:
    """It is a redaction hook that keeps the record and returns None."""
    recorder = Recorder(arrival="s")
    assert recorder(record("judge", "system", "questions")) is None
    [kept] = recorder.records
    assert (kept.arrival, kept.record["step"]) == ("s", "judge")


def test_most_at_once_counts_overlaps() -> None:
    """What ends when another begins does not overlap it."""
    assert most_at_once([]) == 0
    assert most_at_once([(0, 2), (1, 3), (2, 4), (5, 6)]) == 2


ROW = Measured(
    system="memforest", cost="reference", arrival=BATCH, in_flight=8, turns=100, wall_s=12.0, calls=70,
    prompt_tokens=1000, completion_tokens=100, cached_share=0.5, most_in_flight=8, embedding_calls=3, late_s=0.0,
    memories=50, prefix_share=0.4, chain=4, flushed_s=12.0, path_s=8.0, work_s=80.0, floor_s=10.0,
    steps={"Extract": StepCost(50, 900, 90, 60.0, 6.0), "Route": StepCost(wall_s=0.5)},
)  # fmt: skip


def test_rows_survive_the_file_and_say_what_they_keep() -> None:
    """The ratio is wall over floor, calls are per turn, and a row without a floor has no verdict."""
    again = Measured.from_json(json.loads(json.dumps(asdict(ROW))))
    assert again == ROW
    assert (again.ratio, again.calls_per_turn) == (1.2, 0.7)
    assert verdicts(again) == "ratio 1.20 <= 1.25, calls per turn 0.70 > 0.6"
    assert "ratio 1.20 > 1.0" in verdicts(replace(ROW, arrival=ONE_BY_ONE))
    assert "1.30 > 1.25" in verdicts(replace(ROW, flushed_s=13.0))
    assert verdicts(replace(ROW, floor_s=None)) == ""
    head, line = rows([ROW])
    assert len(line) == len(head)
    assert line.split()[:5] == ["memforest", "12.00", "12.00", "10.00", "1.20"]
    assert [text.split()[0] for text in breakdown(ROW)[1:]] == ["Extract", "Route"]


MEM0_PROMPT = """## Summary


## Existing Memories
[]

## New Messages
user: Ana: I bought a red kayak in Oslo.
It was cheap.
assistant: Bob: I work at Acme in Lisbon now.


## Observation Date
2024-05-05

# Output:"""


def test_mem0_is_answered_in_its_own_form() -> None:
    """Its prompt is known by its headings; the reply is valid JSON with one object per statement."""
    assert is_mem0(MEM0_PROMPT)
    assert not is_mem0("## New Messages\nuser: Ana: I bought a kayak.")
    memories = json.loads(reply_to_mem0(MEM0_PROMPT))["memory"]
    assert [one["id"] for one in memories] == [str(at) for at in range(len(memories))]
    told = " ".join(one["text"] for one in memories)
    assert "I bought a red kayak in Oslo" in told
    assert "Acme" in told
    assert {one["attributed_to"] for one in memories} == {"user", "assistant"}


def test_mem0_is_told_as_many_statements_as_memforest_finds(tmp_path: Path) -> None:
    """The statements of both speakers, although one of them is the assistant to mem0."""
    said = "".join(f"{one['role']}: {one['content']}\n" for one in messages_of(SESSIONS[0].spoken()))
    told = json.loads(reply_to_mem0(f"## New Messages\n{said}\n\n## Observation Date\n2024-05-05"))
    with MemForest(tmp_path, Config(embedder="none")) as forest:
        forest.ingest_session(**SESSIONS[0].request("u"))
        assert {one["text"] for one in told["memory"]} == {
            one.statement for one in forest.user("u").list().facts
        }


def test_mem0_gets_every_turn_with_its_speaker() -> None:
    """The first speaker is the user, pictures are told as memforest tells them."""
    messages = messages_of(SESSIONS[0].spoken())
    assert [one["role"] for one in messages] == ["user", "assistant", "user"]
    assert messages[1]["content"] == "Bob: I work at Acme in Lisbon now. [image: a photo of a tram]"


def test_a_cold_start_is_a_process_of_its_own() -> None:
    """It pays for imports and for the first connections; what it wrote is answered by the double."""
    with Double() as double:
        parts = run_cold(double, SESSIONS[0], cost=CostModel(0.02))
        assert double.served().chat_calls >= 4
    assert set(parts) == {"imports", "first", "second"}
    assert min(parts.values()) > 0.01


@pytest.mark.parametrize("arrival", [ONE_BY_ONE, BATCH])
def test_a_run_of_the_write_path_counts_what_the_server_saw(arrival: str) -> None:
    """As many calls as the ledger says, nothing failed, and a floor below the wall."""
    with Double() as double:
        found = run_ours(double, SESSIONS, cost=CostModel(0.02), name="x", arrival=arrival, in_flight=8)
    assert found.turns == 6
    assert (
        found.calls
        == found.steps["Extract"].calls + found.steps["Summarise"].calls + found.steps["Judge"].calls
    )
    assert found.steps["Extract"].calls == 4  # pairs of turns
    assert found.failed == 0
    assert found.memories >= 4
    assert found.chain is not None
    assert found.chain >= 1
    assert found.floor_s is not None
    assert found.floor_s >= 0.02
    assert found.flushed_s is not None
    assert found.flushed_s > found.wall_s
    assert found.embedding_calls > 0


def test_eager_refresh_summarises_every_path_again() -> None:
    """Ten leaves at fan-out 3 are 7 nodes; after every fact its path is made anew, and at a new level the root of before, as a part."""
    assert refresh_calls.count_calls(10, 3, 10)[0] == 7
    assert refresh_calls.count_calls(10, 3, 1)[0] == 1 + 1 + (2 + 1) + 5 * 2 + (3 + 1)


def test_many_in_flight_make_a_refresh_faster() -> None:
    """The levels of the tree bound the speed-up."""
    built = refresh_calls.build(30, 3, latency_s=0.01, in_flight=128)
    assert (built.nodes, built.height) == (17, 4)
    assert built.bound == 17 / 4
    assert built.parallel_s < built.serial_s


@pytest.mark.parametrize(
    "fault", [Fault.empty(), Fault.status(500), Fault.drop()], ids=["empty", "500", "dropped"]
)
def test_a_fault_loses_nothing_and_resume_completes(fault: Fault) -> None:
    """Chunks are reported as failed, and afterwards the memory is as it would have been."""
    case = model_faults.Case("x", "all chat", Schedule.every(1, fault, when=model_faults.is_chat))
    row = model_faults.measure(case, SESSIONS, *model_faults.without_fault(SESSIONS))
    assert (row.sessions_lost, row.facts_lost, row.untold) == (0, 0, 0)
    assert row.chunks == {"failed": 4}
    assert row.reason
    assert row.resumed == "same"


def test_an_obedient_model_writes_no_invented_facts() -> None:
    """What it is told to write is in no turn, so it becomes no fact."""
    told = model_faults.with_orders(SESSIONS)
    case = model_faults.Case("x", "all", Schedule.at({}), model_faults.obedient, injected=True)
    row = model_faults.measure(case, told, *model_faults.without_fault(told))
    assert (row.sessions_lost, row.facts_lost, row.obeyed) == (0, 0, 0)
    assert row.told > 0  # the model obeyed


def test_the_demo_is_what_is_written_without_a_file() -> None:
    """Ten sessions of it."""
    name, sessions = read_sessions(None)
    assert (name, len(sessions)) == ("nora", 10)
    assert all(one.turns and one.spoken()[0]["speaker"] for one in sessions)
    with pytest.raises(ValueError, match="there is no conversation 'x'; the file has nora"):
        read_sessions(None, "x")
