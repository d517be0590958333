"""Lines of a host: what the SDK cannot read becomes what it can, and nothing else is touched."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp.server.mcpserver")
sys.path.insert(0, str(Path(__file__).parent.parent))

from hypothesis import given
from hypothesis import strategies as st

from memforest.server.mcp.http import readable

TEXTS = st.text(st.characters(codec=None, max_codepoint=0x10FFFF), max_size=30)
"""Also with lone surrogates."""


def cut(text: str) -> str:
    """Return a text as it should arrive: pairs of surrogates are one character, lone ones U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@given(st.lists(TEXTS, max_size=6))
def test_lone_surrogates_are_replaced_and_nothing_else(texts: list[str]) -> None:
    """Whatever escapes stand beside them, and whether the rest is escaped or not."""
    assert json.loads(readable(json.dumps(texts).encode())) == [cut(text) for text in texts]
    whole = [cut(text) for text in texts]
    line = json.dumps(whole, ensure_ascii=False)
    assert readable(line.encode()) == line


def test_an_escaped_backslash_begins_no_escape() -> None:
    """Nor does the end of a pair, or a surrogate that is cut off by the end of the line."""
    for line, wanted in (
        (rb'"\\ud800"', r'"\\ud800"'),
        (rb'"\\\ud800"', r'"\\\ufffd"'),
        (rb'"\uD83D\uDE00"', r'"\uD83D\uDE00"'),
        (rb'"\ude00\ud83d"', r'"\ufffd\ufffd"'),
        (rb'"\ud83d\ud83d\ude00"', r'"\ufffd\ud83d\ude00"'),
        (rb'"\ud83', r'"\ud83'),
        (b"\xff\xed\xa0\x80", "\ufffd" * 4),
    ):
        assert readable(line) == wanted
