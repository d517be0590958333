"""What a clause says of its subject: the names that its verb, or a preposition behind it, governs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from memforest.language.joining import Words

_MOST_BETWEEN = 3
"""Words that a verb takes in front of a preposition: "took *a long walk* with"."""
_MOST_TAKEN = 9
"""Words between a verb and a name."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a mark, or names in a row; the last of them `owns` what follows if it has a possessive.

    `noun` is what a name is said to be of: "old dog" for "an old dog named Max".
    """

    text: str
    names: tuple[str, ...] = ()
    owns: bool = False
    noun: str = ""
    company: bool = False
    """Whether others without a name act with them."""

    @property
    def is_word(self) -> bool:
        """Whether it is a common word: no name, no mark, no figure, nothing with a capital."""
        return not self.names and self.text[0].isalpha() and self.text.islower()


END = Token(".")
"""Stands behind the last token."""

Add = Callable[[Sequence[str], str, Sequence[str]], None]
"""Takes the subjects, the label, and the names that it joins them to."""


class Predicate:
    """What a clause says of its subject, from a place on.

    Args:
        words: of the language.
        clause: its tokens.
        at: where its predicate begins.
        subject: the names that it is about, none that own anything.
        add: takes what is said.
    """

    __slots__ = ("add", "at", "clause", "several", "subject", "words")

    def __init__(self, words: Words, clause: Sequence[Token], at: int, subject: Token, add: Add) -> None:
        self.words, self.add = words, add
        self.clause, self.at = clause, at
        self.subject, self.several = subject.names, subject.company or len(subject.names) > 1

    def read(self) -> bool:
        """Note its relations; return whether it is one at all, with whose subject a further verb may go on."""
        label, helped = self._helped()
        token = self._token()
        if helped in ("", "do"):
            if not token.is_word or self.words.is_any(token.text, "prepositions", "determiners"):
                return False
            plural = helped == "do" or self.several
            if not (self.words.is_verb(token.text) if plural else self.words.is_told(token.text)):
                return False
            label = [*label, token.text]
            self.at += 1
        elif helped == "have" and token.is_word and self.words.is_done(token.text):
            label = [*label[:-1], token.text]
            self.at += 1
        elif helped == "be" and token.is_word and not self.words.is_("prepositions", token.text):
            label = label[:-1]
            if self.words.is_doing(token.text):
                label.append(token.text)
                self.at += 1
        self._objects(label, held=bool(label) and self.words.is_("holds", label[-1]))
        return True

    def _token(self, further: int = 0) -> Token:
        at = self.at + further
        return self.clause[at] if at < len(self.clause) else END

    def _helped(self) -> tuple[list[str], str]:
        """Go behind the adverbs and helping verbs; return the last of these, and what kind it is."""
        label, helped = list[str](), ""
        while self._token().is_word:
            text = self._token().text
            kind = next((one for one in ("be", "have", "do") if self.words.is_(one, text)), "")
            if kind:
                label, helped = [text], kind
            elif self.words.is_("reflexive", text):
                label = [text]
            elif not self.words.is_adverb(text):
                break
            self.at += 1
        return label, helped

    def _objects(self, label: list[str], *, held: bool) -> None:
        """Note the name that a verb or what it takes governs, and a name beside that."""
        taken = self._taken()
        target = self._token()
        if not target.names or target.owns or not self._may_follow(self._token(1)):
            return
        prepositions = [word for word in taken if self.words.is_("prepositions", word)]
        said = target.noun if held and not taken else self._label(label, taken, held=held)
        if not said:
            return
        self.add(self.subject, said, target.names)
        self.at += 1
        following = self._token().text
        allowed = self.words.is_("beside", following) or (
            self.words.is_("place", following)
            if not prepositions
            else self.words.is_("beside", prepositions[-1]) and self.words.is_("onward", following)
        )
        if allowed and label and not held:
            self.at += 1
            self._beside([*label, following])

    def _beside(self, label: list[str]) -> None:
        while self.words.is_("determiners", self._token().text):
            self.at += 1
        target = self._token()
        if target.names and not target.owns and self._may_follow(self._token(1)):
            self.add(self.subject, " ".join(label), target.names)

    def _taken(self) -> list[str]:
        """Return the words in front of the next name, articles right in front of it left out; go there."""
        taken: list[str] = []
        while self._token().is_word and len(taken) < _MOST_TAKEN:
            if not self.words.is_adverb(self._token().text):
                taken.append(self._token().text)
            self.at += 1
        while taken and self.words.is_("determiners", taken[-1]):
            taken.pop()
        return taken

    def _label(self, label: list[str], taken: list[str], *, held: bool) -> str | None:
        """Return what joins a subject to a name behind some words; None where these are no single phrase."""
        small = ("prepositions", "particles", "determiners", "pronouns")
        content = [word for word in taken if not self.words.is_any(word, *small)]
        prepositions = [word for word in taken if self.words.is_("prepositions", word)]
        last = taken[-1] if taken else ""
        if len(content) > _MOST_BETWEEN or self._goes_on(taken):
            return None
        if any(self.words.is_any(word, "pronouns", "be", "have") for word in taken[bool(label) :]):
            return None
        if not content:
            governed = (
                label and not held and (not taken or self.words.is_any(last, "prepositions", "particles"))
            )
            return " ".join([*label, *taken]) if governed else None
        if self.words.is_("prepositions", last):
            kept = taken
        elif label and not held and self.words.is_("nouns", last) and not prepositions:
            kept = []
        elif len(taken) == 1 and self.words.is_doing(last):
            kept = taken
        else:
            return None
        while not label and kept and self.words.is_("determiners", kept[0]):
            kept = kept[1:]
        return " ".join([*label, *kept])

    def _goes_on(self, taken: Sequence[str]) -> bool:
        """Return whether a verb may follow "to": "came *to see*", but "went to the game", "to school"."""
        known = ("determiners", "prepositions", "pronouns", "owners", "nouns")
        return any(before == "to" and not self.words.is_any(word, *known) for before, word in pairwise(taken))

    def _may_follow(self, token: Token) -> bool:
        """Return whether a word may stand behind a name that a verb governs: no noun, and no verb of the name's."""
        text = token.text.lower()
        return not token.names and (
            token is END
            or self.words.is_any(text, "follow", "prepositions", "determiners")
            or self.words.is_adverb(text)
            or text.isdecimal()
        )
