from __future__ import annotations

from typing import Any

import pytest
from tests.doubles import ChatServer, local_reply, step_of
from tests.doubles.replies import all_prompts
from tests.table import each

from memforest import Config, MemForest
from memforest.endpoint import STEPS, ChatEndpoint
from memforest.ports import ChatReply, ChatRequest, Message
from memforest.reading.prompts import Rows, data_block, load_prompt, read_reply
from memforest.reading.replies import (
    AnswerReply,
    BrowseChoice,
    BrowseGuide,
    Extraction,
    Judgement,
    Reply,
    Summary,
)
from memforest.testing import FunctionChat, HashEmbedder
from memforest.text import words
from memforest.times import Clock

PROMPTS = [one.id for one in all_prompts()]


def reply_to(step: str, kind: type[Reply], *more: str, **blocks: Rows) -> Any:
    """Return the local reply to the data of a step, read as the step reads it."""
    data = "\n\n".join([*(data_block(name, rows) for name, rows in blocks.items()), *more])
    request = ChatRequest(step, (Message("system", "…"), Message("user", data)))
    return read_reply(ChatReply(local_reply(request)), kind)


@each("id", PROMPTS)
def test_every_prompt_gets_a_valid_reply(id: str) -> None:
    """The step is known by the prompt alone, and the reply to its examples fits the schema."""
    prompt = load_prompt(id)
    for example in prompt.examples:
        messages = [{"role": one.role, "content": one.content} for one in prompt.messages(**example[0])]
        assert step_of({"messages": messages}) == prompt.step
        read_reply(ChatReply(local_reply({"messages": messages})), prompt.reply)


def test_the_step_is_known_by_the_schema_that_is_asked_for() -> None:
    """The schema's name counts before the prompt; other requests have no step and get no JSON."""
    body = {"response_format": {"type": "json_schema", "json_schema": {"name": "judge"}}, "messages": []}
    assert step_of(body) == "judge"
    assert local_reply(body) == '{"verdicts":[]}'
    other = {"messages": [{"role": "user", "content": "Tell me a joke."}]}
    assert step_of(other) is None
    assert "{" not in local_reply(other)


def test_a_repair_gets_the_reply_to_its_data() -> None:
    """What is asked again, behind a bad reply, is answered from the data as at first."""
    data = data_block("questions", [{"question": 1, "new": "A.", "known": {"1": "a"}}])
    first = (Message("system", "…"), Message("user", data))
    again = (
        *first,
        Message("assistant", "{"),
        Message("user", data_block("problem", [{"problem": "no JSON"}])),
    )
    assert local_reply(ChatRequest("judge", first)) == local_reply(ChatRequest("judge", again))


def test_extraction_is_the_local_extractors() -> None:
    """Statements name their turns, keep the words of time and say what days they mean."""
    made = reply_to(
        "extract",
        Extraction,
        session=[{"participants": ["Nora", "Mateo"]}],
        context=[{"speaker": "Mateo", "text": "What is new?"}],
        turns=[
            {
                "turn": 4,
                "time": "Tuesday 2031-03-11 18:20",
                "speaker": "Nora",
                "text": "I moved to Porto yesterday.",
            },
            {"turn": 5, "time": "Tuesday 2031-03-11 18:22", "speaker": "Mateo", "text": "Thanks, bye!"},
        ],
    )
    (statement,) = made.statements
    assert (statement.text, statement.turns) == ('Nora: "I moved to Porto yesterday."', [4])
    assert (statement.quote, statement.start) == ("I moved to Porto yesterday.", "2031-03-10")
    assert [(one.name, one.type) for one in statement.entities] == [("Porto", "place"), ("Nora", "")]
    assert [(one.attribute, one.value) for one in statement.relations] == [("residence", "Porto")]


def test_judgement_takes_equal_words_for_equal() -> None:
    """Case and punctuation do not count; any other word does."""
    rows = [
        {
            "question": 1,
            "new": "Nora lives in Porto",
            "known": {"1": "Nora lives in Braga.", "2": "nora lives in Porto."},
        },
        {"question": 2, "new": "Nora lives in Porto.", "known": {"1": "Nora does not live in Porto."}},
    ]
    made = reply_to("judge", Judgement, questions=rows)
    assert [(one.question, one.same) for one in made.verdicts] == [(1, 2), (2, None)]


