"""docs/formats.md: its tables are what becomes of files, and its commands run.

``MEMFOREST_WRITE_DOCS=1`` writes the generated blocks anew (`make docs`).
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from memforest import Config, MemForest
from memforest.cli import main
from memforest.errors import InputError
from memforest.importers import ReadOptions, Skips, format_names, open_chat
from memforest.models import HashEmbedder

PAGE = Path(__file__).resolve().parents[1] / "docs" / "formats.md"
DATA = Path(__file__).parent / "data" / "imports"
WRITE = "MEMFOREST_WRITE_DOCS" in os.environ


def packed(files: Mapping[str, bytes]) -> bytes:
    """Return a zip archive."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target.getvalue()


def samples() -> dict[str, bytes]:
    """Return the sample files; a folder is packed, as it is downloaded."""
    found = {one.name: one.read_bytes() for one in sorted(DATA.iterdir()) if one.is_file()}
    for folder in (one for one in DATA.iterdir() if one.is_dir()):
        inside = {
            one.relative_to(folder).as_posix(): one.read_bytes() for one in sorted(folder.rglob("*.json"))
        }
        found[f"{folder.name}.zip"] = packed(inside)
    return dict(sorted(found.items()))


def check_block(name: str, expected: str) -> None:
    """Compare a generated block of the page with what it should be, or write it anew."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {name}: .*? -->\n(.*?)<!-- end {name} -->", text, re.DOTALL)
    assert found, f"{PAGE.name} has no block {name!r}"
    if WRITE:
        PAGE.write_text(text[: found.start(1)] + expected + text[found.end(1) :], encoding="utf-8")
    else:
        assert found[1] == expected, f"the block {name!r} is out of date; run `make docs`"


def counted(counts: Mapping[str, int]) -> str:
    """Return counts in words, sorted."""
    return "; ".join(f"{count} {what}" for what, count in sorted(counts.items()))


def row(name: str, content: bytes) -> str:
    """Return what becomes of a file, as a row of the table."""
    skips, roles = Skips(), Counter[str]()
    with open_chat(io.BytesIO(content), name=name) as chat:
        sessions = list(chat.sessions(ReadOptions(session_id=name.split(".")[0]), skips))
    for session in sessions:
        roles.update(str(turn.get("role", "named people")) for turn in session.turns)
    assert skips.wrong == []
    memories = len({session.user for session in sessions})
    shown = [f"`{name}`", f"`{chat.format}`", str(memories), str(len(sessions)), counted(roles)]
    return f"| {' | '.join([*shown, counted(skips.left_out)])} |".replace("|  |", "| |")


def test_the_table_of_samples_is_what_is_read() -> None:
    """A row for each file of our own making; each format has one."""
    files = samples()
    rows = [row(name, content) for name, content in files.items()]
    head = "| file | format | memories | sessions | turns by role | left out |\n|---|---|---|---|---|---|\n"
    check_block("samples", head + "\n".join(rows) + "\n")
    assert {name for name in format_names() if not any(f"| `{name}` |" in one for one in rows)} == set()


def test_every_format_is_described() -> None:
    """The page has a row for each format that is entered, and for no other."""
    table = PAGE.read_text(encoding="utf-8").split("## What becomes of each format")[1].split("|---|\n")[1]
    table = table.split("\n\n")[0]
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == list(format_names())


HI = {"role": "user", "content": "I live in Porto.", "timestamp": "2024-05-01T10:00:00Z"}
LINE = json.dumps(HI).encode()
LIST = b"[" + LINE + b",\n" + LINE + b"]"
TABLE = b"speaker,text,timestamp\nAna,I live in Porto.,2024-05-01T10:00Z\nBo,So do I.,2024-05-01T10:01Z\n"
DAMAGED: Mapping[str, tuple[str, bytes]] = {
    "JSON that is cut off": ("chat.json", LIST[:-30]),
    "a line of JSON Lines that is no JSON": ("chat.jsonl", LINE + b"\n{no\n" + LINE),
    "lines in UTF-8 and one in Latin-1": ("chat.csv", TABLE + "Eva,Olé,2024-05-01T10:02Z\n".encode("latin-1")),
    "a row of CSV with too few fields": ("chat.csv", TABLE + b"Eva,Hi\n"),
    "a path that leads out of the archive": ("chat.zip", packed({"../evil.json": LIST, "good.json": LIST})),
    "one file that is a zip bomb": ("chat.zip", packed({"good.json": LIST, "a.json": b"[" + b" " * (32 << 20), "b": os.urandom(1 << 18)})),
    "an archive that is a zip bomb": ("chat.zip", packed({"good.json": LIST, "a.json": b"[" + b" " * (32 << 20)})),
    "an archive that is cut off": ("chat.zip", packed({"good.json": LIST})[:-40]),
    "dates that nothing proves": ("chat.csv", b"speaker,text,date\nAna,Hi,03/04/2024\n"),
    "a binary file": ("chat.db", b"SQLite format 3\0"),
    "an empty file": ("chat.json", b""),
}  # fmt: skip


def damage(what: str, folder: Path) -> str:
    """Import a damaged file; return what was stored, and what was said."""
    name, content = DAMAGED[what]
    file = folder / name
    file.write_bytes(content)
    with MemForest(folder / what, Config(embedder=HashEmbedder())) as forest:
        try:
            result = forest.import_file("ana", file)
        except InputError as exc:
            assert not forest.has_user("ana")
            return f"| {what} | nothing | {_without_ratio(str(exc))} |"
        assert sum(memory.turns_added for memory in result.memories) == 2 - (what == "JSON that is cut off")
        assert result.problems
        return f"| {what} | what is whole | {_without_ratio('; '.join(result.problems))} |"


def _without_ratio(text: str) -> str:
    """Leave out how far a bomb packs, which depends on the machine's zlib."""
    return re.sub(r"\d+ times", "N times", text)


def test_the_table_of_damage_is_what_is_said(tmp_path: Path) -> None:
    """What was whole is stored, or nothing is; the file and the place are named."""
    rows = [damage(what, tmp_path) for what in DAMAGED]
    assert all("chat." in one for one in rows)
    check_block("damage", "| file | stored | what is said |\n|---|---|---|\n" + "\n".join(rows) + "\n")


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty directory, on an export as it is downloaded."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chatgpt-export.zip").write_bytes(
        packed({"conversations.json": (DATA / "chatgpt.json").read_bytes(), "chat.html": b"<html>"})
    )
    (tmp_path / "WhatsApp Chat with Bo.txt").write_bytes((DATA / "whatsapp_android.txt").read_bytes())
    block = re.search(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    commands = [shlex.split(line, comments=True) for line in block[1].splitlines()] if block else []
    for program, *arguments in commands:
        assert program == "memforest"
        result = CliRunner().invoke(main, ["--dir", "memory", *arguments], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        if "--dry-run" in arguments:
            assert not list(Path().rglob("*.db"))
    with MemForest(tmp_path / "memory") as forest:
        assert len(commands) == 3
        assert "WhatsApp Chat with Bo/2024-05-13" in {one.session_id for one in forest.user("ana").sessions()}
