"""Draw docs/pictures/demo.svg: parts of what `memforest demo` prints, as a terminal shows them.

    make demo-picture

It runs the demo, so that each line is one that it has printed. The picture has no font and no script of its own, follows
the colour scheme of whoever looks at it, and its text can be selected where it is opened by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from rich.console import Console
from rich.style import Style
from rich.text import Text

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "demo.svg"
COLUMNS = 80
SHOWN = ("1. ", "2. ", "3. ", "4. ", "Where does Mateo live now?", "What is the name")
"""How the paragraphs start that are shown; an ellipsis stands for those between them."""
WIDE, HIGH, EDGE = 8.4, 19, 20
"""Pixels of a character and a line of 14 px, and around all of them."""
_COLOURS = {2: "g", 5: "m", 6: "c"}
"""Of the terminal's colours, by number."""
_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" aria-labelledby="name">
<title id="name">memforest demo, in a terminal</title>
<style>
svg {{ --paper: #ffffff; --ink: #1f2328; --dim: #59636e; --edge: #d1d9e0; --g: #116329; --c: #0a6069; --m: #8250df }}
@media (prefers-color-scheme: dark) {{
  svg {{ --paper: #0d1117; --ink: #e6edf3; --dim: #9198a1; --edge: #3d444d; --g: #56d364; --c: #56d4dd; --m: #d2a8ff }}
}}
rect {{ fill: var(--paper); stroke: var(--edge) }}
text {{ fill: var(--ink); font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre }}
.b {{ font-weight: bold }} .d {{ fill: var(--dim) }} .g {{ fill: var(--g) }} .c {{ fill: var(--c) }} .m {{ fill: var(--m) }}
</style>
<rect x="0.5" y="0.5" width="{right:.0f}" height="{bottom}" rx="8"/>
"""


def chosen(printed: str) -> list[Text]:
    """Return the lines that are shown, with their styles, below the command that prints them."""
    lines = [Text("$ memforest demo", "bold")]
    for paragraph in printed.strip("\n").split("\n\n"):
        texts = [Text.from_ansi(line) for line in paragraph.split("\n")]
        if texts[0].plain.startswith(SHOWN):
            lines += [Text(), *texts]
        elif lines[-1].plain != "…":
            lines += [Text(), Text("…", "dim")]
    return lines


def _names(style: Style) -> str:
    colour = _COLOURS.get(style.color.number or 0, "") if style.color else ""
    return " ".join(filter(None, ["b" if style.bold else "", "d" if style.dim else "", colour]))


def drawn(lines: Sequence[Text]) -> str:
    """Return the lines as an SVG picture, `COLUMNS` wide.

    Each run of a style has its place and its length in columns, so that a table stands upright in any monospaced font.
    """
    console = Console(width=COLUMNS, color_system="truecolor")
    width, height = COLUMNS * WIDE + 2 * EDGE, len(lines) * HIGH + 2 * EDGE
    rows = []
    for number, line in enumerate(lines):
        column, y = 0, EDGE + 14 + number * HIGH
        for text, style, _ in line.render(console):
            if text.strip():
                names = _names(style) if isinstance(style, Style) else ""
                shown, before = text.strip(" "), len(text) - len(text.lstrip(" "))
                rows.append(
                    f'<text x="{EDGE + (column + before) * WIDE:.1f}" y="{y}" textLength="{len(shown) * WIDE:.1f}"'
                    + (f' class="{names}"' if names else "")
                    + f">{escape(shown)}</text>"
                )
            column += len(text)
    head = _HEAD.format(width=width, height=height, right=width - 1, bottom=height - 1)
    return head + "\n".join(rows) + "\n</svg>\n"


def main() -> int:
    """Run the demo, and write the picture; return 1 if the demo fails or prints nothing that is shown."""
    colours = {
        "FORCE_COLOR": "1",
        "COLUMNS": str(COLUMNS),
        "TERM": "xterm-256color",
        "PYTHONIOENCODING": "utf-8",
    }
    command = [sys.executable, "-m", "memforest", "demo"]
    done = subprocess.run(
        command, env=os.environ | colours, capture_output=True, encoding="utf-8", check=False
    )
    lines = chosen(done.stdout)
    if done.returncode or len(lines) < 2 * len(SHOWN):
        print(
            done.stderr or "The demo prints other parts than those that are shown; see SHOWN.",
            file=sys.stderr,
        )
        return 1
    PICTURE.write_text(drawn(lines), encoding="utf-8")
    print(f"{len(lines)} lines, {PICTURE.stat().st_size:,} bytes: {PICTURE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
