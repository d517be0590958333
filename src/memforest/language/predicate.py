"""Reads the front of a predicate: adverbs, auxiliaries and negation, up to the main verb.

"no longer works at", "has been living in", "used to drive" and "started using" differ in what they say
about *when*; this module turns them into one `Predicate`. A modal or a hypothetical ("might", "plans to")
has no predicate here: it states nothing that is so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from memforest.language.lexicon import Lexicon, Sense

__all__ = [
    "MODAL",
    "Change",
    "Predicate",
    "Token",
    "change_of",
    "is_own",
    "lower_in_place",
    "read_predicate",
    "tokenise",
]

MODAL: Literal["modal"] = "modal"
"""What `read_predicate` returns for "might move": the subject's later verbs are hypothetical as well."""

Change = Literal["is", "start", "end"]
_TOKEN = re.compile(r"[^\W_]+(?:['.+&-][^\W_]+)*\+*")
_MAX_HEAD = 10


class Token(NamedTuple):
    """A word: lower case, and where it stands in its sentence."""

    low: str
    start: int
    end: int


@dataclass(slots=True)
class Predicate:
    """A main verb and what stands in front of it.

    `rest` is where the text behind the verb begins. `phase` is ``start`` for "began working" and ``end``
    for "stopped working" and "used to work". `ceased` marks "no longer".
    """

    lemma: str = ""
    surface: tuple[int, int] = (0, 0)
    rest: int = 0
    past: bool = False
    perfect: bool = False
    progressive: bool = False
    negated: bool = False
    ceased: bool = False
    present_word: bool = False
    former_word: bool = False
    phase: Literal["", "start", "end"] = ""
    reported: bool = False
    auxiliary: str = ""


def tokenise(text: str) -> list[Token]:
    """Return the words of `text`; a contraction, a hyphenated word and "C++" are one."""
    return [Token(m.group().lower(), m.start(), m.end()) for m in _TOKEN.finditer(text)]


def read_predicate(
    text: str, tokens: Sequence[Token], at: int, lexicon: Lexicon, *, copula: bool = False
) -> Predicate | Literal["modal", "report"] | None:
    """Return the predicate whose first word is ``tokens[at]``, or None if it is none that the lexicon knows.

    Args:
        text: the sentence.
        tokens: its words.
        at: index into `tokens`.
        lexicon: the language.
        copula: whether a form of "be" is the main verb even before an -ing form ("his hobby is painting").
    """
    head = Predicate()
    index = at
    while index < min(len(tokens), at + _MAX_HEAD):
        if index > at and not text[tokens[index - 1].end : tokens[index].start].isspace():
            return _auxiliary_as_verb(head, tokens, index)
        role, width, word = _role(tokens, index, head, lexicon)
        if role == "modal":
            return MODAL
        if role == "report":
            return "report" if index == at else None
        if role in ("inceptive", "cessative") and not _governs_verb(tokens, index + width, lexicon):
            role = ""
        if not role or (head.phase == "start" and role != "adverbs"):
            return _main_verb(head, tokens, index, word, lexicon, copula=copula)
        _take(head, role, word, lexicon)
        if (
            head.phase
            and index + width < len(tokens)
            and tokens[index + width].low in lexicon.words["infinitive"]
        ):
            width += 1
        index += width
    return _auxiliary_as_verb(head, tokens, index)


def _governs_verb(tokens: Sequence[Token], at: int, lexicon: Lexicon) -> bool:
    """Return whether a verb follows: "quit smoking", not "quit her job"."""
    if at < len(tokens) and tokens[at].low in lexicon.words["infinitive"]:
        at += 1
    forms = lexicon.forms.get(tokens[at].low, ()) if at < len(tokens) else ()
    return any(tag in ("ing", "base") for _, tag in forms)


def _role(tokens: Sequence[Token], index: int, head: Predicate, lexicon: Lexicon) -> tuple[str, int, str]:
    """Return what the word(s) at `index` do in front of a verb, how many words that is, and the bare word."""
    word = tokens[index].low
    if index + 1 < len(tokens):
        role = lexicon.roles.get(f"{word} {tokens[index + 1].low}")
        if role is not None:
            return role, 2, word
    if word.endswith("n't"):
        head.negated = True
        word = word[:-3]
    return lexicon.roles.get(word, ""), 1, word


