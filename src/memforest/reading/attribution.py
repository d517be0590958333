"""Makes an English sentence of talk self-contained: first and second person become names.

``"I've lived here since my dad died"`` said by Ana becomes ``"Ana has lived here since Ana's dad died"``. The
verb after a replaced subject agrees by a table and the -s rule. The name is repeated rather than replaced by a
pronoun: nobody's gender is guessed, and "their" would make it unclear whose. Quoted speech, addresses, hashtags
and handles stay as written.

A rule-based rewriter, no parser: it sees the words around a pronoun, not the syntax. Where it cannot tell a
general "you" or "we" from a personal one it leaves the sentence alone and the caller quotes it instead.

"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from memforest.reading.tokens import load_word_lists, load_word_tables
from memforest.text import word_set

_EN, _TABLES = load_word_lists("en"), load_word_tables("en")
_NO_SUBJECT = _EN["before_object"] | _EN["modals"]
_CONTRACTIONS = _TABLES["contractions"]

# Protected stretches first, then words, then what stands between them. All repeats are bounded.
_TOKEN = re.compile(
    r"""https?://\S{1,500}|www\.\S{1,300}|[@#]\w{1,80}|"[^"\n]{0,300}"|“[^”\n]{0,300}”|«[^»\n]{0,300}»"""
    r"""|「[^」\n]{0,300}」|`[^`\n]{0,300}`|\w+(?:['’]\w+)*|[ ,.;:!?()\-—–…]+|."""
)
_PERSONAL = re.compile(
    r"\b(?:i|im|ive|me|my|mine|myself|we|us|our|ours|ourselves|you|u|your|yours|yourself|yourselves)\b",
    re.IGNORECASE,
)
_GENERIC_YOU = re.compile(
    r"\b(?:when|if|once|until|how|makes?|lets?|gives?|takes?|keeps?|brings?|reminds?|helps?) you\b"
    r"|\byou (?:never know|always|have to|gotta|need to|just|really? need|can(?:'t)? (?:always|never|just|really))\b"
    r"|\b(?:find|show|remind|teach|take)s? (?:us|you)\b",
    re.IGNORECASE,
)
_FIRST_SINGULAR = re.compile(r"\b(?:I|i'm|i've|me|my|im|ive)\b|\bi (?=[a-z])|\bMy\b")
_WE_SUBJECT = re.compile(
    r"^\W*(?:\w[\w']*[ ,]+'?){0,3}?(?:we|we're|we've|we'll|we'd|our)\b"
    r"|\bwe(?:'re|'ve|'ll|'d| (?:\w+ly |just |also )?(?:\w+ed|was|were|had|did|went|got|made|took|saw|won|lost|met|ate|found|are|have))\b",
    re.IGNORECASE,
)
_BOTH_OF_US = re.compile(
    r"\b(?:since|when|last time|time) we(?:'ve)? (?:last |first )?(?:talked|spoke|chatted|met|caught up|hung out|seen)\b"
    r"|\byou and (?:I|me)\b|\bwe both\b|\bboth of us\b|\bus both\b"
    r"|\bwe (?:should|could|can|must|gotta) (?:\w+ly |definitely |all )?(?:meet|catch up|get together|hang|go|plan|do|try|talk|chat)\b",
    re.IGNORECASE,
)
_STOPS_AGREEMENT = frozenset(".;:!?()—–…-")


@dataclass(frozen=True, slots=True)
class Voices:
    """The speaker and the listener of a sentence; `listener` is None unless exactly two people take part.

    `nicknames` maps a shortened first name to the participant it can only mean ("Mel": "Melanie"). With `for_side` the
    speaker's "we" is the speaker: an assistant's, or that of a company's agent ("we ship within 3 days").
    """

    speaker: str
    listener: str | None
    nicknames: tuple[tuple[str, str], ...] = ()
    for_side: bool = False


