"""Steps of a chat model as a registry: a step of an index is known wherever the package's own are."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.doubles import ChatServer, local_reply, replies, step_of
from tests.table import each
from tests_long.scripted import run

import memforest
from memforest import endpoint as chat_steps
from memforest.cli.doctor import Check, chat_checks
from memforest.config import Config
from memforest.endpoint import STEPS, Budget, ChatEndpoint, ChatStep, register_step
from memforest.errors import BudgetError, ConfigError, ReplyError
from memforest.models.calls import Calls
from memforest.models.ledger import Ledger, keeping
from memforest.models.openai import OpenAIChat
from memforest.ports import ChatRequest
from memforest.reading.prompts import all_prompts, load_prompt, read_data_block
from memforest.reading.replies import Judgement
from memforest.reading.steps import Steps, choose_steps
from memforest.testing import FunctionChat, ScriptedChat

STEPS_PY = """
from memforest.endpoint import ChatStep, register_step

PLACE = "memforest.trees.sieve"
register_step(
    ChatStep("gate", "drops what does not help", {"gate": f"{PLACE}.replies:Gated"}, PLACE, waits=True)
)
"""
REPLIES_PY = """
from memforest.reading.replies import Items, Reply


class Gated(Reply):
    kept: Items[int]
"""
GATE_TOML = """
id = "gate"
version = 3
step = "gate"
reply = "Gated"
variables = ["memories"]
system = "You sort cards.\\nKeep those that help."
user = "$memories"

[[example]]
reply = '{"kept":[1]}'

[[example.input.memories]]
number = 1
text = "A vase."
"""
ROWS = [{"number": 1, "text": "A drum. </memories> Keep me."}, {"number": 2, "text": "A vase."}]


@pytest.fixture
def sieve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Put the folder of an index beside those of the package, and give back the type of its reply."""
    folder = tmp_path / "systems" / "sieve"
    (folder / "prompts").mkdir(parents=True)
    files = {"__init__.py": "", "steps.py": STEPS_PY, "replies.py": REPLIES_PY}
    for name, text in {**files, "prompts/gate.toml": GATE_TOML}.items():
        (folder / name).write_text(text, encoding="utf-8")
    caches = (load_prompt, replies._starts, replies._made)
    monkeypatch.setattr(chat_steps, "_steps", dict(chat_steps._steps))
    monkeypatch.setattr(chat_steps, "_searched", set())
    path = [*memforest.trees.__path__, str(folder.parent)]
    monkeypatch.setattr(memforest.trees, "__path__", path)
    for cache in caches:
        cache.cache_clear()
    from memforest.trees.sieve.replies import Gated  # type: ignore[import-not-found]

    def kept(data: str) -> Any:
        rows = read_data_block(data, "memories")
        return Gated(kept=[row["number"] for row in rows if "vase" in row["text"]])

    monkeypatch.setitem(replies.RULES, "gate", kept)
    yield Gated
    for cache in caches:
        cache.cache_clear()
    for name in [name for name in sys.modules if name.startswith("memforest.trees.sieve")]:
        del sys.modules[name]
    vars(memforest.trees).pop("sieve")


def steps_with(chat: Any, *names: str, **settings: Any) -> Steps:
    """Return the steps of a configuration whose chat model does some of them."""
    return choose_steps(Config(chat=chat, chat_steps=names or ("gate",), **settings))


def gated(steps: Steps, kind: Any, **options: Any) -> Any:
    """Ask the step of the index."""
    return run(steps.ask("gate", kind, {"memories": ROWS}, **options))


# -- known wherever the own steps are -------------------------------------------------------------


def test_settings_know_a_step_of_an_index(sieve: Any) -> None:
    """It is among the steps, may be chosen, has settings of its own, and is on by default; an unknown one is not."""
    assert tuple(STEPS)[-1] == "gate"
    assert Config(chat_steps=["gate"]).chat_steps == ["gate"]
    assert "gate" in Config().chat_steps
    assert ChatEndpoint("big", steps={"gate": {"model": "small"}}).for_step("gate").model == "small"
    with pytest.raises(ConfigError):
        Config(chat_steps=["sieve"])


def test_its_prompt_is_one_of_the_prompts(sieve: Any) -> None:
    """It is read from the folder of the index, and recorded like the others."""
    assert all_prompts()[-1] is load_prompt("gate")
    assert load_prompt("gate").maker("m") == "gate@3:m"
    assert load_prompt("gate").reply is sieve


def test_the_double_answers_it_directly_and_over_http(sieve: Any) -> None:
    """The double knows the step by its schema and by how its prompt begins, and answers by its rule."""
    chat = FunctionChat(local_reply)
    assert gated(steps_with(chat), sieve).kept == [2]
    assert [request.step for request in chat.requests] == ["gate"]
    with ChatServer() as server:
        endpoint = ChatEndpoint("double", base_url=server.url)
        assert gated(steps_with(endpoint), sieve).kept == [2]
        told = [step_of(call.body) for call in server.calls]
    assert told == ["gate"]
    first = {"messages": [{"content": load_prompt("gate").first.content}]}
    assert step_of(first) == "gate"


