"""What came from outside, made safe to show: in a message, on one line, in quotation marks, in JSON.

Names, texts and ids are stored and returned as they were given. Wherever they are put into a prompt, a context or
onto a terminal, they go through this module.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from memforest.text import cut

_CONTROLS = "\x00-\x1f\x7f-\x9f\u2028\u2029"
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROL, _UNSEEN = re.compile(f"[{_CONTROLS}]+"), re.compile(f"[{_INVISIBLE}]+")
UNSAFE = re.compile(f"[{_CONTROLS}{_INVISIBLE}]")
"""What a terminal or a reader acts on without showing it: C0 and C1 controls, line separators, directional marks and
overrides, what has no width, tags, and the selectors of variants, which can carry a text that nobody sees. The joiners that
scripts and emoji are written with, and the two selectors of emoji, are not among them.

Source: https://www.unicode.org/reports/tr44/#Default_Ignorable_Code_Point"""
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def one_line(text: str) -> str:
    r"""Return what came from outside on one line, white space folded and without characters of `UNSAFE`.

    >>> one_line("a\x1b[31mred\u2028b \u202e c")
    'a [31mred b c'
    """
    if not (text.isascii() and text.isprintable()):  # such a text holds nothing of `UNSAFE`
        text = _UNSEEN.sub("", _CONTROL.sub(" ", text))
    return " ".join(text.split())


def visible(text: str) -> str:
    r"""Return a text of several lines without characters of `UNSAFE` other than the ends of its lines.

    >>> visible("a\u200b  b\nc\u202e")
    'a  b\nc'
    """
    return "\n".join(UNSAFE.sub("", line) for line in text.split("\n"))


def escaped(text: str) -> str:
    r"""Return `one_line` of a text with a backslash before quotation marks and backslashes: no end of a quotation.

    >>> print(escaped('She said "no".'))
    She said \"no\".
    """
    return one_line(text).replace("\\", "\\\\").replace('"', '\\"')


def escaped_lines(text: str) -> str:
    r"""Return `escaped` of a text with its line breaks written out as ``\n``, and the blanks with which its lines begin.

    A list, a table or code can be read off it, and it is one line.

    >>> print(escaped_lines('server:\n  port: 80'))
    server:\n  port: 80
    """
    rows = [row.rstrip() for row in text.strip().splitlines()]
    return r"\n".join(f"{' ' * (len(row) - len(row.lstrip()))}{escaped(row)}" for row in rows if row)


def html_text(text: str) -> str:
    """Return `one_line` of a text as it may stand in HTML, between tags or in an attribute in quotation marks.

    >>> print(html_text('<b title="x">'))
    &lt;b title=&quot;x&quot;&gt;
    """
    return html.escape(one_line(text))


def html_paragraph(text: str) -> str:
    """Return a text as a paragraph of HTML."""
    return f'<p dir="auto">{html_text(text)}</p>'


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as HTML, for a notebook: no style, script or address of its own, and every cell `html_text`."""
    head = "".join(f"<th>{html_text(one)}</th>" for one in columns)
    body = "".join(
        f"<tr>{''.join(cells)}</tr>"
        for row in rows
        for cells in [[f'<td dir="auto">{html_text(cell)}</td>' for cell in row]]
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def json_escape(char: str) -> str:
    r"""Return the JSON escape of a character; of one beyond the basic plane, those of its two surrogates.

    >>> print(json_escape("<"), json_escape("\U000e0041"))
    \u003c \udb40\udc41
    """
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def ordinals(span: tuple[int, int]) -> str:
    """Return the first and the last of half-open ordinals, in words.

    >>> ordinals((1, 4)), ordinals((7, 8))
    ('1 to 3', '7')
    """
    first, last = span[0], span[1] - 1
    return str(first) if last <= first else f"{first} to {last}"


def printable(text: str) -> str:
    r"""Return `text` without control characters other than tab and line breaks, and without lone surrogates.

    A terminal obeys the former, and no file or database takes the latter, or NUL.

    Example:
        >>> printable("Ann\x00 lives\x1b[2J in\ud800 Porto.\n")
        'Ann lives[2J in Porto.\n'
    """
    return _UNPRINTABLE.sub("", text)


def listed(keys: Iterable[object], most: int = 6) -> str:
    """Return the names of some keys for a message.

    Example:
        >>> listed(["type", "data"]), listed([])
        ("the keys 'type', 'data'", 'no keys')
    """
    found = [shown(str(key), 24) for key in keys]
    names = ", ".join(found[:most]) + (" …" if len(found) > most else "")
    return f"the keys {names}" if found else "no keys"


def shown(value: object, n: int = 60) -> str:
    """Return any value for a message, in at most about `n` characters; by its type, when Python cannot write it.

    Example:
        >>> shown("Ann"), shown(10**5000)
        ("'Ann'", 'a value of type int')
    """
    try:
        return cut(repr(value), n)
    except (RecursionError, ValueError):  # nested too deep, or too many digits
        return f"a value of type {type(value).__name__}"
