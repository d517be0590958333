"""The text of a memory that is consolidated of what is alike: by a model and by rule."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from tests.doubles import CountingChat, prompt_of
from tests.doubles.blocks import read_data_block
from tests.table import each
from tests_long.scripted import Scripted, run

from memforest.errors import ModelError, ReplyError
from memforest.ports import UnchangedText
from memforest.reading.prompts import MAX_CHARS, load_prompt
from memforest.reading.summarise_llm import MEMORY, MIN_CHARS, ChatSummariser
from memforest.reading.summarise_local import MAKER, LocalSummariser
from memforest.reading.tokens import count_words
from memforest.records import SummaryRequest
from memforest.trees.refresh import PROMPTS, makers_of

DAY = datetime(2031, 5, 6, tzinfo=timezone.utc)
NOTES = (
    "Marit lived in Oslo until 2031-05-07.",
    "Marit sings second alto in the harbour choir.",
    "Marit moved to Bergen on 2031-05-08.",
)
GOOD = "Marit sings in the harbour choir. She lived in Oslo and moved to Bergen on 2031-05-08."


def asked(*inputs: str, words: int = 40, **more: Any) -> SummaryRequest:
    """Return a request for a memory, of three notes where none are given."""
    return SummaryRequest(
        "year",
        "2031-05",
        DAY,
        DAY + timedelta(days=25),
        inputs or NOTES,
        words,
        level=2,
        window="2031-05",
        participants=("Marit", "Odd"),
        prompt=MEMORY,
        **more,
    )


def said(text: str) -> str:
    """Return a reply with this text."""
    return json.dumps({"summary": text})


def written(request: SummaryRequest, *replies: Any) -> str | ModelError:
    """Return what becomes of a request when the model answers so; every reply has to be asked for."""
    model = Scripted(*replies)
    (made,) = run(ChatSummariser(model.calls).summarise([request]))
    assert model.replies == []
    return made  # type: ignore[no-any-return]


def told(request: SummaryRequest) -> str:
    """Return the text that is made without a model."""
    return LocalSummariser().summarise_one(request)


def test_a_memory_has_a_prompt_of_its_own() -> None:
    """One call: label, window, days and participants, the texts below in order, and the words; no history."""
    model = Scripted(said(GOOD))
    (made,) = run(ChatSummariser(model.calls).summarise([asked()]))
    assert made == GOOD
    assert not isinstance(made, UnchangedText)
    (call,) = model.requests
    assert (call.step, prompt_of(call)) == ("summarise", "hmem_memory")
    node = {"memory": "2031-05", "window": "2031-05", "from": "2031-05-06", "to": "2031-05-30"}
    assert read_data_block(model.data(), "node") == (node | {"participants": ["Marit", "Odd"]},)
    assert [row["text"] for row in read_data_block(model.data(), "notes")] == list(NOTES)
    assert "<history>" not in model.data()
    assert model.data().endswith("At most 40 words.")


@each(
    ("text", "lack"),
    [
        ("Marit sings in the harbour choir of Trondheim.", "a name"),
        ("Marit moved to Bergen on 2031-05-09.", "a date"),
        ("Marit sings in the harbour choir with 40 others.", "a number"),
        ('Marit sings second alto: "my knees were jelly".', "quotation"),
        ("Kings and mangoes deserve praise from everybody.", "not in the notes"),
        ("Marit sings. " * 60, "words"),
        ("", "empty"),
    ],
)
def test_what_the_texts_below_do_not_bear_out_is_sent_back(text: str, lack: str) -> None:
    """Once, with the reason; then that memory alone has failed."""
    failed = written(asked(), said(text), said(text))
    assert isinstance(failed, ReplyError)
    assert lack in str(failed)
    assert written(asked(), said(text), said(GOOD)) == GOOD


def test_one_text_alone_is_the_memory_without_a_call() -> None:
    """If it fits and may be kept; else the model is asked, as for several."""
    assert isinstance(written(asked(NOTES[0])), UnchangedText)
    assert written(asked(NOTES[0], " ")) == NOTES[0]
    long = asked(" ".join(NOTES), words=8)
    assert written(long, said("Marit moved to Bergen.")) == "Marit moved to Bergen."
    every = asked(NOTES[0], summarise="every")
    assert written(every, said("Marit lived in Oslo.")) == "Marit lived in Oslo."
    assert written(asked(" ")) == written(asked(words=0)) == ""


def test_the_example_passes_its_checks() -> None:
    """It is accepted at the first try and kept as it stands, and the order in its notes is not obeyed."""
    (example,) = load_prompt("hmem_memory").examples
    rows: Any = example[0]
    (node,) = rows["node"]
    request = replace(
        asked(*(row["text"] for row in rows["notes"]), words=rows["words"]),
        label=node["memory"],
        start=datetime.fromisoformat(node["from"]).replace(tzinfo=timezone.utc),
        end=datetime.fromisoformat(node["to"]).replace(tzinfo=timezone.utc) + timedelta(days=1),
    )
    model = Scripted(example[1])
    (made,) = run(ChatSummariser(model.calls).summarise([request]))
    assert model.data() == load_prompt("hmem_memory").messages(**example[0])[1].content
    assert made == json.loads(example[1])["summary"]
    assert "Norway" not in made


def test_many_and_long_texts_are_shown_within_bounds() -> None:
    """Evenly spaced, the first and the last among them, no more characters than of any record."""
    model = Scripted(said("Marit sails."))
    flood = [f"Marit sails in week {number}. " + "Marit sails. " * 80 for number in range(2_000)]
    run(ChatSummariser(model.calls).summarise([asked(*flood)]))
    shown = read_data_block(model.data(), "notes")
    assert len(shown) <= MAX_CHARS // MIN_CHARS
    assert sum(len(row["text"]) for row in shown) <= MAX_CHARS + 4 * len(shown)
    assert "week 0." in shown[0]["text"]
    assert "week 1999." in shown[-1]["text"]


def test_its_maker_is_its_prompt_and_is_known() -> None:
    """A new version of the prompt makes memories stale, and no other summaries."""
    chat = ChatSummariser(Scripted().calls)
    assert chat.maker_of(asked()) == f"hmem_memory@{load_prompt('hmem_memory').version}:scripted"
    assert chat.maker_of(asked()) in makers_of(chat, "")
    assert MEMORY in PROMPTS
    assert LocalSummariser().maker_of(asked()) == MAKER


def test_the_double_writes_one() -> None:
    """Of the sentences of its notes, within its words."""
    counting = CountingChat()
    from memforest.models.calls import Calls

    (made,) = run(ChatSummariser(Calls(counting)).summarise([asked(*(NOTES * 3), words=14)]))
    assert isinstance(made, str)
    assert 0 < count_words(made) <= 14


DAYS = (
    "Ana lives in Porto.",
    "Ana paid 450 euros for a used bicycle at the market near the old harbour.",
    "Ana made a blue bowl for her mother in the pottery class on Tuesday.",
    "Ana met Bruno, a carpenter from Braga, at a concert of the city orchestra.",
    "Ana moved from Porto to Lisbon.",
)


def test_a_memory_is_whole_sentences_with_the_first_and_the_last_state() -> None:
    """In order, within its words; where Ana lived and where she moved to stand in it."""
    found = told(asked(*DAYS, words=30)).splitlines()
    assert {DAYS[0], DAYS[-1]} <= set(found) <= set(DAYS)
    assert [DAYS.index(line) for line in found] == sorted(DAYS.index(line) for line in found)
    assert count_words("\n".join(found)) <= 30
    assert told(asked(*DAYS, words=300)).splitlines() == list(DAYS)


def test_what_two_tell_alike_is_told_once() -> None:
    """A sentence that comes again, also in another case."""
    assert told(asked(DAYS[1], DAYS[1], DAYS[2], words=300)).splitlines() == [DAYS[1], DAYS[2]]


@each("text", ["Thanks! Ana sails.", "  Ana sails.\nShe does. ", "Really?", "奥德住在卑尔根。", "🌊"])
def test_one_text_alone_stands_as_it_is(text: str) -> None:
    """With what a record would leave out; it is kept, so it costs no vector."""
    found = told(asked(text))
    assert isinstance(found, UnchangedText)
    assert found == text.strip()


def test_one_text_that_does_not_fit_is_chosen_from() -> None:
    """Whole sentences of it; without room nothing."""
    found = told(asked(" ".join(DAYS), words=8))
    assert found in DAYS
    assert told(asked(DAYS[0], words=0)) == told(asked("", " ")) == ""