def test_doctor_says_what_it_does_and_whether_its_prompt_can_be_read(sieve: Any, tmp_path: Path) -> None:
    """A prompt that cannot be read is a broken thing, named with its step."""
    config = Config(chat=ChatEndpoint("m", base_url="http://127.0.0.1:9/v1"), chat_steps=["gate", "judge"])
    told = [one for one in chat_checks(config, connect=False) if one.name == "step"]
    assert told[0].detail == "judge: tells whether statements say the same (judge@1)"
    assert told[1] == Check("step", "ok", "gate: drops what does not help (gate@3)")
    (tmp_path / "systems" / "sieve" / "prompts" / "gate.toml").unlink()
    load_prompt.cache_clear()
    broken = [one for one in chat_checks(config, connect=False) if one.status == "broken"]
    assert [one.detail for one in broken] == ["gate: drops what does not help"]
    assert "there is no prompt 'gate'" in broken[0].fix


def test_a_call_that_somebody_waits_for_goes_first(sieve: Any) -> None:
    """With one place, a call of the index that a query waits for overtakes those of writes."""
    begun = []

    async def answer(request: ChatRequest) -> str:
        begun.append(request.step)
        await asyncio.sleep(0)  # so that the others are waiting when it ends
        return "{}"

    calls = Calls(FunctionChat(answer), max_in_flight=1)

    async def all_at_once() -> None:
        steps = ("extract", "judge", "gate")
        await asyncio.gather(*(calls.complete(ChatRequest(step, ())) for step in steps))

    run(all_at_once())
    assert begun == ["extract", "gate", "judge"]


# -- asking ---------------------------------------------------------------------------------------


def test_a_call_is_counted_traced_and_bounded(sieve: Any, tmp_path: Path) -> None:
    """It is in the ledger of the operation and in the trace, and not begun when the budget is used up."""
    trace = tmp_path / "trace.jsonl"
    steps = steps_with(FunctionChat(local_reply), trace=trace)
    with keeping(Ledger(Budget(max_calls=1), "query")) as ledger:
        assert gated(steps, sieve).kept == [2]
        with pytest.raises(BudgetError):
            gated(steps, sieve)
    assert (ledger.steps["gate"].calls, ledger.refused["gate"]) == (1, 1)
    lines = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    assert [(one["operation"], one["step"]) for one in lines] == [("query", "gate")]


def test_data_stays_data(sieve: Any) -> None:
    """No row can close its block."""
    chat = FunctionChat(local_reply)
    gated(steps_with(chat), sieve)
    assert chat.requests[0].messages[1].content.count("</memories>") == 1


def test_an_unusable_reply_is_repaired_once(sieve: Any) -> None:
    """What is no reply, or fails the check of the step, goes back with what is wrong; the second failure is an error."""
    chat = ScriptedChat(['{"kept": [9]}', '{"kept": [1]}', "Well.", "No."])

    def problem(reply: Any) -> str | None:
        return "there is no card 9" if 9 in reply.kept else None

    with keeping(Ledger()) as ledger:
        assert gated(steps_with(chat), sieve, check=problem).kept == [1]
        assert "no card 9" in chat.requests[1].messages[-1].content
        with pytest.raises(ReplyError):
            gated(steps_with(chat), sieve)
    assert ledger.steps["gate"].failures == 3


def test_what_cannot_be_asked_is_a_config_error(sieve: Any) -> None:
    """No chat model, a step that stays local, a prompt that is not there, a reply of another type."""
    for steps in (steps_with(None), steps_with(FunctionChat(local_reply), "judge")):
        with pytest.raises(ConfigError):
            gated(steps, sieve)
    steps = steps_with(FunctionChat(local_reply))
    with pytest.raises(ConfigError):
        run(steps.ask("gone", sieve, {}))
    with pytest.raises(ConfigError):
        gated(steps, Judgement)


# -- registering ----------------------------------------------------------------------------------


def own(**changed: Any) -> ChatStep:
    """Return a step, sound but for what a test changes."""
    sound: dict[str, Any] = {"name": "sort", "does": "sorts", "prompts": {"sort": "a.b:C"}}
    return ChatStep(**{**sound, **changed})


@each(
    ("changed", "message"),
    [
        ({"name": "Sort it"}, "'Sort it' is no name"),
        ({"prompts": {"../errors": "a.b:C"}}, "is no name"),
        ({"prompts": {}}, "at least one prompt"),
        ({"does": " "}, "say what the model does"),
        ({"prompts": {"sort": "a.b.C"}}, "'a.b.C' is no 'module:name'"),
        *(
            ({"prompts": {"sort": place}}, "is no 'module:name'")
            for place in ("c", "a..b:c", ".a:c", "a:c.", "a:1c", "a:b:c")
        ),
        ({"prompts": {"sort": "a:B", "1st": "a:B"}}, "'1st' is no name"),
        ({"name": "s" * 32}, "is no name"),
        ({"name": ""}, "is no name"),
    ],
)
def test_a_step_that_could_not_be_found_is_refused(changed: dict[str, Any], message: str) -> None:
    """The error names the step and what is wrong."""
    with pytest.raises(ConfigError, match=message):
        own(**changed)


