"""The clauses of sentences, with what is denied in them. English and Spanish; in other languages a clause is a piece between marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memforest.text import lexical_tokens, negated, words

_FORM_CHARS = 5
_BETWEEN = re.compile(
    r"(?:(?<=^[Nn]o)\s(?=(?:I|you|s?he|it|we|they|the|that|this|there|my|our)\b)|[,;:.!?…—–]+(?=\s|$)|\s-\s|"
    r"\b(?:but|because(?! of\b)|so|and|or|nor|though|although|than|as|pero|porque|y|o|ni|aunque)\b)+",
    re.IGNORECASE,
)
_RELATIVE = re.compile(
    r"\b(?:because of|that|which|who|whom|when|where|while|until|till|cuando|donde|hasta)\b", re.IGNORECASE
)
_ALSO = re.compile(r"\W*(?:or|nor|o|ni)\b", re.IGNORECASE)
_NO_DENIAL = re.compile(
    r"\bno,? thanks?(?: you)?\b|\boh,? no\b|\bno (?:later|sooner|earlier|fewer|less)\b|\bnothing (?:beats|better)\b|(?:\bnot|n['’]t) (?:(?:too|so|that|half) )?bad\b|"
    r"\bnever (?:been|felt|had) (?:so|such|more|better|\w+er)\b",
    re.IGNORECASE,
)
_NOPE = re.compile(r"\s*(?:nope|nah)\b", re.IGNORECASE)
# What may be said with a negation or without one: "refused to", "gave up", "without".
_SOFT = re.compile(
    r"\b(stop|quit|gave|giv|refus|hat|dislik|avoid|los[est]|fail|miss|cancel|lack|forg[eo]t|hardly|bare|rare|seldom|too|instead|non-|"
    r"rather|used|former|left|leav|all?[eé]rg|skip|broke|out|only|wish|against|den[iy]|declin|reject|clos|sold|died|dead|vegan|"
    r"vegetarian|first|last|until|till|previous|bad|poor|wors|impossib|if|unless|without|except|"
    r"un(?!der|til|ion|iver|iq|it)\w{4}|dej|odi|perd|evit|apenas|rechaz)\w*|"
    r"\b\w{3,20}(less)\b|\b(no way)\b|\b(sin|solo|si)\b",
    re.IGNORECASE,
)
_PRONOUNS = {"one"}  # "a spare one"
_SHORT_WORDS = 3


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a sentence with a verb of its own, or a short one that goes on with it ("no meat, fish or eggs")."""

    text: str
    sentence: str
    forms: frozenset[str]
    """Its content words; see `forms_of`."""
    denies: bool
    soft: frozenset[str]
    """The stems of words by which it may mean the same with a negation or without; "" where it goes on with a denial, or contrasts in a statement."""


def forms_of(text: str) -> frozenset[str]:
    """Return the content words of a text, cut to what forms of one word share: "relocate", "relocation".

    >>> sorted(forms_of("Relocating costs 640 euros")), sorted(forms_of("A relocation, at the cost of 640 euro"))
    (['640', 'cost', 'euro', 'reloc'], ['640', 'cost', 'euro', 'reloc'])
    """
    return frozenset(token if token[0].isdigit() else token[:_FORM_CHARS] for token in lexical_tokens(text))


def is_question(sentence: str) -> bool:
    """Return whether a sentence ends with a question mark, whatever marks of quotation are behind it."""
    return sentence.rstrip(" \"'”’»)").endswith(("?", "？", "؟"))


def split_clauses(sentence: str, *, relative: bool = True) -> Iterator[Clause]:
    """Yield the clauses of a sentence in order.

    Args:
        sentence: that is no question.
        relative: whether a relative clause is one of its own, as in what is said. A statement is not split there, as its
            verb may stand behind it ("The conductor who shouts left").

    >>> [(one.text, one.denies) for one in split_clauses("I don't eat meat, but I love fish.")]
    [("I don't eat meat", True), ('I love fish', False)]
    """
    before: Clause | None = None
    for joint, text in _parts(sentence, relative=relative):
        denies = negated(_NO_DENIAL.sub(" ", text)) or _NOPE.match(text) is not None
        soft = {next(one for one in found.groups() if one).lower() for found in _SOFT.finditer(text)}
        listed = before is not None and (before.denies or "" in before.soft)
        if listed and not denies and len(words(text)) <= _SHORT_WORDS:
            denies = _ALSO.match(joint) is not None
            soft |= set() if denies else {""}
        elif not relative and before is not None and text.lower().startswith(("not ", "no ")):
            soft.add("")  # a contrast: "the small one, not the big one"
        before = Clause(text, sentence, forms_of(text) - _PRONOUNS, denies, frozenset(soft))
        yield before


def _parts(sentence: str, *, relative: bool) -> Iterator[tuple[str, str]]:
    """Yield what joins a clause to the one before it, and the clause, trimmed."""
    joint, begin = "", 0
    ends = [(found.start(), found.end()) for found in _BETWEEN.finditer(sentence)]
    if relative:
        ends += [(found.start(), found.end()) for found in _RELATIVE.finditer(sentence)]
    for start, end in (*sorted(ends), (len(sentence), len(sentence))):
        text = sentence[begin:start].strip()
        if any(ch.isalnum() for ch in text):
            yield joint, text
            joint = ""
        joint, begin = joint + sentence[start:end], max(begin, end)