def test_summaries_keep_within_the_words_asked_for() -> None:
    """The words are those of the notes, no more than were asked for."""
    notes = [{"note": n, "text": f"Nora went to lesson {n} in Porto with Mateo."} for n in range(1, 30)]
    made = reply_to("summarise", Summary, "At most 20 words.", node=[{"entry": "Nora"}], notes=notes)
    assert 5 < len(words(made.summary)) <= 20
    assert "lesson" in made.summary


@pytest.mark.parametrize(
    ("question", "queries"),
    [
        ("Where does Nora live?", ["Where does Nora live?"]),
        (
            "Where did Nora live before moving to Porto?",
            ["Where did Nora live before moving to Porto?", "moving to Porto"],
        ),
    ],
)
def test_plans_ask_every_tree_the_question(question: str, queries: list[str]) -> None:
    """A question with two sides asks for the other one as well."""
    trees = [{"tree": n, "kind": "entity", "about": "Nora", "text": "…"} for n in (1, 2)]
    made = reply_to("plan", BrowseGuide, question=[{"question": question, "today": "…"}], trees=trees)
    assert [(one.tree, one.queries) for one in made.trees] == [(1, queries), (2, queries)]


def test_browsing_ranks_by_shared_words() -> None:
    """Most shared words first, no more than asked for; without any, the nodes that stand for several leaves."""
    texts = [("tea", 1), ("a cello lesson", 1), ("lessons", 3)]
    nodes = [{"node": n, "leaves": leaves, "text": text} for n, (text, leaves) in enumerate(texts, 1)]

    def ranked(sought: str, most: int = 10) -> list[int]:
        made = reply_to("browse", BrowseChoice, search=[{"looking_for": sought, "most": most}], nodes=nodes)
        found: list[int] = made.ranked
        return found

    assert ranked("the cello lesson") == [2, 3]
    assert ranked("the cello lesson", most=1) == [2]
    assert ranked("a boat") == [3]


def test_answers_quote_the_evidence_that_shares_most_words() -> None:
    """The speaker's name helps to choose but is not enough; nothing shared is an abstention."""
    evidence = [
        {"number": 1, "said": "Friday 2031-05-09", "speaker": "Nora", "statement": "Nora drinks tea."},
        {"number": 2, "said": "Friday 2031-05-09", "speaker": "Mateo", "statement": "Mateo lives in Bilbao."},
        {"number": 3, "said": "Friday 2031-05-09", "speaker": "Nora", "statement": "Nora lives in Porto."},
    ]

    def answer(question: str) -> AnswerReply:
        made = reply_to("answer", AnswerReply, question=[{"question": question}], evidence=evidence)
        assert isinstance(made, AnswerReply)
        return made

    found = answer("Where does Nora live?")
    assert (found.answer, found.cited) == ("Nora lives in Porto.", [3])
    missing = answer("What is Nora's dog called?")
    assert (missing.answer, missing.cited) == (None, [])


TURNS = [
    {"speaker": "Nora", "text": "I moved to Porto last week.", "timestamp": "2024-03-11T18:20:00Z"},
    {
        "speaker": "Mateo",
        "text": "I still live in Bilbao, and I work at the theatre.",
        "timestamp": "2024-03-11T18:22:00Z",
    },
    {
        "speaker": "Nora",
        "text": "I started cello lessons with Mr Okoro.",
        "timestamp": "2024-03-11T18:24:00Z",
    },
]


def _lives(chat: Any, folder: str, clock: Clock) -> str | None:
    with MemForest(
        folder, Config(chat=chat, embedder=HashEmbedder(), clock=clock, summary_words=8)
    ) as forest:
        for day in range(1, 5):
            turns = [turn | {"timestamp": f"2024-03-{day:02}T18:2{n}:00Z"} for n, turn in enumerate(TURNS)]
            made = forest.ingest_session("nora", f"day {day}", turns)
            assert [chunk.failure for chunk in made.chunks] == [None, None]
        return forest.ask("nora", "Where does Nora live, where did Nora move?").answer


