"""docs/compat.md names every route, every option and every refusal of the facades.

``MEMFOREST_WRITE_DOCS=1`` writes the table of refusals anew (`make docs`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import get_args

import pytest

pytest.importorskip("fastapi")

from memforest.integrations.mem0_routes import INSTEAD, REFUSED, WITHOUT_EFFECT, Add, Search
from memforest.integrations.openai_routes import Comparison, VectorSearch
from memforest.integrations.records import OPS, PLACES
from memforest.server.rest.app import COMPAT_ROUTERS

FILE = Path(__file__).resolve().parents[1] / "docs" / "compat.md"
PAGE = FILE.read_text(encoding="utf-8")
INNER = {"query", "messages", "filters"}
"""Fields that are what a call is about."""


def test_every_option_is_named() -> None:
    """Those that work, those that change nothing, and those that are refused."""
    names = {*Add.model_fields, *Search.model_fields, *VectorSearch.model_fields, *REFUSED, *WITHOUT_EFFECT}
    short = {name for name in names if name not in INNER and f"`{name}`" not in PAGE}
    assert short == {"org_name", "project_name"}  # "and their names"


def test_every_filter_is_named() -> None:
    """Fields and operators."""
    for name in (*PLACES, *get_args(Comparison.model_fields["type"].annotation), *(OPS - {"eq"})):
        assert f"`{name}`" in PAGE


def test_every_route_is_named() -> None:
    """What is answered, and what is refused."""
    paths = {route.path for router in COMPAT_ROUTERS for route in router.routes}  # type: ignore[attr-defined]  # each has one
    nouns = {path.split("/")[4].split("{")[0] for path in paths if "{path:rest}" not in path}
    assert nouns == {"ping", "memories", "event", "batch", "entities", "vector_stores"}
    for noun in nouns:
        assert f"{noun}/" in PAGE
    for beginning in INSTEAD:
        assert f"`{beginning}`" in PAGE


def test_refusals_are_those_of_the_code() -> None:
    """What has no counterpart, and what to use instead: paths, then options."""
    rows = [(f"`{path}`: {what[0].lower()}{what[1:]}", instead) for path, (what, instead) in INSTEAD.items()]
    rows += [
        (", ".join(f"`{name}`" for name in REFUSED if REFUSED[name] == said), said)
        for said in dict.fromkeys(REFUSED.values())
    ]
    table = "| what | instead |\n|---|---|\n" + "".join(f"| {what} | {instead} |\n" for what, instead in rows)
    found = re.search(r"<!-- refusals: .*? -->\n(.*?)<!-- end refusals -->", PAGE, re.DOTALL)
    assert found
    if "MEMFOREST_WRITE_DOCS" in os.environ:
        FILE.write_text(PAGE[: found.start(1)] + table + PAGE[found.end(1) :], encoding="utf-8")
    else:
        assert found[1] == table, "docs/compat.md: the block 'refusals' is out of date; run `make docs`"
