"""The local summariser: bounded, in time order, keeping numbers, names and transitions, fair to every child."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.ports import Summariser
from memforest.reading.summarise_local import MAX_CHARS, LocalSummariser
from memforest.reading.tokens import count_words, cut_words
from memforest.records import SummaryRequest

NOW = datetime(2023, 5, 7, tzinfo=timezone.utc)

FACTS = (
    "Ana moved from Lugo to Porto on 7 May 2023 because her new job at the clinic started there.",
    "Ana adopted a grey cat called Oskar from the shelter on 12 June 2023.",
    "Ana said that the pottery class is relaxing and that she made a blue bowl for her mother.",
    "Ana went to the beach at Matosinhos with 3 friends from the choir and swam until the evening.",
    "Ana paid 450 euros for a used bicycle at the market near the old harbour.",
    "Ana met Bruno, a carpenter from Braga, at a concert of the city orchestra in August 2023.",
    "Ana no longer works at the clinic; she opened a bakery with Bruno in September 2023.",
    "Ana lives in Aveiro since December 2023 and rents a flat near the lagoon with her sister.",
)


def request(*inputs: str, max_words: int = 60, kind: str = "entity") -> SummaryRequest:
    """Return the request of a node with these children."""
    return SummaryRequest(kind, "Ana", NOW, NOW, inputs, max_words)


def summarise(*inputs: str, max_words: int = 60, kind: str = "entity") -> str:
    """Return the summary of these children."""
    return LocalSummariser().summarise_one(request(*inputs, max_words=max_words, kind=kind))


def test_single_short_input_is_returned_unchanged() -> None:
    """One child that fits is its own summary, and stays so when summarised again."""
    text = "Wow, thanks! Ana moved to Porto."
    assert summarise(text) == text
    assert summarise(summarise(*FACTS)) == summarise(*FACTS)


@pytest.mark.parametrize("inputs", [(), ("",), ("", "  \n\t", "\u3000")])
def test_nothing_to_say_gives_an_empty_summary(inputs: tuple[str, ...]) -> None:
    """No input and blank inputs give "", without an error."""
    assert summarise(*inputs) == ""


def test_blank_children_do_not_count() -> None:
    """A blank child beside a full one changes nothing."""
    assert summarise("", FACTS[1], "  ") == FACTS[1]


@each("max_words", [0, 1, 5, 12, 30, 60, 100, 300])
def test_summary_is_bounded(max_words: int) -> None:
    """A summary has at most `max_words` words."""
    assert count_words(summarise(*FACTS, max_words=max_words)) <= max_words


def test_keeps_everything_when_it_fits() -> None:
    """Children that fit together are all there, in their order."""
    assert summarise(*FACTS, max_words=300) == " ".join(FACTS)


def test_no_sentence_is_cut_while_one_fits() -> None:
    """Whatever the length, a summary is made of whole sentences of the children."""
    for most in range(min(map(count_words, FACTS)), 120):
        found = [f"{one}." for one in summarise(*FACTS, max_words=most).removesuffix(".").split(". ")]
        assert set(found) <= set(FACTS), most


def test_the_first_and_the_last_state_are_kept() -> None:
    """How it was and how it is now, whatever stands between; also in a summary of summaries."""
    both = f"{FACTS[0]} {FACTS[-1]}"
    assert summarise(*FACTS, max_words=count_words(both)) == both
    middle = [f"Ana visited town number {at} with a friend called Friend{at}." for at in range(300)]
    lower = [summarise(*FACTS[:1], *middle[:150]), summarise(*middle[150:], *FACTS[-1:])]
    found = summarise(*lower)
    assert found.startswith(FACTS[0])
    assert found.endswith(FACTS[-1])


def test_a_move_and_the_move_back_are_both_kept() -> None:
    """The same words in another order are another fact, not a duplicate."""
    there, back = "Ana moved from Lugo to Porto.", "Ana moved from Porto to Lugo."
    assert summarise(there, back) == f"{there} {back}"


@pytest.mark.parametrize(
    "other", ["Ana lent Eva a tent.", "Ana did not lend Tom a tent.", "Ana lent Tom 2 tents."]
)
def test_a_new_name_number_or_negation_is_no_duplicate(other: str) -> None:
    """Statements that differ in what identifies them are both kept."""
    assert summarise("Ana lent Tom a tent.", other) == f"Ana lent Tom a tent. {other}"


def test_what_is_told_twice_is_said_once() -> None:
    """As it was told last, although case and marks differ."""
    summary = summarise("Ana adopted a grey cat, Oskar.", FACTS[4], "Ana adopted a grey cat Oskar!")
    assert summary == f"{FACTS[4]} Ana adopted a grey cat Oskar!"


def test_order_is_time_order() -> None:
    """Chosen sentences stand in the order of their children."""
    summary = summarise(*FACTS)
    places = [summary.find(one) for one in FACTS if one in summary]
    assert len(places) >= 3
    assert places == sorted(places)


def test_every_child_is_covered() -> None:
    """A long child does not crowd out the short ones."""
    long = " ".join(f"In {1950 + at} the choir of Porto sang {at} songs by Composer{at}." for at in range(60))
    summary = summarise(FACTS[1], long, FACTS[4])
    assert "Oskar" in summary
    assert "450" in summary
    assert "choir" in summary


def test_latest_state_survives_the_smallest_budget() -> None:
    """When there is room for one child only, it is the last."""
    assert summarise(*FACTS, max_words=7).startswith("Ana lives in Aveiro")


def test_pleasantries_are_left_out() -> None:
    """Greetings, thanks and praise give way to content; the speaker stays with what was said."""
    summary = summarise(
        "Ana: Hey Tom! Thanks, that's great. I start at the bakery on 3 June.",
        "Tom: Wow, congrats Ana! That's amazing. I sold my car for 900 euros.",
    )
    assert summary == "Ana: I start at the bakery on 3 June.\nTom: I sold my car for 900 euros."


def test_pleasantries_alone_are_kept() -> None:
    """A node of nothing but pleasantries still has a summary."""
    assert summarise("Ana: Thanks!", "Tom: You're welcome!") != ""


def test_summary_of_summaries() -> None:
    """Level two covers each level-one summary within the same bound."""
    parts = [summarise(*FACTS[at : at + 2]) for at in range(0, 8, 2)]
    summary = summarise(*parts)
    assert count_words(summary) <= 60
    for kept in ("7 May 2023", "December 2023"):
        assert kept in summary


def test_a_speaker_is_named_once_for_what_is_said_in_a_row() -> None:
    """Also over the children's borders; a sentence without an end stands in a line of its own."""
    said = (
        "Ana: I moved to Lugo.",
        "Ana: The flat is small\nAna: It has 2 windows.",
        "Tom: I stayed in Porto.",
    )
    lines = [
        "Ana: I moved to Lugo. The flat is small",
        "Ana: It has 2 windows.",
        "Tom: I stayed in Porto.",
    ]
    assert summarise(*said).splitlines() == lines
    assert summarise(summarise(*said[:2]), said[2]).splitlines() == lines


