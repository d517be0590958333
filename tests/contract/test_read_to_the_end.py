"""Nothing that is read is lost: long and structured turns, long questions, values as they were written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memforest import Config, MemForest, UserMemory
from memforest.testing import HashEmbedder

DAY = "2026-03-02"
NEXT_DAY = "2026-03-03"
ANIMALS = ("heron", "otter", "badger", "falcon", "lizard", "weasel", "beaver", "magpie", "marten", "plover")
PLACES = ("quarry", "orchard", "harbour", "mill", "chapel", "meadow", "tunnel", "bridge", "granary")


@pytest.fixture
def user(tmp_path: Path) -> Iterator[UserMemory]:
    """Return a memory of somebody called Vera."""
    with MemForest(tmp_path / "forest", Config(embedder=HashEmbedder())) as forest:
        forest.register_user("vera", display_name="Vera")
        yield forest.user("vera")


def filler(sentences: int, *, concrete: bool) -> str:
    """Return sentences that differ from each other; with numbers an assistant's are worth a statement."""
    more = " in row {0}" if concrete else ""
    return " ".join(
        f"The {ANIMALS[i % 10]} of the {PLACES[i % 9]} slept well{more.format(i)}." for i in range(sentences)
    )


def said(user: UserMemory, role: str, text: str) -> tuple[str, ...]:
    """Tell a turn of a role behind a short one, and something else another day; return the warnings."""
    asked = {"role": "user" if role == "assistant" else "assistant", "content": "Tell me of the valley."}
    result = user.add([asked, {"role": role, "content": text}], timestamp=DAY, session_id="long")
    user.add("The soup was salty.", timestamp=NEXT_DAY, session_id="short")
    return result.warnings


@pytest.mark.parametrize("concrete", [True, False])
@pytest.mark.parametrize("sentences", [8, 14, 60, 300])
@pytest.mark.parametrize("role", ["user", "assistant"])
@pytest.mark.parametrize("last", [True, False])
def test_a_sentence_is_found_wherever_it_stands(
    user: UserMemory, role: str, sentences: int, concrete: bool, last: bool
) -> None:
    """In the evidence, the context and the answer: at the end or in the middle, in a turn of 400 or of 15,000 characters."""
    told = "The violin maker of the valley is called Petronella Quist."
    half = sentences // 2
    front, back = filler(half, concrete=concrete), filler(sentences, concrete=concrete)[-half * 30 :]
    text = f"{front} {back} {told}" if last else f"{front} {told} {back}"
    assert said(user, role, text) == ()
    found = user.search("What is the violin maker called?")
    assert any("Petronella Quist" in one.text for one in found)
    assert "Petronella Quist" in found.context(max_tokens=600)
    answer = user.ask("What is the violin maker called?").answer
    assert "Petronella Quist" in (answer or "")


def test_what_no_statement_was_made_of_is_quoted_where_it_answers(user: UserMemory) -> None:
    """Advice is no statement; it is quoted beside the statement that its turn was found by, and the rest is marked."""
    advice = "Try to soak the chestnuts overnight before you roast them."
    said(user, "assistant", f"{filler(12, concrete=True)} {advice} {filler(12, concrete=True)}")
    [first, *_] = user.search("How long should I soak the chestnuts?").evidence
    assert advice in first.text
    assert "…" in first.text
    assert len(first.text) < len(first.quote)


def test_a_turn_beyond_the_limit_is_named_in_a_warning(tmp_path: Path) -> None:
    """Where turns may be longer than what is read, the end is said not to be read."""
    with MemForest(tmp_path / "forest", Config(embedder="none", max_turn_chars=300_000)) as forest:
        told = [{"role": "user", "content": "I sail. " * 15_000, "id": "t-long"}]
        warnings = forest.user("vera").add(told, timestamp=DAY).warnings
    assert any("t-long" in one or "turn" in one for one in warnings)


def test_an_ordinary_turn_warns_of_nothing(user: UserMemory) -> None:
    """Of 20,000 characters everything is read."""
    assert said(user, "user", filler(500, concrete=True)[:20_000]) == ()


@pytest.mark.parametrize("lines", [12, 30, 900])
@pytest.mark.parametrize("behind", [True, False])
def test_a_question_counts_behind_a_paste_and_before_it(user: UserMemory, lines: int, behind: bool) -> None:
    """However much is pasted, and though other turns have the words of the paste."""
    user.add("My boat shed opens with the blue key.", timestamp=DAY, session_id="told")
    for i in range(20):
        user.add(f"The worker of shard {i} stopped at block {i * 7}.", timestamp=NEXT_DAY, session_id=f"s{i}")
    paste = "\n".join(f"worker 4 of shard 9: block {i} stopped, trying again" for i in range(lines))
    asked = "Which key opens my boat shed?"
    found = user.search(f"{paste}\n\n{asked}" if behind else f"{asked}\n\n{paste}")
    assert "blue key" in found.evidence[0].text
    assert bool(found.warnings) == (len(paste) > 2_000)


