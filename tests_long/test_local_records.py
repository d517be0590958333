"""Records without a model: whole sentences and statements, what is new and what changed first, sections by participant."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.ports import UnchangedText, join_sections, split_sections
from memforest.reading import summarise_local
from memforest.reading.summarise_local import (
    MAKER,
    MAX_CHARS,
    MAX_INPUTS,
    LocalSummariser,
    most_telling,
    record_of,
)
from memforest.reading.tokens import count_words
from memforest.records import SummaryRequest

NOW = datetime(2024, 5, 7, tzinfo=timezone.utc)
LEVELS = ("segment", "session", "day", "week")
DAYS = (
    "Ana lives in Porto. She rents a flat near the river with her sister.",
    "Ana paid 450 euros for a used bicycle at the market near the old harbour.",
    "Ana met Bruno, a carpenter from Braga, at a concert of the city orchestra.",
    "Ana made a blue bowl for her mother in the pottery class on Tuesday.",
    "Ana moved from Porto to Lisbon.",
    "Bruno bought 3 lemon trees for the balcony of the new workshop.",
)


def request(*inputs: str, prompt: str = "day", max_words: int = 60, **others: Any) -> SummaryRequest:
    """Return the request of a level."""
    return SummaryRequest(
        "year", "2024", NOW, NOW, inputs, max_words, prompt=prompt, participants=("Ana", "Bruno"), **others
    )


def told(*inputs: str, **others: Any) -> str:
    """Return the record of some texts."""
    return LocalSummariser().summarise_one(request(*inputs, **others))


def pieces(texts: tuple[str, ...]) -> set[str]:
    """Return every line and sentence that may stand in a record."""
    return {*texts, *(f"{one.removesuffix('.')}." for text in texts for one in text.split(". "))}


@each("prompt", LEVELS)
@each("most", [0, 3, 8, 20, 40, 70, 300])
def test_a_record_is_whole_lines_in_order_within_its_words(prompt: str, most: int) -> None:
    """However long it may be, every line of a record is a line or sentence of what is below, and they keep their order."""
    found = told(*DAYS, prompt=prompt, max_words=most)
    assert count_words(found) <= most
    lines = found.splitlines()
    whole = "\n".join(DAYS)
    if most >= 8:  # the shortest line has 6 words
        assert lines
        assert set(lines) <= pieces(DAYS)
        assert [whole.index(line) for line in lines] == sorted(whole.index(line) for line in lines)


def test_all_of_it_is_there_when_it_fits() -> None:
    """What fits is not chosen among."""
    assert told(*DAYS, max_words=300).splitlines() == list(DAYS)


@each("prompt", LEVELS[1:])
@each("most", range(30, 60, 5))
def test_the_first_and_the_last_state_of_what_changed_are_kept(prompt: str, most: int) -> None:
    """Where Ana lived, and where she moved to, stand in every record that has room for both."""
    found = told(*DAYS, prompt=prompt, max_words=most)
    assert DAYS[0].split(". ")[0] in found
    assert DAYS[4] in found


def test_a_state_that_only_comes_again_takes_no_room_from_others() -> None:
    """One value told twice is no change: the sentences that tell more stand before its repetition."""
    again = ("Ana lives in Porto.", *DAYS[1:4], "Ana still lives in Porto.")
    most = sum(map(count_words, DAYS[1:4])) + 5
    found = told(*again, max_words=most).splitlines()
    assert len(set(found) & set(DAYS[1:4])) >= 2
    changed = told(*again[:-1], DAYS[4], max_words=most).splitlines()
    assert {"Ana lives in Porto.", DAYS[4]} <= set(changed)


def test_what_earlier_records_tell_is_not_told_again() -> None:
    """A sentence of the history is left out although all would fit."""
    found = told(*DAYS, max_words=300, history=(DAYS[1], f"{DAYS[2]}\n{DAYS[3]}"))
    assert found.splitlines() == [DAYS[0], DAYS[4], DAYS[5]]


def test_what_is_new_against_the_history_goes_first() -> None:
    """Of two sentences of like length the one with words that no earlier record has is chosen, whichever comes first."""
    old = "Ana swam in the cold river before breakfast today."
    new = "Ana planted lemon saplings behind the chapel today."
    frame = ("Ana woke up.", old, new, "Ana went to bed.")
    history = ("Ana swam in the cold river before breakfast with friends.",)
    most = count_words(frame[0]) + count_words(frame[3]) + count_words(new) + 2
    assert new in told(*frame, max_words=most, history=history)
    assert old not in told(*frame, max_words=most, history=history)
    turned = (frame[0], new, old, frame[3])
    assert new in told(*turned, max_words=most, history=history)


def test_a_record_that_would_say_nothing_new_still_says_something() -> None:
    """Where the history has all of it, the record is no empty text."""
    assert told(*DAYS[:2], max_words=300, history=DAYS) != ""


def test_without_a_change_the_first_and_the_last_thing_told_stay() -> None:
    """In a language whose states are not read, how it began and how it ended stand in the record."""
    days = (
        "アナはポルトに住んでいます。",
        "市場で自転車を買いました。",
        "コンサートで大工に会いました。",
        "アナはリスボンに引っ越しました。",
    )
    most = count_words(days[0]) + count_words(days[3]) + 2
    found = told(*days, max_words=most).splitlines()
    assert {days[0], days[3]} <= set(found)


def test_questions_and_pleasantries_give_way_to_what_is_told() -> None:
    """They stand in a record only beside nothing else."""
    assert told("Ana: Hi! How are you?", "Bruno: I bought 3 lemon trees.") == "Bruno: I bought 3 lemon trees."
    assert told("Ana: How are you?") == "Ana: How are you?"


TURNS = ("Ana: Where is it?", "Bruno: I put it behind the shed, Ana.")


def test_a_segment_is_its_statements_else_its_turns() -> None:
    """Statements stand for the turns that support them; without any, the turns stay as they were said, questions too."""
    stated = ("Bruno put the key behind the shed.",)
    assert told(*TURNS, prompt="segment", statements=stated) == stated[0]
    assert told(*TURNS, prompt="segment") == "\n".join(TURNS)
    assert told(*TURNS, prompt="segment", statements=(" ",)) == "\n".join(TURNS)
    assert told(*TURNS, prompt="segment", statements=(*stated, *stated)) == stated[0]


def test_a_long_segment_is_whole_statements() -> None:
    """Of more statements than fit those that tell most are kept, whole."""
    found = told(*TURNS, prompt="segment", statements=DAYS, max_words=30)
    assert found
    assert set(found.splitlines()) <= pieces(DAYS)


SECTIONS = (
    "## Ana",
    "- residence: Lisbon (since 2024-05)",
    "- employer: Acme",
    "## Bruno",
    "- job: carpenter",
)


def test_a_profile_is_the_lines_of_its_request_by_participant() -> None:
    """Nothing is added and nothing moved to another section."""
    assert told(*DAYS, prompt="profile", statements=SECTIONS) == "\n".join(SECTIONS)


def test_a_profile_that_is_too_long_keeps_every_participants_first_lines() -> None:
    """Nobody's second line takes the room of somebody's first one, and no line is cut."""
    long = ("## Ana", *(f"- line {at} of hers has six words" for at in range(50)), "## Bruno", "- carpenter")
    found = told(prompt="profile", statements=long, max_words=40)
    assert count_words(found) <= 40
    sections = dict(split_sections(found))
    assert sections["Bruno"] == ["carpenter"]
    assert sections["Ana"] == [line[2:] for line in long[1 : 1 + len(sections["Ana"])]]


def test_a_profile_without_lines_has_what_each_participant_said() -> None:
    """As far as the texts below tell who said it; nobody's words stand under another name."""
    said = ("Ana: I baked a plum cake.", "Bruno: I sold the old van.\nCarla: I won.", "Nobody knows.")
    assert split_sections(told(*said, prompt="profile")) == [
        ("Ana", ["I baked a plum cake."]),
        ("Bruno", ["I sold the old van."]),
    ]
    assert told("Nobody knows.", prompt="profile") == ""


