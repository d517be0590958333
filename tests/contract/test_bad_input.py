"""Whatever is handed in wrong: an error of ours that a caller can catch, nothing lost, nothing written. One test a verb."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.contract.talk import fact, failures, files, opened, picture, said

from memforest import Budget, Config, MemForest, UserMemory
from memforest.errors import ConfigError, InputError, MemForestError, NotFoundError, TimestampError
from memforest.testing import FrozenClock, HashEmbedder

HALF = "a\ud83d"
"""A text with half of a character, as hosts send that cut by code units."""
LONG = "x" * 5000
NEITHER = (NotFoundError, InputError)
"""Half a name is no text, or nobody's."""
NO_TEXT: tuple[Any, ...] = (None, 7, 1.5, b"bytes", True, object())
NO_TIME: tuple[Any, ...] = ("the day of the fair", "2024-13-01", "", object(), float("nan"), 10**30)
NO_COUNT: tuple[Any, ...] = (0, -1, 1.5, "3", True, 10**9)
TURN = {"speaker": "Anna", "content": "I own a kiln.", "timestamp": "2024-05-01T10:00:00Z"}

Errors = type[BaseException] | tuple[type[BaseException], ...]
Calls = dict[str, tuple[Any, Errors]]


def each(call: Callable[[Any], Any], values: Iterable[Any], error: Errors = InputError) -> Calls:
    """Return a case for each value."""
    return {repr(value)[:40]: (lambda value=value: call(value), error) for value in values}


def options(call: Callable[..., Any], **wrong: Iterable[Any]) -> Calls:
    """Return a case for each value of each option."""
    return {
        f"{name}={value!r}"[:60]: (lambda name=name, value=value: call(**{name: value}), InputError)
        for name, values in wrong.items()
        for value in values
    }


@pytest.fixture
def check(woods: MemForest, anna: UserMemory, world: Path) -> Callable[[Calls], None]:
    """Return what makes the calls, lists those that went wrong, and looks at the memory behind them."""

    def run(calls: Calls) -> None:
        before, held = picture(anna), set(files(world))
        assert failures(calls) == []
        assert picture(anna) == before
        assert {name for name in files(world) if name not in held} == set()
        assert woods.list_users() == ["anna"]

    return run


def test_add(check: Any, woods: MemForest, anna: UserMemory) -> None:
    """Content that is no message, times that are none, options of a wrong kind."""
    check(
        each(anna.add, ("", "  \n", [], [[]], [None], {}, 7, None, b"x", [7], HALF), InputError)
        | each(woods.user("new").add, ("", [], None, [{"speaker": "x"}]), InputError)
        | each(lambda at: anna.add("x", timestamp=at), NO_TIME, TimestampError)
        | each(lambda at: anna.add({**TURN, "timestamp": at}), ("never", [], {}), TimestampError)
        | options(
            lambda **one: anna.add("x", **one),
            session_id=("", " ", 7, HALF, b"s"),
            metadata=(7, "x", [1], {"a": object()}),
            idempotency_key=("", 7, HALF),
            infer=(7, "no"),
            statements=(7, "x", [7], [{}], [{"statement": ""}], [{"statement": "x", "mood": "y"}]),
            doubtful=(7, "no", None),
            budget=(7, "much"),
            on_progress=(7,),
        )
        | options(
            lambda **one: anna.add({**TURN, **one}),
            speaker=("", 7, []),
            content=(7, {"a": 1}),
            id=("", 1.5, []),
        )
    )


def test_ingest_session(check: Any, woods: MemForest) -> None:
    """Users and sessions without a usable id, turns without a time, options that exclude each other."""
    ingest = woods.ingest_session
    check(
        each(lambda user: ingest(user, "s", [TURN]), ("", " ", 7, None, HALF))
        | each(lambda name: ingest("anna", name, [TURN]), ("", 7, None, HALF))
        | each(lambda turns: ingest("anna", "s", turns), ([], "text", None, 7, [7], [{}], {"a": 1}))
        | each(lambda turns: ingest("new", "s", turns), ([], [{"speaker": "x", "content": "y"}]))
        | {"defer and refresh": (lambda: ingest("anna", "s", [TURN], defer=True, refresh=True), InputError)}
        | {"no time": (lambda: ingest("anna", "s", [{"speaker": "x", "content": "y"}]), TimestampError)}
        | {
            "ids twice": (
                lambda: ingest("anna", "s", [{**TURN, "id": "a"}, {**TURN, "id": "a", "content": "z"}]),
                InputError,
            )
        }
    )


