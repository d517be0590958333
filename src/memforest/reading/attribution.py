"""Puts names in the place of the first and second person, so that rules that read states and relations know who is meant.

``"I've lived here since my dad died"`` said by Ana is read as ``"Ana has lived here since Ana's dad died"``. Nobody is shown this:
what is stored and shown is what was said. So verbs are left as they are ("Ana live in Leeds"), and "we" is the speaker alone.

In Spanish only a verb of a small table at the start of a clause is read: ``"Me mudé a Madrid"`` said by Lucía as ``"Lucía se mudó
a Madrid"``. Other languages are left as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memforest.reading.tokens import Code, load_word_lists, load_word_tables

_EN, _ES = load_word_lists("en"), load_word_lists("es")
_CONTRACTED = {
    "'m": " is",
    "'re": " is",
    "'ve": " has",
    "'ll": " will",
    "'d": " would",
    "": "",
    "r": "'s",
    "rs": "'s",
}
_KEPT = (
    r"""https?://\S+|"[^"\n]{1,300}"|“[^”\n]{1,300}”|\S+@\S+|"""
    r"(?<!\w)(?:[Ww]ar|[Pp]art|[Tt]ype|[Pp]hase|[Ll]evel|[Vv]olume|[Cc]hapter|[Ss]tage|Elizabeth) I(?!\w)"
)
"""Addresses, quotations, and what is numbered: in none of them "I" and "me" are the speaker."""
_PERSON = re.compile(
    rf"(?P<kept>{_KEPT})"
    r"|(?<![\w'’@#/-])(?:(?P<first>I|i|[Ww]e)(?P<verb>['’](?:m|ve|ll|d|re))?|(?P<my>[Mm](?:y|ine)|[Oo]urs?)|(?P<me>me|us)"
    r"|(?P<you>[Yy]ou)(?P<does>['’](?:re|ve|ll|d)|rs?)?)(?!\w|['’/.]\w|-)"
)
_OPENING = re.compile(
    r"(?:(?:just|finally|recently|already|still|also|really)\s+)?(?P<verb>[^\W\d_]+) (?=\w)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Voices:
    """The speaker and the listener of a sentence; `listener` is None unless exactly two people take part.

    `nicknames` maps a shortened first name to the participant it can only mean ("Mel": "Melanie").
    """

    speaker: str
    listener: str | None
    nicknames: tuple[tuple[str, str], ...] = ()


def with_names(text: str, voices: Voices | None, language: Code) -> str:
    """Return a sentence with names for the first and second person, but in addresses and quotations; as it is without voices.

    >>> with_names("I love your dog, and my sister does too.", Voices("Ana", "Ben"), "en")
    "Ana love Ben's dog, and Ana's sister does too."
    >>> with_names("Just moved to Rome.", Voices("Ana", None), "en")
    'Ana just moved to Rome.'
    """
    if voices is None or language == "other":
        return text
    if language == "es":
        return with_name_spanish(text, voices.speaker) or text

    def name(found: re.Match[str]) -> str:
        if found["kept"]:
            return found[0]
        if found["you"]:
            ending = (found["does"] or "").replace("’", "'")
            return found[0] if voices.listener is None else f"{voices.listener}{_CONTRACTED[ending]}"
        ending = (found["verb"] or "").replace("’", "'")
        return f"{voices.speaker}{chr(39) + 's' if found['my'] else _CONTRACTED[ending]}"

    opening = _OPENING.match(text)
    verb = opening["verb"].lower() if opening else ""
    past = verb in _EN["irregular_past"] or verb.endswith(("ed", "ing"))
    if past and verb not in _EN["not_elided"] | _EN["ed_bases"]:
        text = f"I {'is ' * verb.endswith('ing')}{text[0].lower()}{text[1:]}"
    text = _PERSON.sub(name, text)
    for short, full in voices.nicknames:
        text = re.sub(rf"(?<!\w){re.escape(short)}(?!\w)", full.replace("\\", r"\\"), text)
    return text


_VERBS = load_word_tables("es")["verbs"]
_START = re.compile(
    rf"(?P<yo>yo )?(?P<adverbs>(?:(?:{'|'.join(sorted(_ES['adverbs'] - {'no'}))}) ){{0,2}})"
    r"(?P<no>no )?(?P<clitic>me |lo |la |te )?(?P<verb>\w+)\b",
    re.IGNORECASE,
)
_GUSTA = re.compile(
    r"(?:a mí )?(?P<no>no )?me (?P<verb>gustan?|gustó|gustaría|encantan?|encantó|interesan?|duele|falta)\b",
    re.I,
)
_MINE = re.compile(r"\b(?P<first>[Mm])(?P<rest>is?)\b(?= \w)")
_JOINED = re.compile(r"(?P<gap>(?: y|, y|, pero| pero|;) )(?P<no>no )?(?P<clitic>me )?(?P<verb>\w+)\b")


def with_name_spanish(text: str, speaker: str) -> str | None:
    """Return `text` in the third person with `speaker` as its subject, or None if it is not a simple case.

    >>> with_name_spanish("Vivo en Madrid y trabajo en un banco.", "Lucía")
    'Lucía vive en Madrid y trabaja en un banco.'
    >>> with_name_spanish("No me gusta el café.", "Lucía")
    'A Lucía no le gusta el café.'
    """

    def joined(match: re.Match[str]) -> str:
        verb = _VERBS.get(match["verb"].lower())
        clitic = "se " if match["clitic"] else ""
        return f"{match['gap']}{match['no'] or ''}{clitic}{verb}" if verb else match.group()

    found = _GUSTA.match(text) or _START.match(text)
    if found is None or (found.re is _START and found["verb"].lower() not in _VERBS):
        return None
    no, verb = "no " if found["no"] else "", found["verb"].lower()
    rest = _MINE.sub(
        lambda m: ("S" if m["first"] == "M" else "s") + ("us" if m["rest"] == "is" else "u"),
        _JOINED.sub(joined, text[found.end() :]),
    )
    if found.re is _GUSTA:
        return f"A {speaker} {no}le {verb}{rest}"
    clitic = (found["clitic"] or "").lower().replace("me ", "se ")
    return f"{speaker} {found['adverbs'].lower()}{no}{clitic}{_VERBS[verb]}{rest}"
