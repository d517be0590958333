"""memforest.reading.extract_local: from chunks of talk to dated, attributed statements."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.table import each

from memforest.ports import Extractor
from memforest.reading.extract_local import LocalExtractor
from memforest.records import Chunk, ChunkOutcome, ExtractedFact, Turn
from memforest.settings import MAX_TURN_CHARS

SAID = datetime(2023, 5, 8, 13, 0, tzinfo=timezone.utc)


def chunk(
    *lines: tuple[str, str], participants: Sequence[str] = (), roles: bool = False, first: int = 0
) -> Chunk:
    """Return a chunk of `lines`; a `first` above 0 makes the lines before it context only."""
    turns = tuple(
        Turn(str(i), speaker, text, SAID, i, role=speaker if roles else None)
        for i, (speaker, text) in enumerate(lines)
    )
    people = tuple(participants) or tuple(dict.fromkeys(speaker for speaker, _ in lines))
    return Chunk("s", 0, turns[first:], before=turns[:first], participants=people)


def extract(*lines: tuple[str, str], first: int = 0, roles: bool = False) -> ChunkOutcome:
    """Return what becomes of `lines`."""
    return LocalExtractor(timezone="UTC").extract_chunk(chunk(*lines, first=first, roles=roles))


def texts(outcome: ChunkOutcome) -> list[str]:
    """Return the statements of an outcome."""
    return [candidate.text for candidate in outcome.candidates]


def only(outcome: ChunkOutcome) -> ExtractedFact:
    """Return the one statement of an outcome."""
    (candidate,) = outcome.candidates
    return candidate


def test_relative_date_is_resolved() -> None:
    """Yesterday becomes a date in the text and the stated time of the statement."""
    made = only(extract(("Ana", "I went to a support group yesterday."), ("Ben", "Wow!")))
    assert made.text == 'Ana: "I went to a support group yesterday."'
    assert made.start == datetime(2023, 5, 7, tzinfo=timezone.utc)
    assert made.end == datetime(2023, 5, 8, tzinfo=timezone.utc)
    assert made.precision == "day"
    assert made.quote == "I went to a support group yesterday."


def test_since_leaves_the_end_open() -> None:
    """What holds since a year has a start and no end."""
    made = only(extract(("Ana", "I have lived in Oslo since 2016."), ("Ben", "Nice!")))
    assert (made.start, made.end) == (datetime(2016, 1, 1, tzinfo=timezone.utc), None)


def test_a_finished_duration_is_no_date() -> None:
    """Two years that are over do not reach to the present."""
    made = only(extract(("Ana", "I lived in Oslo for two years."), ("Ben", "Nice!")))
    assert (made.start, made.end, made.precision) == (None, None, "unknown")
    assert made.text == 'Ana: "I lived in Oslo for two years."'


def test_pronoun_is_resolved_to_the_one_person_before() -> None:
    """The brother who moved is the one who works there."""
    made = only(extract(("Ana", "My brother Tom moved to Oslo. He works at Equinor."), ("Ben", "Cool!")))
    assert made.text == 'Ana: "My brother Tom moved to Oslo. He works at Equinor."'
    assert {m.name: m.role for m in made.mentions} == {
        "Ana": "other",
        "Tom": "subject",
        "Oslo": "other",
        "Equinor": "other",
    }


def test_elliptical_answer_carries_its_question() -> None:
    """An answer that needs its question has it, and names both turns."""
    outcome = extract(("Ben", "How long have you been married?"), ("Ana", "Since 2016."))
    made = only(outcome)
    assert made.text == 'Ana, asked "How long have you been married?": Since 2016.'
    assert made.turns == (0, 1)
    assert [skip.reason for skip in outcome.skipped] == ["question"]


@each(
    ("question", "answer"),
    [
        ("Which gym are you at?", "Kinetik, still."),
        ("Who cuts your hair?", "Yvette."),
        ("Who cuts your hair?", "It's Yvette now."),
        ("Do you know which gym he is at?", "I think it's Kinetik."),
    ],
)
def test_an_answer_of_a_word_or_two_carries_its_question(question: str, answer: str) -> None:
    """What only names or points to the thing asked for is kept, and says what it answers."""
    assert only(extract(("Ben", question), ("Ana", answer))).text.startswith(f'Ana, asked "{question}": ')


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            (("Ana", "Guess what. I have a dog."), ("Ben", "Since when??"), ("Ana", "Since Saturday.")),
            'Ana, asked "Since when??" about "I have a dog": Since Saturday',
        ),
        (
            (("Ben", "You moved to Lugo! But when?"), ("Ana", "In 2016.")),
            'Ana, asked "But when?" about "You moved to Lugo": In 2016.',
        ),
    ],
)
def test_a_question_without_content_is_about_what_was_said_before(
    lines: tuple[tuple[str, str], ...], expected: str
) -> None:
    """A bare "since when" says nothing by itself: the answer carries the statement that it asks about."""
    assert any(text.startswith(expected) for text in texts(extract(*lines)))


def test_question_outside_the_chunk_is_no_source() -> None:
    """The question is read from the context, but only turns of the chunk are named."""
    made = only(extract(("Ben", "Any pets?"), ("Ana", "Just my dog Max."), first=1))
    assert made.text == 'Ana, asked "Any pets?": Just my dog Max.'
    assert made.turns == (1,)


def test_full_answer_stands_alone() -> None:
    """A complete sentence does not drag the question along."""
    outcome = extract(("Ben", "Where do you live?"), ("Ana", "I live in Rome."))
    assert texts(outcome) == ['Ana: "I live in Rome."']


def test_small_talk_is_skipped_with_its_reason() -> None:
    """Nothing is dropped in silence: each piece says why it is no statement."""
    outcome = extract(("Ana", "Hey Ben! That's so awesome! How are you?"), ("Ben", ""))
    assert outcome.candidates == ()
    assert [(skip.turn, skip.reason) for skip in outcome.skipped] == [
        (0, "pleasantry"),
        (0, "pleasantry"),
        (0, "question"),
        (1, "empty"),
    ]


def test_comment_joins_the_statement_it_is_about() -> None:
    """An evaluation is worth keeping behind its statement only."""
    outcome = extract(("Ana", "I ran a marathon. It was so relaxing!"), ("Ben", "It was so relaxing!"))
    assert texts(outcome) == ['Ana: "I ran a marathon. It was so relaxing!"']
    assert outcome.skipped[-1].reason == "pleasantry"


def test_negation_is_that_of_the_main_clause() -> None:
    """A negated reason does not negate the statement."""
    assert only(extract(("Ana", "I don't eat meat at all."), ("Ben", "Ok"))).negated
    assert not only(extract(("Ana", "I moved to Oslo because I didn't like Rome."), ("Ben", "Ok"))).negated


def test_caption_is_a_statement_of_its_own() -> None:
    """A picture's caption becomes one more statement, which says who shared it."""
    with_text = extract(("Ana", "I adopted a dog. [image: a dog on a beach]"), ("Ben", "Wow!"))
    alone = extract(("Ana", "Wow! [image: a dog on a beach]"), ("Ben", "Wow!"))
    shown = extract(("Ana", "Look. [image: a photo of two dogs]"), ("Ben", "Wow!"))
    assert texts(with_text) == ['Ana: "I adopted a dog."', "Ana shared a photo of a dog on a beach"]
    assert texts(alone) == ["Ana shared a photo of a dog on a beach"]
    assert texts(shown)[-1] == "Ana shared a photo of two dogs"


