"""What every surface promises: Python, the command line, REST and MCP tell the same of the same memory.

Each test is run on each surface that has the verb. What is wanted is written out, or is what Python says of the
same story: a surface that leaves something out, or orders it otherwise, is a defect.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.contract.drivers import PythonSurface, Refused, Surface
from tests.contract.surfaces import STORY, offering, tell

pytestmark = pytest.mark.timeout(180)  # the first test of all waits for a server to start, on a busy machine

HOME = "Where does Mara live?"
QUESTIONS = (HOME, "What is Tom's dog called?", "Who visited Mara?", "What does Tom do for a living?", "Pim")
NOBODY_SAID = "What is Mara's shoe size?"
EARLY, MIDDLE, LATE = "2024-04-01T00:00:00Z", "2024-05-01T00:00:00Z", "2024-12-01T00:00:00Z"


def said(text: str, when: str = "2024-05-02T07:30:00Z", **more: str) -> dict[str, Any]:
    """Return a message of Vera."""
    return {"speaker": "Vera", "content": text, "timestamp": when, **more}


def texts(found: Any) -> list[str]:
    """Return what was said, in order."""
    return [one["text"] for one in found]


def same(
    surface: Surface, told: str, python: PythonSurface, truth: str, verb: str, *args: Any, **more: Any
) -> bool:
    """Return whether a surface says what Python says."""
    return bool(getattr(surface, verb)(told, *args, **more) == getattr(python, verb)(truth, *args, **more))


@pytest.fixture(scope="session")
def truth(python: PythonSurface) -> str:
    """A user of Python who has told the story: what others say is compared with this."""
    return tell(python, "the one to compare with")


@offering("search")
def test_adds_and_finds(surface: Surface, user: str) -> None:
    """What was added is found, as it was said, with who said it, when, and where that stands."""
    assert surface.add(user, "first", [said("My boat is called Skua.", id="t1")])["turns_added"] == 1
    [found] = surface.search(user, "What is Vera's boat called?")["evidence"]
    assert (found["text"], found["speaker"]) == ("My boat is called Skua.", "Vera")
    assert found["said"] == "2024-05-02T07:30:00+00:00"
    assert found["sources"] == [["first", ["t1"]]]


@offering("search")
def test_evidence_is_that_of_python(surface: Surface, told: str, python: PythonSurface, truth: str) -> None:
    """Order, texts, dates, speakers, sources and ids of evidence are the same on every surface."""
    wrong = [one for one in QUESTIONS if not same(surface, told, python, truth, "search", one, top_k=5)]
    assert not wrong


@offering("ask")
def test_answers_are_those_of_python(surface: Surface, told: str, python: PythonSurface, truth: str) -> None:
    """Answers, citations and reasons are the same on every surface; what nobody said is answered by none."""
    asked = (*QUESTIONS, NOBODY_SAID)
    wrong = [one for one in asked if not same(surface, told, python, truth, "ask", one)]
    assert not wrong
    assert "Porto" in surface.ask(told, HOME)["answer"]
    silent = surface.ask(told, NOBODY_SAID)
    assert silent["answer"] is None
    assert silent["reason"]
    assert not silent["citations"]


@offering("context")
def test_context_is_that_of_python(surface: Surface, told: str, python: PythonSurface, truth: str) -> None:
    """The text for a prompt holds the evidence, quoted and dated, and is the same on every surface."""
    found = surface.context(told, HOME)
    assert found == python.context(truth, HOME)
    assert "I moved to Porto." in found
    assert "2024" in found


@offering("timeline")
def test_timeline_is_that_of_python(surface: Surface, told: str, python: PythonSurface, truth: str) -> None:
    """States with their times and events are told in time order, alike everywhere."""
    assert surface.timeline(told, "Mara")["entries"] == python.timeline(truth, "Mara")["entries"]
    homes = surface.timeline(told, "Mara", attribute="residence")["entries"]
    assert [(one["value"], one["start"][:10], (one["end"] or "")[:10]) for one in homes] == [
        ("Bergen", "2024-03-04", "2024-06-10"),
        ("Porto", "2024-06-10", ""),
    ]


@offering("list_facts")
def test_lists_are_those_of_python(surface: Surface, told: str, python: PythonSurface, truth: str) -> None:
    """Facts, sessions, turns and counts are the same, in the same order."""
    wanted = python.list_facts(truth)["facts"]
    assert surface.list_facts(told)["facts"] == wanted
    if surface.offers("get"):
        assert [surface.get(told, one["fact_id"]) for one in wanted] == wanted
    assert surface.sessions(told)["sessions"] == python.sessions(truth)["sessions"]
    assert surface.stats(told) == python.stats(truth)
    if surface.offers("turns"):
        found = [texts(surface.turns(told, session_id)["turns"]) for session_id in STORY]
        assert found == [[one["content"] for one in messages] for messages in STORY.values()]


@offering("entities")
def test_knowledge_is_that_of_python(surface: Surface, told: str, python: PythonSurface, truth: str) -> None:
    """Entities, relations, profiles and what differs between two times are the same on every surface."""
    asked: list[tuple[Any, ...]] = [
        ("entities",),
        ("relations", "Mara"),
        ("profile",),
        ("profile", "Mara"),
        ("diff", EARLY, LATE),
    ]
    assert not [one for one in asked if not same(surface, told, python, truth, *one)]
    [moved] = [one for one in surface.diff(told, EARLY, LATE) if one["attribute"] == "residence"]
    assert (moved["before"], moved["after"]) == ("Bergen", "Porto")


@offering("search", "as_of")
def test_as_of_is_what_was_so_then(surface: Surface, told: str) -> None:
    """What had not begun at the instant, or had ended, is no evidence; facts and answers go by it too."""
    assert texts(surface.search(told, HOME, as_of=EARLY)["evidence"])[0] == "I live in Bergen."
    assert texts(surface.search(told, HOME, as_of=LATE)["evidence"])[0] == "I moved to Porto."
    assert "I moved to Porto." not in texts(surface.search(told, HOME, as_of=EARLY)["evidence"])
    assert "I live in Bergen." not in texts(surface.list_facts(told, as_of=LATE)["facts"])
    assert "Bergen" in surface.ask(told, HOME, as_of=EARLY)["answer"]


@offering("search", "said_by", "known_at")
def test_said_by_and_known_at(surface: Surface, user: str) -> None:
    """What was said later, or was stored later though it was said before, is not there."""
    surface.add(user, "one", [said("I live in Bergen.", "2024-03-04T09:00:00Z")])
    known = surface.changes(user, "2024-01-01")["changes"][-1]["at"]
    surface.add(user, "two", [said("I moved to Porto.", "2024-06-10T09:00:00Z")])
    home = "Where does Vera live?"
    for when in ({"said_by": MIDDLE}, {"known_at": known}):
        assert texts(surface.search(user, home, **when)["evidence"]) == ["I live in Bergen."]
        assert texts(surface.list_facts(user, **when)["facts"]) == ["I live in Bergen."]
        assert [one["value"] for one in surface.timeline(user, "Vera", kind="state", **when)["entries"]] == [
            "Bergen"
        ]
        assert "Bergen" in surface.ask(user, home, **when)["answer"]
    assert "Porto" in surface.ask(user, home)["answer"]


@offering("list_facts", "limit", "cursor")
def test_pages_give_each_once(surface: Surface, told: str) -> None:
    """Lists that are read page by page give everything once, in the order of the whole."""
    for verb, name in (("list_facts", "facts"), ("sessions", "sessions")):
        read = getattr(surface, verb)
        pages = [read(told, limit=1)]
        while pages[-1]["next"]:
            assert len(pages) < 20
            pages.append(read(told, limit=1, cursor=pages[-1]["next"]))
        found = [one for page in pages for one in page[name]]
        assert found == read(told, limit=100)[name]
        assert len(pages) == len(found) > 2


@offering("update")
def test_corrections_and_undo(surface: Surface, user: str) -> None:
    """A correction holds instead at once, and so does what hides or pins; each is taken back by its key."""
    surface.add(user, "one", [said("I live in Bergen.", "2024-03-04T09:00:00Z")])
    home = "Where does Vera live?"
    [fact] = surface.list_facts(user)["facts"]
    corrected = surface.update(user, fact["fact_id"], "Vera lives in Narvik.")
    assert corrected["new_fact_id"] not in (None, fact["fact_id"])
    [found] = surface.search(user, home)["evidence"]
    assert "Narvik" in found["text"]
    assert "Narvik" in surface.ask(user, home)["answer"]
    surface.undo(user, corrected["key"])
    assert texts(surface.search(user, home)["evidence"]) == ["I live in Bergen."]
    forgotten = surface.forget(user, fact["fact_id"])
    assert surface.list_facts(user)["facts"] == []
    assert surface.ask(user, home)["answer"] is None
    surface.undo(user, forgotten["key"])
    assert texts(surface.list_facts(user)["facts"]) == ["I live in Bergen."]
    if surface.offers("pin"):
        surface.pin(user, fact["fact_id"])
        assert texts(surface.search(user, "What does Vera eat?")["evidence"]) == ["I live in Bergen."]
    keys = [one["key"] for one in surface.history(user, fact["fact_id"])]
    assert {corrected["key"], forgotten["key"]} <= set(keys)


@offering("update")
def test_a_correction_of_what_is_not_shown_is_refused(surface: Surface, user: str) -> None:
    """A fact that is hidden already is not corrected, a correction is undone once; nothing changes by asking."""
    surface.add(user, "one", [said("I live in Bergen."), said("My boat is called Skua.")])
    facts = surface.list_facts(user)["facts"]
    key = surface.forget(user, facts[0]["fact_id"])["key"]
    with pytest.raises(Refused) as refused:
        surface.update(user, facts[0]["fact_id"], "Vera lives in Narvik.")
    assert (refused.value.kind, refused.value.code) == surface.refusal("CorrectionError")
    surface.undo(user, key)
    with pytest.raises(Refused) as refused:
        surface.undo(user, key)
    assert (refused.value.kind, refused.value.code) == surface.refusal("CorrectionError")
    assert surface.list_facts(user)["facts"] == facts


WORDS = {
    "turn": "zanthopel",
    "session": "quivarnix",
    "fact": "bolumetra",
    "entity": "Grunwexel",
    "user": "tarquolip",
}
"""What is deleted by what -> a word that nothing else says."""


@offering("delete_session")
def test_deletion_leaves_nothing(surface: Surface, user: str, request: pytest.FixtureRequest) -> None:
    """What is deleted is in no answer, no file of the directory and no line of the log; all else stays."""
    words = {what: f"{word}{surface.name}" for what, word in WORDS.items()}
    surface.add(
        user,
        "one",
        [
            said(f"My codeword is {words['turn']}.", id="a"),
            said(f"I own a {words['fact']}.", "2024-05-02T08:00:00Z", id="b"),
            said(f"{words['entity']} lent me a ladder.", "2024-05-02T09:00:00Z", id="c"),
            said("I live in Bergen.", "2024-05-02T10:00:00Z", id="d"),
        ],
    )
    surface.add(user, "two", [said(f"I dreamt of {words['session']}.", "2024-05-03T07:30:00Z")])
    surface.search(user, "Where does Vera live?")
    assert {word for word, _ in left_in_files(surface, list(words.values()), request)} == {
        word for what, word in words.items() if what != "user"
    }
    gone = [words["turn"], words["session"]]
    assert surface.delete_turn(user, "one", "a")["turns"] == 1
    assert surface.delete_session(user, "two")["sessions"] == 1
    if surface.offers("delete_fact"):
        [fact] = [one for one in surface.list_facts(user)["facts"] if words["fact"] in one["text"]]
        assert surface.delete_fact(user, fact["fact_id"])["facts"] == 1
        assert surface.delete_entity(user, words["entity"])["turns"] == 1
        gone += [words["fact"], words["entity"]]
    answers: list[Any] = [surface.list_facts(user), surface.timeline(user, "Vera"), surface.sessions(user)]
    answers += [surface.search(user, f"What is {word}?", top_k=50)["evidence"] for word in gone]
    answers += [surface.changes(user, "2024-01-01")] if surface.offers("changes") else []
    answers += (
        [surface.turns(user, "one"), surface.profile(user), surface.entities(user)]
        if surface.offers("turns")
        else []
    )
    answers += [surface.export(user).decode()] if surface.offers("export") else []
    assert not [word for word in gone if word.lower() in json.dumps(answers).lower()]
    assert not left_in_files(surface, gone, request)
    assert texts(surface.search(user, "Where does Vera live?")["evidence"])[0] == "I live in Bergen."


@offering("delete_user")
def test_a_deleted_user_is_gone(surface: Surface, user: str, request: pytest.FixtureRequest) -> None:
    """Nothing of the memory is left in any file, and nothing is found by id; others keep theirs."""
    word, other = f"{WORDS['user']}{surface.name}", f"{user}, too"
    surface.add(user, "one", [said(f"My codeword is {word}.")])
    surface.add(other, "one", [said("I live in Bergen.")])
    assert left_in_files(surface, [word], request)
    surface.delete_user(user)
    assert not left_in_files(surface, [word], request)
    with pytest.raises(Refused) as refused:
        surface.turns(user, "one")
    assert (refused.value.kind, refused.value.code) == surface.refusal("NotFoundError")
    assert texts(surface.list_facts(other)["facts"]) == ["I live in Bergen."]


def left_in_files(
    surface: Surface, words: list[str], request: pytest.FixtureRequest
) -> list[tuple[str, str]]:
    """Return which words stand in which files of a surface, the log of its server among them."""
    files = [one for one in surface.directory.rglob("*") if one.is_file()]
    if surface.name in ("rest", "mcp"):
        files.append(request.getfixturevalue("server").log)
    held = []
    for one in files:
        with suppress(FileNotFoundError):  # the server closes memories that are idle, and their logs go
            held.append((one.name, one.read_bytes().lower()))
    return [(word, name) for word in words for name, data in held if word.lower().encode() in data]


@offering("add")
def test_the_same_again_is_stored_once(surface: Surface, user: str) -> None:
    """Whoever did not hear that it was stored sends it again: nothing is there twice."""
    messages = [said("I live in Bergen.", id="a"), said("My boat is called Skua.", id="b")]
    for added in (2, 0, 0):
        assert surface.add(user, "one", messages)["turns_added"] == added
    assert surface.stats(user) == {"sessions": 1, "turns": 2, "facts": 2}


@offering("add", "idempotency_key")
def test_idempotency_key(surface: Surface, user: str) -> None:
    """With a key the same again is answered as the first time; another request with that key stores nothing."""
    first = surface.add(user, "one", "I live in Bergen.", idempotency_key="k1", timestamp=EARLY)
    again = surface.add(user, "one", "I live in Bergen.", idempotency_key="k1", timestamp=EARLY)
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert again["turns_added"] == first["turns_added"] == 1
    with pytest.raises(Refused) as refused:
        surface.add(user, "one", "I moved to Porto.", idempotency_key="k1", timestamp=LATE)
    assert (refused.value.kind, refused.value.code) == surface.refusal("IdempotencyError")
    assert surface.stats(user)["turns"] == 1


@offering("add")
def test_turns_out_of_order_are_taken(surface: Surface, user: str) -> None:
    """They are sorted by their time, a later call may bring an earlier one, and the result says how many came so (D2)."""
    done = surface.add(
        user,
        "one",
        [
            said("I moved to Porto.", "2024-06-10T09:00:00Z", id="b"),
            said("I live in Bergen.", "2024-03-04T09:00:00Z", id="a"),
            said("I work as a potter.", "2024-07-10T09:00:00Z", id="c"),
        ],
    )
    assert done["turns_added"] == 3
    warned = done["warnings"]
    assert len(warned) == 1
    assert surface.ask(user, "Where does Vera live?")["answer"].startswith("Porto")
    if surface.offers("turns"):
        assert [one["id"] for one in surface.turns(user, "one")["turns"]] == ["a", "b", "c"]
    homes = surface.timeline(user, "Vera", attribute="residence")["entries"]
    assert [one["value"] for one in homes] == ["Bergen", "Porto"]
    if surface.offers("add", "idempotency_key"):  # which adds to a session; a file is the whole of one
        late = surface.add(user, "one", [said("I own a red bicycle.", "2024-01-01T09:00:00Z", id="z")])
        assert late["turns_added"] == 1
        assert len(late["warnings"]) == 1
        [session] = surface.sessions(user)["sessions"]
        assert session["start"] == "2024-01-01T09:00:00+00:00"


@offering("search", "filters")
def test_metadata_filters(surface: Surface, user: str, request: pytest.FixtureRequest) -> None:
    """Search and lists see the metadata that were added with turns: all must match; what nothing has finds nothing, and says so (D4)."""
    writer = surface if surface.offers("add", "metadata") else request.getfixturevalue("rest")
    writer.add(user, "one", [said("I live in Bergen.")], metadata={"source": "letter", "place": "north"})
    writer.add(
        user, "two", [said("My boat is called Skua.")], metadata={"source": "letter", "place": "south"}
    )
    question = "What do we know of Vera?"
    for filters, wanted in (
        ({"source": "letter"}, {"I live in Bergen.", "My boat is called Skua."}),
        ({"source": "letter", "place": "south"}, {"My boat is called Skua."}),
        ({"place": "west"}, set()),
    ):
        assert set(texts(surface.search(user, question, filters=filters)["evidence"])) == wanted
        assert set(texts(surface.list_facts(user, filters=filters)["facts"])) == wanted
    none = surface.search(user, question, filters={"colour": "red"})
    assert none["evidence"] == []
    assert none["warnings"]


ODD = "Łucja/渡辺 🌲 100%"
TALK = [
    {
        "id": "ü/1",
        "speaker": "渡辺",
        "content": "ベルゲンに住んでいます。🌲",
        "timestamp": "2024-05-02T07:30:00Z",
    },
    {
        "id": "２",
        "speaker": "Łucja",
        "content": "Mieszkałam w Łodzi, a jem żurek.",
        "timestamp": "2024-05-02T07:31:00Z",
    },
    {
        "id": "ع",
        "speaker": "سلمى",
        "content": "أعيش في بيرغن منذ عام 2019.",
        "timestamp": "2024-05-02T07:32:00Z",
    },
    {
        "id": "e\u0301",
        "speaker": "Zoe\u0301",
        "content": "J'ai visite\u0301 la fore\u0302t.",
        "timestamp": "2024-05-02T07:33:00Z",
    },
]


@offering("search")
def test_any_script_and_any_id(surface: Surface, user: str) -> None:
    """Names, ids and texts of any script come back as they went in, and are found by their own words."""
    user = f"{ODD} {user}"
    surface.add(user, "день 1/я", TALK)
    wrong = [
        one["content"]
        for one in TALK
        if one["content"] not in texts(surface.search(user, one["content"], top_k=10)["evidence"])
    ]
    assert not wrong
    found = surface.search(user, TALK[0]["content"], top_k=10)["evidence"]
    assert {tuple(one["sources"][0][1]) for one in found} <= {(one["id"],) for one in TALK}
    [session] = surface.sessions(user)["sessions"]
    assert (session["session_id"], set(session["participants"])) == (
        "день 1/я",
        {one["speaker"] for one in TALK},
    )
    if surface.offers("turns"):
        turns = surface.turns(user, "день 1/я")["turns"]
        assert [(one["id"], one["speaker"], one["text"]) for one in turns] == [
            (one["id"], one["speaker"], one["content"]) for one in TALK
        ]
    surface.delete_turn(user, "день 1/я", "ü/1")
    assert surface.stats(user)["turns"] == len(TALK) - 1


BAD: list[tuple[str, dict[str, Any], str, bool]] = [
    ("search", {"question": ""}, "InputError", False),
    ("search", {"question": "boats", "as_of": "the day of the fair"}, "TimestampError", False),
    ("search", {"question": "boats", "top_k": 0}, "InputError", True),
    ("ask", {"question": "boats", "reference_date": "never"}, "TimestampError", False),
    ("list_facts", {"cursor": "of another list"}, "InputError", False),
    ("list_facts", {"limit": 0}, "InputError", True),
    ("timeline", {"entity": "Nobody at all"}, "NotFoundError", False),
    ("timeline", {"entity": "Vera", "kind": "king"}, "InputError", True),
    ("turns", {"session_id": "no such"}, "NotFoundError", False),
    ("get", {"fact_id": "no such"}, "NotFoundError", False),
    ("update", {"fact_id": "no such", "text": "Vera lives in Narvik."}, "NotFoundError", False),
    ("forget", {"fact_id": "no such"}, "NotFoundError", False),
    ("pin", {"fact_id": "no such"}, "NotFoundError", False),
    ("history", {"fact_id": "no such"}, "NotFoundError", False),
    ("undo", {"key": "no such"}, "NotFoundError", False),
    ("delete_turn", {"session_id": "kept", "turn_id": "no such"}, "NotFoundError", False),
    ("delete_session", {"session_id": "no such"}, "NotFoundError", False),
    ("delete_entity", {"entity": "Nobody at all"}, "NotFoundError", False),
    ("changes", {"since": "the day of the fair"}, "TimestampError", False),
    ("diff", {"a": "the day of the fair", "b": LATE}, "TimestampError", False),
]
"""Verb, arguments, the error in Python, and whether a command line can tell it without looking into the memory."""
BAD_CONTENT: list[tuple[Any, str]] = [
    ([], "InputError"),
    ("   ", "InputError"),
    ([{"speaker": "Vera", "content": "Hello.", "timestamp": "the day of the fair"}], "TimestampError"),
    ([{"role": "wizard", "content": "Hello.", "timestamp": EARLY}], "InputError"),
    ([said("One.", id="same"), said("Two.", id="same")], "InputError"),
]


@offering("search")
def test_bad_input_is_refused_by_name(surface: Surface, user: str) -> None:
    """Each surface has its own way to say what is wrong, names the error, and nothing is lost or stored by it."""
    surface.add(user, "kept", [said("I live in Bergen.")])
    before = surface.stats(user)
    wrong = []
    for verb, args, kind, usage in BAD:
        if surface.offers(verb, *args):
            wanted = surface.refusal(kind, usage=usage)
            wrong += refused_otherwise(
                lambda v=verb, a=args: getattr(surface, v)(user, **a), wanted, (verb, args)
            )
    # The command line reads files: it names the places of what is wrong in one, and stores the other messages.
    for content, kind in BAD_CONTENT[:-1] if surface.name == "cli" else BAD_CONTENT:
        kinds = ("", 1) if surface.name == "cli" else surface.refusal(kind)
        wrong += refused_otherwise(lambda c=content: surface.add(user, "new", c), kinds, content)
    assert not wrong
    assert surface.stats(user) == before


def refused_otherwise(call: Any, wanted: tuple[str, int | None], what: object) -> list[object]:
    """Return what was called, if it was not refused with this name and code; an empty name is any."""
    try:
        return [(what, "was done", call())]
    except Refused as refused:
        found = (refused.kind if wanted[0] else "", refused.code)
        return [] if found == wanted and refused.message else [(what, found, wanted, refused.message)]


UNKNOWN: list[tuple[str, dict[str, Any]]] = [
    ("search", {"question": "boats"}),
    ("ask", {"question": "Where does Vera live?"}),
    ("context", {"question": "boats"}),
    ("timeline", {"entity": "Vera"}),
    ("list_facts", {}),
    ("sessions", {}),
    ("entities", {}),
    ("relations", {"entity": "Vera"}),
    ("profile", {}),
    ("changes", {"since": "2024-01-01"}),
    ("diff", {"a": EARLY, "b": LATE}),
    ("stats", {}),
]
BY_ID: list[tuple[str, dict[str, Any]]] = [
    ("get", {"fact_id": "f"}),
    ("turns", {"session_id": "s"}),
    ("history", {"fact_id": "f"}),
    ("update", {"fact_id": "f", "text": "Vera lives in Narvik."}),
    ("forget", {"fact_id": "f"}),
    ("pin", {"fact_id": "f"}),
    ("delete_session", {"session_id": "s"}),
    ("delete_turn", {"session_id": "s", "turn_id": "t"}),
    ("delete_user", {}),
    ("export", {}),
]


@offering("search")
def test_an_unknown_user_is_empty(surface: Surface, user: str) -> None:
    """Questions and lists of a user without a memory are empty, what is asked for by id is not found, and no file is made (D1)."""
    before = memories_in(surface)
    wrong: list[object] = []
    for verb, args in UNKNOWN:
        if surface.offers(verb, *args):
            try:
                found = getattr(surface, verb)(user, **args)
            except Refused as refused:
                wrong.append((verb, str(refused)))
                continue
            wrong += [] if is_empty(found) else [(verb, found)]
    for verb, args in BY_ID:
        if surface.offers(verb, *args):
            call = getattr(surface, verb)
            wrong += refused_otherwise(
                lambda c=call, a=args: c(user, **a), surface.refusal("NotFoundError"), verb
            )
    assert not wrong
    assert memories_in(surface) == before


def memories_in(surface: Surface) -> set[str]:
    """Return the files of a surface's directory, without the logs that come and go with an open one."""
    files = (one for one in surface.directory.rglob("*") if one.is_file())
    return {one.name for one in files if not one.name.endswith(("-wal", "-shm"))}