@given(
    st.lists(
        st.tuples(st.sampled_from(["Ana", "Bruno", "李"]), st.lists(st.text(max_size=20), max_size=6)),
        max_size=4,
    ),
    st.integers(0, 60),
)
def test_no_line_of_a_profile_changes_its_section(sections: list[tuple[str, list[str]]], most: int) -> None:
    """Whatever the lines say, each section of the record has lines of that participant alone, from the first on."""
    statements = tuple(join_sections(sections).splitlines())
    given_ = dict(split_sections("\n".join(statements)))
    found = split_sections(record_of(request(prompt="profile", statements=statements, max_words=most)))
    for name, lines in found:
        left = iter(given_[name])
        assert all(line in left for line in lines)  # a subsequence
    assert count_words(join_sections(found)) <= most


@each("prompt", [*LEVELS, "profile"])
def test_a_record_is_kept_and_needs_no_embedding(prompt: str) -> None:
    """It is made of texts below it, so its vector is their mean; and it has a maker of its own."""
    asked = request(*DAYS, prompt=prompt, statements=SECTIONS)
    [found] = asyncio.run(LocalSummariser().summarise([asked]))
    assert isinstance(found, UnchangedText)
    assert LocalSummariser().maker_of(asked) == MAKER
    assert LocalSummariser().maker_of(replace(asked, prompt="")) == LocalSummariser.name


