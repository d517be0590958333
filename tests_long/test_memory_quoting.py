"""What a person reads of a memory is what was said; what rules made of it is asked for, and a model's words are kept."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doubles import local_reply
from tests_long.worlds import fast_config, fast_folder

from memforest import MemForest
from memforest.ports import ChatRequest
from memforest.read.quoting import DASH
from memforest.read.results import WHOLE_CHARS, AskResult, Evidence
from memforest.reading.clauses import MARK
from memforest.records import SpokenText
from memforest.testing import FunctionChat
from memforest.text import count_tokens

DAY = datetime(2024, 5, 7, 10, tzinfo=timezone.utc)
LONG = f"I adopted a dog called Rex. {'Wow, thanks so much! ' * 40}"
SAID = [
    ("Ana", "Do you live in Oslo?"),
    ("Bob", "Yes."),
    ("Ana", "I moved to Lisbon yesterday. Isn't it great? I bought a green tent."),
    ("Bob", LONG),
    ("Ana", "I own a cat. Are you well? I own a tram pass."),
    ("Bob", "Ich wohne seit drei Jahren in Bremen."),
    ("Ana", "Which day is the wedding?"),
    ("Bob", "The 12th, I think. My sister bakes the cake."),
    ("Ana", "Hm!"),
]
QUESTIONS = ("Does Bob live in Oslo?", "Where did Ana move?", "Who is Rex?", "When is the wedding?", "Bremen")


def turns(said: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return turns, a minute apart."""
    return [
        {"speaker": name, "text": text, "timestamp": DAY + timedelta(minutes=at)}
        for at, (name, text) in enumerate(said)
    ]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory with the memory "u" of what was said; read only."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        with MemForest(folder, fast_config()) as forest:
            forest.ingest_session("u", "s", turns(SAID))
            more = [
                ("Ana", "Where did you buy the tent?"),
                ("Bob", "In Bremen. I sold the car on 3 March 2024."),
            ]
            forest.ingest_session("v", "more", turns(more))
        yield Path(folder)


@pytest.fixture(scope="module")
def memory(place: Path) -> Iterator[MemForest]:
    """The memory, opened."""
    with MemForest(place, fast_config()) as forest:
        yield forest


def folded(text: str) -> str:
    """Return a text with white space folded."""
    return " ".join(text.split())


def was_said(spoken: Sequence[SpokenText], said: Sequence[tuple[str, str]]) -> bool:
    """Return whether each passage of what was said stands in a turn of its speaker."""
    return bool(spoken) and all(
        any(name == one.speaker and all(folded(part) in folded(text) for part in one.text.split(MARK)) for name, text in said)
        for one in spoken
    )  # fmt: skip


def found(memory: MemForest, words: str, question: str = "Where did Ana move?") -> Evidence:
    """Return the evidence whose text has some words."""
    return next(one for one in memory.query("u", question, top_k=50) if words in one.text)


TALK = st.lists(
    st.tuples(
        st.sampled_from(["Ana", "Bob", 'Z" o:\n']),
        st.one_of(
            st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=80),
            st.lists(
                st.sampled_from(["I live in Oslo.", "Yes.", "Is it the 12th?", "No", "🎉", "我住在上海。", "\n", "…", "Hey Ana!",
                                 "I moved to Rome last week", "- a tent", "[image: a dog]", "Ja.", "She likes it."]),
                max_size=6,
            ).map(" ".join),
        ),
    ),
    min_size=1,
    max_size=8,
)  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(TALK)
def test_everything_shown_of_a_memory_without_a_model_was_said(said: list[tuple[str, str]]) -> None:
    """Evidence, facts, timelines and the leaves of entities, over turns of any kind; contexts quote nothing else."""
    said = [(name, text) for name, text in said if folded(text)] or SAID[:2]
    with (
        tempfile.TemporaryDirectory(dir=fast_folder()) as folder,
        MemForest(folder, fast_config(embedder="none")) as forest,
    ):
        forest.ingest_session("u", "s", turns(said))
        user = forest.user("u")
        shown = [*user.search("Where does Ana live?", top_k=50), *user.list()]
        for name in ("Ana", "Bob"):
            shown += user.timeline(name) if any(one == name for one, _ in said) else []
        stored = [(folded(name), text) for name, text in said]
        for one in shown:
            assert was_said([SpokenText(folded(part.speaker), part.text) for part in one.spoken], stored)
            assert one.text == DASH.join(s.text for s in one.spoken)


