"""Spanish: what is no statement, and the first person of simple sentences made the third.

``"Me mudé a Madrid"`` said by Lucía becomes ``"Lucía se mudó a Madrid"``. Only a verb of a small table at the start
of a clause is rewritten; any other sentence is left for the caller to quote with its speaker.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from memforest.language.language import load_word_lists
from memforest.text import words

_ES = load_word_lists("es")
_VERBS = _ES.tables["verbs"]
_BACKCHANNEL = _ES.lists["backchannel"]
_INTERJECTIONS = _ES.lists["interjections"]
_ADVERBS = _ES.lists["adverbs"]
_START = re.compile(
    rf"(?P<yo>yo )?(?P<adverbs>(?:(?:{'|'.join(sorted(_ADVERBS - {'no'}))}) ){{0,2}})"
    r"(?P<no>no )?(?P<clitic>me |lo |la |te )?(?P<verb>\w+)\b",
    re.IGNORECASE,
)
_GUSTA = re.compile(
    r"(?:a mí )?(?P<no>no )?me (?P<verb>gustan?|gustó|gustaría|encantan?|encantó|interesan?|duele|falta)\b",
    re.I,
)
_MINE = re.compile(r"\b(?P<first>[Mm])(?P<rest>is?)\b(?= \w)")
_JOINED = re.compile(r"(?P<gap>(?: y|, y|, pero| pero|;) )(?P<no>no )?(?P<clitic>me )?(?P<verb>\w+)\b")


def strip_address_spanish(text: str, names: Collection[str]) -> str:
    """Return `text` without opening interjections and the names it calls ("Hola Ana, …")."""
    for _ in range(3):
        found = re.match(r"[¡¿]?(\w+)(?:[ ,]+(\w+))?\s*[,!.]+\s+(?=\S)", text)
        if found is None:
            return text
        first, second = found.group(1).lower(), (found.group(2) or "").lower()
        if not (
            (first in _INTERJECTIONS or first in names)
            and (not second or second in names or second in _INTERJECTIONS)
        ):
            return text
        text = text[found.end() :]
        text = text[0].upper() + text[1:]
    return text


def lacks_content_spanish(text: str, names: Collection[str]) -> bool:
    """Return whether every word is a backchannel word or a participant's name."""
    return all(word.lower() in _BACKCHANNEL or word.lower() in names for word in words(text))


def attribute_spanish(text: str, speaker: str) -> str | None:
    """Return `text` in the third person with `speaker` as its subject, or None if it is not a simple case.

    >>> attribute_spanish("Vivo en Madrid y trabajo en un banco.", "Lucía")
    'Lucía vive en Madrid y trabaja en un banco.'
    >>> attribute_spanish("No me gusta el café.", "Lucía")
    'A Lucía no le gusta el café.'
    """
    liked = _GUSTA.match(text)
    if liked:
        no = "no " if liked["no"] else ""
        return f"A {speaker} {no}le {liked['verb'].lower()}{_rest(text[liked.end() :])}"
    found = _START.match(text)
    if found is None or found["verb"].lower() not in _VERBS:
        return None
    adverbs = found["adverbs"].lower()
    clitic = (found["clitic"] or "").lower().replace("me ", "se ")
    no = "no " if found["no"] else ""
    verb = _VERBS[found["verb"].lower()]
    return f"{speaker} {adverbs}{no}{clitic}{verb}{_rest(text[found.end() :])}"


def _rest(text: str) -> str:
    """Return what follows the first verb, with joined verbs and possessives in the third person."""
    return _MINE.sub(
        lambda m: ("S" if m["first"] == "M" else "s") + ("us" if m["rest"] == "is" else "u"),
        _JOINED.sub(_join, text),
    )


def _join(match: re.Match[str]) -> str:
    """Return a joined first-person verb in the third person, or the match as it is."""
    verb = _VERBS.get(match["verb"].lower())
    if verb is None:
        return match.group()
    clitic = "se " if match["clitic"] else ""
    return f"{match['gap']}{match['no'] or ''}{clitic}{verb}"
