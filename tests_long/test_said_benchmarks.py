"""The benchmarks of what is said: states over time, dates and answers without a model; what they compute, and small runs."""

from __future__ import annotations

import json
import sys
from datetime import date, datetime, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from tests.table import each

import dated_sentences
import keyless_ask
import temporal_state
from asking.questions import Given, Question, Scored, read_conversations, score
from dates.claims import claims_of
from dates.rows import HALVES, Days, Row, read_rows
from dates.rows import score as score_row
from memforest import MemForest
from proportions import Share
from temporal.phrasing import OWN, SETS, load_phrasing

UTC = timezone.utc


def day(text: str) -> Days:
    """Return the half-open days of "2024-05-01" or "2024-05-01/2024-06-01"."""
    first, _, end = text.partition("/")
    begin = date.fromisoformat(first)
    return begin, date.fromisoformat(end) if end else date.fromordinal(begin.toordinal() + 1)


def test_the_three_sets_beside_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run of all sets ends with a table of three columns; what is written keeps the other hand's sentences back."""
    file = tmp_path / "run.json"
    small = ["--worlds", "1", "--questions", "16", "--systems", "bm25,recency", "--json", str(file)]
    assert temporal_state.main(["--set", "all", *small]) == 0
    printed = capsys.readouterr().out
    columns = next(line for line in printed.splitlines() if line.split() == list(SETS))
    assert printed.index(columns) > printed.index("set: second")
    written = json.loads(file.read_text(encoding="utf-8"))
    assert list(written) == list(SETS)
    for which, run in written.items():
        assert ("question" in run["asked"][0]) == (which == OWN)
        assert run["top1"]["all"]["bm25"]["n"] == len(run["asked"])


def test_failures_are_shown_of_the_own_set_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The own set's failures are printed, here of a memory without an embedder; those of the other sets are refused."""
    monkeypatch.setenv("MEMFOREST_EMBEDDER", "none")
    small = ["--worlds", "1", "--questions", "16", "--systems", "flat,bm25", "--show-failures", "1"]
    assert temporal_state.main(small) == 0
    printed = capsys.readouterr().out
    assert "embedder: none" in printed
    assert "[flat]" in printed
    assert "[bm25]" in printed
    for which in ("swapped", "second", "all"):
        with pytest.raises(SystemExit):
            temporal_state.main(["--set", which, *small])
        assert "not to be consulted" in capsys.readouterr().err


def test_the_other_sets_share_what_they_promise_to_share() -> None:
    """Swapped has the own sentences and no own value; second has neither an attribute, a value nor a sentence of them."""
    own, swapped, second, _ = (load_phrasing(which) for which in SETS)
    assert set(swapped.attribute) == set(own.attribute)
    for name, attribute in own.attribute.items():
        other = swapped.attribute[name]
        assert {key for key in attribute if attribute[key] != other[key]} == {"values"}
        assert not set(attribute["values"]) & {*other["values"], *second_values(second.attribute)}
    assert not set(second.attribute) & set(own.attribute)
    assert not sentences(second.attribute) & sentences(own.attribute)
    with pytest.raises(ValueError, match="no set"):
        load_phrasing("fourth")


def second_values(attributes: object) -> set[str]:
    """Return the values of all attributes."""
    return {value for one in attributes.values() for value in one["values"]}  # type: ignore[attr-defined]


def sentences(attributes: object) -> set[str]:
    """Return the sentences of all attributes."""
    own = ("values", "noun", "max_values")
    return {text for one in attributes.values() for key in one if key not in own for text in one[key]}  # type: ignore[attr-defined]


def row(*expected: set[str]) -> Row:
    """Return a row that expects one of the lists."""
    lists = [frozenset(map(day, one)) for one in expected]
    return Row("r", "k", [{"content": "x"}], read_rows("before")[0].zone, lists)


