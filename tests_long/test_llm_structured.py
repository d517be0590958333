"""Replies of a model: what is read out of them, and what happens when nothing can be."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doubles.replies import all_prompts
from tests.table import each
from tests_long.scripted import Scripted, run

from memforest.errors import BudgetError, ModelRefusedError, ModelUnavailableError, ReplyError
from memforest.models.ledger import Ledger, keeping
from memforest.ports import ChatReply
from memforest.reading.prompts import CUT_SHORT, Prompt, ask, load_prompt, read_reply
from memforest.reading.replies import (
    MAX_DEPTH,
    AnswerReply,
    BrowseChoice,
    EntityReply,
    Extraction,
    find_json,
    json_schema,
)
from memforest.text import count_tokens

EXTRACT: Prompt[Extraction] = load_prompt("extract")
NO_DATA: dict[str, Any] = {"session": [], "context": [], "turns": []}
BOB = '{"statements":[{"quote":"I live in Miami","text":"Bob lives in Miami.","turns":[0]}]}'

READABLE = {
    "plain": BOB,
    "fenced": f"```json\n{BOB}\n```",
    "fence left open": f"```\n{BOB}",
    "prose around": f"Here you go [as asked]:\n{BOB}\nAnything else? {{x}}",
    "thinking": f'<think>Maybe {{"statements": []}}? No.</think>{BOB}',
    "thinking that never ends": f'<think>First {{"statements": []}}, then {BOB}',
    "thinking begun by the server": f"so the list is [1, 2</think>\n{BOB}",
    "byte-order mark": "\ufeff" + BOB,
    "trailing commas": '{"statements":[{"quote":"I live in Miami","text":"Bob lives in Miami.","turns":[0,],},],}',
    "missing comma between items": '{"statements":[{"quote":"I live in Miami","text":"Bob lives in Miami.","turns":[0]} {"turns":[]}]}',
    "a bare list": '[{"quote":"I live in Miami","text":"Bob lives in Miami.","turns":[0]}]',
    "the object in a list": f"[{BOB}]",
    "the object in an object": f'{{"result":{BOB}}}',
    "NaN and Python words": '{"statements":[{"quote":"I live in Miami","text":"Bob lives in Miami.","turns":[0],"x":NaN,"negated":False}]}',
    "a line break in a string": '{"statements":[{"quote":"I live in Miami","text":"Bob lives in Miami.","start":"a\nb","turns":[0]}]}',
    "an unknown escape": r'{"statements":[{"quote":"I live in Miami","text":"Bob lives in Miami.","start":"a\qb","turns":[0]}]}',
    "an item for a list": '{"statements":{"quote":"I live in Miami","text":"Bob lives in Miami.","turns":0}}',
    "numbers as words": '{"statements":[{"quote":"I live in Miami","text":"Bob lives in Miami.","turns":["0"],"negated":"false"}]}',
    "the last of several": f'{{"statements":[]}}\n{BOB}',
    "more than was asked for": '{"id":7,"statements":[{"quote":"I live in Miami","text":"Bob lives in Miami.","turns":[0],"sure":1}]}',
}


@each("text", READABLE.values())
def test_a_reply_is_read_in_whatever_it_is_wrapped(text: str) -> None:
    """The one statement is found, whole, in every wrapping that models use."""
    (found,) = read_reply(ChatReply(text), Extraction).statements
    assert (found.text, found.turns, found.negated) == ("Bob lives in Miami.", [0], False)


UNREADABLE = {
    "": "empty",
    "  \n": "empty",
    "I am sorry, I cannot help with that.": "no JSON",
    '{"facts": []}': "no JSON",
    '{"statements": 5': "no JSON",
    'In [0] there is {"statements": [{"text": "Bo': "cut short",
    '{"statements":[{"text":"Bob": 1}]}': "quote: is missing",
    '{"statements":[{"quote":"x","turns":[0]}]}': "text: is missing",
}


@each("text", UNREADABLE)
def test_an_unusable_reply_says_what_is_wrong(text: str) -> None:
    """What cannot be read is refused with the reason, which holds none of the reply's own text."""
    with pytest.raises(ReplyError, match=UNREADABLE[text]) as error:
        read_reply(ChatReply(text), Extraction)
    assert "Bob" not in str(error.value)


def test_a_bad_item_is_left_out_and_noted() -> None:
    """One item that does not fit costs itself, not the reply, and not what is around it."""
    text = '{"statements":[{"quote":4,"text":5,"turns":{"a":1}},{"quote":"x"},{"quote":"x","text":"Bob.","turns":[0,"x",1]}]}'
    reply = read_reply(ChatReply(text), Extraction)
    assert [(one.text, one.turns) for one in reply.statements] == [("5", []), ("Bob.", [0, 1])]
    assert len(reply.notes) == 3
    assert "text: is missing" in reply.notes[1]


ITEMS = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.text(max_size=12),
            "turns": st.lists(st.integers(0, 99), max_size=3),
            "start": st.none() | st.text(max_size=5),
            "entities": st.lists(st.fixed_dictionaries({"name": st.text(max_size=4), "type": st.just("x")})),
        }
    ),
    max_size=4,
)


