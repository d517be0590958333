"""`profile`: the right month, the right person, and no line without a source."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.timems import configured
from tests_long.worlds import fast_config

from memforest import InputError, MemForest, NotFoundError, UserMemory
from memforest.errors import ModelError
from memforest.ports import join_sections
from memforest.read.profiles import Profile
from memforest.records import SummaryRequest
from memforest.trees.timem_profiles import LEAST, Supports

NOW = datetime(2024, 7, 10, tzinfo=timezone.utc)

TOLD = (
    ("2024-05-04T10:00:00Z", "Ana", "I live in Davis."),
    ("2024-05-04T10:01:00Z", "Bruno", "I work at Acme."),
    ("2024-05-20T10:00:00Z", "Bruno", "I live in Porto."),
    ("2024-06-07T10:00:00Z", "Ana", "I moved to Oslo."),
    ("2024-07-02T10:00:00Z", "Ana", "The ferry was late again this morning."),
)


@contextmanager
def memory(
    folder: Path, told: Sequence[tuple[str, str, str]] = TOLD, now: datetime = NOW, **options: Any
) -> Iterator[UserMemory]:
    """Give a memory with a session for each thing that was told."""
    with MemForest(folder, configured(options.pop("own", None), clock=lambda: now, **options)) as forest:
        for at, (when, who, text) in enumerate(told):
            turn = {"speaker": who, "content": text, "timestamp": when}
            forest.ingest_session("u", f"s{at}", [turn])
        yield forest.user("u")


def texts(found: Profile, who: str) -> list[str]:
    """Return the lines of somebody."""
    return [line.text for section in found if section.participant == who for line in section]


class Model:
    """A model that writes what it was told to for a month, and a line for anything else.

    Args:
        profile: month -> what is written of it.
    """

    name, remote = "model", True

    def __init__(self, profile: dict[str, str]) -> None:
        self.profile = profile
        self.calls = 0

    async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
        """Return the texts."""
        self.calls += len(requests)
        return [
            self.profile.get(one.window, "") if one.prompt == "profile" else "\n".join(one.inputs)
            for one in requests
        ]


def test_the_last_month_that_has_ended_is_told_with_its_evidence(folder: Path) -> None:
    """Without `advance`: what has ended is written when it is asked for. Each line names and quotes what it rests on."""
    with memory(folder) as found_in:
        found = found_in.profile()
        [ana] = found
    assert (found.month, found.unsupported, found.warnings) == ("2024-06", (), ())
    assert (found.start, found.end) == (
        datetime(2024, 6, 1, tzinfo=timezone.utc),
        datetime(2024, 7, 1, tzinfo=timezone.utc),
    )
    assert ana.participant == "Ana"
    [state] = [line for line in ana if line.kind == "state"]
    assert state.text == "residence: Oslo (known since 2024-06-07)"
    assert [one.session_id for one in state.sources] == ["s3"]
    assert [one.text for one in state.quotes] == ["I moved to Oslo."]
    assert len(state.fact_ids) == 1
    assert all(line.sources and line.quotes for line in ana)


@pytest.mark.parametrize(
    ("as_of", "month"),
    [
        ("2024-05-31T23:00:00Z", None),
        ("2024-06-01T00:00:00Z", "2024-05"),
        ("2024-06-30T23:59:00Z", "2024-05"),
        ("2024-07-01T00:00:00Z", "2024-06"),
        ("2030-01-01T00:00:00Z", "2024-06"),
    ],
)
def test_a_profile_is_not_used_before_its_month_has_ended(
    folder: Path, as_of: str, month: str | None
) -> None:
    """The one of June is not told in June, and nothing that was said later is among what was said since."""
    with memory(folder) as found_in:
        found = found_in.profile(as_of=as_of)
    assert found.month == month
    assert bool(found) == (month is not None)
    until = datetime.fromisoformat(as_of.replace("Z", "+00:00"))
    assert all(one.said <= until for one in found.since)
    if month is None:
        assert "no month had ended" in found.warnings[0]
        assert found.said_since == 3
    elif month == "2024-05":
        assert not any("Oslo" in text for text in texts(found, "Ana"))


def test_said_by_takes_the_last_month_all_of_which_had_been_said(folder: Path) -> None:
    """As if nothing had been said since: a month of which more was said later is not told, one that was over is."""
    told = [*TOLD, ("2024-06-20T10:00:00Z", "Ana", "I work at Acme.")]
    with memory(folder, told) as found_in:
        found = found_in.profile(said_by="2024-06-10")
        early = found_in.profile(said_by="2024-05-10")
        late = found_in.profile(said_by="2024-06-20T10:00:00Z")
        both = found_in.profile(said_by="2024-06-21", as_of="2024-06-22")
    assert (found.month, late.month, both.month) == ("2024-05", "2024-06", "2024-05")
    assert [one.text for one in found.since] == ["I moved to Oslo."]
    assert early.month is None
    assert [one.text for one in early.since] == ["I live in Davis.", "I work at Acme."]


def test_what_was_said_since_is_quoted_with_its_day(folder: Path) -> None:
    """The last twenty of it; the number says how many there were, and a participant has their own."""
    more = [(f"2024-07-0{3 + at % 6}T1{at % 9}:00:00Z", "Bruno", f"Number {at}.") for at in range(25)]
    with memory(folder, [*TOLD, *more]) as found_in:
        every, own = found_in.profile(), found_in.profile("Ana")
    assert (len(every.since), every.said_since) == (20, 26)
    assert [one.said for one in every.since] == sorted(one.said for one in every.since)
    assert [(one.speaker, one.text, f"{one.said:%Y-%m-%d}") for one in own.since] == [
        ("Ana", "The ferry was late again this morning.", "2024-07-02")
    ]


def test_an_open_month_is_told_if_it_was_written(folder: Path) -> None:
    """By `advance(force=True)`; as of a time it stays untold, and what comes into it takes its text away until it is told again."""
    with memory(folder) as found_in:
        found_in.advance(force=True)
        assert found_in.profile().month == "2024-07"
        assert found_in.profile(as_of="2024-07-09").month == "2024-06"
        found_in.add({"speaker": "Ana", "content": "I work at Acme."}, timestamp="2024-07-09")
        assert found_in.profile().month == "2024-06"
        found_in.advance(force=True)
        assert "employer: Acme" in " ".join(texts(found_in.profile(), "Ana"))


def test_of_one_it_is_the_last_month_in_which_they_took_part(folder: Path) -> None:
    """Bruno was not there in June. Nothing of Ana's is in his profile, in any case of his name."""
    with memory(folder) as found_in:
        for name in ("Bruno", "bruno"):
            found = found_in.profile(name)
            assert found.month == "2024-05"
            assert [one.participant for one in found] == ["Bruno"]
            assert not any("Davis" in text or "Oslo" in text for text in texts(found, "Bruno"))
            assert found.since == ()