@pytest.mark.parametrize("question", QUESTIONS)
def test_evidence_quotes_and_keeps_the_statement(memory: MemForest, question: str) -> None:
    """A fact's text is of its turn and its statement beside it; a turn's is all of it, and has no statement."""
    result = memory.query("u", question, top_k=50)
    stored = {one.fact_id: one for one in memory.user("u").list(limit=100)}
    assert {one.kind for one in result} == {"fact", "turn"}
    for one in result:
        assert was_said(one.spoken, SAID)
        if one.kind == "turn":
            assert (one.text, one.statement) == (one.quote, "")
        else:
            known = stored[one.fact_id or ""]
            assert (one.text, one.statement) == (known.text, known.statement)
            assert one.statement in known.wordings


def test_a_bare_answer_has_its_question_in_front(memory: MemForest) -> None:
    """With who asked and who answered, whichever turn is ranked; a sentence that stands for itself has none."""
    pair = (SpokenText("Ana", "Do you live in Oslo?"), SpokenText("Bob", "Yes."))
    yes = found(memory, "Yes.", "Does Bob live in Oslo?")
    assert (yes.spoken, yes.text) == (pair, "Do you live in Oslo? – Yes.")
    assert 'Ana: "Do you live in Oslo?" – Bob: "Yes."' in yes.line(1)
    assert found(memory, "12th").text.startswith("Which day is the wedding? – The 12th, I think.")
    told = {one.text: len(one.spoken) for one in memory.user("v").list()}
    assert told == {"Where did you buy the tent? – In Bremen.": 2, "I sold the car on 3 March 2024.": 1}
    assert [one.text for one in memory.user("u").list(entity="Lisbon")] == ["I moved to Lisbon yesterday."]


def test_sentences_are_quoted_not_long_turns(memory: MemForest) -> None:
    """A context quotes a short turn whole, and of a long one what was found."""
    rex, lisbon = found(memory, "Rex", "Who is Rex?"), found(memory, "Lisbon")
    assert len(rex.quote) > WHOLE_CHARS > len(rex.text)
    assert rex.text.startswith("I adopted a dog called Rex.")
    assert rex.quote not in rex.line(1)
    assert lisbon.text == "I moved to Lisbon yesterday."
    assert lisbon.quote in lisbon.line(1)


def test_a_line_has_day_speaker_quotation_and_the_stated_day(memory: MemForest) -> None:
    """The statement is added on request; a time that the words themselves have is not said twice."""
    line = found(memory, "Lisbon").line(3)
    assert line == f'[3] 7 May 2024, Ana: "{SAID[2][1]}" (6 May 2024)'
    asked = found(memory, "Lisbon").line(3, statements=True)
    assert asked.startswith(line.removesuffix(")"))
    assert r'statement: "Ana: \"I moved to Lisbon yesterday' in asked
    result = memory.query("u", "Where did Ana move?")
    assert "statement:" not in result.context()
    assert "statement:" in result.context(statements=True)


def test_days_are_those_of_the_configured_zone(place: Path) -> None:
    """Late on 7 May in UTC is 8 May in Tokyo, and "yesterday" the 7th there."""
    with (
        tempfile.TemporaryDirectory(dir=fast_folder()) as folder,
        MemForest(folder, fast_config(timezone="Asia/Tokyo")) as forest,
    ):
        late = {
            "speaker": "Ana",
            "text": "I moved to Lisbon yesterday.",
            "timestamp": DAY + timedelta(hours=8),
        }
        forest.ingest_session("u", "s", [late])
        context = forest.query("u", "Where did Ana move?").context()
    assert context == '[1] 8 May 2024, Ana: "I moved to Lisbon yesterday." (7 May 2024)'


def test_a_budget_counts_what_is_shown(memory: MemForest) -> None:
    """`max_tokens` holds for the lines of the context."""
    whole = memory.query("u", "Where did Ana move?", top_k=50)
    costs = [count_tokens(line) + 1 for line in whole.context(100_000).split("\n")]
    cut = memory.query("u", "Where did Ana move?", top_k=50, max_tokens=sum(costs[:3]))
    assert [one.text for one in cut] == [one.text for one in whole][:3]


