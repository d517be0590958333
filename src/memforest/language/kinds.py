"""Kinds of names that their own last word, or the word in front of them, tells plainly: events and works.

`find_mentions` tells people, places and organisations while it looks for names, and how a statement reads depends on those. These two
kinds change nothing of that: they are told of the finished statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from memforest.language.language import Code, load_word_lists
from memforest.types import Mention

_BEFORE = 40
"""Characters in front of a name that are looked at."""
_MARKS = "\"'“”‘’«»「」『』《》 "


def with_kinds(text: str, mentions: Iterable[Mention], language: Code) -> tuple[Mention, ...]:
    """Return mentions of which nobody said what they are, or only that they are things, as events or works where that is plain.

    Args:
        text: the statement that they stand in.
        mentions: its mentions; of the others the kind stays.
        language: of the statement; English and Spanish are known.

    Example:
        >>> with_kinds("Ana read the novel Quayside.", [Mention("Quayside")], "en")
        (Mention(name='Quayside', kind='work', role='other'),)
    """
    if language == "other":
        return tuple(mentions)
    return tuple(
        one if one.kind not in ("unknown", "thing") else _told(text, one, language) for one in mentions
    )


def _told(text: str, mention: Mention, language: Code) -> Mention:
    lists = load_word_lists(language).lists
    own = [word.casefold() for word in mention.name.split()]
    outer = own[:1] if language == "es" else own[-1:]  # "Feria del Libro", "Book Fair"
    if lists["event_words"].intersection(outer) or lists["holidays"].intersection(own):
        return replace(mention, kind="event")
    at = text.find(mention.name)
    before = re.findall(r"[^\W\d_]+", text[max(0, at - _BEFORE) : at].casefold()) if at > 0 else []
    quoted = at > 0 and text[at - 1] in _MARKS.strip()
    if before and before[-1] in lists["titled"]:
        del before[-1]
    last = before[-1] if before else ""
    if last in lists["work_words"] or (quoted and last in lists["work_verbs"]):
        return replace(mention, kind="work")
    return mention