@each(
    ("name", "text"),
    [
        ("小明", "我昨天去了北京。"),
        ("สมชาย", "ฉันอาศัยอยู่ในกรุงเทพ"),
        ("أحمد", "انتقلت إلى القاهرة"),
        ("Pierre", "Je suis allé chez ma mère"),
        ("Лена", "Я живу в Москве."),
    ],
)
def test_other_languages_are_quoted_with_their_speaker(name: str, text: str) -> None:
    """A language without rules is never rewritten and never lost."""
    made = only(extract((name, text), ("Ben", "Ok")))
    assert made.text == f'{name}: "{text}"'
    assert made.quote == text


def test_spanish_is_quoted_and_read() -> None:
    """It is kept as it was said; where it lives is read of simple Spanish, and its dates are."""
    outcome = extract(
        ("Lucía", "Vivo en Madrid. Me mudé a Sevilla ayer. Mi hermana tiene un perro. ¿Y tú?"), ("Ben", "Ok")
    )
    assert texts(outcome) == [
        'Lucía: "Vivo en Madrid."',
        'Lucía: "Me mudé a Sevilla ayer."',
        'Lucía: "Mi hermana tiene un perro."',
    ]
    first, second, _ = outcome.candidates
    assert [(one.entity, one.value) for made in (first, second) for one in made.states] == [
        ("Lucía", "Madrid"),
        ("Lucía", "Sevilla"),
    ]
    assert second.start == datetime(2023, 5, 7, tzinfo=timezone.utc)