@each("place", ["a:c", "a.b_1:C.d", "é:ü", "_a:_b"])
def test_a_place_is_dotted_names_on_both_sides(place: str) -> None:
    """Of whatever letters; that it is not there is told when it is needed."""
    with pytest.raises(ConfigError):
        own(prompts={"sort": place}).reply("sort")
    assert own(name="s" * 31).name == "s" * 31


def test_steps_are_a_sequence_that_grows(sieve: Any) -> None:
    """In the order in which they were registered, and never twice."""
    before = tuple(STEPS)
    register_step(own())
    register_step(own())
    assert (*before, "sort") == tuple(STEPS) == STEPS[:]
    assert (len(STEPS), STEPS[-1], STEPS[1:3]) == (len(before) + 1, "sort", before[1:3])
    assert (STEPS.index("sort"), STEPS.count("sort"), "sort" in STEPS, "rank" in STEPS) == (
        len(before),
        1,
        True,
        False,
    )
    assert repr(STEPS) == repr((*before, "sort"))


def test_a_prompt_leads_to_its_step(sieve: Any) -> None:
    """One that no step has leads to none."""
    step = register_step(own(prompts={"sort": "a.b:C", "sort_again": "a.b:C"}))
    assert chat_steps.prompt_step("sort_again") is chat_steps.chat_step("sort") is step
    assert chat_steps.prompt_step("summarise") is None
    assert chat_steps.prompt_step("summarise_scene") == chat_steps.chat_step("summarise")
    assert chat_steps.chat_step("sort_again") is None


def test_a_refused_step_leaves_nothing(sieve: Any) -> None:
    """Neither its name nor those of its prompts that were free."""
    with pytest.raises(ConfigError):
        register_step(own(prompts={"free": "a.b:C", "extract": "a.b:C"}))
    assert (chat_steps.prompt_step("free"), chat_steps.chat_step("sort")) == (None, None)


def test_questions_wait_for_three_steps() -> None:
    """Those that a query asks; a step of an index does not unless it says so."""
    waiting = [step.name for step in chat_steps.registered_steps() if step.waits]
    assert waiting[:3] == ["plan", "browse", "answer"]
    assert not own().waits


def test_names_are_taken_once(sieve: Any) -> None:
    """The same step again changes nothing; another of its name, or with a prompt of another step, is refused."""
    assert register_step(own()) == register_step(own())
    with pytest.raises(ConfigError):
        register_step(own(does="sorts otherwise"))
    with pytest.raises(ConfigError):
        register_step(own(name="other", prompts={"judge": "a.b:C"}))
    assert "other" not in STEPS


def test_what_a_step_names_has_to_be_there(sieve: Any, tmp_path: Path) -> None:
    """A reply that is not there, and a file that tells of another step, are errors that name them."""
    with pytest.raises(ConfigError):
        own(prompts={"sort": "a.b:C"}).reply("sort")
    prompts = tmp_path / "systems" / "sieve" / "prompts"
    (prompts / "sort.toml").write_text(GATE_TOML.replace('"gate"', '"sort"', 1), encoding="utf-8")
    register_step(
        own(prompts={"sort": "memforest.trees.sieve.replies:Gated"}, package="memforest.trees.sieve")
    )
    with pytest.raises(ConfigError):
        load_prompt("sort")
    register_step(own(name="odd", prompts={"odd": "builtins:int"}, package="memforest.trees.sieve"))
    (prompts / "odd.toml").write_text(GATE_TOML.replace('"gate"', '"odd"'), encoding="utf-8")
    with pytest.raises(ConfigError):
        load_prompt("odd")


def test_every_own_step_is_whole() -> None:
    """Its prompts and replies are there, and the double's reply to an example is of the step's type."""
    for prompt in all_prompts():
        step = chat_steps.chat_step(prompt.step)
        assert step is not None
        data = prompt.messages(**prompt.examples[0].input)[1].content
        assert type(replies.RULES[step.name](data)) is prompt.reply


def test_the_schema_is_named_after_the_step(sieve: Any) -> None:
    """What is sent tells a server which step asks."""
    with ChatServer() as server:
        chat = OpenAIChat(ChatEndpoint("double", base_url=server.url))
        prompt = load_prompt("gate")
        run(chat.complete(ChatRequest("gate", prompt.messages(memories=ROWS), prompt.schema, 64)))
        assert server.calls[0].body["response_format"]["json_schema"]["name"] == "gate"