def test_ingest_parallel(check: Any, woods: MemForest) -> None:
    """No list of mappings; a request with an argument that is not there is an error in its place."""
    check(each(woods.ingest_parallel, ("x", 7, None)))
    for wrong in (7, "x", {"user_id": "anna", "session_id": "s", "turns": [TURN], "colour": 1}):
        [one] = woods.ingest_parallel([wrong])
        assert isinstance(one, InputError)


def test_search_and_ask(check: Any, anna: UserMemory) -> None:
    """Questions that are no text, options out of range, indexes and modes that there are not."""
    for verb in (anna.search, anna.ask):
        check(
            each(verb, ("", " \n", *NO_TEXT))
            | options(
                lambda verb=verb, **one: verb("Where?", **one),
                top_k=NO_COUNT,
                max_tokens=(0, -1, "3"),
                as_of=NO_TIME,
                said_by=NO_TIME,
                known_at=NO_TIME,
                reference_date=NO_TIME,
                during=(
                    "2024",
                    ("2024-05-01",),
                    ("2024-05-01", "2024-04-01"),
                    ("2024-05-01", "2024-05-01"),
                    7,
                ),
                filters=(7, "x", [("a", 1)]),
            )
            | {
                name: (lambda verb=verb, one=one: verb("Where?", **one), ConfigError)
                for name, one in (("index", {"index": "none"}),)
            }
            | {"mode": (lambda verb=verb: verb("Where?", mode="psychic"), (ConfigError, InputError))}
        )


def test_list(check: Any, anna: UserMemory) -> None:
    """Bounds, cursors of other listings, windows that end before they begin, names that nobody has."""
    cursor = anna.sessions(limit=1).next_cursor
    check(
        options(
            anna.list,
            limit=(0, -1, 1001, "3", 1.5),
            offset=(-1, "3", 1.5),
            cursor=("x", "", 7, cursor),
            as_of=NO_TIME,
            said_by=NO_TIME,
            known_at=NO_TIME,
            during=(("2024-05-01", "2024-04-01"), 7),
            verdict=("liked", 7),
            filters=(7, "x"),
        )
        | each(lambda name: anna.list(entity=name), ("Zoe",), NotFoundError)
        | each(lambda name: anna.list(session_id=name), ("june",), NotFoundError)
        | {"both": (lambda: anna.list(offset=1, cursor=anna.list(limit=1).next_cursor), InputError)}
    )


def test_get_and_history(check: Any, anna: UserMemory) -> None:
    """Ids that are none."""
    for verb in (anna.get, anna.history):
        check(each(verb, ("", "f1:x", LONG, "'; --"), NotFoundError) | each(verb, (None, 7, b"x")))


def test_sessions_and_turns(check: Any, anna: UserMemory) -> None:
    """Bounds, cursors and ids."""
    check(
        options(anna.sessions, limit=(0, -1, 1001, "3"), cursor=("x", 7))
        | options(lambda **one: anna.turns("may", **one), limit=(0, 1001, "3"), cursor=("x", 7))
        | each(anna.turns, ("june", LONG, "../may"), NotFoundError)
    )


def test_timeline(check: Any, anna: UserMemory) -> None:
    """Names that nobody has, kinds that there are not, times that are none."""
    check(
        each(anna.timeline, ("Zoe", HALF, LONG), NEITHER)
        | options(
            lambda **one: anna.timeline("Anna", **one),
            kind=("states", 7),
            limit=(0, 1001, "3"),
            cursor=("x", 7),
            said_by=NO_TIME,
            known_at=NO_TIME,
        )
    )


def test_entities_relations_path_profile(check: Any, anna: UserMemory) -> None:
    """Names, kinds and bounds of the graph."""
    check(
        options(anna.entities, kind=("alien", 7), query=("", " ", 7), limit=(0, 1001), cursor=("x",))
        | each(anna.relations, ("Zoe", HALF), NEITHER)
        | each(lambda hops: anna.path("Ruth", "Milo", hops=hops), (0, 9, "2"))
        | each(lambda name: anna.path("Ruth", name), ("Zoe", HALF), NEITHER)
        | each(anna.profile, ("Zoe", HALF), NEITHER)
        | options(anna.profile, as_of=NO_TIME, said_by=NO_TIME)
        | each(lambda name: anna.merge_entities("Milo", name), ("Zoe", HALF), NEITHER)
        | {"one and the same": (lambda: anna.merge_entities("Milo", "Milo"), InputError)}
        | {"the only name": (lambda: anna.split_entity("Milo", "Milo"), InputError)}
    )