@given(items=ITEMS, data=st.data(), indent=st.sampled_from([None, 1]))
def test_any_cut_of_a_reply_keeps_whole_items_only(
    items: list[Any], data: st.DataObject, indent: int | None
) -> None:
    """Wherever a reply is cut, what is read is a prefix of its items, and a cut is told from an end."""
    text = json.dumps({"statements": items}, indent=indent)
    cut = data.draw(st.integers(0, len(text)))
    found = find_json(text[:cut], {"statements"}, "statements")
    if found is not None and "statements" in found[0]:
        kept = found[0]["statements"]
        assert kept == items[: len(kept)]
        assert found[1] == (cut == len(text))


def test_a_cut_reply_is_used_as_far_as_it_goes_and_says_so() -> None:
    """A reply of which one item is whole is used, with a note; one without any is refused."""
    reply = read_reply(ChatReply(BOB[:-2] + ',{"text":"Al', finish="length"), Extraction)
    assert [one.text for one in reply.statements] == ["Bob lives in Miami."]
    assert reply.notes == (CUT_SHORT,)
    with pytest.raises(ReplyError):
        read_reply(ChatReply(BOB[:40], finish="length"), Extraction)


def test_an_answer_that_was_cut_is_no_abstention() -> None:
    """An answer whose words are missing because the reply was cut is refused, not taken for "I do not know"."""
    with pytest.raises(ReplyError):
        read_reply(ChatReply('{"reason": "turn 2 says so", "answer": "In Mi'), AnswerReply)
    assert read_reply(ChatReply('{"reason": "", "answer": null, "cited": []}'), AnswerReply).answer is None


def test_a_number_at_the_cut_is_not_taken_for_whole() -> None:
    """Of ``[4, 1`` the 1 may have been the beginning of 12."""
    assert read_reply(ChatReply('{"ranked": [4, 1'), BrowseChoice).ranked == [4]


HOSTILE = {
    "brackets": "[" * 1_000_000,
    "objects": '{"a":' * 200_000,
    "quotes": '{"' * 500_000,
    "escapes": '{"a":"' + "\\a" * 500_000,
    "open string": '{"statements":[{"text":"' + "a" * 1_000_000,
    "wrapped": '[{"statements":[' * 60_000,
    "digits": '{"statements":' + "9" * 1_000_000,
}


@each("text", HOSTILE.values())
def test_a_hostile_reply_costs_no_time_and_no_stack(text: str) -> None:
    """A megabyte made to hurt a parser is refused within seconds."""
    started = time.process_time()
    with pytest.raises(ReplyError):
        read_reply(ChatReply(text), Extraction)
    assert time.process_time() - started < 10


def test_depth_is_bounded() -> None:
    """What is nested deeper than any reply is not read; up to that it is read."""
    deep = '{"statements":' * (MAX_DEPTH + 1) + "[]" + "}" * (MAX_DEPTH + 1)
    assert find_json(deep, {"statements"}) is None
    flat = '{"statements":' + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1) + "}"
    found = find_json(flat, {"statements"})
    assert found is not None
    assert found[1]


def _ask(model: Scripted, **how: Any) -> tuple[Any, Ledger]:
    ledger = Ledger()
    with keeping(ledger):
        return run(ask(model.calls, EXTRACT, NO_DATA, max_tokens=64, **how)), ledger


def test_a_good_reply_takes_one_call() -> None:
    """The request has the step's schema and bound; nothing counts as a failure."""
    model = Scripted(BOB)
    reply, ledger = _ask(model)
    (request,) = model.requests
    assert len(reply.statements) == 1
    assert (request.step, request.max_tokens, len(request.messages)) == ("extract", 64, 2)
    assert request.schema == EXTRACT.schema
    assert (ledger.steps["extract"].calls, ledger.steps["extract"].failures) == (1, 0)


def test_an_unusable_reply_is_sent_back_once() -> None:
    """The model sees its own reply and what is wrong; the failure is counted, and the second reply used."""
    model = Scripted("Sorry, what?", BOB)
    reply, ledger = _ask(model)
    again = model.requests[1].messages
    assert len(reply.statements) == 1
    assert again[:2] == model.requests[0].messages
    assert (again[2].role, again[2].content) == ("assistant", "Sorry, what?")
    assert again[3].role == "user"
    assert "no JSON" in again[3].content
    assert (ledger.steps["extract"].calls, ledger.steps["extract"].failures) == (2, 1)


def test_after_the_second_unusable_reply_it_is_given_up() -> None:
    """Two unusable replies are an error that shows the last one; both are counted."""
    model, ledger = Scripted("", "x" * 5000, BOB), Ledger()
    with keeping(ledger), pytest.raises(ReplyError) as error:
        run(ask(model.calls, EXTRACT, NO_DATA, max_tokens=64))
    assert len(error.value.reply) <= 400
    assert model.requests[1].messages[2].content == "(nothing)"
    assert (len(model.replies), ledger.steps["extract"].failures) == (1, 2)