def test_a_stored_quote_that_is_damaged_is_not_shown(tmp_path: Path) -> None:
    """It is looked for in the turn, and the turn is what is shown."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", turns(SAID))
    (file,) = tmp_path.glob("*.db")
    with closing(sqlite3.connect(file, isolation_level=None)) as conn:
        conn.execute("UPDATE occurrence SET quote = CAST(x'ff41' AS TEXT) WHERE instr(quote, 'Lisbon')")
    with MemForest(tmp_path, fast_config()) as forest:
        assert found(forest, "Lisbon").text == SAID[2][1]


def test_a_damaged_turn_is_named_in_the_place_of_its_words(tmp_path: Path) -> None:
    """Neither facts nor leaves show it; a question of a damaged turn stands in front of nothing."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", turns(SAID))
    (file,) = tmp_path.glob("*.db")
    with closing(sqlite3.connect(file, isolation_level=None)) as conn:
        conn.execute("UPDATE turn SET text = replace(text, 'Lisbon', 'Madrid') WHERE ordinal = 2")
        conn.execute("UPDATE turn SET text = CAST(x'ff' AS TEXT) WHERE ordinal = 0")
    with MemForest(tmp_path, fast_config()) as forest:
        user = forest.user("u")
        texts = [one.text for one in user.list(limit=100)]
        leaves = [leaf.summary for tree in user.tree("Ana", depth=9) for leaf in tree.children]
        assert "Yes." in texts
        assert sum(text.startswith("[turn '2'") and text.endswith("is damaged]") for text in texts) >= 1
        assert not [text for text in (*texts, *leaves) if "Madrid" in text or "Lisbon" in text]


def test_a_models_statement_is_what_is_read(tmp_path: Path) -> None:
    """Its words are kept everywhere, with the turn as the quote; the same memory may have both."""

    def reply(request: ChatRequest) -> str:
        return local_reply(request).replace(r"Ana: \"I moved to Lisbon.\"", "Ana moved to Lisbon.")

    with MemForest(tmp_path, fast_config(chat=FunctionChat(reply), chat_steps=["extract"])) as forest:
        forest.ingest_session("u", "model", turns([("Ana", "I moved to Lisbon.")]))
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "rules", turns([("Ana", "I work at Acme.")]))
        user = forest.user("u")
        facts = {one.text: (one.statement, bool(one.spoken)) for one in user.list()}
        assert facts == {
            "Ana moved to Lisbon.": ("Ana moved to Lisbon.", False),
            "I work at Acme.": ('Ana: "I work at Acme."', True),
        }
        model = found(forest, "Lisbon")
        assert (model.text, model.quote, model.spoken) == ("Ana moved to Lisbon.", "I moved to Lisbon.", ())
        assert model.line(1) == '[1] 7 May 2024: Ana moved to Lisbon. (Ana said: "I moved to Lisbon.")'
        (leaf,) = [
            one for tree in user.tree("Ana", depth=9) for one in tree.children if "Lisbon" in one.summary
        ]
        assert (leaf.summary, leaf.quotes) == ("Ana moved to Lisbon.", ("I moved to Lisbon.",))


class Chunks(HTMLParser):
    """Reads a page: the tags in it, and the texts between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag; no attribute may name an address or run anything."""
        self.tags.add(tag)
        assert attrs in ([], [("dir", "auto")])

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.texts.append(data)


def test_a_notebook_shows_tables_of_escaped_text(tmp_path: Path) -> None:
    """What was said comes back as it was, whatever it holds, and adds no tag."""
    name, text = 'A"na <b>', "I live in <script>alert('x')</script> \"Oslo\" & Rome.\u202e"
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", "s", turns([(name, text)]))
        result = forest.query("u", "Who lives in Oslo?")
        answer = AskResult("Who?", "<i>Ana</i>", result.evidence, "", result)
        pages = [result._repr_html_(), result.evidence[0]._repr_html_(), answer._repr_html_()]
        pages.append(forest.user("u").list()._repr_html_())
        none = AskResult("Who?", None, (), "<b>nobody</b>", result)._repr_html_()
    for page in pages:
        read = Chunks(page)
        assert read.tags <= {"table", "thead", "tbody", "tr", "th", "td", "p"}
        assert name in read.texts
        assert any(text.rstrip("\u202e") in one for one in read.texts)
    assert "<i>Ana</i>" in Chunks(pages[2]).texts
    assert Chunks(none).texts[0] == "No answer: <b>nobody</b>"