def test_changes_and_diff(check: Any, anna: UserMemory) -> None:
    """Times and bounds."""
    check(
        each(anna.changes, NO_TIME, TimestampError)
        | each(lambda until: anna.changes("2024-05-01", until), ("2024-05-01", "2024-04-01"))
        | options(lambda **one: anna.changes("2024-01-01", **one), limit=(0, 1001, "3"), after=("x", 7))
        | each(lambda at: anna.diff("2024-01-01", at), NO_TIME, TimestampError)
        | each(lambda name: anna.diff("2024-01-01", "2024-05-01", entity=name), ("Zoe", HALF), NEITHER)
    )


def test_corrections(check: Any, anna: UserMemory) -> None:
    """Ids, texts and times of update, forget, pin and undo."""
    one = fact(anna, "Lille").fact_id
    for verb in (anna.forget, anna.pin, anna.undo, lambda name: anna.update(name, "Anna lives in Metz.")):
        check(each(verb, ("", "f1:x", LONG), NotFoundError))
    check(
        each(lambda text: anna.update(one, text), ("", " ", 7, b"x"))
        | each(lambda at: anna.update(one, valid_from=at), NO_TIME, TimestampError)
        | {
            "ends first": (
                lambda: anna.update(one, valid_from="2024-05-01", valid_to="2024-04-01"),
                InputError,
            )
        }
    )


def test_delete(check: Any, woods: MemForest, anna: UserMemory) -> None:
    """Nothing, two things, what is not there, windows that are none."""
    check(
        {"nothing": (anna.delete, InputError)}
        | {"two": (lambda: anna.delete(session_id="may", entity="Milo"), InputError)}
        | each(anna.delete, ("", "f1:x", LONG), NotFoundError)
        | each(lambda name: anna.delete(session_id=name), ("june", "%", "m_y"), NotFoundError)
        | each(lambda name: anna.delete(entity=name), ("Zoe", "*"), NotFoundError)
        | each(lambda turn: anna.delete(turn=turn), (("may", "99"), ("june", "0")), NotFoundError)
        | each(lambda turn: anna.delete(turn=turn), ("may", ("may",), ("may", "0", "1"), 7))
        | each(
            lambda window: anna.delete(during=window),
            ("2024", ("2024-05-01",), ("2024-05-01", "2024-05-01"), 7),
        )
        | each(lambda user: woods.delete_user(user), ("nobody", "../anna", "*"), NotFoundError)
        | each(lambda user: woods.delete_session(user, "may"), ("nobody",), NotFoundError)
    )


def test_merge(check: Any, woods: MemForest, anna: UserMemory) -> None:
    """Users, directories and names that are not there."""
    check(
        each(anna.merge, ("nobody",), NotFoundError)
        | each(anna.merge, ("anna", "", 7, HALF, LONG))
        | each(lambda name: anna.merge("x", directory=name), ("/no/such/place",), NotFoundError)
        | each(lambda names: woods.merge_user_forests(names, "anna"), (["anna"], "anna", [7], []))
    )


def test_transfer(check: Any, woods: MemForest, anna: UserMemory, folder: Path) -> None:
    """Paths that cannot be, files that are not there, kinds that are none."""
    paths = ("/no/such/place/x", LONG, "", folder)
    check(
        each(anna.export, (*paths, 7))
        | each(anna.backup, (*paths, 7))
        | each(woods.user("new").import_, ("/no/such/file", LONG, "", folder, 7))
        | each(woods.restore, ("/no/such/file", LONG, "", folder, 7))
        | each(anna.import_file, ("/no/such/file", LONG, "", [], 7))
        | {"format": (lambda: anna.import_file(folder, format="papyrus"), InputError)}
    )