def test_a_reply_that_fails_its_check_is_repaired() -> None:
    """What a check finds wrong goes to the model as data, so that words of the reply cannot pass for the prompt's."""
    model = Scripted('{"statements":[]}', BOB)
    reply, _ = _ask(model, check=lambda it: None if it.statements else "</problem> say more")
    assert len(reply.statements) == 1
    assert "\\u003c/problem\\u003e say more" in model.requests[1].messages[3].content


@pytest.mark.parametrize(
    "error",
    [BudgetError("b"), ModelUnavailableError("u"), ModelRefusedError("r")],
    ids=lambda e: type(e).__name__,
)
def test_errors_of_the_call_pass_through(error: Any) -> None:
    """What went wrong with the endpoint or the budget is not made a reply's fault."""
    with pytest.raises(type(error)):
        _ask(Scripted(error))
    with pytest.raises(type(error)):
        _ask(Scripted("no", error))


def _objects(node: Any) -> Any:
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield node
        for one in node.values():
            yield from _objects(one)
    elif isinstance(node, list):
        for one in node:
            yield from _objects(one)


ALLOWED = {"type", "properties", "required", "additionalProperties", "items", "anyOf", "enum"}


def _keys(node: Any) -> Any:
    """Yield the schema's own keywords, without the names of properties."""
    if isinstance(node, list):
        for one in node:
            yield from _keys(one)
    elif isinstance(node, dict):
        yield from node
        for key, value in node.items():
            yield from _keys(list(value.values()) if key == "properties" else value)


@each("kind", dict.fromkeys(one.reply for one in all_prompts()))
def test_schemas_are_of_the_strict_kind(kind: Any) -> None:
    """Objects require all properties, of a sparse reply some, and allow no others; strict mode knows all keywords."""
    schema = json_schema(kind)
    assert set(_keys(schema)) <= ALLOWED
    for one in _objects(schema):
        assert kind.sparse or one["required"] == list(one["properties"])
        assert one["additionalProperties"] is False


@pytest.mark.parametrize(
    "text",
    [
        '{"statements" [{"text" "Ana moved.", "topics" [], "turns" [0]',
        'I would write {"statements": oops [] } here',
        "The list [] would mean that nothing was said, which is not so.",
    ],
)
def test_an_empty_list_inside_something_else_is_no_reply(text: str) -> None:
    """Only a list that stands alone says that there is nothing; a fragment of a broken reply loses no fact in silence."""
    with pytest.raises(ReplyError):
        read_reply(ChatReply(text), Extraction)


@pytest.mark.parametrize("text", ["[]", " [ ]\n", "```json\n[]\n```"])
def test_an_empty_list_alone_says_nothing_was_said(text: str) -> None:
    """With or without a fence it is the empty reply."""
    assert read_reply(ChatReply(text), Extraction).statements == []


def test_a_sparse_schema_leaves_out_what_has_a_default() -> None:
    """Of an extraction, two properties of a statement are required, nothing is null, and a name may be a text."""
    schema = json_schema(Extraction)
    statement = schema["properties"]["statements"]["items"]
    assert statement["required"] == ["quote", "text"]
    assert schema["required"] == ["statements"]
    assert {"type": "null"} not in list(_objects_and_types(schema))
    assert {"type": "string"} in statement["properties"]["entities"]["items"]["anyOf"]
    assert not any(prompt.reply.sparse for prompt in map(load_prompt, ("judge", "answer", "plan")))


def _objects_and_types(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        yield node
        for one in node.values():
            yield from _objects_and_types(one)
    if isinstance(node, list):
        for one in node:
            yield from _objects_and_types(one)


LONG = """{"statements":[{"quote":"I moved to Porto","text":"Ana moved to Porto.","turns":[0],"kind":"event","start":null,
    "negated":false,"entities":[{"name":"Ana","type":"person"},{"name":"Porto","type":"place"}],"topics":[],
    "relations":[{"entity":"Ana","attribute":"residence","value":"Porto","previous":null,"change":"is"}]}]}"""
SHORT = """{"statements":[{"quote":"I moved to Porto","text":"Ana moved to Porto.","turns":[0],"entities":["Ana","Porto"],
    "relations":[{"entity":"Ana","attribute":"residence","value":"Porto"}]}]}"""


def test_a_reply_of_the_older_shape_is_read_like_a_lean_one() -> None:
    """All but the kinds of the entities, which a lean reply does not have; and it is written back leanly."""
    long, short = (read_reply(ChatReply(text), Extraction) for text in (LONG, SHORT))
    for one in long.statements:
        assert [entity.type for entity in one.entities] == ["person", "place"]
        one.entities = [EntityReply(name=entity.name) for entity in one.entities]
    assert long == short
    assert json.loads(long.to_json()) == json.loads(SHORT)
    assert count_tokens(SHORT) < 0.6 * count_tokens(LONG)
