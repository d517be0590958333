"""Reading an issuer's documents over HTTP, from a server of this machine."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from memforest.errors import IssuerUnavailableError
from memforest.server import access
from memforest.server.access import MOST_BYTES, fetch_json

PAGES: dict[str, tuple[int, bytes]] = {
    "/good": (200, b'{"issuer": "me"}'),
    "/list": (200, b"[]"),
    "/text": (200, b"<html>secret words</html>"),
    "/deep": (200, b'{"a":' + b"[" * 200_000),
    "/bytes": (200, b"\xff\xfe"),
    "/missing": (404, b'{"issuer": "me"}'),
    "/broken": (500, b'{"issuer": "me"}'),
    "/elsewhere": (302, b""),
    "/large": (200, json.dumps({"a": "x" * MOST_BYTES}).encode()),
    "/slow": (200, b'{"issuer": "me"}'),
}


class Pages(BaseHTTPRequestHandler):
    """Serves the pages; a slow one a byte at a time, so that no single wait is long."""

    def do_GET(self) -> None:
        """Answer a request."""
        status, body = PAGES[self.path]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if status == 302:
            self.send_header("Location", "/good")
        self.end_headers()
        try:
            for byte in body if self.path == "/slow" else ():
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(0.05)
            if self.path != "/slow":
                self.wfile.write(body)
        except OSError:
            return

    def log_message(self, *_args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    """The address of a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{httpd.server_port}"
        finally:
            httpd.shutdown()
            thread.join()


def test_a_document_is_read(server: str) -> None:
    """As the object that it is."""
    assert asyncio.run(fetch_json(f"{server}/good")) == {"issuer": "me"}


@pytest.mark.parametrize("page", [name for name in PAGES if name not in ("/good", "/slow")])
def test_what_is_no_document_is_an_error_that_says_so(server: str, page: str) -> None:
    """Whatever comes instead: it is not followed elsewhere, not read without end, and not quoted."""
    with pytest.raises(IssuerUnavailableError) as caught:
        asyncio.run(fetch_json(f"{server}{page}"))
    assert "secret" not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


def test_a_slow_issuer_is_given_up(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the time of the whole answer, not of one byte."""
    monkeypatch.setattr(access, "FETCH_S", 0.2)
    with pytest.raises(IssuerUnavailableError):
        asyncio.run(fetch_json(f"{server}/slow"))


def test_an_issuer_that_is_not_there_is_an_error() -> None:
    """Nobody listens on that port."""
    with pytest.raises(IssuerUnavailableError):
        asyncio.run(fetch_json("http://127.0.0.1:1/good"))