def test_scripts_without_spaces_are_cut_and_bounded() -> None:
    """Two characters are a word; the sentence with the date is preferred."""
    first = "今日はいい天気ですね。花子は2023年5月7日に京都から東京へ引っ越しました。とても楽しかったです。"
    second = "花子は猫を飼い始めました。名前はミケです。"
    summary = summarise(first, second, max_words=24)
    assert count_words(summary) <= 24
    assert "2023" in summary
    assert count_words("北京大学") == 2


def test_abbreviations_and_decimals_end_no_sentence() -> None:
    """A trimmed node is not cut after "Dr." or inside "3.5"."""
    summary = summarise(
        "Dr. J. Silva saw Ana on 3.5.2023 at St. John clinic. She is fine.", FACTS[2], max_words=32
    )
    assert "Dr. J. Silva saw Ana on 3.5.2023" in summary


def test_where_no_sentence_fits_the_latest_is_cut() -> None:
    """At a word, with an ellipsis; the beginning is kept."""
    assert summarise(FACTS[1], FACTS[4], max_words=6) == "Ana paid 450 euros for a…"
    assert [cut_words("Ana sold it.", most) for most in (0, 2, 3)] == ["", "Ana sold…", "Ana sold it."]


def test_deterministic_and_implements_the_port() -> None:
    """The batch gives, in order, what each request gives alone, every time."""
    port: Summariser = LocalSummariser()
    batch = [request(*FACTS), request(*FACTS[::-1]), request()]
    alone = [LocalSummariser().summarise_one(one) for one in batch]
    assert asyncio.run(port.summarise(batch)) == alone
    assert asyncio.run(port.summarise(batch)) == alone