def test_names_are_resolved_by_alias(folder: Path) -> None:
    """As in timelines: who is called so is found by any of the names that the memory knows for one person."""
    with memory(folder) as found_in:
        for name in ("ANA", " ana "):
            assert found_in.profile(name).to_dict() == found_in.profile("Ana").to_dict()


def test_somebody_who_never_spoke_is_a_clear_error(folder: Path) -> None:
    """With the names of those who do; a place is nobody."""
    with memory(folder) as found_in:
        for name in ("Carla", "Oslo", "", "#!"):
            with pytest.raises((NotFoundError, InputError)) as error:
                found_in.profile(name, index="timem")
            assert not name or ("Ana, Bruno" in str(error.value) and repr(name) in str(error.value))


def test_a_memory_without_the_index_says_how_to_get_it(folder: Path) -> None:
    """The message is what to type."""
    with MemForest(folder, fast_config(indexes=("flat",))) as forest:
        forest.ingest_session("u", "s", [{"speaker": "Ana", "content": "Hello.", "timestamp": "2024-05-01"}])
        with pytest.raises(NotFoundError, match=r"add_index\('timem'\)"):
            forest.user("u").profile(index="timem")
        assert (forest.user("u").profile().maker, bool(forest.user("u").profile())) == ("graph", False)


def test_levels_without_months(folder: Path) -> None:
    """Years have profiles then; without either the warning names the setting."""
    with memory(folder / "a", own={"levels": ["segment", "session", "year"]}, now=datetime(2025, 2, 1, tzinfo=timezone.utc)) as found_in:  # fmt: skip
        assert found_in.profile().month == "2024"
    with memory(folder / "b", own={"levels": ["segment", "session"]}) as found_in:
        found = found_in.profile()
        assert not found
        assert "`levels`" in found.warnings[0]