def _take(head: Predicate, role: str, word: str, lexicon: Lexicon) -> None:
    """Note in `head` what one word in front of the main verb says."""
    if role == "adverbs":
        head.present_word |= word in lexicon.words["present"]
        head.former_word |= word in lexicon.words["former"]
    elif role in ("not", "ceased"):
        head.negated = True
        head.ceased |= role == "ceased"
    elif role in ("inceptive", "cessative", "used"):
        head.phase = "start" if role == "inceptive" else "end"
    else:
        _take_auxiliary(head, role, word, lexicon)


def _take_auxiliary(head: Predicate, role: str, word: str, lexicon: Lexicon) -> None:
    """Note in `head` a form of "do", "have" or "be"."""
    if role == "be" and head.auxiliary == "have" and word in lexicon.words["be_part"]:
        head.perfect = True
    elif word in lexicon.words["be_past"] | lexicon.words["have_past"] or word == "did":
        head.past = True
    head.auxiliary = role


def _main_verb(
    head: Predicate, tokens: Sequence[Token], index: int, word: str, lexicon: Lexicon, *, copula: bool
) -> Predicate | None:
    """Return `head` completed by the verb at `index`, or by the auxiliary in front of it."""
    if copula and head.auxiliary == "be":
        return _auxiliary_as_verb(head, tokens, index)
    wanted = _wanted_tags(head)
    for tag in wanted:
        for lemma, found in lexicon.forms.get(word, ()):
            if found == tag:
                return _complete(head, lemma, tag, tokens[index])
    return _auxiliary_as_verb(head, tokens, index)


def _wanted_tags(head: Predicate) -> tuple[str, ...]:
    """Return the verb forms that fit what stands in front, the likeliest first."""
    if head.phase:
        return ("ing", "base")
    if head.auxiliary == "be":
        return ("ing",)
    if head.auxiliary == "have":
        return ("part",)
    return ("base", "now") if head.auxiliary == "do" else ("past", "now", "base")


def _complete(head: Predicate, lemma: str, tag: str, token: Token) -> Predicate:
    """Return `head` with its main verb."""
    head.lemma, head.surface, head.rest = lemma, (token.start, token.end), token.end
    head.past |= tag == "past"
    head.perfect |= tag == "part"
    head.progressive = tag == "ing" and head.auxiliary == "be"
    return head


def _auxiliary_as_verb(head: Predicate, tokens: Sequence[Token], index: int) -> Predicate | None:
    """Return `head` with its "be" or "have" as the main verb; the text behind it starts at word `index`."""
    if head.auxiliary not in ("be", "have") or head.phase == "start" or index == 0:
        return None
    before = tokens[index - 1]
    head.lemma, head.surface, head.rest = head.auxiliary, (before.start, before.end), before.end
    return head


def lower_in_place(text: str) -> str:
    """Return `text` in lower case, of the same length: "İ" and its like stay."""
    lowered = text.lower()
    return (
        lowered
        if len(lowered) == len(text)
        else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
    )


def is_own(match: re.Match[str], subject: Sequence[str]) -> bool:
    """Return whether "X's job" behind the verb is the subject's own: "Bob quit Bob's job", not "Bob quit Tom's".

    Args:
        match: of a pattern of the lexicon, which may have a group ``owner``.
        subject: the names that the verb is about.
    """
    owner = match["owner"] if "owner" in match.re.groupindex else None
    return owner is None or owner.lower() in {name.lower() for name in subject}


def change_of(sense: Sense, head: Predicate, *, dated: bool, ended: bool, any_more: bool) -> Change | None:
    """Return what a pattern of this sense says under this predicate, or None for nothing.

    A bare past tense ("Bob lived in Davis") is over, unless the sentence dates it (`dated`) and does
    not say that it ended (`ended`); then its valid time says when it was so.
    """
    if head.negated:
        over = (head.ceased or any_more) and sense in ("is", "habit")
        return "end" if over else None
    if head.phase or head.former_word:
        if sense not in ("is", "habit"):
            return None
        return "start" if head.phase == "start" else "end"
    if sense in ("start", "end", "noun_start"):
        return None if head.progressive else "end" if sense == "end" else "start"
    if head.past:
        plain = dated and not ended and not head.perfect and sense == "is" and not head.reported
        return "is" if plain else None if sense == "habit" or head.reported else "end"
    if sense == "habit" and head.progressive and not (head.perfect or head.present_word):
        return None
    return "is"
