"""docs/export.md and docs/backup.md: their commands print what stands there, and the schema is that of the code.

``MEMFOREST_WRITE_DOCS=1`` writes the schema anew (`make docs`).
"""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from memforest.cli import main
from memforest.store.transfer import MEMORY, SUMMARIES, VECTORS, Part
from memforest.write.transfer import SCHEMA, SETTINGS

DOCS = Path(__file__).resolve().parents[1] / "docs"
WRITE = "MEMFOREST_WRITE_DOCS" in os.environ
CHAT = [
    {"speaker": "Bo", "content": "I moved to Porto last week.", "timestamp": "2024-02-05T10:00:00Z"},
    {"speaker": "Ana", "content": "How is it?", "timestamp": "2024-02-05T10:01:00Z"},
]


@pytest.mark.parametrize("page", ["export.md", "backup.md"])
def test_the_commands_print_what_the_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block of commands, in an empty directory with a chat file; sizes may differ."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMFOREST_DIR", str(tmp_path / "memories"))
    monkeypatch.setenv("MEMFOREST_EMBEDDER", "hash-words-1@64")
    (tmp_path / "chat.json").write_text(json.dumps(CHAT), encoding="utf-8")
    assert CliRunner().invoke(main, ["ingest", "chat.json", "--user", "ana"]).exit_code == 0
    blocks = re.findall(r"^```console\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    for command, printed in (
        found for block in blocks for found in re.findall(r"\$ (.*)\n((?:[^$].*\n)*)", block)
    ):
        program, *args = shlex.split(command)
        assert program == "memforest"
        result = CliRunner().invoke(main, args, catch_exceptions=False)
        assert _plain(result.output) == _plain(printed), command


def _plain(text: str) -> str:
    return re.sub(r"[\d.,]+ (k?B|MB)\b", "SIZE", text)


def test_the_schema_is_that_of_the_code() -> None:
    """docs/export.md lists every record with its columns, and how each column is written."""
    page = DOCS / "export.md"
    text = page.read_text(encoding="utf-8")
    rows = "\n".join(_row(part) for part in (*MEMORY, SUMMARIES, *VECTORS))
    expected = f"| Record | Written | Columns |\n|---|---|---|\n{rows}\n"
    begin, end = "`make docs` -->\n", "<!-- end records -->"
    start = text.index(begin, text.index("<!-- records:")) + len(begin)
    if WRITE and text[start : text.index(end)] != expected:
        text = text[:start] + expected + text[text.index(end) :]
        page.write_text(text, encoding="utf-8")
    assert text[start : text.index(end)] == expected, "docs/export.md: run `make docs`"
    assert f"## Schema {SCHEMA}\n" in text
    assert [one for one in SETTINGS if f"`{one}`" not in text] == []


def _row(part: Part) -> str:
    forms = {
        "plain": "", "time": "", "json": " (JSON)", "flag": " (true or false)", "hex": " (hex)", "base64": " (base64)",
        "text": "",
    }  # fmt: skip
    shown = [
        f"`{one.name}`"
        + (f" ({one.of})" if one.form == "ref" and one.of != one.name else forms.get(one.form, ""))
        for one in part.columns
    ]
    return f"| `{part.record}` | {'rows' if part.block else 'alone'} | {', '.join(shown)} |"
