"""Replies field by field: missing, of a wrong type, null, in words, twice; what is kept, dropped, noted or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each

from memforest.errors import ReplyError
from memforest.ports import ChatReply
from memforest.reading.prompts import read_reply
from memforest.reading.replies import (
    AnswerReply,
    BrowseChoice,
    BrowseGuide,
    EntityReply,
    Extraction,
    FactReply,
    Judgement,
    Relation,
    Reply,
    Summary,
    json_schema,
)

ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=6,
)
STATEMENT = {"quote": "I live in Oslo", "text": "Ana lives in Oslo.", "turns": [0]}


def read(kind: type[Reply], /, **fields: Any) -> Any:
    """Read a reply of these fields."""
    return read_reply(ChatReply(json.dumps(fields)), kind)


def statement(**fields: Any) -> FactReply | None:
    """Return the only statement of a reply, None if it was dropped."""
    both = [{**STATEMENT, **fields}, STATEMENT]
    found: Extraction = read(Extraction, statements=both)
    assert len(found.statements) + len([one for one in found.notes if "statements" in one]) == 2
    return found.statements[0] if len(found.statements) == 2 else None


@each(
    ("given", "kept"),
    [
        ("event", "event"), ("state", "state"), ("preference", "preference"), ("plan", "plan"), ("detail", "detail"), (" PLAN ", "plan"),
        ("opinion", "event"), ("", "event"), (None, "event"), (7, "event"), (["plan"], "event"), ({"plan": 1}, "event"),
    ],
)  # fmt: skip
def test_a_kind_that_there_is_not_is_an_event(given: Any, kept: str) -> None:
    """No statement is lost for want of a kind."""
    found = statement(kind=given)
    assert found is not None
    assert found.kind == kept


@each(
    ("given", "kept"),
    [("Friday", "Friday"), ("  Friday ", "Friday"), (None, None), ("", None), (" ", None), ("null", None), ("None", None), ("N/A", None),
     ("unknown", None), ("unknown day", "unknown day"), (2024, "2024"), (0, "0")],
)  # fmt: skip
def test_words_for_nothing_are_nothing(given: Any, kept: str | None) -> None:
    """As the time of a statement; a number is its digits."""
    found = statement(start=given)
    assert found is not None
    assert found.start == kept


@each("name", ["quote", "text", "start"])
@each("given", [["a"], {"a": 1}, [[]]])
def test_a_text_that_is_none_costs_its_statement_alone(name: str, given: Any) -> None:
    """The other one is read."""
    assert statement(**{name: given}) is None


@each(
    ("given", "kept"),
    [([2, 0], [2, 0]), ([1, 1], [1, 1]), (3, [3]), ("4", [4]), (["5", 6.0], [5, 6]), (None, []), ([], []), ([None, 1, "x", 1.5, {}, [2]], [1]),
     (True, [1]), ([-1, 10**12], [-1, 10**12])],
)  # fmt: skip
def test_turns_are_whole_numbers(given: Any, kept: list[int]) -> None:
    """One alone will do, digits too; what is no whole number is left out, and the rest stays in its order."""
    found = statement(turns=given)
    assert found is not None
    assert found.turns == kept


@each(
    ("given", "kept"),
    [(True, True), (False, False), (None, False), ("true", True), ("no", False), (1, True), (0, False)],
)
def test_a_negation_is_a_truth_value(given: Any, kept: bool) -> None:
    """In words or digits perhaps; nothing is no."""
    found = statement(negated=given)
    assert found is not None
    assert found.negated is kept
    assert statement(negated="perhaps") is None


@each(
    ("given", "kept"),
    [
        (["Ana", {"name": "Oslo", "type": "place"}], [("Ana", ""), ("Oslo", "place")]),
        ("Ana", [("Ana", "")]),
        ({"name": " Ana ", "type": None}, [("Ana", "")]),
        ([{"type": "place"}, {"name": None}, {"name": ["x"]}, [], None, {"name": 7}], [("7", "")]),
        ([{"name": "Ana", "type": {}}], []),
        (None, []),
        (["Ana", "Ana"], [("Ana", ""), ("Ana", "")]),
    ],
)
def test_entities_are_names_with_or_without_a_type(given: Any, kept: list[tuple[str, str]]) -> None:
    """A bad one costs itself."""
    found = statement(entities=given)
    assert found is not None
    assert [(one.name, one.type) for one in found.entities] == kept


RELATION = {"entity": "Ana", "attribute": "residence", "value": "Oslo"}


@each(
    ("changed", "kept"),
    [
        ({}, {"previous": None, "change": "is"}),
        ({"previous": "Rome", "change": "start"}, {"previous": "Rome", "change": "start"}),
        ({"previous": "none", "change": " END "}, {"previous": None, "change": "end"}),
        ({"change": "moved"}, {"change": "is"}),
        ({"change": None}, {"change": "is"}),
        ({"change": ["end"]}, {"change": "is"}),
        ({"value": 5}, {"value": "5"}),
        ({"entity": None}, None),
        ({"value": ["Oslo"]}, None),
        ({"previous": {}}, None),
    ],
)
def test_a_relation_needs_entity_attribute_and_value(changed: Any, kept: dict[str, Any] | None) -> None:
    """A change that there is not is none; a relation that cannot be read costs itself alone."""
    found = statement(relations=[{**RELATION, **changed}, RELATION])
    assert found is not None
    assert len(found.relations) == (1 if kept is None else 2)
    assert found.relations[0] == Relation(**{**RELATION, **(kept or {})})


@pytest.mark.parametrize("missing", ["entity", "value"])
def test_no_part_of_a_relation_is_made_up(missing: str) -> None:
    """Without one of them it is dropped, and the note says which."""
    half = {name: one for name, one in RELATION.items() if name != missing}
    reply = read(Extraction, statements=[{**STATEMENT, "relations": [half, "Oslo", RELATION]}])
    assert [one.model_dump(exclude_defaults=True) for one in reply.statements[0].relations] == [RELATION]
    assert reply.notes[0] == f"an item of relations was left out: {missing}: is missing"


@given(st.dictionaries(st.sampled_from([*FactReply.model_fields, "more"]), ANY))
@settings(max_examples=40)
def test_any_statement_is_read_or_dropped_and_noted(fields: dict[str, Any]) -> None:
    """Whatever its fields hold: never an error, and the good one beside it stays."""
    reply = read(Extraction, statements=[fields, STATEMENT])
    assert reply.statements[-1].text == STATEMENT["text"]
    assert len(reply.statements) == 2 or any("an item of statements" in one for one in reply.notes)
    for one in reply.statements:
        assert isinstance(one.text, str)
        assert all(type(turn) is int for turn in one.turns)


WHOLE = {**STATEMENT, "kind": "plan", "start": "Friday", "negated": True, "topics": ["x"]}


@given(st.permutations([*WHOLE.items()]))
@settings(max_examples=40)
def test_the_order_of_properties_does_not_matter(items: list[tuple[str, Any]]) -> None:
    """A model may write them as it likes."""
    (found,) = read(Extraction, statements=[dict(items)]).statements
    assert (found.text, found.kind, found.start, found.negated, found.topics) == (
        STATEMENT["text"], "plan", "Friday", True, ["x"])  # fmt: skip


def test_a_property_that_is_there_twice_counts_as_it_was_said_last() -> None:
    """As JSON readers have it."""
    text = '{"statements": [{"quote": "A", "text": "A.", "text": "B.", "turns": [0], "turns": [1]}]}'
    (found,) = read_reply(ChatReply(text), Extraction).statements
    assert (found.text, found.turns) == ("B.", [1])


def test_what_no_file_takes_is_taken_out_of_every_text() -> None:
    """Controls and lone surrogates, which JSON can escape, in fields, lists and names."""
    bad = "a\x00b\ud800\x1b"
    reply = read(
        Extraction, statements=[{"quote": bad, "text": bad, "turns": [0], "topics": [bad], "entities": [bad]}]
    )
    (found,) = reply.statements
    assert (found.text, found.topics, found.entities) == ("ab", ["ab"], [EntityReply(name="ab")])


def test_a_note_holds_no_words_of_the_reply() -> None:
    """What was left out is told by place and kind of fault: its text may be a user's."""
    bad = {"quote": "x", "text": ["secret"], "turns": [0], "negated": "secret", "start": {}}
    (note,) = read(Extraction, statements=[bad, STATEMENT]).notes
    assert note.startswith("an item of statements was left out: text: ")
    faults = note.split("out: ")[1].split(";")
    assert {"text", "start", "negated"} <= {part.split(":")[0].strip() for part in faults}
    assert "secret" not in note


