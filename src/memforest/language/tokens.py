"""The tokens of a sentence as names and topics are read from them."""

from __future__ import annotations

import re
from functools import lru_cache

from memforest.language.language import load_word_lists
from memforest.text import STOP_WORDS, UNSPACED

_EN = load_word_lists("en")
_NOT_NAMES = _EN.lists["not_names"]
_FINITE = _EN.lists["finite"] | frozenset(load_word_lists("es").tables["verbs"].values())
_PAST = _EN.lists["irregular_past"]
_COMMON_VERBS = _EN.lists["common_verbs"]
_BACKCHANNEL = _EN.lists["backchannel"]
_PREPOSITIONS = _EN.lists["prepositions"]
_POOR_TOPICS = (
    STOP_WORDS
    | _BACKCHANNEL
    | _COMMON_VERBS
    | _FINITE
    | _PAST
    | _EN.lists["adverbs"]
    | _EN.lists["not_verbs"]
    | _EN.lists["evaluative_topics"]
    | _EN.lists["generic_topics"]
    | _EN.lists["modals"]
    | _NOT_NAMES
    | _PREPOSITIONS
)
_TOKEN = re.compile(
    r"""(?P<url>https?://\S{1,500})|(?P<tag>[#＃]\w{2,60})|(?P<handle>(?<!\w)@\w{2,60})"""
    r"""|(?P<quote>"[^"\n]{2,80}"|“[^”\n]{2,80}”|«[^»\n]{2,80}»|「[^」\n]{1,80}」|『[^』\n]{1,80}』|《[^》\n]{1,80}》)"""
    r"""|(?P<word>[^\W_]+(?:[-'’&][^\W_]+)*)|(?P<mark>[.,;:!?()。、，]|[—–]| - )"""
)
_UNSPACED = re.compile(f"[{UNSPACED}]")


class Token:
    """One token of a sentence, with everything about it that depends on nothing else.

    `kind` is "word", "mark", "quote", "tag", "handle" or "url". `bare` is the text without a possessive, `lower`
    that in lower case. `capital`: may be (part of) a name. `verb`: a verb by its form; `present`: a frequent verb
    in -s. `content`: can be a topic; `nounlike`: a frequent verb that is a noun behind a determiner.
    """

    __slots__ = (
        "bare", "capital", "content", "kind", "lower", "nounlike", "possessive", "present", "text", "verb",
    )  # fmt: skip

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        self.text = text
        self.possessive = kind == "word" and text.endswith(("'s", "’s"))
        self.bare = text[:-2] if self.possessive else text
        self.lower = self.bare.lower().replace("’", "'")
        contracted = "'" in self.lower and self.lower in _FINITE  # "They're"
        self.capital = (
            kind == "word" and text[0].isupper() and self.lower not in _NOT_NAMES and not contracted
        )
        lower, plain = self.lower, kind == "word" and not self.capital and not self.possessive
        self.verb = plain and (
            lower in _FINITE or lower in _PAST or (len(lower) > 4 and lower.endswith("ed"))
        )
        self.present = plain and lower.endswith("s") and bool({lower[:-1], lower[:-2]} & _COMMON_VERBS)
        self.nounlike = kind == "word" and lower in _COMMON_VERBS and lower not in STOP_WORDS
        self.content = (
            kind == "word"
            and not self.capital
            and len(lower) > 2
            and lower not in _POOR_TOPICS
            and not is_verb_form(lower)
            and not lower[0].isdigit()
            and not _UNSPACED.match(lower)
        )


@lru_cache(maxsize=32_768)
def _token(kind: str, text: str) -> Token:
    """Return a token, remembered: tokens are never changed, and a vocabulary is small."""
    return Token(kind, text)


def tokenise(sentence: str) -> list[Token]:
    """Return the tokens of a sentence; a word of more than 64 characters is cut."""
    return [_token(match.lastgroup or "", match.group()[:90]) for match in _TOKEN.finditer(sentence)]


def is_verb_form(lower: str) -> bool:
    """Return whether `lower` is an inflected frequent verb: "helps", "wanted", "making"."""
    for ending in ("s", "es", "ed", "d", "ing"):
        if lower.endswith(ending):
            stem = lower[: -len(ending)]
            if stem in _COMMON_VERBS or (
                ending == "ing" and (stem + "e" in _COMMON_VERBS or stem[:-1] in _COMMON_VERBS)
            ):
                return True
    return lower.endswith("ly")