def test_a_row_is_right_wrong_or_silent() -> None:
    """All dates and no other are right, a date that is not expected is wrong, what is missing is silence."""
    march, may, june = day("2024-03-01/2024-04-01"), day("2024-05-01"), day("2024-06-01")
    two = row({"2024-05-01", "2024-06-01"}, {"2024-03-01/2024-04-01"})
    assert score_row(two, {may, june}) == score_row(two, {march}) == "right"
    assert score_row(two, {may}) == score_row(two, set()) == "silent"
    assert score_row(two, {may, march}) == score_row(two, {day("2024-05-02")}) == "wrong"
    assert score_row(row(set()), set()) == "right"
    assert score_row(row(set()), {may}) == "wrong"


def test_what_only_the_turn_before_says_is_no_claim_of_the_sentence() -> None:
    """Words of both turns are the sentence's, in whatever case, and so are words of neither."""
    turns = [{"content": "Not this Friday?"}, {"content": "Yes, next Friday."}]
    asked = Row("r", "k", turns, row(set()).zone, [frozenset()])
    assert asked.told_before("this Friday")
    assert not any(map(asked.told_before, ("Next Friday", "friday", "7 June", "")))


def fact(
    text: str, start: str, end: str | None, precision: str, dates: tuple[object, ...] = ()
) -> SimpleNamespace:
    """Return what the reader of claims looks at of a fact that was said on 1 May 2024."""
    said = datetime(2024, 5, 1, 9, tzinfo=UTC)
    begin = said if start == "said" else datetime.fromisoformat(start).replace(tzinfo=UTC)
    close = datetime.fromisoformat(end).replace(tzinfo=UTC) if end else None
    return SimpleNamespace(text=text, said=said, start=begin, end=close, precision=precision, dates=dates)


@each(
    ("stated", "claimed"),
    [
        (fact("Ana rows.", "said", None, "unknown"), []),
        (fact("Ana rowed.", "2024-04-02", "2024-04-03", "day"), ["2024-04-02"]),
        (fact("since 2019", "2019-01-01", None, "year"), ["2019-01-01/2020-01-01"]),
        (fact("since May", "2023-05-01", None, "month"), ["2023-05-01/2023-06-01"]),
        (fact("until June", "said", "2024-07-01", "month"), ["2024-06-01/2024-07-01"]),
        (fact("in winter", "2023-12-01", None, "season"), ["2023-12-01/2024-03-01"]),
        (fact("in the seventies", "1975-03-01", None, "decade"), ["1970-01-01/1980-01-01"]),
        (fact("that week", "2024-05-01", None, "week"), ["2024-04-29/2024-05-06"]),
    ],
)  # fmt: skip
def test_what_a_fact_claims(stated: SimpleNamespace, claimed: list[str]) -> None:
    """A stated valid time without resolved dates; an open one is as long as it is exact."""
    assert [claim.days for claim in claims_of(stated, UTC)] == list(map(day, claimed))


def test_a_fact_with_resolved_dates_claims_those() -> None:
    """Resolved dates come with their words, and cover a valid time that they bound."""
    may = SimpleNamespace(
        words="2 May",
        start=datetime(2024, 5, 2, tzinfo=UTC),
        end=datetime(2024, 5, 3, tzinfo=UTC),
        precision="day",
    )
    known = fact("Ana rowed.", "2024-05-02", None, "day", dates=(may,))
    assert [(claim.days, claim.words) for claim in claims_of(known, UTC)] == [(day("2024-05-02"), "2 May")]
    other = fact("", "2024-06-01", "2024-06-02", "day", dates=(may,))
    assert [claim.days for claim in claims_of(other, UTC)] == [day("2024-05-02"), day("2024-06-01")]


