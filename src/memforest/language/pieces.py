"""What a sentence of talk is for: a statement, or one of the things a memory need not keep, and why.

English only, by word lists; Spanish has its lists in `memforest.steps.local.spanish`, and in any other
language only questions and empty pieces are told apart (by their marks).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

from memforest.language.attribution import is_present_verb
from memforest.language.language import load_word_lists
from memforest.text import STOP_WORDS, negated, word_set, words

_EN = load_word_lists("en")
_INTERJECTIONS = _EN.lists["interjections"]
_FINITE = _EN.lists["finite"]
_PAST = _EN.lists["irregular_past"]
_PRONOUNS = _EN.lists["subject_pronouns"]
_YES_NO = _EN.lists["yes_no"]
_QUESTION_WORDS = _EN.lists["question_words"]
_AUXILIARIES = _EN.lists["auxiliaries"]
_IMPERATIVES = _EN.lists["imperatives"]
_BACKCHANNEL = (
    _EN.lists["backchannel"]
    | STOP_WORDS
    | _EN.lists["adverbs"]
    | frozenset(
        (
            "i'm",
            "i've",
            "i'll",
            "i'd",
            "you're",
            "you've",
            "you'll",
            "you'd",
            "it's",
            "that's",
            "they're",
            "we're",
            "we'll",
            "can't",
            "don't",
            "couldn't",
            "there's",
            "what's",
            "let's",
            "it'll",
            "isn't",
            "won't",
            "haven't",
            "guys",
        )
    )
)

_LOOKS_BACK = re.compile(
    r"(?:it|that|this|they|these|those) (?:was|were|felt|has been|have been)\b", re.IGNORECASE
)
_EXCLAIMS = re.compile(r"(?:what an?|such an?|sounds?|looks?|must be|must have) ", re.IGNORECASE)
_COPULAS = word_set("is are was were be been sounds sound looks look seems seem feels must")

_SUBJECTS = (
    _PRONOUNS
    | _EN.lists["determiners"]
    | frozenset(("now", "then", "here's", "there's", "that's", "the", "there"))
)

_QUESTION_END = re.compile(r"[?？؟][\s\"'”’»)\]!]*$")
_TAG = re.compile(
    r"(?<![,\s])[,\s]+(?:right|huh|eh|no|yeah|you know|isn't it|aren't they|aren't you|don't you think|"
    r"(?:is|are|do|does|did|was|were|have|has|should|would|could|ca|wo)n't (?:i|you|he|she|it|we|they)|"
    r"ok|okay)\s*\?+\s*$",
    re.IGNORECASE,
)
_DECLARES = re.compile(r"(?:I|I'm|I've|I'd|I'll|My|We|We're|We've|Our)\b")
_THEN_ASKS = re.compile(
    r"(?:[;,—–]|\s-)\s*(?:and |so |but |or )*(?:can|could|would|do|does|did|is|are|was|any|what|which|how|where|when|"
    r"who|why|should|have|has|will|may|you)\b",
    re.IGNORECASE,
)
_LAST_WORD = re.compile(r"\w\W*$")
_THANKS = re.compile(
    r"(?:many |big |so many )?(?:thanks|thank you|thank u|thx|cheers|congrats|congratulations)\b",
    re.IGNORECASE,
)
_HERE_YOU_GO = re.compile(r"here (?:you go|it is|they are|ya go)\b[^.]{0,24}$", re.IGNORECASE)
_OFFER = re.compile(
    r"\b(?:let me know|feel free|happy to help|glad to help|here to help|i'?m here (?:for|to)|hope (?:this|that|these) helps|"
    r"don'?t hesitate|if you (?:have|need|want|would like)|would you like|i can (?:help|also)|is there anything|"
    r"i'?d be happy|i'?m sorry|as an ai|i don'?t have (?:access|personal)|great question|enjoy your|good luck)\b",
    re.IGNORECASE,
)
_ADVICE = re.compile(
    r"(?:do|check|ask|call|find|keep|bring|take|get|put|set|save|share|use|follow|trust|talk to|reach out to|show) your\b",
    re.IGNORECASE,
)
_MARKER = re.compile(
    r"(?:by the way|before i forget|(?:it'?s a )?long story|that'?s about it|anyway|you'?ll like this)\W*$",
    re.IGNORECASE,
)
_EVALUATION = re.compile(
    r"^(?:it|that|this|that'?s|it'?s|you'?re|you|your [\w ]{1,30}|these|those|they|what an?|such an?|how|sounds?|looks?|seems?|must)\b",
    re.IGNORECASE,
)


def is_question(text: str) -> bool:
    """Return whether `text` asks: by its mark, or, without one, by an English question's opening.

    A tag at the end of a statement ("…, right?") does not make a question.
    """
    head = _lowered(text)[:2]
    asks = len(head) == 2 and head[0] in _QUESTION_WORDS and head[1] in _AUXILIARIES
    if _QUESTION_END.search(text) or text.startswith("¿"):
        return asks or _TAG.search(text) is None or text.count("?") > 1
    if len(head) < 2 or text.rstrip().endswith((".", "!")):
        return False
    return asks


def strip_tag(text: str) -> str:
    """Return a statement without the question tag at its end ("…, right?")."""
    return _TAG.sub(".", text)


def statement_before_question(text: str) -> str | None:
    """Return the first-person statement that a question opens with, or None.

    >>> statement_before_question("I'm planning a trip to Kyoto in May, can you suggest a hotel?")
    "I'm planning a trip to Kyoto in May"
    """
    if not _DECLARES.match(text.replace("’", "'")):
        return None
    last = _LAST_WORD.search(text)
    if last is None or "?" not in text[last.start() :]:
        return None
    before = text.rfind("?", 0, last.start())
    found = _THEN_ASKS.search(text, before + 1)
    head = text[: found.start()].rstrip() if found else ""
    return head if len(head.split()) >= 4 else None


def strip_address(text: str, names: Collection[str]) -> str:
    """Return `text` without opening interjections and the names it calls ("Hey Mel, …", "…, Mel!").

    Args:
        text: one sentence.
        names: what the participants are called, in full and for short, lower case.
    """
    text = _strip_opening(text, names)
    end = text.rstrip(" .!?…")
    head, comma, last = end.rpartition(",")
    if comma and last.strip().lower() in names and head:
        text = head + (text[len(end) :] or ".")
    return text


_OPENING = re.compile(
    r"(?:by the way|before i forget|to be honest|of course|you know(?= what)?|as for me|guess what|i mean|for sure|([\w'’]+))",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(r"\s*(?:[,!.;:…—–]+|\s-)\s*")


def _strip_opening(text: str, names: Collection[str]) -> str:
    """Return `text` without opening interjections, each with the name after it, as long as words remain."""
    for _ in range(4):
        found = _OPENING.match(text)
        if found is None:
            return text
        word = found.group().lower()
        rest = text[found.end() :]
        if found.group(1) and word not in _INTERJECTIONS and word not in names:
            return text
        name = re.match(r"[ ,]*([\w'’]+)", rest)
        if name and word not in names and name.group(1).lower() in names:
            rest = rest[name.end() :]
            if rest[:1] == " ":
                rest = "," + rest
        gap = _SEPARATOR.match(rest)
        if gap is None and _opens_clause(rest):
            gap = re.match(r"\s+", rest)
        if gap is None or not rest[gap.end() :].strip(" .!?…"):
            return text
        text = rest[gap.end() :]
        text = text[0].upper() + text[1:]
    return text


def _opens_clause(rest: str) -> bool:
    """Return whether a subject follows, so that an interjection without a comma can go: "so I …", not "so much …"."""
    following = _lowered(rest[:24])
    return bool(following) and rest[:1] == " " and following[0] in _SUBJECTS


def lacks_content(text: str, names: Collection[str]) -> bool:
    """Return whether every word is a function word, a backchannel word or a participant's name.

    >>> lacks_content("That's so awesome, Mel!", {"mel"}), lacks_content("That's a violin, Mel!", {"mel"})
    (True, False)
    """
    for word in _lowered(text):
        if word not in _BACKCHANNEL:
            bare = word.removesuffix("'s")
            if bare not in _BACKCHANNEL and bare not in names:
                return False
    return True


@lru_cache(maxsize=256)
def _lowered(text: str) -> tuple[str, ...]:
    """Return the words of a sentence in lower case, apostrophes straight; several rules ask for the same one."""
    return tuple(words(text.lower().replace("’", "'")))


def is_afterword(text: str) -> bool:
    """Return whether `text` is a very short sentence without content of its own that says how the one before it is meant.

    Pleasantries are none, nor is what answers or asks.

    >>> [is_afterword(one) for one in ("Not.", "Just kidding!", "As if.", "Thanks!", "Not you?", "Red.")]
    [True, True, True, False, False, False]
    """
    found = _lowered(text)
    if not 0 < len(found) <= AFTERWORDS or _QUESTION_END.search(text):
        return False
    return _AFTERWORDS.issuperset(found) and _NO_AFTERWORDS.isdisjoint(found)


def takes_back(text: str) -> bool:
    """Return whether an afterword denies what stands before it, or says that it was not meant."""
    return negated(text) or not _TAKES_BACK.isdisjoint(_lowered(text))


AFTERWORDS = 3
"""Words of a sentence that only says how the one before it is meant, at most."""
_TAKES_BACK = _EN.lists["takes_back"] | load_word_lists("es").lists["takes_back"]
_AFTERWORDS = STOP_WORDS | _TAKES_BACK | word_set("not never hardly barely")
_NO_AFTERWORDS = _INTERJECTIONS - word_set("so actually but") | _YES_NO


def is_clause(text: str) -> bool:
    """Return whether `text` seems to have a finite verb (an auxiliary, a past form, a pronoun subject)."""
    for at, lowered in enumerate(_lowered(text)):
        if at and is_present_verb(lowered):
            return True
        if lowered in _FINITE or lowered in _PRONOUNS or lowered in _PAST or _is_ed(lowered):
            return True
    return False


def opens_with_answer(text: str) -> bool:
    """Return whether `text` gives a short phrase, with a remark or what points to it: "Kyoto, as far as I know".

    >>> opens_with_answer("In Kyoto, as far as I know."), opens_with_answer("I think it's Kyoto now.")
    (True, True)
    >>> opens_with_answer("She moved, I think.")
    False
    """
    if (pointed := _POINTS.match(text)) and len(text.split()) <= MOST_POINTED:
        return (_FINITE | _PRONOUNS).isdisjoint(_lowered(text[pointed.end() :]))
    head, comma, _ = text.partition(",")
    first = _lowered(head)[:1]
    return bool(comma) and 0 < len(head.split()) <= 6 and not is_clause(head) and first != ("when",)


def _is_ed(word: str) -> bool:
    """Return whether `word` is a past form in -ed by its look."""
    return len(word) > 4 and word.endswith("ed")


_POINTS = re.compile(
    r"(?:(?:i|we) (?:think|believe|guess|suppose),? (?:that )?)?(?:it's|it is|that's|that is|that would be|that'd be)\b",
    re.IGNORECASE,
)
MOST_POINTED = 9
"""Words of an answer that only points to what is asked for; a longer one tells something."""


def is_yes_no_answer(text: str) -> bool:
    """Return whether `text` opens with yes, no or a word that stands for them."""
    found = re.match(r"\w+", text)
    return found is not None and found.group().lower() in _YES_NO


def skip_reason(text: str, names: Collection[str], *, assistant: bool) -> str | None:
    """Return why an English sentence that is no question is not worth a statement, or None if it is.

    ``"evaluation"`` ("It was so relaxing.") is worth keeping behind the statement that it is about, and only there.

    Args:
        text: one sentence, its opening already stripped.
        names: what the participants are called, lower case.
        assistant: the speaker is an AI assistant: offers and advice without anything concrete are skipped too.
    """
    if _THANKS.match(text) or _HERE_YOU_GO.match(text) or _MARKER.match(text) or lacks_content(text, names):
        return "evaluation" if _LOOKS_BACK.match(text) else "pleasantry"
    found = _lowered(text)
    concrete = _is_concrete(text, names)
    if assistant and not concrete:
        return "offer of help" if _OFFER.search(text) else "assistant chatter"
    if concrete:
        return None
    if found[0] in _IMPERATIVES and len(found) <= 14:
        return "encouragement"
    if _ADVICE.match(text):
        return "advice"
    if _is_evaluation(text, found):
        return "evaluation"
    return "fragment" if len(found) <= 2 and not is_clause(text) else None


def _is_concrete(text: str, names: Collection[str]) -> bool:
    """Return whether the sentence holds a number, a name other than the participants', a title or an address."""
    if any(ch.isdigit() for ch in text) or "http" in text or '"' in text or "**" in text:
        return True
    return any(
        word[0].isupper()
        and word not in ("I", "OK")
        and not word.startswith(("I'", "I’"))
        and word.lower() not in names
        for word in words(text)[1:]
    )


def _is_evaluation(text: str, found: Sequence[str]) -> bool:
    """Return whether the sentence only says how the speaker finds what was said: "Your trip sounds great"."""
    if _EVALUATION.match(text) is None or len(found) > 14:
        return False
    if len(found) <= 9 and (_mostly_backchannel(found) or _EXCLAIMS.match(text)):
        return True
    copula = max((at for at, word in enumerate(found) if word in _COPULAS or word.endswith("'s")), default=-1)
    return 0 <= copula < len(found) - 1 and all(word in _BACKCHANNEL for word in found[copula + 1 :])


def _mostly_backchannel(found: Sequence[str]) -> bool:
    """Return whether at most one word is outside the backchannel list."""
    return sum(word not in _BACKCHANNEL for word in found) <= 1