def test_a_long_text_that_asks_nothing_is_read_at_both_ends(user: UserMemory) -> None:
    """Its beginning and its end say what it is about."""
    user.add("The lighthouse keeper moved to Bergen.", timestamp=DAY, session_id="one")
    user.add("The beekeeper sells clover honey.", timestamp=NEXT_DAY, session_id="two")
    text = f"Something on the lighthouse keeper. {filler(60, concrete=False)} And on the beekeeper with the clover honey."
    assert {one.sources[0].session_id for one in user.search(text).evidence[:2]} == {"one", "two"}


@pytest.mark.parametrize("mark", ["{}. ", "{}) "])
@pytest.mark.parametrize("items", [12, 120])
def test_numbers_of_a_list_stay(user: UserMemory, items: int, mark: str) -> None:
    """The item of a number can be read off the evidence and the context, of a short list and of a long one."""
    names = [f"{ANIMALS[i % 10]}{PLACES[i // 10 % 9]}{i}" for i in range(items)]
    said(
        user,
        "assistant",
        "Names for your boat:\n" + "\n".join(mark.format(i + 1) + x for i, x in enumerate(names)),
    )
    wanted = mark.format(items - 2) + names[items - 3]
    found = user.search(f"Which was number {items - 2} on your list of names?")
    assert wanted in found.evidence[0].text
    assert wanted in found.context()


def test_tables_and_code_keep_their_lines(user: UserMemory) -> None:
    """In the evidence as they were written; in the context, a line a piece, with the line breaks written out."""
    table = "| mooring | fee |\n|---|---|\n| Vik | 410 |\n| Nes | 365 |"
    code = "Our rule:\n```python\ndef fee(boat):\n    if boat.guest:\n        return 2\n```"
    user.add(table, timestamp=DAY, session_id="table")
    user.add(code, timestamp=NEXT_DAY, session_id="code")
    for question, text in (
        ("What is the mooring fee in Nes?", table),
        ("Which rule is for a guest boat?", code),
    ):
        found = user.search(question)
        assert found.evidence[0].text in text
        assert found.evidence[0].text.count("\n") > 2
        [line, *_] = found.context().splitlines()
        assert text.replace("\n", r"\n") in line


@pytest.mark.parametrize(
    ("told", "question", "value"),
    [
        ("My email is vera.q@mail.example.", "What is Vera's email?", "vera.q@mail.example"),
        ("My favourite colour is teal.", "What is Vera's favourite colour?", "teal"),
        ("I live in eThekwini.", "Where does Vera live?", "eThekwini"),
    ],
)
def test_a_value_is_shown_as_it_was_written(user: UserMemory, told: str, question: str, value: str) -> None:
    """In front of the quote, without a capital of our own."""
    user.add(told, timestamp=DAY)
    answer = user.ask(question).answer
    assert answer is not None
    assert answer.startswith(value)


@pytest.mark.parametrize("turn", ["Not.", "Just kidding!", "Not at all.", "As if."])
def test_what_turns_a_sentence_round_stays_with_it(user: UserMemory, turn: str) -> None:
    """It is quoted with it, in the statement too."""
    user.add(f"Splendid, I just adore scraping barnacles. {turn}", timestamp=DAY)
    [found, *_] = user.search("Does Vera adore scraping barnacles?").evidence
    assert found.text.endswith(turn)
    assert turn in found.statement
    answer = user.ask("Does Vera adore scraping barnacles?").answer
    assert answer is None or turn in answer


@pytest.mark.parametrize("turn", ["Just kidding.", "Not."])
def test_what_was_taken_back_is_no_state(user: UserMemory, turn: str) -> None:
    """And what was said before it is one."""
    user.add(f"I live in Lund. I work as a florist. {turn}", timestamp=DAY)
    values = {one.value for one in user.timeline("Vera")}
    assert "Lund" in values
    assert not any("florist" in (value or "") for value in values)


def test_pleasantries_do_not_join(user: UserMemory) -> None:
    """Thanks and answers turn nothing round."""
    user.add("I live in Lund. Thanks! Yes.", timestamp=DAY)
    assert user.search("Where does Vera live?").evidence[0].text == "I live in Lund."


@pytest.mark.parametrize(
    "asked", ["+47 815 49 300 22", "+4781549 30022", "4781549-300-22", "(47) 815 49 300 22"]
)
def test_a_long_number_is_found_however_it_is_grouped(user: UserMemory, asked: str) -> None:
    """Among numbers that differ in one digit."""
    user.add("The harbour office has +47 815 49 300 21.", timestamp=DAY, session_id="one")
    user.add("The boat yard has +47 815 49 300 22.", timestamp=DAY, session_id="two")
    user.add("The sail loft has +47 815 49 300 23.", timestamp=DAY, session_id="three")
    assert "boat yard" in user.search(f"Who has {asked}?").evidence[0].text


def test_what_was_forgotten_of_a_long_turn_is_not_quoted(user: UserMemory) -> None:
    """Whatever words a question has."""
    rows = filler(14, concrete=True)
    said(user, "user", f"{rows} My safe word is quixotic. {rows} I sail a yawl in Ystad.")
    [fact] = [one for one in user.list(limit=200) if "quixotic" in one.text]
    user.forget(fact.fact_id)
    found = user.search("Is quixotic the safe word of who sails a yawl in Ystad?")
    assert any("yawl" in one.text for one in found)
    assert not any("quixotic" in one.text + one.quote for one in found)
    assert "quixotic" not in found.context()
