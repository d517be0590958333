"""A statement in the making: one sentence, the sentences that join it, and how it reads in the end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memforest.calendar import DateSpan
from memforest.language.entities import merge_mentions
from memforest.language.language import Code, load_word_lists
from memforest.language.pieces import takes_back
from memforest.text import STOP_WORDS, word_set
from memforest.types import Mention, ResolvedDate

GROUP_WORDS = 35
"""Neighbouring sentences are joined up to this many words."""
PASSAGE_WORDS = 90
"""And to this many behind the first `FINE_CHARS` characters of a turn: about what is quoted whole."""
FINE_CHARS, ASSISTANT_FINE_CHARS = 4_000, 1_500

_PERSON_PRONOUN = re.compile(r"(?P<who>he|she)(?P<tail>'s|'d|'ll|’s|’d|’ll)?(?= )", re.IGNORECASE)
_SPEAKER_RELATIVE = re.compile(
    r"\b(?:i|me|my|mine|we|us|our|ours|you|your|yours|here|yo|mi|mis|nosotros|nos|nuestr[oa]s?|tu|tus|usted)\b",
    re.IGNORECASE,
)
_OPENING_NAME = re.compile(r"(?<![\w'’])(?P<name>[^\W\d_][\w'’-]+) (?=(?P<verb>[^\W\d_]+))")
_EN = load_word_lists("en").lists
_MALE = _EN["kinship_male"]
_FINITE = _EN["finite"]
_PAST = _EN["irregular_past"]
_NO_NAME_STARTS = STOP_WORDS | _EN["not_names"] | _EN["determiners"] | _EN["adverbs"] | _EN["backchannel"]
_FEMALE = _EN["kinship_female"]
_KIN = _MALE | _FEMALE | _EN["kinship_other"]
_KIN_SUBJECT = re.compile(rf"[\w'’ -]{{1,60}}['’]s (?:\w+ )?(?P<kin>{'|'.join(sorted(_KIN))})\b")


@dataclass(slots=True)
class Draft:
    """A statement in the making: one sentence, and those that join it."""

    text: str
    raw: list[str]
    turns: tuple[int, ...]
    language: Code
    attributed: bool
    changed: bool
    joins: bool
    date: DateSpan | None = None
    dates: tuple[ResolvedDate, ...] = ()
    names: tuple[Mention, ...] = ()
    negated: bool = False
    words: int = 0
    comment: bool = False  # worth keeping only behind the statement that it comments on
    answer: bool = False
    turned: bool = False  # taken back or denied by a sentence behind it, so it asserts nothing


def most_words(at: int, *, assistant: bool) -> int:
    """Return up to how many words sentences are joined at a place of a turn, so that a long text costs less than as much talk."""
    return GROUP_WORDS if at <= (ASSISTANT_FINE_CHARS if assistant else FINE_CHARS) else PASSAGE_WORDS


def can_join(before: Draft, draft: Draft, most: int) -> bool:
    """Return whether `draft` may join the statement before it: both undated or one a mere comment, and `most` words at most.

    In a passage what is denied stands beside what is not, and what names the speaker beside what does not.
    """
    if before.language != draft.language:
        return False
    total = before.words + draft.words
    if draft.joins:
        return draft.date is None and total <= most + 10
    if before.date is not None or draft.date is not None or total > most:
        return False
    if most > GROUP_WORDS or (before.answer and not draft.attributed):
        return True
    return before.negated == draft.negated and before.attributed == draft.attributed


def join(before: Draft, draft: Draft) -> None:
    """Add `draft` to the statement before it."""
    if draft.changed and not before.changed and not before.attributed:
        before.text = ended(before.text)
    before.text = f"{before.text} {draft.text}"
    before.raw += draft.raw
    before.dates = tuple(dict.fromkeys((*before.dates, *draft.dates)))
    before.words += draft.words
    before.changed = before.changed or draft.changed
    before.names = merge_mentions((*before.names, *draft.names))
    before.turns = tuple(dict.fromkeys((*before.turns, *draft.turns)))


def afterword(before: Draft, raw: str) -> None:
    """Add a sentence that is nothing without the statement before it ("Not.", "Just kidding.")."""
    before.text = f"{before.text} {raw}"
    before.raw.append(raw)
    if takes_back(raw):
        before.negated = before.turned = True


def with_speaker(draft: Draft, speaker: str) -> str:
    """Return the text of a draft with its speaker in front unless it names them or has a subject of its own.

    "Bob moved to Miami in July 2024." stands for itself, whoever said it; a "we" in it would not.
    """
    if draft.attributed or (_has_named_subject(draft) and not _SPEAKER_RELATIVE.search(draft.text)):
        return draft.text
    if not draft.changed:
        return f'{speaker}: "{draft.text}"'
    return f"{speaker}: {draft.text}"


def _has_named_subject(draft: Draft) -> bool:
    """Return whether the statement begins with a person's name as the subject of its verb."""
    return any(
        mention.role == "subject"
        and mention.kind in ("participant", "person")
        and draft.text.startswith(f"{mention.name} ")
        for mention in draft.names
    )


