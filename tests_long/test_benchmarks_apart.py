"""What the benchmarks ask for stands in no list that the package ships: the rules are not fitted to them.

Failures name lists and counts and no values, as two of the sets are not to be consulted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.shipped_lists import folded, lists_of_source, lists_of_table, shipped_lists

from asking.questions import read_conversations
from temporal.phrasing import SETS, load_phrasing

LETTERS = 4
"""A shorter value is a word like any other."""
BY_CHANCE = 30
"""One entry in so many may be a value: long lists of names, places and verbs hold some that nobody put there for it."""
SHARE = 3
"""No more than one in so many of an attribute's values may stand in lists."""
CALENDAR = "data/time/"
"""What the calendar reads (numbers, weekdays, months) is no benchmark's, in whatever list it stands."""


def values() -> dict[str, frozenset[str]]:
    """Return the folded values of every attribute of the temporal sets, and the answers of the asked questions."""
    found = {
        f"{which}.{attribute}": {folded(value) for value in phrasing.values(attribute)}
        for which in SETS
        for phrasing in [load_phrasing(which)]
        for attribute in phrasing.attribute
    }
    found["asking"] = {
        folded(answer)
        for conversation in read_conversations()
        for question in conversation.questions
        for answer in question.answers
    }
    return {
        name: frozenset(one for one in those if sum(map(str.isalpha, one)) >= LETTERS)
        for name, those in found.items()
    }


def without_calendar(lists: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Return the lists that are not the calendar's, without the words that it reads and their plurals."""
    read = {word for name, words in lists.items() if name.startswith(CALENDAR) for word in words}
    read |= {f"{word}s" for word in read}
    return {name: words - read for name, words in lists.items() if not name.startswith(CALENDAR)}


def lists_of_values(lists: Mapping[str, frozenset[str]], wanted: frozenset[str]) -> dict[str, str]:
    """Return the lists that hold more values than chance puts there, with how many of how many entries."""
    return {
        name: f"{len(words & wanted)} of {len(words)}"
        for name, words in lists.items()
        if len(words & wanted) * BY_CHANCE > len(words)
    }


def attributes_in_lists(
    lists: Mapping[str, frozenset[str]], wanted: Mapping[str, frozenset[str]]
) -> dict[str, str]:
    """Return the attributes of which too many values stand in lists, with how many of how many."""
    words = frozenset().union(*lists.values())
    return {
        name: f"{len(those & words)} of {len(those)}"
        for name, those in wanted.items()
        if len(those & words) * SHARE > len(those)
    }


def test_no_shipped_list_holds_what_a_benchmark_asks_for() -> None:
    """No list in data files or Python has more benchmark values than chance puts there."""
    wanted = frozenset().union(*values().values())
    assert lists_of_values(without_calendar(shipped_lists()), wanted) == {}


def test_no_attribute_of_a_benchmark_is_known_to_the_lists() -> None:
    """At most a third of an attribute's values stand in any lists, so that no kind of thing is known by its names."""
    assert attributes_in_lists(without_calendar(shipped_lists()), values()) == {}


def test_a_value_is_found_wherever_a_list_can_hold_it() -> None:
    """In an array, a string of words, a pattern's alternatives, a key, and a literal or split string in Python."""
    data = {
        "a": ["Oboé", "tin whistle"],
        "b": "oboe lute",
        "c": ["(?:an? )?(?:oboe|tin-whistle)s?"],
        "oboe": 1,
    }
    lists = dict(lists_of_table(data))
    assert all("oboe" in words for name, words in lists.items() if name != "oboe")
    assert {"a", "c"} == {name for name, words in lists.items() if "tin whistle" in words}
    source = 'A = {"oboe", "b", "c", "d", "e", "f"}\nB = "oboe b c d e f".split()\nC = {"oboe", "b"}'
    assert [(line, "oboe" in words) for line, words in lists_of_source(source)] == [(1, True), (2, True)]
    assert set(lists_of_values(lists, frozenset({"oboe"}))) == {"a", "b", "c", "*"}
    assert attributes_in_lists(lists, {"wind": frozenset({"oboe", "horn"})}) == {"wind": "1 of 2"}
    assert attributes_in_lists(lists, {"wind": frozenset({"oboe", "horn", "tuba", "fife"})}) == {}


def test_words_of_the_calendar_and_chance_are_no_benchmark() -> None:
    """A weekday may stand in any list, and one value among many entries is no list of values."""
    lists = {"data/time/en.toml: days": frozenset({"monday"}), "x": frozenset({"mondays", "oboe"})}
    assert without_calendar(lists) == {"x": frozenset({"oboe"})}
    long = frozenset(f"word{number}" for number in range(BY_CHANCE - 1))
    assert lists_of_values({"names": long | {"oboe"}}, frozenset({"oboe"})) == {}
    assert lists_of_values({"names": long | {"oboe"}}, frozenset({"oboe", "word1"})) != {}