def test_upkeep(check: Any, woods: MemForest, anna: UserMemory) -> None:
    """Options of rebuild, verify, advance, indexes, resume, flush, expire; users that are not there."""
    check(
        each(lambda words: anna.verify(deleted=words), ("word", [""], [7], 7))
        | {"two at once": (lambda: anna.rebuild(index="memforest", embedder=True), InputError)}
        | each(lambda name: anna.rebuild(index=name), ("none",), NotFoundError)
        | each(lambda at: anna.advance(at), NO_TIME, TimestampError)
        | each(lambda name: anna.add_index(name), ("none", "memforest", ""), ConfigError)
        | each(lambda name: anna.drop_index(name), ("none", "segtree"), NotFoundError)
        | {"the last one": (lambda: anna.drop_index("memforest"), ConfigError)}
        | {"no retention": (anna.expire, ConfigError)}
        | {
            f"{verb.__name__} of nobody": (lambda verb=verb: verb("nobody"), NotFoundError)
            for verb in (woods.resume, woods.flush, woods.rebuild, woods.save, woods.load)
        }
        | each(lambda depth: anna.tree(depth=depth), (-1, "1"))
        | each(lambda limit: anna.tree(limit=limit), (0, -1))
    )


def test_users(check: Any, woods: MemForest) -> None:
    """Ids and names that are no text."""
    check(
        each(woods.register_user, ("", " ", 7, None, HALF, b"x"))
        | each(lambda name: woods.register_user("new", display_name=name), ("", " ", 7, HALF))
        | options(woods.users, limit=(0, 1001, "3"), cursor=(7,))
    )


def test_settings(folder: Path) -> None:
    """A wrong setting is a ConfigError when it is made, and no directory is."""
    wrong: tuple[dict[str, Any], ...] = (
        {"top_k": 0}, {"chunk_turns": 0}, {"timezone": "Mars/Base"}, {"embedder": "none such"}, {"retention": "soon"},
        {"indexes": ()}, {"indexes": ("none",)}, {"refresh": "never"}, {"clock": 7}, {"answer_threshold": 2},
        {"colour": 1}, {"ranking": 7}, {"key": b"short"}, {"mode": "psychic"}, {"index_settings": {"none": {}}},
    )  # fmt: skip

    def make(one: dict[str, Any]) -> None:
        with MemForest(folder / "x", Config(**one)) as forest:
            forest.user("u").add("x")

    assert failures({repr(one): (lambda one=one: make(one), (ConfigError, TypeError)) for one in wrong}) == []
    assert files(folder) == {}
    with pytest.raises(ConfigError):
        FrozenClock("noon")
    with pytest.raises(ConfigError):
        HashEmbedder(0)
    with pytest.raises(ConfigError):
        Budget(max_calls=-1)


def test_a_clock_that_is_wrong(folder: Path) -> None:
    """A naive time of the clock is an error, and nothing is stored."""
    with opened(folder, clock=lambda: datetime(2024, 5, 1)) as forest:  # type: ignore[arg-type]  # noqa: DTZ001
        with pytest.raises((ConfigError, TimestampError)):
            forest.user("u").add(said("I own a kiln."), session_id="s")
        assert forest.list_users() == []


def test_a_directory_that_is_none(folder: Path) -> None:
    """A file in the place of the directory is an error of ours that leaves the file as it is."""
    (folder / "file").write_text("mine")
    with pytest.raises(MemForestError), MemForest(folder / "file", Config(embedder=HashEmbedder())) as forest:
        forest.user("u").add("x")
    assert (folder / "file").read_text() == "mine"


def test_half_a_character_and_paths_that_are_too_long(check: Any, woods: MemForest, anna: UserMemory) -> None:
    """Ids as hosts send them that cut by code units: there is no such thing, and nothing is deleted by half a name."""
    check(
        {
            name: (call, NEITHER)
            for name, call in {
                "get": lambda: anna.get(HALF),
                "history": lambda: anna.history(HALF),
                "update": lambda: anna.update(HALF, "x"),
                "forget": lambda: anna.forget(HALF),
                "pin": lambda: anna.pin(HALF),
                "undo": lambda: anna.undo(HALF),
                "turns": lambda: anna.turns(HALF),
                "list of a session": lambda: anna.list(session_id=HALF),
                "list of an entity": lambda: anna.list(entity=HALF),
                "delete a fact": lambda: anna.delete(HALF),
                "delete a session": lambda: anna.delete(session_id=HALF),
                "delete a turn": lambda: anna.delete(turn=("may", HALF)),
                "delete an entity": lambda: anna.delete(entity=HALF),
                "merge": lambda: anna.merge("x", directory=LONG),
            }.items()
        }
        | {"a text": (lambda: anna.update(fact(anna, "Lille").fact_id, HALF), InputError)}
    )