def test_dated_sentences_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both halves are scored apart and together, and every expected date lies where its row says, in whole days."""
    assert [len(read_rows(half)) for half in HALVES] == [75, 75]
    file = tmp_path / "run.json"
    assert dated_sentences.main(["--rows", "3", "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    assert [line.partition(":")[0] for line in printed.splitlines() if "% of rows" in line] == [
        *HALVES,
        "both",
    ]
    written = json.loads(file.read_text(encoding="utf-8"))
    shares = [written[half]["shares"]["all"] for half in HALVES]
    assert [sum(chunk["count"] for chunk in one.values()) for one in shares] == [3, 3]


def test_bare_dates_of_conversations_are_printed_with_what_was_resolved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A weekday is printed with its day, a turn without a date is not, and a full date is none to judge."""
    texts = ["I sold the boat on Friday.", "It was red.", "I was born on 3 June 1980."]
    turns = [
        {"speaker": "Ana", "dia_id": f"D1:{number}", "text": text} for number, text in enumerate(texts, 1)
    ]
    sample = {
        "sample_id": "one",
        "conversation": {"speaker_a": "Ana", "speaker_b": "Bob", "session_1": turns}
        | {"session_1_date_time": "1:56 pm on 8 May, 2023"},
        "qa": [],
    }
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps([sample]), encoding="utf-8")
    assert dated_sentences.main(["--conversations", str(path)]) == 0
    first, resolved, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("one D1:1 ")
    assert "2023-05-05 to 2023-05-06" in resolved
    assert not rest


ASKED = Question("q", "when", "When?", datetime(2024, 5, 1, tzinfo=UTC), ("7 June", "the 7th"), frozenset({("s", "1")}))  # fmt: skip
LISTED = Question("q", "list", "Which?", ASKED.reference, ("£8,500 and then Café",), frozenset({("s", "1")}))


def test_an_answer_is_right_if_text_and_turn_are() -> None:
    """Words count whole, quotes count as text; one of text and turn is partly right, neither is wrong."""
    here, there = frozenset({("s", "1")}), frozenset({("s", "2")})
    assert score(ASKED, Given("On 7 JUNE.", turns=here)).right
    assert score(ASKED, Given("Then.", ["It is the 7th, I think"], here)).right
    assert score(ASKED, Given("17 June", turns=here)).partly
    assert score(ASKED, Given("7 June", turns=there)).partly
    assert score(ASKED, Given("17 June", turns=there)).wrong
    silent = score(ASKED, Given(None, ["7 June"], here))
    assert [silent.answered, silent.right, silent.partly, silent.wrong] == [False] * 4


def test_a_list_needs_every_element() -> None:
    """Accents and thousands' commas do not matter, a missing element does."""
    here = frozenset({("s", "1")})
    assert score(LISTED, Given("first the CAFE, then 8500", turns=here)).right
    assert score(LISTED, Given("8500", turns=here)).partly


def test_keyless_ask_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every question of the slice has one outcome, and the table tells conversations and kinds apart."""
    asked = [question for one in read_conversations() for question in one.questions]
    assert sum(question.answerable for question in asked) == 80
    assert len(asked) == 100
    file = tmp_path / "run.json"
    assert keyless_ask.main(["--embedder", "none", "--questions", "2", "--json", str(file)]) == 0
    assert "% of questions" in capsys.readouterr().out
    written = json.loads(file.read_text(encoding="utf-8"))
    assert {"answerable", "family", "support", "coach", "unanswerable"} <= set(written["shares"])
    for outcome in written["asked"].values():
        assert sum(outcome[name] for name in ("right", "partly", "wrong", "abstained")) == 1


def test_an_answer_is_not_asked_for_before_it_is_due(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A question as of a day is asked when everything up to that day has been told, and nothing after it."""
    conversation = read_conversations()[0]
    told: list[set[str]] = []

    def ask(forest: MemForest, _: object, question: Question) -> Scored:
        known = {session.session_id for session in forest.user(conversation.id).sessions()}
        told.append(known)
        assert known == {one.id for one in conversation.sessions if one.time <= question.reference}
        return score(question, Given(None))

    monkeypatch.setattr(keyless_ask, "_ask", ask)
    keyless_ask.run(conversation, tmp_path, {"embedder": "none"}, None)
    assert len({len(known) for known in told}) > 1


def test_shares_have_wilson_intervals() -> None:
    """As in Wilson's formula: 0 of 20 may be as much as 16.1%, and no rows may be anything."""
    assert str(Share(0, 20)) == "0.0 [0.0, 16.1]"
    assert str(Share(40, 80)) == "50.0 [39.3, 60.7]"
    assert Share(20, 20).bounds == pytest.approx((83.887, 100), abs=0.01)
    assert Share(0, 0).bounds == (0, 100)
