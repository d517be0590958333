"""Requests: what somebody asks another to do ("Don't use emojis", "Can we move to Friday?"), which is worth remembering.

An imperative, or a modal verb with a first or second person and a verb of doing; who asks to be told something asks a
question. English imperatives are told by their form: a verb without a subject. The words are data, per language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from memforest.language.language import Code, load_word_lists
from memforest.language.pieces import is_question
from memforest.language.sentences import split_sentences
from memforest.text import STOP_WORDS, lexical_tokens, words

ASKED_CHARS = 600
"""Characters of the longest question that is one question; of a longer text, what it asks is looked for at its ends."""
BESIDE_CHARS = 200
"""Characters in front of a question, on its line, that say what it is about."""

_EN = load_word_lists("en").lists
_ELIDED = frozenset(load_word_lists("en").tables["elided"])
_VERBS = (_EN["imperatives"] | _EN["common_verbs"] | _EN["speech"]) - _EN["states"] - _ELIDED
_NO_VERBS = STOP_WORDS | _EN["not_verbs"] | _EN["backchannel"] | _EN["adverbs"] | _EN["interjections"]
_NO_VERBS |= _EN["finite"] | _ELIDED
_OPENS = frozenset(("please", "and", "also", "then", "so", "just", "but", "ok", "okay", "now"))
_OBJECTS = frozenset(("me", "my", "us", "our", "it", "them", "all", "any", "every", "that", "the", "a", "an"))
_ME = frozenset(("i", "i'm", "i've", "i'd", "i'll", "me", "my", "us", "our", "mine"))
_TELLS = _EN["speech"] | _EN["information"] | frozenset(("let", "keep"))
_HAN = re.compile("[\u3400-\u9fff]")
_OPENING_CHARS = 6
"""How far into a Chinese sentence its modal verb is looked for: "我们能不能改到周五？"."""
_POSSIBLE = re.compile(
    r"\b(?:(?:is|would|will) (?:it|that) (?:be )?(?:possible|okay|ok|alright|fine) (?:to|if)|any chance|mind \w+ing\b)"
)
_ADVERBIAL = re.compile(
    r"(?:(?:from|in|for|at|next|starting|as|if)\b[^,.;!?]{1,40},|from now on|in (?:the )?future)\s+", re.I
)
_ENCLITICS = ("me", "nos", "lo", "la", "los", "las", "te")


@lru_cache(maxsize=64)
def asked_in(text: str) -> str:
    r"""Return what a long text asks: the questions at its end, else at its beginning, else both of its ends.

    Whoever pastes a page and asks something behind it does not ask for the words of the page.

    >>> asked_in("at line 42 in handle\n" * 90 + "Where is my key?"), asked_in("Where is my key?")
    ('Where is my key?', 'Where is my key?')
    """
    if len(text) <= ASKED_CHARS:
        return text
    head, tail = text[:ASKED_CHARS], text[-ASKED_CHARS:]
    for end in (tail, head):
        asks = [one for one in split_sentences(end) if is_question(one.text)]
        if lexical_tokens(" ".join(one.text for one in asks)):
            first = asks[0].start
            line = end.rfind("\n", 0, first) + 1
            beside = end[max(line, first - BESIDE_CHARS) : first]
            return beside.lstrip() + " ".join(one.text for one in asks)
    return f"{head[: ASKED_CHARS // 2]} … {tail[-ASKED_CHARS // 2 :]}"


def _lowered(text: str) -> list[str]:
    return words(text.lower().replace("’", "'"))


def is_request_question(text: str, code: Code) -> bool:
    """Return whether a question asks somebody to do something, and not to tell something.

    >>> is_request_question("Could I get a refund after all?", "en")
    True
    >>> is_request_question("Can you tell me where my parcel is?", "en")
    False
    """
    lists, found = load_word_lists(code).lists, _lowered(text)
    if code == "en" and _POSSIBLE.search(text.lower()):
        return True
    if code == "other" and _HAN.search(text):
        chinese = load_word_lists("zh").lists
        told = any(word in text for word in chinese["speech"] | chinese["question_words"])
        return not told and any(word in text[:_OPENING_CHARS] for word in chinese["asking_modals"])
    if code == "other":  # without a list of question words, the modal has to come first
        clauses = [words(clause.lower()) for clause in text.split(",")]
        found = next((one for one in clauses if one and one[0] in lists["asking_modals"]), [])
    at = next((at for at, word in enumerate(found[:6]) if word in lists["asking_modals"]), None)
    if at is None or not lists.get("question_words", frozenset()).isdisjoint(found[:at]):
        return False
    if code == "en":
        return _asks_to_do(found[at:])
    behind = found[at + 1 :]
    return len(behind) > 1 and lists["information"].isdisjoint(behind)


def _asks_to_do(found: Sequence[str]) -> bool:
    """Return whether a verb of doing stands behind a modal and its subject."""
    if found[1:2] not in (["i"], ["we"], ["you"], ["u"]) or (found[0] == "would" and found[1] in ("i", "we")):
        return False
    behind = [word for word in found[2:] if word not in _EN["adverbs"] and word != "please"]
    tells = not _EN["question_words"].isdisjoint(behind[1:4]) and behind[:1] != ["do"]
    return len(behind) > 1 and behind[0] not in _EN["information"] and not tells


def is_imperative(text: str, code: Code, *, to_assistant: bool = False) -> bool:
    """Return whether a sentence that is no question tells somebody what to do for the speaker.

    Between people, an imperative without "me", "my" or "please" mostly encourages ("Enjoy your trip"), unless it forbids.

    Args:
        text: one sentence, its opening already stripped.
        code: its language; Spanish ones are told by their ending and a few verbs.
        to_assistant: it is said to an AI assistant.

    >>> is_imperative("Remember that I hate onions.", "en"), is_imperative("Remember to have fun!", "en")
    (True, False)
    """
    if code == "es":
        first = next(iter(_lowered(text.lower().removeprefix("por favor, "))), "")
        by_form = first.endswith(_ENCLITICS) and not set("áéíóú").isdisjoint(first)  # "llámame"
        return by_form or first in load_word_lists("es").lists["imperatives"]
    found = _lowered(_ADVERBIAL.sub("", text, count=1))
    polite = "please" in found
    while found and found[0] in _OPENS:
        found = found[1:]
    if len(found) < 2 or code != "en":
        return False
    forbids = found[0] in ("don't", "never") or found[:2] == ["do", "not"]
    if forbids:
        verb = found[2 if found[0] == "do" else 1 :][:1]
        return bool(verb) and _EN["consoling"].isdisjoint(verb) and verb[0] not in STOP_WORDS
    tells = found[0] in _TELLS and found[1] == "me" and found[2:3] != ["to"]  # "tell me more"
    if tells or not _is_verb(found, to_assistant=to_assistant):
        return False
    return to_assistant or polite or not _ME.isdisjoint(found[1:])


def _is_verb(found: Sequence[str], *, to_assistant: bool) -> bool:
    """Return whether a sentence begins with a verb in its base form: a known one, or a word in front of an object."""
    first, second = found[0], found[1]
    if first in _VERBS:
        return (
            second not in _EN["finite"] and second not in _EN["irregular_past"] and not second.endswith("ed")
        )
    if first in _NO_VERBS or first in _EN["states"] or first.endswith(("ed", "ing", "ly", "s")):
        return False
    joins = second in _OBJECTS or (to_assistant and second in _EN["prepositions"])
    return joins and _EN["finite"].isdisjoint(found[1:]) and _EN["irregular_past"].isdisjoint(found[1:])