def third_person(verb: str) -> str:
    """Return the third person singular of a verb's base form; past forms and modals stay as they are.

    >>> [third_person(v) for v in ("go", "try", "have", "don't", "went", "will", "need", "play")]
    ['goes', 'tries', 'has', "doesn't", 'went', 'will', 'needs', 'plays']
    """
    lowered = verb.lower().replace("’", "'")
    if lowered in _TABLES["agreement"]:
        return _TABLES["agreement"][lowered]
    if lowered in _EN["modals"] or lowered in _EN["irregular_past"] or not lowered.isalpha():
        return verb
    if lowered.endswith("ed") and lowered not in _EN["ed_bases"]:
        return verb
    if lowered.endswith("ing") and len(lowered) > 5:
        return verb
    if lowered.endswith(("s", "x", "z", "ch", "sh", "o")):
        return verb + "es"
    if lowered.endswith("y") and lowered[-2:-1] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


def supply_subject(text: str) -> str:
    """Return `text` with the "I" that its opening omits, else unchanged.

    >>> supply_subject("Just went to Rome."), supply_subject("Looking into agencies - it's a lot.")
    ('I just went to Rome.', "I'm looking into agencies - it's a lot.")
    >>> supply_subject("Winning a game is fun.")
    'Winning a game is fun.'
    """
    found = _OPENING.match(text)
    if found is None:
        return text
    first, second = found.group(1).lower().replace("’", "'"), found.group(2)
    following, before = second.lower(), ""
    if first == "been" and second in ("a", "an", "so", "such"):
        before = "It's"
    elif first == "did" and second in ("my", "the", "some", "another"):
        before = "I"
    elif following in _EN["finite"] or (following == "by" and first not in _TABLES["elided"]):
        pass
    elif first in _TABLES["elided"]:
        before = "" if second in ("and", "of") else _TABLES["elided"][first]
    elif first in _EN["not_elided"]:
        pass
    elif first.endswith("ing") and len(first) > 4:
        before = "" if _ADDRESSES.search(text) or _opens_with_gerund(text) else "I'm"
    # "Mixed emotions", "Found footage": a past form that opens a sentence without "I" has an object or a particle.
    elif first in _EN["irregular_past"] or (first.endswith("ed") and first not in _EN["ed_bases"]):
        opens = following in _EN["not_verbs"] or _is_adverb(following) or not second.islower()
        before = "I" if opens else ""
    return f"{before} {text[0].lower()}{text[1:]}" if before else text


_OPENING = re.compile(
    r"(?:(?:just|finally|recently|already|still|also|really|so|truly|definitely|always)\s+)?([\w'’]+)(?=\s+(\w+))",
    re.IGNORECASE,
)


_ADDRESSES = re.compile(
    r"\byou(?:['’]re|r|['’]ve)?\b[^.!?]{0,20}\b(?:so|very|really|kind|great|amazing|awesome)\b", re.IGNORECASE
)


def _opens_with_gerund(text: str) -> bool:
    """Return whether the opening -ing word is the subject of a verb: "Taking care of it helps"."""
    clause = re.split(r"[;:—–.!]|\s-\s", text, maxsplit=1)[0]
    previous = ""
    for word in clause.lower().replace("’", "'").replace(",", "").split()[1:]:
        finite = is_present_verb(word) or (word in _EN["finite"] and "'" not in word)
        if finite and previous not in _CLAUSE_SUBJECTS:
            return True
        if word in ("me", "us", "him", "you") and previous.endswith("s") and len(previous) > 3:
            return True  # "Playing the cello calms me down"
        previous = word
    return False


_CLAUSE_SUBJECTS = word_set("i he she it we they you who that which what there")


def is_present_verb(word: str) -> bool:
    """Return whether a lower-case word is a frequent verb in -s ("helps", "sounds")."""
    return word.endswith("s") and (
        word[:-1] in _EN["common_verbs"] or word[:-1] in ("sound", "taste", "matter", "happen")
    )


def attribute(text: str, voices: Voices | None) -> tuple[str, bool, bool]:
    """Return `text` with names for the first and second person, whether it names the speaker, and whether anything was replaced.

    It stays as it is without voices, and where "you" are people in general ("you never know").

    >>> attribute("I love your dog, and my sister does too.", Voices("Ana", "Ben"))
    ("Ana loves Ben's dog, and Ana's sister does too.", True, True)
    """
    personal = voices and (_PERSONAL.search(text) or any(short in text for short, _ in voices.nicknames))
    if not voices or not personal:
        return text, False, False
    flat = text.replace("’", "'")
    singular = _FIRST_SINGULAR.search(flat) is not None
    general_you = not singular and _GENERIC_YOU.search(flat) is not None
    both = voices.listener is not None and _BOTH_OF_US.search(flat) is not None
    rewriter = _Rewriter(
        tokens=_TOKEN.findall(text),
        speaker=voices.speaker,
        listener=None if general_you else voices.listener,
        nicknames=dict(voices.nicknames),
        singular=_TABLES["singular"] if voices.for_side and not both else {},
        group=f"{voices.speaker} and {voices.listener if both else 'others'}",
        replace_we=singular or both or _WE_SUBJECT.search(flat) is not None,
    )
    return rewriter.run(), rewriter.named, rewriter.changed


