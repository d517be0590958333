"""Print how long the pages that people read are: words a page, and words a sentence (median, 90th percentile, most).

The pages are README.md and docs/guide unless files are named. Words are all but code. Sentences are those of paragraphs and lists.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from statistics import median

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


def main() -> None:
    """Print a row for each page, and one for all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--long", type=int, default=0, help="show sentences of more than so many words")
    asked = parser.parse_args()
    files = asked.files or [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
    print(f"{'page':<24}{'words':>7}{'sentences':>11}{'median':>8}{'p90':>5}{'most':>6}")
    pages = {file.name: prose(file.read_text(encoding="utf-8")) for file in files}
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
