r"""The text of a profile: a section a participant, with the name as its heading and a statement a line.

>>> text = join_sections([("Ana", ["Lives in Lisbon since 2023-05-04.", "Works as a\nnurse."]), ("Ben", [])])
>>> print(text)
## Ana
- Lives in Lisbon since 2023-05-04.
- Works as a nurse.
>>> split_sections(text)
[('Ana', ['Lives in Lisbon since 2023-05-04.', 'Works as a nurse.'])]
"""

from __future__ import annotations

from collections.abc import Sequence

from memforest.display import one_line

__all__ = ["join_sections", "split_sections"]

_HEADING, _ITEM = "##", "-"


def join_sections(sections: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return the text of sections, each a name with its lines; what `split_sections` reads back.

    Names and lines are put on one line each, so that neither can begin a section. Blank lines are left out, and sections
    without a line. Of one name there is one section, where it comes first, with the lines of all.
    """
    held: dict[str, list[str]] = {}
    for name, lines in sections:
        held.setdefault(one_line(name), []).extend(whole for line in lines if (whole := one_line(line)))
    made: list[str] = []
    for name, lines in held.items():
        if lines:
            made += (f"{_HEADING} {name}".rstrip(), *(f"{_ITEM} {line}" for line in lines))
    return "\n".join(made)


def split_sections(text: str) -> list[tuple[str, list[str]]]:
    """Return the sections of a profile's text, in order: each a name and its lines.

    Nothing is lost of a text that has another form: what stands before the first heading is in a section with the name
    "", a line without a dash is a line like others. Sections of one name are one, as `join_sections` writes them.
    """
    held: dict[str, list[str]] = {}
    name = ""
    for whole in filter(None, map(one_line, text.splitlines())):
        mark, _, rest = whole.partition(" ")
        if mark == _HEADING:
            name = rest
        elif line := rest if mark == _ITEM else whole:
            held.setdefault(name, []).append(line)
    return list(held.items())