def test_only_the_first_few_faults_are_told() -> None:
    """Four say enough, and the repair stays short."""
    bad: Any = {key: [[]] for key in ("entity", "attribute", "verb", "value", "previous")}
    note = read(Extraction, statements=[{**STATEMENT, "relations": [bad]}]).notes[0]
    assert note.count(";") == 3


@each(
    ("kind", "fields"),
    [
        (Extraction, {"statements": "x"}),
        (Judgement, {"verdicts": [{"same": 1}]}),
        (BrowseChoice, {"ranked": ["first"]}),
        (BrowseGuide, {"trees": [{"queries": ["a"]}]}),
        (Summary, {"summary": None}),
        (Summary, {"summary": ["a"]}),
        (AnswerReply, {"answer": ["a"]}),
        (AnswerReply, {"answer": "Oslo", "reason": {}}),
    ],
)  # fmt: skip
def test_a_reply_of_which_nothing_is_left_is_refused(kind: type[Reply], fields: dict[str, Any]) -> None:
    """It is no empty reply: the model is asked again."""
    with pytest.raises(ReplyError):
        read(kind, **fields)


@each(
    ("kind", "fields"),
    [
        (Extraction, {"statements": None}), (Extraction, {"statements": []}), (Judgement, {"verdicts": []}), (BrowseChoice, {"ranked": None}),
        (BrowseGuide, {"trees": []}), (AnswerReply, {"answer": None}), (AnswerReply, {"cited": []}),
    ],
)  # fmt: skip
def test_a_reply_that_says_nothing_is_a_reply(kind: type[Reply], fields: dict[str, Any]) -> None:
    """Nothing to extract, to merge, to look into or to answer; no note is made of it."""
    assert read(kind, **fields).notes == ()


