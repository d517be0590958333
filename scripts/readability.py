"""Print how long what people read is: words a page, and words a sentence (median, 90th percentile, most).

Without files: README.md, the guides together, the help of all commands, and the docstrings of the public API. Code does not
count. Sentences are those of paragraphs and lists.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import click

import memforest
from memforest.cli.app import COMMANDS
from memforest.cli.app import main as root

ROOT = Path(__file__).resolve().parents[1]
WORD = re.compile(r"\S*\w\S*")


def prose(text: str) -> str:
    """Return a page without code, comments and pictures, with the words of its links alone."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->|!\[.*?\]\(.*?\)", "", text, flags=re.DOTALL)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def sentences(text: str) -> list[str]:
    """Return the sentences of the paragraphs and list items of a page's prose."""
    found = []
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        if not re.match(r"\s*[#|]", block):
            whole = " ".join(re.sub(r"^\s*(?:[-*]|\d+\.) ", "", block).split())
            found += [
                one for one in re.split(r"(?<=[.!?])\W*\s+(?=[\"'`*(]*[A-Z0-9`])", whole) if WORD.search(one)
            ]
    return found


def help_texts(command: click.Command | None) -> Iterator[str]:
    """Yield what the help of a command says, option by option, and of the commands below it."""
    assert command is not None
    yield command.help or ""
    yield from (one.help or "" for one in command.params if isinstance(one, click.Option))
    for below in getattr(command, "commands", {}).values():
        yield from help_texts(below)


def docstrings() -> Iterator[str]:
    """Yield the docstrings of the public names and of their public methods, an argument a paragraph."""
    for public in (getattr(memforest, name) for name in memforest.__all__):
        own = inspect.getmembers(public, callable) if inspect.isclass(public) else []
        for one in (public, *(member for name, member in own if not name.startswith("_"))):
            text = re.sub(r">>>.*", "", inspect.getdoc(one) or "")
            yield re.sub(r"\n +(?=[*\w]+: )|\n *(?:Args|Raises|Returns|Yields|Example|Source):", "\n\n", text)


def without_files() -> dict[str, str]:
    """Return the texts that are measured unless files are named."""
    guides = (one.read_text(encoding="utf-8") for one in sorted((ROOT / "docs" / "guide").glob("*.md")))
    help_ = (text for name in COMMANDS for text in help_texts(root.get_command(click.Context(root), name)))
    texts = {"guides": guides, "help": dict.fromkeys(help_), "docstrings": dict.fromkeys(docstrings())}
    readme = {"README.md": (ROOT / "README.md").read_text(encoding="utf-8")}
    return readme | {name: "\n\n".join(found) for name, found in texts.items()}


def main() -> None:
    """Print a row for each page, and one for all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--long", type=int, default=0, help="show sentences of more than so many words")
    asked = parser.parse_args()
    named = {file.name: file.read_text(encoding="utf-8") for file in asked.files}
    print(f"{'page':<24}{'words':>7}{'sentences':>11}{'median':>8}{'p90':>5}{'most':>6}")
    pages = {name: prose(text) for name, text in (named or without_files()).items()}
    for name, text in {**pages, "all": "\n\n".join(pages.values())}.items():
        found = sentences(text)
        long = sorted(len(WORD.findall(one)) for one in found) or [0]
        p90 = long[min(len(long) - 1, int(0.9 * len(long)))]
        print(
            f"{name:<24}{len(WORD.findall(text)):>7}{len(found):>11}{median(long):>8.0f}{p90:>5}{long[-1]:>6}"
        )
        for one in found if asked.long and name != "all" else ():
            if len(WORD.findall(one)) > asked.long:
                print("   ", one)


if __name__ == "__main__":
    main()