def test_the_model_guided_path_runs_from_end_to_end(tmp_path: Any, clock: Clock) -> None:
    """With a function and over HTTP every step is asked, nothing fails, and the answers are the same."""
    chat = FunctionChat(local_reply)
    direct = _lives(chat, str(tmp_path / "direct"), clock)
    with ChatServer() as server:
        endpoint = ChatEndpoint(model="double", base_url=server.url)
        assert _lives(endpoint, str(tmp_path / "http"), clock) == direct
        assert {call.status for call in server.calls} == {200}
        asked = {step_of(call.body) for call in server.calls}
    assert asked == {request.step for request in chat.requests}
    assert asked >= set(STEPS) - {"judge", "browse", "place", "sift"}
    assert asked.isdisjoint({"place", "sift"})  # no index here asks for them
    assert direct is not None
    assert "Porto" in direct


def test_of_equal_statements_the_first_is_the_same_one() -> None:
    """By its number, not by its place; what has the words in another order says something else."""
    known = {"10": "Nora lives in Porto.", "9": "nora lives in porto", "2": "In Porto lives Nora."}
    made = reply_to(
        "judge", Judgement, questions=[{"question": 4, "new": "Nora lives in Porto!", "known": known}]
    )
    assert [(one.question, one.same) for one in made.verdicts] == [(4, 9)]
    assert reply_to("judge", Judgement, questions=[]).verdicts == []


def test_a_turn_without_a_time_is_read_all_the_same() -> None:
    """What it says of days is left in words; a turn of the context makes no statement."""
    turns = [{"turn": 0, "speaker": "Nora", "text": "I moved to Porto.", "time": "some day"}]
    before = [{"speaker": "Nora", "text": "I live in Braga."}]
    made = reply_to("extract", Extraction, session=[{}], context=before, turns=turns)
    assert [(one.text, one.turns, one.start) for one in made.statements] == [
        ('Nora: "I moved to Porto."', [0], None)
    ]


@each("key", ["conversation", "entry", "theme", "record", "stretch"])
def test_a_summary_is_made_of_any_kind_of_node(key: str) -> None:
    """Within the last limit that is named, 60 words if none is."""
    notes = [{"note": n, "text": f"Nora went to lesson {n} in Porto."} for n in range(1, 40)]
    short = reply_to(
        "summarise", Summary, "At most 50 words.", "At most 9 words.", node=[{key: "x"}], notes=notes
    )
    assert 1 <= len(words(short.summary)) <= 9
    assert 9 < len(words(reply_to("summarise", Summary, node=[{key: "x"}], notes=notes).summary)) <= 60


def test_browsing_takes_the_first_of_equals() -> None:
    """Nodes that share as many words stand in the order in which they were shown, all of them without a limit."""
    nodes = [
        {"node": n, "leaves": 1, "text": text}
        for n, text in ((5, "cello"), (3, "a cello"), (4, "old cello case"))
    ]
    assert reply_to("browse", BrowseChoice, search=[{"looking_for": "cello case"}], nodes=nodes).ranked == [
        4,
        5,
        3,
    ]
    assert reply_to("browse", BrowseChoice, search=[{"looking_for": "boat"}], nodes=nodes).ranked == []


@pytest.mark.parametrize(
    ("question", "kind"),
    [("What does Nora like?", None), ("Where does Nora live now?", "current")],
)
def test_a_plan_names_the_kind_of_a_question_that_has_one(question: str, kind: str | None) -> None:
    """A simple one has none; without trees there is nothing to ask of any."""
    made = reply_to("plan", BrowseGuide, question=[{"question": question, "about": ["Nora"]}], trees=[])
    assert (made.kind, made.trees) == (kind, [])


def test_an_answer_tells_where_it_was_found() -> None:
    """The first of equal pieces; its days where it is a summary, else the day on which it was said."""
    shared = {"statement": "Nora lives in Porto.", "quote": ""}
    said = {"number": 1, "said": "Friday 2031-05-09", "speaker": "Nora", **shared}
    days = {"number": 2, "days": "1 to 7 May 2031", **shared}
    for evidence, cited, where in (
        ([said, days], 1, "said on Friday 2031-05-09"),
        ([days, said], 2, "of 1 to 7 May 2031"),
    ):
        made = reply_to(
            "answer", AnswerReply, question=[{"question": "Where does Nora live?"}], evidence=evidence
        )
        assert (made.cited, made.reason) == ([cited], f"piece {cited}, {where}")
    none = reply_to("answer", AnswerReply, question=[{"question": "Where?"}], evidence=[])
    assert (none.answer, none.cited, bool(none.reason)) == (None, [], True)