def test_other_requests_are_answered_as_before() -> None:
    """A request without a prompt has the text and the maker that it had."""
    plain = replace(request(*DAYS, max_words=40), prompt="", participants=())
    found = LocalSummariser().summarise_one(plain)
    assert not isinstance(found, UnchangedText)
    assert found == " ".join(
        [DAYS[0].split(". ")[0] + ".", DAYS[1], DAYS[4], DAYS[5]]
    )  # as version 2 had it before
    assert LocalSummariser().maker_of(plain) == "local-extractive-2"


@given(
    st.lists(st.text(max_size=80), max_size=6),
    st.lists(st.text(max_size=40), max_size=2),
    st.integers(-1, 40),
)
def test_any_text_gives_a_record_within_its_words(texts: list[str], history: list[str], most: int) -> None:
    """Whatever is below and before; and the same again for the same request."""
    for prompt in (*LEVELS, "profile"):
        asked = request(*texts, prompt=prompt, history=tuple(history), max_words=most)
        found = record_of(asked)
        assert count_words(found) <= max(0, most)
        assert record_of(asked) == found


def test_a_sentence_is_cut_only_where_none_fits() -> None:
    """A single sentence of more words than there may be is cut; beside one that fits it is left out."""
    long = " ".join(f"word{at}" for at in range(200))
    assert count_words(told(long, max_words=20)) <= 20
    assert told(long, max_words=20) != ""
    assert told(long, "Ana slept.", max_words=20) == "Ana slept."


def test_a_session_of_ten_thousand_turns_is_read_in_bounded_time() -> None:
    """Five thousand segments are read as 256, evenly; the first and the last among them."""
    texts = tuple(f"Ana counted {at} geese near pond {at * 7}." for at in range(5_000))
    start = time.process_time()
    found = told(*texts, prompt="session", max_words=300)
    assert time.process_time() - start < 2.0
    assert texts[0] in found
    assert texts[-1] in found
    assert len(summarise_local._read(texts)) == MAX_INPUTS


def test_of_long_inputs_whole_sentences_are_read_from_both_ends() -> None:
    """256 children of much text each are read within the limit, and not one sentence of them is cut."""
    child = " ".join(f"Ana saw bird number {at} over the long quiet lake." for at in range(200))
    read = summarise_local._read([child] * MAX_INPUTS)
    assert sum(map(len, read)) <= MAX_CHARS + MAX_INPUTS
    for text in read:
        lines = text.splitlines()
        assert all(line.startswith("Ana saw bird") and line.endswith("lake.") for line in lines)
        assert "number 0 " in lines[0]
        assert "number 199 " in lines[-1]


def test_most_telling_texts_are_chosen_within_the_words() -> None:
    """Positions ascend; what says the same again and what asks is left out, and so is what is too long."""
    texts = [
        "How are you?",
        "Ana sold the red van.",
        "Ana sold the red van.",
        "Bruno won 3 medals.",
        "w " * 90,
    ]
    assert most_telling(texts, 40) == [1, 3]
    assert most_telling([], 40) == []
    assert most_telling(["Where is the dog?"], 40) == [0]
