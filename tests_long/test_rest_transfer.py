"""REST, export and import: a whole memory as it is sent and taken in."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("jsonschema")
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.serving import PROBLEM, Client, app_of, served, told

from memforest.server.rest import user_routes
from memforest.server.rest.user_routes import Pipe, PipeResponse

LINES = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    """A client of an app in which Ana has told something."""
    with served(app_of(folder)) as made:
        told(made)
        yield made


@pytest.mark.parametrize("query", ["", "?vectors=true", "?summaries=false"])
def test_what_is_exported_is_imported(client: Client, query: str) -> None:
    """As the memory of another user, with the same turns and facts."""
    file = client.raw("GET", f"/v1/users/ana/export{query}")
    assert file.headers["content-type"] == "application/octet-stream"
    done = client("POST", "/v1/users/copy/import", 200, content=file.content, headers=LINES)
    assert (done["user_id"], done["sessions"], done["turns"]) == ("copy", 2, 4)
    facts = [client("GET", f"/v1/users/{user}/facts", 200)["facts"] for user in ("ana", "copy")]
    assert [one["statement"] for one in facts[0]] == [one["statement"] for one in facts[1]]


def test_an_import_has_a_budget(client: Client) -> None:
    """As JSON in the query, like `filters`; what is no budget is refused, and its place is named."""
    file = client.raw("GET", "/v1/users/ana/export").content
    url = "/v1/users/copy/import?budget="
    for text, pointer in (
        ("{", None),
        ("5", "/query/budget"),
        ('{"max_calls": -1}', "/query/budget/max_calls"),
        ('{"no": 1}', "/query/budget/no"),
    ):
        problem = client("POST", url + quote(text), 422, content=file, headers=LINES)
        assert [one["pointer"] for one in problem.get("errors", ())] == ([pointer] if pointer else [])
    client("GET", "/v1/users/copy", 404)
    text = quote('{"max_calls": 5, "max_tokens": 1000}')
    assert client("POST", url + text, 200, content=file, headers=LINES)["turns"] == 4


def test_nobody_is_exported(client: Client) -> None:
    """A user without a memory is a 404, before anything is sent."""
    assert client.raw("GET", "/v1/users/bob/export").headers["content-type"] == PROBLEM
    client("GET", "/v1/users/bob/export", 404)


@pytest.mark.parametrize("body", [b"", b"{}", b"not an export", b"\xff\xfe", b'{"a": 1}\n{"b": 2}'])
def test_what_is_no_export(client: Client, body: bytes) -> None:
    """It is refused, and leaves no memory behind."""
    client("POST", "/v1/users/bob/import", 422, content=body, headers=LINES)
    client("GET", "/v1/users/bob", 404)
    assert client("GET", "/v1/users/bob/stats", 200)["turns"] == 0


def test_a_memory_is_not_imported_over(client: Client) -> None:
    """Whoever has one keeps it as it is."""
    file = client.raw("GET", "/v1/users/ana/export").content
    client("POST", "/v1/users/ana/import", 422, content=file, headers=LINES)
    assert client("GET", "/v1/users/ana/stats", 200)["turns"] == 4


def test_an_import_of_another_type(client: Client) -> None:
    """Only what says that it is a file is taken for one, by any of its names."""
    file = client.raw("GET", "/v1/users/ana/export").content
    client("POST", "/v1/users/eve/import", 200, content=file, headers={"Content-Type": "application/jsonl"})
    client("POST", "/v1/users/bob/import", 415, content=b"{}", headers={"Content-Type": "text/plain"})


def test_a_pipe_gives_all_that_is_written() -> None:
    """In order, whatever the sizes."""
    wrote = [bytes([n % 256]) * (n * 997 % 90_000) for n in range(60)]

    async def run() -> bytes:
        def write(pipe: Pipe) -> None:
            for data in wrote:
                pipe.write(data)
            pipe.flush()

        chunks = Pipe(lambda pipe: asyncio.to_thread(write, pipe)).chunks()
        return b"".join([chunk async for chunk in chunks])

    assert asyncio.run(run()) == b"".join(wrote)


def test_what_fails_at_once_fails_before_the_response() -> None:
    """The first chunk is waited for."""

    async def run() -> None:
        async def work(_pipe: Pipe) -> None:
            raise LookupError("nobody")

        await PipeResponse.of(Pipe(work), "text/plain")

    with pytest.raises(LookupError, match="nobody"):
        asyncio.run(run())


def test_a_writer_does_not_go_on_without_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends when the reader has gone, and when the reader does not take what waits."""
    ended: list[str] = []

    def write(pipe: Pipe) -> None:
        try:
            while True:
                pipe.write(b"x" * user_routes.CHUNK)
        except BrokenPipeError:
            ended.append("broken")
            raise

    async def gone() -> None:
        chunks = Pipe(lambda pipe: asyncio.to_thread(write, pipe)).chunks()
        await chunks.__anext__()
        await chunks.aclose()
        await _until(lambda: bool(ended))

    async def slow() -> None:
        monkeypatch.setattr(user_routes, "PATIENCE_S", 0.05)
        chunks = Pipe(lambda pipe: asyncio.to_thread(write, pipe)).chunks()
        await chunks.__anext__()
        await _until(lambda: len(ended) == 2)
        with pytest.raises(BrokenPipeError):
            async for _chunk in chunks:
                pass

    asyncio.run(gone())
    asyncio.run(slow())
    assert ended == ["broken", "broken"]


async def _until(so: object) -> None:
    end = time.monotonic() + 20
    while not so():  # type: ignore[operator]  # a function
        assert time.monotonic() < end
        await asyncio.sleep(0.01)