@each(
    "unit",
    [
        "word ",
        "a",
        ".",
        "a. ",
        "我住在北京。",
        "from ",
        "\"'",
        "Ana: x. ",
        "1 ",
        "!? ",
        "[a ",
        "-> ",
        "A.",
        "…",
        "\n",
        "e\u0301",
    ],
)
def test_a_megabyte_does_not_hang(unit: str) -> None:
    """Hostile inputs of a megabyte are read in part and take linear time (0.3 s here; a second is the alarm)."""
    began = time.process_time()
    summary = summarise(unit * (1_000_000 // len(unit)), "Ana moved to Porto.")
    assert time.process_time() - began < 3.0
    assert count_words(summary) <= 60
    assert len(summary) < 60 * 25 + 100


def test_reads_head_and_tail_of_a_long_input() -> None:
    """Beyond `MAX_CHARS` the middle is skipped; the latest words are still seen."""
    summary = summarise("Filler words without end. " * MAX_CHARS + "Ana moved to Porto in 2023.")
    assert "Ana moved to Porto in 2023." in summary


inputs = st.lists(
    st.one_of(
        st.text(max_size=80),
        st.lists(
            st.sampled_from(
                [
                    "Ana",
                    "moved",
                    "from",
                    "to",
                    "7",
                    "May",
                    "2023.",
                    "thanks!",
                    "→",
                    "北京",
                    "ไทย",
                    "¿",
                    "x:",
                    "when?",
                    "no,",
                    "\nB:",
                    "\n",
                ]
            ),
            max_size=30,
        ).map(" ".join),
    ),
    max_size=10,
)


@given(texts=inputs, max_words=st.integers(-1, 80), kind=st.sampled_from(["entity", "conversation"]))
def test_any_input_gives_a_bounded_summary_of_its_own_words(
    texts: list[str], max_words: int, kind: str
) -> None:
    """Whatever comes in, the summary is within the bound and repeatable, and its words are the children's."""
    summary = summarise(*texts, max_words=max_words, kind=kind)
    assert count_words(summary) <= max(0, max_words)
    assert summary == summarise(*texts, max_words=max_words, kind=kind)
    assert {char for char in summary if char.isalnum()} <= set("".join(texts))


@given(text=st.text(max_size=200), limit=st.integers(0, 40))
def test_a_cut_text_is_bounded_and_stays_as_it_is_when_cut_again(text: str, limit: int) -> None:
    """In any script; what is kept is how the text begins."""
    once = cut_words(text, limit)
    assert count_words(once) <= limit
    assert cut_words(once, limit) == once
    assert text.startswith(once.removesuffix("…"))


def test_what_the_history_has_is_not_told_again() -> None:
    """Word by word, as long as there is something else to tell."""
    told = replace(request("Ann moved to Porto.", "Ann bought a boat."), history=("Ann moved to Porto.",))
    assert LocalSummariser().summarise_one(told) == "Ann bought a boat."
    again = replace(request("Ann moved to Porto."), history=("Ann moved to Porto.",))
    assert LocalSummariser().summarise_one(again) == "Ann moved to Porto."


def test_a_single_child_is_summarised_where_every_node_is() -> None:
    """Else it is returned as it is, with its pleasantries."""
    one = request("Hello there! Ann moved to Porto in 2024.")
    assert LocalSummariser().summarise_one(one) == one.inputs[0]
    assert LocalSummariser().summarise_one(replace(one, summarise="every")) == "Ann moved to Porto in 2024."
