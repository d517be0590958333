"""What is known before a turn is read: who speaks to whom, what they are called, what was just asked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache

from memforest.language.attribution import Attributed, Voices, attribute
from memforest.language.language import Code, detect_language, load_word_lists
from memforest.language.participants import called, is_assistant
from memforest.language.pieces import is_question, lacks_content
from memforest.language.sentences import split_sentences
from memforest.steps.local.draft import GROUP_WORDS, Draft
from memforest.text import cut, entity_key, word_set, words
from memforest.types import Chunk, Skipped, Turn

_QUESTION_WORDS = 25
_SHOWN_CHARS = 240
_HEARD_CHARS = 400
CAPTION = re.compile(
    r"\[[^\[\]\n]{0,40}?\b(?:image|images|photo|picture|caption|imagen|foto)\b[^\[\]]{0,400}\]", re.IGNORECASE
)
_CAPTION_LABEL = re.compile(
    r"^\[\s*(?:(?:shares?|shared|shows?|sends?|sent)\s+)?(?:an?\s+)?(?:attached\s+)?(?:image|photo|picture|imagen|foto)?"
    r"(?:\s+caption)?\s*:\s*",
    re.IGNORECASE,
)
_PICTURE = re.compile(
    r"(?:an?|the|two|some)\s+(?:\w+ ){0,3}(?:photo|picture|image|painting|drawing|poster|screenshot)s?\b",
    re.I,
)
_EN, _ES = load_word_lists("en").lists, load_word_lists("es").lists
_BARE_QUESTION = (
    (_EN["question_words"] | _EN["prepositions"] | _EN["interjections"] | _ES["question_words"])
    | word_set("long much many one time day exactly then wait really huh")
    | word_set("desde hasta adónde tiempo por con para de a y o pero entonces cuando donde")
)
"""Words of a question that has no content of its own: it asks about what was said just before."""
_ASKING = frozenset(("when", "where", "why", "how", "who", "since", "until"))
"""Of these words, one makes a question of it; "what?" and "really?" may only show surprise."""
_ABOUT_WORDS = 15


@dataclass(slots=True)
class Context:
    """What is known while one turn is read."""

    turn: Turn
    called: str
    """What the speaker is called in a statement; their id where another participant would be called the same."""
    voices: Voices | None
    """None where the speaker is nobody that a sentence could name: what they say is quoted."""
    language: Code
    participants: dict[str, str]
    """Entity key -> what a participant is called."""
    ids: dict[str, str]
    """What a participant is called -> their name as it is stored, where they differ."""
    address: frozenset[str]
    known: frozenset[str]
    question: str | None
    question_turn: tuple[int, ...]
    about: str | None
    """The statement that the question is about, when it has no content of its own ("Since when?")."""
    assistant: bool
    to_assistant: bool
    """An assistant is the only one that the turn is said to, or its speaker has the role of a user."""
    day_first: bool | None
    heard: str
    """What was said just before: the end of the turn before, of the same day, and of this turn so far."""
    words: int = GROUP_WORDS
    """Up to how many neighbouring sentences are joined here."""
    drafts: list[Draft] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def attribute(self, text: str) -> Attributed:
        """Return an English text with names for first and second person, or as it is where the speaker has none."""
        if self.voices is None:
            return Attributed(text, names_speaker=False, changed=False)
        return attribute(text, self.voices)

    def hear(self, text: str) -> None:
        """Add a sentence to what was said."""
        self.heard = f"{self.heard}\n{text}"[-_HEARD_CHARS:]

    def follows_draft(self) -> bool:
        """Return whether the sentence that was heard last is the end of the last statement."""
        return bool(self.drafts) and self.heard.endswith(self.drafts[-1].raw[-1])

    def id_of(self, name: str) -> str:
        """Return what whoever is called so in a statement is known by; of others the name."""
        return self.ids.get(name, name)

    def skip(self, text: str, reason: str) -> None:
        """Record that `text` became no statement."""
        self.skipped.append(Skipped(self.turn.ordinal, cut(text, _SHOWN_CHARS), reason))


def picture_of(caption: str) -> str:
    """Return what a caption in brackets shows: "a photo of a dog on a beach"; empty if it says nothing."""
    inner = _CAPTION_LABEL.sub("", caption).strip("[] \n")
    return inner if not inner or _PICTURE.match(inner) else f"a photo of {inner}"


def context_of(chunk: Chunk, turn: Turn, previous: Turn | None, known: frozenset[str]) -> Context:
    """Return what is known before `turn` is read."""
    people = tuple(dict.fromkeys((*chunk.participants, turn.speaker)))
    language = detect_language(turn.text)
    roles = {one.speaker: one.role for one in (*chunk.before, *chunk.turns)}
    named = _named(people, roles, language)
    own_names = tuple(name for name in people if named.get(name) == name)
    others = [name for name in people if name != turn.speaker]
    listener = named.get(others[0]) if len(others) == 1 else None
    own = named.get(turn.speaker)
    question, asked_in = _open_question(previous, turn, chunk)
    about = _asked_about(question, previous, turn, chunk)
    if about is None and question is not None and lacks_content(question, _forms_of_address(people)):
        question, asked_in = None, ()
    return Context(
        turn=turn,
        called=own or turn.speaker,
        voices=None
        if own is None
        else Voices(own, listener, _nicknames(own_names), is_assistant(turn.speaker, turn.role)),
        language=language,
        participants={
            key: name for one in people if (key := entity_key(name := named.get(one, one))) is not None
        },
        ids={name: one for one, name in named.items() if name != one},
        address=_forms_of_address(own_names) | frozenset(one.lower() for one in people),
        known=known,
        question=question,
        question_turn=asked_in,
        about=about,
        assistant=is_assistant(turn.speaker, turn.role),
        to_assistant=turn.role == "user"
        or (bool(others) and all(is_assistant(one, roles.get(one)) for one in others)),
        day_first=chunk.day_first,
        heard=previous.text[-_HEARD_CHARS:]
        if previous is not None and turn.said - previous.said < timedelta(days=1)
        else "",
    )


def _named(people: Sequence[str], roles: Mapping[str, str | None], language: Code) -> dict[str, str]:
    """Return what each participant is called; two who would be called the same have no name."""
    found = {name: called(name, roles.get(name), language) for name in people}
    several = Counter(found.values())
    return {name: one for name, one in found.items() if several[one] == 1}


@lru_cache(maxsize=256)
def _forms_of_address(people: tuple[str, ...]) -> frozenset[str]:
    """Return what the participants are called, lower case: full names, their parts, beginnings of first names."""
    parts = {part.lower() for name in people for part in (name, *name.split())}
    return frozenset(
        parts | {name[:2].lower() for name in people} | {short.lower() for short, _ in _nicknames(people)}
    )


@lru_cache(maxsize=256)
def _nicknames(people: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the beginnings of first names, of three letters or more, that fit one participant only."""
    owners: dict[str, set[str]] = {}
    for name in people:
        first = name.split()[0] if name.split() else ""
        for size in range(3, len(first)):
            owners.setdefault(first[:size], set()).add(name)
    return tuple((short, next(iter(names))) for short, names in owners.items() if len(names) == 1)