def is_empty(found: Any) -> bool:
    """Return whether a result holds nothing but reasons and warnings."""
    if isinstance(found, dict):
        return not any(one for name, one in found.items() if name not in ("reason", "warnings"))
    return not found


@offering("export")
def test_an_export_makes_an_equal_memory(
    surface: Surface, told: str, user: str, python: PythonSurface
) -> None:
    """What one surface exports is imported by it and by Python, and answers alike; a second import is refused."""
    exported = surface.export(told)
    before = [surface.search(told, one) for one in QUESTIONS]
    for other, into in ((surface, user), (python, f"{user}, in Python")):
        other.import_(into, exported)
        assert [other.search(into, one) for one in QUESTIONS] == before
        assert other.verify(into) == {"ok": True, "problems": []}
        with pytest.raises(Refused):
            other.import_(into, exported)


@offering("import_file")
def test_a_file_is_read_as_messages_are_added(surface: Surface, told: str, user: str, tmp_path: Path) -> None:
    """A file of the same sessions makes the same memory, again it changes nothing, and a copy of it is whole."""
    sessions = [{"session_id": name, "turns": messages} for name, messages in STORY.items()]
    file = tmp_path / "talk.json"
    file.write_text(json.dumps({"sessions": sessions}), encoding="utf-8")
    assert surface.import_file(user, file)["turns_added"] == 6
    assert surface.import_file(user, file)["turns_added"] == 0
    assert [surface.search(user, one) for one in QUESTIONS] == [
        surface.search(told, one) for one in QUESTIONS
    ]
    assert surface.backup(user, tmp_path / "copy.sqlite") == surface.stats(user)
    assert surface.verify(user)["ok"]


@offering("remember", "replaces")
def test_remembers_what_takes_the_place_of_another(surface: Surface, user: str) -> None:
    """It ends what it replaces, on every surface, and the key takes it back."""
    surface.add(user, "first", [said("My boat is called Skua.")])
    [boat] = surface.list_facts(user)["facts"]
    more = {"about": "Vera", "attribute": "boat", "value": "Gannet", "since": "2024-06-01T00:00:00Z"}
    done = surface.remember(user, "Vera's boat is the Gannet.", replaces=boat["fact_id"], **more)
    told = surface.timeline(user, "Vera", attribute="boat")["entries"]
    assert [one["value"] for one in told] == ["Skua", "Gannet"]
    assert told[0]["end"] == told[1]["start"] == "2024-06-01T00:00:00+00:00"
    if surface.offers("undo"):
        surface.undo(user, done["key"])
        assert [one["value"] for one in surface.timeline(user, "Vera", attribute="boat")["entries"]] == [
            "Skua"
        ]
