"""What tests of facades share: an app whose keys are written down, called in the process or over a port."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from memforest.errors import UnauthenticatedError
from memforest.memory.forest import AsyncMemForest
from memforest.server.auth import OpenAccess, Principal

KEYS: Mapping[str, Principal] = {
    "root": Principal(key="root"),
    "alice": Principal(user="alice", key="alice"),
    "reader": Principal(scopes=frozenset({"read"}), key="reader"),
    "writer": Principal(scopes=frozenset({"read", "write"}), key="writer"),
}


class WrittenDown(OpenAccess):
    """Knows the keys above."""

    async def identify(self, credential: str | None) -> Principal:
        """Return whose key it is."""
        if credential is None or credential not in KEYS:
            raise UnauthenticatedError("this key does not hold")
        return KEYS[credential]


def keyed_app(forest: AsyncMemForest) -> Any:
    """Return an app that lets in those who have one of the keys."""
    from memforest.server.rest.app import create_app

    return create_app(access=WrittenDown(forest, owned=True))


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an app from a thread, and give its address."""
    import uvicorn

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.005)
        try:
            yield f"http://127.0.0.1:{taken.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
