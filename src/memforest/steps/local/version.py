"""The version of the local extractor's rules, recorded with every chunk that they have read.

It has two parts: a number that is raised by hand when the code of the rules changes what they make, and a digest of the
word lists and patterns, which are data. A test compares what the rules make of fixed texts with what was noted for the
version, so that neither can be forgotten.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from importlib.resources import files

RULES = 5
"""Raised when the code of the rules changes what they make."""

_DATA = ("language", "time", "states", "stance", "relations")
"""Folders of `memforest/data` that the rules read."""


@cache
def rules_version() -> str:
    """Return the version of the rules: their number, and a digest of the lines of their data, comments left out."""
    digest = blake2b(digest_size=4)
    root = files("memforest.data")
    for folder in _DATA:
        for path in sorted(root.joinpath(folder).iterdir(), key=lambda one: one.name):
            if path.name.endswith(".toml"):
                lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
                kept = [line for line in lines if line and not line.startswith("#")]
                digest.update("\n".join([folder, path.name, *kept, ""]).encode())
    return f"{RULES}:{digest.hexdigest()}"