def test_what_is_forgotten_is_neither_told_nor_quoted(folder: Path) -> None:
    """A forgotten statement takes its line with it."""
    with memory(folder) as found_in:
        [fact] = [one for one in found_in.list() if "Oslo" in one.text]
        assert "Oslo" in repr(found_in.profile("Ana").to_dict())
        found_in.forget(fact.fact_id)
        assert "Oslo" not in repr(found_in.profile("Ana").to_dict())


SAID = (
    ("2024-05-04T10:00:00Z", "Ana", "The ferry to Bergen was late, so we missed the concert."),
    ("2024-05-13T10:00:00Z", "Bruno", "My greenhouse has tomatoes already."),
    ("2024-05-20T10:00:00Z", "Ana", "Bergen again, by train this time."),
)
WRITTEN = join_sections(
    [
        ("Ana", ["Missed a concert because the ferry was late.", "Grows tomatoes in a greenhouse.", "Plays chess."]),
        ("Bruno", ["Has tomatoes in the greenhouse."]),
        ("Carla", ["Missed the ferry to Bergen."]),
    ]
)  # fmt: skip


def test_lines_of_a_model_have_the_turns_that_share_their_words(folder: Path) -> None:
    """What no turn of that participant supports is left out and named; the same text for one of them has only theirs."""
    model = Model({"2024-05": WRITTEN})
    with memory(folder, SAID, own={"pass_through": False}, summariser=model) as found_in:
        found_in.advance()
        calls = model.calls
        found, ana, bruno = found_in.profile(), found_in.profile("Ana"), found_in.profile("Bruno")
        assert model.calls == calls, "reading costs no call"
    assert found.month == "2024-05"
    assert texts(found, "Ana") == ["Missed a concert because the ferry was late."]
    assert texts(found, "Bruno") == ["Has tomatoes in the greenhouse."]
    assert found.unsupported == (
        "Grows tomatoes in a greenhouse.",
        "Plays chess.",
        "Missed the ferry to Bergen.",
    )
    [line] = ana.sections[0]
    assert (line.kind, line.fact_ids) == ("written", ())
    assert [one.session_id for one in line.sources] == ["s0"]
    assert [section.participant for section in bruno] == ["Bruno"]
    assert bruno.unsupported == ()


def test_a_month_of_one_week_is_composed(folder: Path) -> None:
    """Its text is the week's, which has no sections; its profile is made of the statements."""
    with memory(folder, TOLD[:2], summariser=Model({})) as found_in:
        found_in.advance()
        found = found_in.profile()
    assert (found.month, found.maker) == ("2024-05", "composed")
    assert texts(found, "Ana") == ["residence: Davis (known since 2024-05-04)"]


def test_a_month_that_could_not_be_written_is_named(folder: Path) -> None:
    """The one before stays in force; the warning has the month and the remedy."""

    class Failing(Model):
        async def summarise(self, requests: Sequence[SummaryRequest]) -> list[str | ModelError]:
            return [
                ModelError("it is down") if one.window == "2024-06" else text
                for one, text in zip(requests, await super().summarise(requests), strict=True)
            ]

    told = [*TOLD[:4], ("2024-06-20T10:00:00Z", "Ana", "Oslo is cold."), TOLD[4]]
    model = Failing({"2024-05": join_sections([("Ana", ["Lives in Davis."])])})
    with memory(folder, told, own={"pass_through": False}, summariser=model) as found_in:
        found_in.advance()
        found = found_in.profile("Ana")
    assert found.month == "2024-05"
    [warning] = found.warnings
    assert "2024-06" in warning
    assert "advance()" in warning


def test_support_is_by_rare_words_and_by_who_speaks() -> None:
    """Two content words are shared, or all of fewer; the name is none of them; each further segment adds a word."""
    supports = Supports(
        {
            1: [("Ana", "The ferry was late."), ("Bruno", "Was it?")],
            2: [("Ana", "The ferry was blue.")],
            3: [("Bruno", "The ferry was late too.")],
            4: [("Bruno", "Ana took the late ferry.")],
            5: [("Ana", "Chess!")],
        }
    )
    assert LEAST == 2
    assert supports.of("Ana took a late ferry.", ["Ana"]) == [4]
    assert supports.of("A late blue ferry.", ["Ana"]) == [1, 2]
    assert supports.of("Ana: chess.", ["Ana"]) == [5]
    assert supports.of("Ana.", ["Ana"]) == []
    assert supports.of("A ferry in Bergen.", ["Ana"]) == []
    assert supports.of("A late ferry.", ["Carla"]) == []