def test_assistant_turns_keep_what_is_concrete() -> None:
    """A request leaves its fact, the assistant's answer its names and prices."""
    outcome = extract(
        ("user", "I'm planning a trip to Kyoto, can you help?"),
        (
            "assistant",
            "Great question! The Hotel Granvia costs $150 a night. Try to pack light. Let me know how it goes!",
        ),
        roles=True,
    )
    assert texts(outcome) == [
        'the user: "I\'m planning a trip to Kyoto"',
        'the assistant: "The Hotel Granvia costs $150 a night."',
    ]


@pytest.mark.parametrize(
    ("speaker", "sentences"), [("Ana", 100), ("Ana", 300), ("assistant", 9), ("assistant", 300)]
)
def test_long_turns_are_read_to_their_end(speaker: str, sentences: int) -> None:
    """Every sentence is in a statement and in its quote; a long turn has fewer statements than sentences."""
    said = [f"I bought {i} red bicycles in Lyon." for i in range(sentences)]
    outcome = extract(("user", "Hi"), (speaker, " ".join(said)), roles=True)
    assert [one.reason for one in outcome.skipped if one.turn == 1] == []
    for i in range(sentences):
        assert any(f" {i} red" in one.text and said[i] in one.quote for one in outcome.candidates)
    assert len(outcome.candidates) < sentences


def test_what_is_beyond_the_longest_turn_is_skipped_by_name() -> None:
    """A turn that is longer than any that is taken ends in one skip."""
    outcome = extract(("Ana", "x y z " * MAX_TURN_CHARS), ("Ben", "Ok"))
    assert "too long" in {skip.reason for skip in outcome.skipped}


@each("blob", ["A" * 1_000_000, "\x00" * 1000, '"' * 1_000_000, "I I " * 250_000, "[image" * 160_000])
def test_hostile_turns_do_not_hang(blob: str) -> None:
    """A megabyte of anything ends within seconds."""
    begin = time.monotonic()
    outcome = extract(("Ana", blob), ("Ben", "Ok"))
    assert time.monotonic() - begin < 10
    assert outcome.skipped


def test_batch_is_answered_in_order() -> None:
    """The port returns one outcome per chunk, equal to the synchronous result."""
    extractor: Extractor = LocalExtractor(timezone="Europe/Madrid")
    chunks = [chunk(("Ana", f"I bought {i} cats."), ("Ben", "Ok")) for i in range(5)]
    outcomes = asyncio.run(extractor.extract(chunks))
    assert [only(outcome).text for outcome in outcomes] == [f'Ana: "I bought {i} cats."' for i in range(5)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=120), min_size=1, max_size=4))
def test_every_letter_is_accounted_for(lines: list[str]) -> None:
    """Whatever is said, each turn with a letter ends in a statement or a skip, and nothing raises."""
    outcome = extract(*((("Ana", "Ben")[i % 2], line) for i, line in enumerate(lines)))
    touched = {turn for c in outcome.candidates for turn in c.turns} | {s.turn for s in outcome.skipped}
    assert {i for i, line in enumerate(lines) if any(ch.isalnum() for ch in line)} <= touched
    for candidate in outcome.candidates:
        assert candidate.text
        assert candidate.speaker in ("Ana", "Ben")
        assert (candidate.start is None) <= (candidate.end is None)
