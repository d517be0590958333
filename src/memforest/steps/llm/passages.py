"""Whose a sentence of a record is: said by a participant, naming them, going on from one that does, or in their section."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from memforest.language.sentences import split_sentences
from memforest.steps.llm.clauses import forms_of
from memforest.steps.llm.source import folded, stands_in
from memforest.text import entity_key, words

_SPEAKER = re.compile(r"([^\s:：][^:：\n]{0,80}?)[:：] ")
_HEADING, _DASH = "## ", "- "


@dataclass(frozen=True, slots=True)
class Passage:
    """A sentence, its content words, and the participants whom it is of; nobody is named where it may be anybody's."""

    text: str
    forms: frozenset[str]
    owners: frozenset[str]


def passages(texts: Iterable[str], participants: Sequence[str]) -> Iterator[Passage]:
    """Yield the sentences of texts in order, each with those of the participants whom it is of.

    A line of a transcript ("Ana: I sing.") is of who speaks and of those it names; a line of a section of a profile, of those
    whose section it is; another sentence, of those it names, or else of those whom the sentence before it is of.
    """
    calls = _calls(participants)
    for text in texts:
        section: frozenset[str] | None = None
        before: frozenset[str] = frozenset()
        for line in text.splitlines():
            if line.startswith(_HEADING):
                section = _only(participant_named(line.removeprefix(_HEADING), participants))
                continue
            said = _SPEAKER.match(line)
            speaker = None if said is None else participant_named(said[1], participants)
            own = section if section is not None else _only(speaker)
            for piece in split_sentences(line.removeprefix(_DASH)):
                named = _named(piece.text, calls)
                owners = own if section is not None else own | named or before
                yield Passage(piece.text, forms_of(piece.text), owners)
                before = own | named or before


def participant_named(name: str, participants: Sequence[str]) -> str | None:
    """Return the participant of a name, however it is spelt; None if it is none of them.

    >>> participant_named(" josé ", ["Ana", "José"]), participant_named("Eva", ["Ana"])
    ('José', None)
    """
    key = entity_key(name)
    return next((one for one in participants if key is not None and entity_key(one) == key), None)


def named_in(text: str, participants: Sequence[str]) -> frozenset[str]:
    """Return the participants whom a text names: in full, or by the first name, where only one of them has it.

    >>> sorted(named_in("Ana told Bo of it.", ["Ana Lima", "Bo", "Eva"]))
    ['Ana Lima', 'Bo']
    """
    return _named(text, _calls(participants))


def _named(text: str, calls: Mapping[str, str]) -> frozenset[str]:
    whole = folded(text)
    return frozenset(name for call, name in calls.items() if stands_in(call, whole))


def _calls(participants: Sequence[str]) -> dict[str, str]:
    """Return what participants are called by -> who it is; a first name that several have tells nobody."""
    firsts = [folded(parts[0]) if (parts := words(name)) else "" for name in participants]
    single = {
        first: name
        for first, name in zip(firsts, participants, strict=True)
        if len(first) > 1 and firsts.count(first) == 1
    }
    return single | {folded(name): name for name in participants if folded(name)}


def _only(name: str | None) -> frozenset[str]:
    return frozenset() if name is None else frozenset((name,))