@lru_cache(maxsize=1024)
def _is_adverb(word: str) -> bool:
    """Return whether the agreement rule steps over `word`."""
    return word in _EN["adverbs"] or (
        word.endswith("ly") and word not in _EN["ly_not_adverbs"] and len(word) > 4
    )


@dataclass(slots=True)
class _Rewriter:
    """A single pass over a sentence's tokens, with the subject that the next verb has to agree with."""

    tokens: list[str]
    speaker: str
    listener: str | None
    nicknames: Mapping[str, str]
    singular: Mapping[str, str]
    group: str
    replace_we: bool
    out: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    """The words so far, lower case, as spoken."""
    pending: str = ""
    """ "first" or "second" while a verb is awaited."""
    chain: tuple[str, ...] = ()
    """A present verb was inflected: these words may join another to it."""
    finite: bool = False
    group_named: bool = False
    named: bool = False
    changed: bool = False

    def run(self) -> str:
        """Return the rewritten sentence."""
        for index, token in enumerate(self.tokens):
            lowered = token.lower().replace("’", "'")
            if token[0].isalnum() or token[0] == "_":
                self._word(index, token, lowered)
                self.words.append(lowered)
                self.finite = self.finite or lowered in _EN["finite"] or lowered in _EN["irregular_past"]
            else:  # punctuation other than a comma ends the wait for a verb
                if token.strip() and token.strip()[0] in _STOPS_AGREEMENT:
                    self.pending, self.chain = "", ()
                self.out.append(token)
        return "".join(self.out)

    def _word(self, index: int, token: str, lowered: str) -> None:
        """Copy or replace one word."""
        if lowered in ("guys", "all") and self.words and self.words[-1] == "you" and self.listener:
            self.out.pop()
            return
        hyphens = self.tokens[max(0, index - 1) : index], self.tokens[index + 1 : index + 2]
        # Not in "me-time" and "I-5".
        tied = hyphens[0] == ["-"] or (hyphens[1] == ["-"] and index + 2 < len(self.tokens))
        replaced = self._first_person(index, token, lowered) if lowered in _FIRST and not tied else None
        if replaced is None and lowered in _EN["addressee"] and not tied:
            replaced = self._second_person(index, lowered)
        if replaced is not None:
            self.changed = True
            self.out.append(replaced)
            return
        if self.pending:
            self.out.append(self._verb(token, lowered))
            return
        back = [word for word in self.words[-3:] if not _is_adverb(word)] if self.chain else []
        if lowered in _EN["common_verbs"] and back and back[-1] in self.chain:  # "loves X and hate Y"
            self.out.append(third_person(token))
            return
        if (
            lowered == "to"
            or lowered in _EN["modals"]
            or lowered in ("he", "she", "they", "it", "who", "that")
        ):
            self.chain = ()
        head, mark, tail = token.partition("'")
        if self.words and head in self.nicknames:  # a participant's short name is completed
            self.changed = True
            token = self.nicknames[head] + mark + tail
        self.out.append(token)

    def _verb(self, token: str, lowered: str) -> str:
        """Return the word after a replaced subject, made to agree if it is the verb."""
        if _is_adverb(lowered):
            return token
        person, self.pending = self.pending, ""
        if lowered in _EN["not_verbs"] and lowered not in _EN["common_verbs"]:  # "own" is both
            return token
        if lowered == "like" and person == "second":
            return "likes" if len(self.words) > 1 and self.words[-2] in _BEFORE_LIKES else token
        known = lowered in _TABLES["agreement"] or lowered in _EN["common_verbs"]
        if not known and (person == "second" or lowered == "were"):
            return "was" if lowered == "were" else token
        verb = third_person(token)
        if lowered == "don't":
            self.chain = ("but",)
        elif verb != token and lowered not in _TABLES["agreement"]:
            self.chain = ("and", "but", "or")
        return verb

    def _next_word(self, index: int) -> str:
        """Return the next word after position `index` that is no adverb, in lower case; "" if there is none."""
        for token in self.tokens[index + 1 : index + 8]:
            lowered = token.lower().replace("’", "'")
            if token[0].isalnum() and not _is_adverb(lowered):
                return lowered
            if token.strip() and token.strip()[0] in _STOPS_AGREEMENT:
                return ""
        return ""

    def _first_person(self, index: int, token: str, lowered: str) -> str | None:
        """Return the replacement of a first-person word, or None if it stays."""
        if token.islower() or lowered.startswith("we"):  # "US" is a country
            lowered = self.singular.get(lowered, lowered)
        if lowered in _EN["both"]:
            return self._plural(lowered) if self.replace_we and not token.isupper() else None
        previous = self.words[-1] if self.words else ""
        if token in ("I", "i"):  # no numeral ("World War I"), and no part of "i.e."
            spaced = self.tokens[index + 1 : index + 2] != [] and self.tokens[index + 1].startswith(" ")
            numbered = previous in _NUMBERED or (token.islower() and not spaced)
            if numbered or not (spaced or not previous or previous in _BEFORE_I):
                return None
        self.named = True
        if lowered == "i":  # the name takes its place, and its verb is awaited or repaired
            joins = previous == "and" and not self.finite and 1 < len(self.words) <= 6
            if previous in ("do", "am", "have", "don't", "haven't") and len(self.out) > 1:
                self.out[-2] = third_person(self.out[-2])
            elif previous not in _EN["modals"] and not joins:
                self.pending, self.chain = "first", ()
            return f"that {self.speaker}" if previous == "me" else self.speaker
        if lowered == "i'd":
            return f"{self.speaker} {self._had_or_would(index)}"
        if lowered in _CONTRACTIONS:
            return f"{self.speaker} {_CONTRACTIONS[lowered]}"
        return {"me": self.speaker, "myself": "themself"}.get(lowered, f"{self.speaker}'s")

    def _had_or_would(self, index: int) -> str:
        """Return the auxiliary behind 'd: "had" before a participle, else "would"."""
        following = self._next_word(index)
        participle = following in _EN["participles"] or (
            following.endswith("ed") and following not in _EN["ed_bases"]
        )
        return "had" if participle else "would"

    def _plural(self, lowered: str) -> str:
        """Return the replacement of we, us or our: the group the first time, then they, them or their."""
        self.pending, self.chain = "", ()
        first, self.group_named = not self.group_named, True
        if lowered in ("our", "ours"):
            self.group_named = not first
            self.named = self.named or first
            return f"{self.speaker}'s" if first else "their"
        if lowered == "ourselves":
            return "themselves"
        if lowered == "us":
            self.named = self.named or first
            return self.group if first else "them"
        self.named = self.named or first
        verb = {"we'd": " would"}.get(lowered) or (
            f" {_CONTRACTIONS[lowered]}" if lowered in _CONTRACTIONS else ""
        )
        return (self.group if first else "they") + verb

    def _second_person(self, index: int, lowered: str) -> str | None:
        """Return the replacement of a second-person word, or None if it stays."""
        if self.listener is None:
            return None
        if lowered in ("your", "yours"):
            return f"{self.listener}'s"
        if lowered in ("yourself", "yourselves"):
            return "themself"
        if lowered in _CONTRACTIONS:
            return f"{self.listener} {_CONTRACTIONS[lowered]}"
        if lowered == "you'd":
            return f"{self.listener} {self._had_or_would(index)}"
        following = self._next_word(index)
        if following in _EN["finite"] or not self.words or self.words[-1] not in _NO_SUBJECT:
            self.pending, self.chain = "second", ()
        return self.listener


_BEFORE_LIKES = word_set("hope glad if that think know what happy see whatever")
_BEFORE_I = word_set("and or than do am have as like but")
_NUMBERED = word_set("war part type phase level chapter volume act elizabeth henry stage")
_FIRST = _EN["both"] | _EN["asker"]