@each(
    ("given", "kept"), [(2, 2), ("2", 2), (None, None), ("none", None), ("null", None), ("", None), (2.0, 2)]
)
def test_a_verdict_is_a_number_or_none(given: Any, kept: int | None) -> None:
    """None may be spelt."""
    (found,) = read(Judgement, verdicts=[{"question": "1", "same": given}]).verdicts
    assert (found.question, found.same) == (1, kept)


def test_a_bad_verdict_costs_itself() -> None:
    """Words for a number, no question: the verdicts beside it stay."""
    rows = [{"question": 1, "same": "the first"}, {"same": 1}, {"question": 2, "same": 1}, 7]
    reply = read(Judgement, verdicts=rows)
    assert [(one.question, one.same) for one in reply.verdicts] == [(2, 1)]
    assert len(reply.notes) == 3


def test_an_answer_is_read_with_whatever_is_beside_it() -> None:
    """A number is an answer; citations that are no numbers are left out; a reason may be missing."""
    reply = read(AnswerReply, answer=42, cited=["2", 1, "x", None])
    assert (reply.answer, reply.cited, reply.reason) == ("42", [2, 1], "")
    assert len(reply.notes) == 2
    assert read(AnswerReply, answer=" unknown ", reason=None).answer is None


def test_a_guide_keeps_the_trees_that_can_be_read() -> None:
    """Numbers may be digits, one query may stand alone, and kind and anchor may be words for nothing."""
    bad = [{"tree": None, "queries": ["b"]}, {"queries": ["c"]}]
    trees = [{"tree": "2", "queries": "a"}, *bad, {"tree": 1, "queries": None}]
    reply = read(BrowseGuide, kind="None", anchor=7, trees=trees)
    assert [(one.tree, one.queries) for one in reply.trees] == [(2, ["a"]), (1, [])]
    assert (reply.kind, reply.anchor, len(reply.notes)) == (None, "7", 2)


@given(st.sampled_from([Judgement, BrowseGuide, BrowseChoice, AnswerReply, Summary, Extraction]), st.data())
@settings(max_examples=40)
def test_any_reply_is_read_or_refused(kind: type[Reply], data: st.DataObject) -> None:
    """Whatever its fields hold, the only error is that of a reply."""
    fields = data.draw(st.dictionaries(st.sampled_from([*kind.model_fields]), ANY, min_size=1))
    try:
        reply = read(kind, **fields)
    except ReplyError:
        return
    assert kind.model_validate(json.loads(reply.model_dump_json())).model_dump() == reply.model_dump()


def test_a_sparse_reply_is_written_without_what_it_need_not_say() -> None:
    """And reads back as it was; one that is not sparse has every property."""
    reply = read(Extraction, statements=[{**STATEMENT, "entities": ["Ana"], "start": "Friday"}])
    assert json.loads(reply.to_json()) == {
        "statements": [{**STATEMENT, "start": "Friday", "entities": ["Ana"]}]}  # fmt: skip
    assert read_reply(ChatReply(reply.to_json()), Extraction) == reply
    assert set(json.loads(read(AnswerReply, answer="x").to_json())) == {"reason", "answer", "cited"}


def test_a_name_is_written_as_briefly_as_it_can_be_read() -> None:
    """A text without a type, an object with one."""
    names = read(Extraction, statements=[{**STATEMENT, "entities": ["Ana", {"name": "Rex", "type": "dog"}]}])
    assert json.loads(names.to_json())["statements"][0]["entities"] == ["Ana", {"name": "Rex", "type": "dog"}]


def test_the_schema_of_a_strict_reply_requires_all_and_allows_null() -> None:
    """As structured output wants it: no default, no title, nothing referred to."""
    assert json_schema(Judgement) == {
        "type": "object",
        "properties": {"verdicts": {"type": "array", "items": {
            "type": "object",
            "properties": {"question": {"type": "integer"}, "same": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
            "required": ["question", "same"],
            "additionalProperties": False,
        }}},
        "required": ["verdicts"],
        "additionalProperties": False,
    }  # fmt: skip
    assert json_schema(AnswerReply)["required"] == ["reason", "answer", "cited"]


def test_the_schema_of_a_sparse_reply_lets_the_rest_out() -> None:
    """What has a default is not required, and what may be null is of its other kind."""
    item = json_schema(Extraction)["properties"]["statements"]["items"]
    assert item["properties"]["start"] == {"type": "string"}
    assert item["required"] == ["quote", "text"]
    assert item["properties"]["kind"]["enum"] == ["event", "state", "preference", "plan", "detail"]
    assert item["properties"]["relations"]["items"]["required"] == ["entity", "value"]
    assert set(item["properties"]) == set(FactReply.model_fields)