def _open_question(previous: Turn | None, turn: Turn, chunk: Chunk) -> tuple[str | None, tuple[int, ...]]:
    """Return the question that the turn before ends with, if another speaker asked it, and its turn if in the chunk."""
    if (
        previous is None
        or previous.speaker == turn.speaker
        or not any(mark in previous.text[-400:] for mark in "?？؟")
    ):
        return None, ()
    pieces = [
        piece.text
        for piece in split_sentences(CAPTION.sub(" ", previous.text[-600:]))
        if is_question(piece.text)
    ]
    if not pieces:
        return None, ()
    empty = lacks_content(pieces[-1], _forms_of_address(chunk.participants))
    if empty and _ASKING.isdisjoint(word.lower() for word in words(pieces[-1])):
        return None, ()
    asked = pieces[-1].replace('"', "'").split()
    question = " ".join(asked if len(asked) <= _QUESTION_WORDS else ["…", *asked[-_QUESTION_WORDS:]])
    return question, (previous.ordinal,) if previous in chunk.turns else ()


def _asked_about(question: str | None, previous: Turn | None, turn: Turn, chunk: Chunk) -> str | None:
    """Return the statement that a question without content of its own is about: the one said last before it."""
    if question is None or previous is None:
        return None
    if not _BARE_QUESTION.issuperset(word.lower() for word in words(question)):
        return None
    turns = [*chunk.before, *chunk.turns]
    before = turns[: turns.index(previous)][-1:] if previous in turns else []
    for said in (previous, *(one for one in before if one.speaker == turn.speaker)):
        statements = [
            piece.text
            for piece in split_sentences(CAPTION.sub(" ", said.text[-600:]))
            if not is_question(piece.text)
            and not lacks_content(piece.text, _forms_of_address(chunk.participants))
        ]
        if statements:
            shown = statements[-1].replace('"', "'").rstrip(".!… ").split()
            return " ".join(shown if len(shown) <= _ABOUT_WORDS else ["…", *shown[-_ABOUT_WORDS:]])
    return None