def ended(text: str) -> str:
    """Return `text` with a capital first and a full stop last: statements that differ in their "!" are the same."""
    text = text.strip()
    if not text:
        return text
    if not text.startswith(("http", "www", "@", "#")):
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "…", "]", '"', "”", "。")) else text.rstrip("!,;:- ") + "."


def resolve_person(text: str, drafts: Sequence[Draft]) -> str | None:
    """Return `text` with the "he" or "she" it starts with named, when the statement before leaves one choice."""
    found = _PERSON_PRONOUN.match(text)
    if found is None or not drafts:
        return None
    tail = (found["tail"] or "").replace("’", "'")
    who = _only_person(drafts[-1], male=found["who"].lower() == "he")
    if who is None:
        return None
    verb = {"'s": " is", "'ll": " will", "'d": " would"}.get(tail, "")
    return f"{who}{verb}{text[found.end() :]}"


def _only_person(draft: Draft, *, male: bool) -> str | None:
    """Return the one person other than a participant whom `draft` names, by name or as somebody's relative."""
    kin = _KIN_SUBJECT.match(draft.text)
    if kin and kin["kin"] in (_FEMALE if male else _MALE):
        return None
    people = [mention.name for mention in draft.names if mention.kind == "person"]
    if not people and not kin:
        people = [m.name for m in draft.names if m.kind == "unknown" and " " not in m.name]
    if people:
        return people[0] if len(people) == 1 else None
    return kin.group() if kin else _opening_name(draft)


def _opening_name(draft: Draft) -> str | None:
    """Return the capitalised word that a statement opens with in front of a verb: a name, if "he" goes on."""
    found = None if draft.attributed else _OPENING_NAME.match(draft.text)
    return found["name"] if found and _may_act(found) else None


def acting_names(text: str) -> list[str]:
    """Return the capitalised words that open a sentence in front of a verb: "Zorka", but also "Pottery helps".

    >>> acting_names("Zorka lives in Brno. She likes it there.")
    ['Zorka']
    """
    found = (match for match in _OPENING_NAME.finditer(text) if _opens_sentence(text, match.start()))
    return list(dict.fromkeys(match["name"].removesuffix("'s") for match in found if _may_act(match)))


def _opens_sentence(text: str, at: int) -> bool:
    return at == 0 or text[max(0, at - 2) : at] in (". ", "! ", "? ", ': "') or text[at - 1] == '"'


def _may_act(found: re.Match[str]) -> bool:
    """Return whether a word can be a name and the next one its verb, or something that it has."""
    name, verb = found["name"], found["verb"]
    if (
        not name[0].isupper()
        or name.isupper()
        or not verb.islower()
        or name.lower().removesuffix("'s") in _NO_NAME_STARTS
    ):
        return False
    return name.endswith("'s") or verb in _FINITE or verb in _PAST or verb.endswith(("s", "ed"))


def length(text: str) -> int:
    """Return the length of `text` in words; scripts without spaces count three characters as one word."""
    return (
        len(text.split())
        if text.isascii()
        else max(len(text.split()), sum(ch > "\u2e80" for ch in text) // 3)
    )


_YES_NO_WORDS = frozenset(_EN["yes_no"])
_YES_NO_FILLERS = _YES_NO_WORDS | word_set(
    "actually i do did have am it is was of course sir ma'am thanks i'm really"
)
_LOWERED_OPENINGS = (
    _YES_NO_WORDS | (STOP_WORDS - {"i"}) | _EN["determiners"] | _EN["prepositions"] | _EN["adverbs"]
)
_YES_NO_OPENERS = _EN["auxiliaries"]


def uncapitalised(text: str, *, always: bool = False) -> str:
    """Return text for the middle of a sentence: a capital stays unless a common word opens it, or `always`."""
    first = text.split(" ", 1)[0].strip(".,!?;:").lower()
    return text[0].lower() + text[1:] if always or first in _LOWERED_OPENINGS else text


def asks_yes_or_no(question: str) -> bool:
    """Return whether an English question is answered by yes or no."""
    return question.split(" ", 1)[0].lower().replace("’", "'") in _YES_NO_OPENERS


def asks_for_something(question: str) -> bool:
    """Return whether an English question wants a thing named, also one within another: "Do you know which gym …?"."""
    return not asks_yes_or_no(question) or _INDIRECT.match(question) is not None


_INDIRECT = re.compile(
    r"(?:do|did|can|could) you (?:know|say|tell me|remember) (?:which|what|who|where)\b", re.IGNORECASE
)


def is_bare_yes(raw: str, address: frozenset[str]) -> bool:
    """Return whether the sentence is yes or no and a name at most."""
    return all(word.lower().strip(",.!") in _YES_NO_FILLERS | address for word in raw.split())
