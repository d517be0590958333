"""What a sentence of talk is for: a statement, a question, a request, or nothing a memory need keep; and quoting a turn.

English by word lists; Spanish has its lists in `memforest.reading.extract_local`, and in any other
language only questions and empty pieces are told apart (by their marks).

A quote is found again in its turn by its sentences; a bare answer is understood by the question that it answers. A request
("Don't use emojis", "Can we move to Friday?") is an imperative, or a modal verb with a first or second person and a verb
of doing; who asks to be told something asks a question. English imperatives are known by their form: a verb without a
subject.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache

from memforest.reading.tokens import Code, load_word_lists, load_word_tables, split_sentences
from memforest.records import SpokenText
from memforest.text import STOP_WORDS, lexical_tokens, negated, word_set, words

_EN = load_word_lists("en")
_BACKCHANNEL = (
    _EN["backchannel"]
    | STOP_WORDS
    | _EN["adverbs"]
    | word_set(
        "i'm i've i'll i'd you're you've you'll you'd it's that's they're we're we'll can't don't couldn't there's "
        "what's let's it'll isn't won't haven't guys"
    )
)

_LOOKS_BACK = re.compile(
    r"(?:it|that|this|they|these|those) (?:was|were|felt|has been|have been)\b", re.IGNORECASE
)
_EXCLAIMS = re.compile(r"(?:what an?|such an?|sounds?|looks?|must be|must have) ", re.IGNORECASE)
_COPULAS = word_set("is are was were be been sounds sound looks look seems seem feels must")

_SUBJECTS = (
    _EN["subject_pronouns"]
    | _EN["determiners"]
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
    """Return whether `text` is a question: by its mark, else by an English question's opening.

    A tag at the end of a statement ("…, right?") does not make a question.
    """
    head = _lowered(text)[:2]
    asks = len(head) == 2 and head[0] in _EN["question_words"] and head[1] in _EN["auxiliaries"]
    if _QUESTION_END.search(text) or text.startswith("¿"):
        return asks or _TAG.search(text) is None or text.count("?") > 1
    return asks and not text.rstrip().endswith((".", "!"))


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
    """Return `text` without opening interjections, the names it calls and its tag ("Hey Mel, …", "…, Mel!", "…, right?").

    An interjection goes with the name after it, as long as words remain; one without a comma where a subject follows: "so
    I …", not "so much …".

    Args:
        text: one sentence.
        names: what the participants are called, in full and for short, lower case.
    """
    for _ in range(4):
        found = _OPENING.match(text)
        word = found.group().lower() if found else ""
        if found is None or (found.group(1) and word not in _EN["interjections"] and word not in names):
            break
        rest = text[found.end() :]
        name = re.match(r"[ ,]*([\w'’]+)", rest)
        if name and word not in names and name.group(1).lower() in names:
            rest = rest[name.end() :]
            rest = f",{rest}" if rest[:1] == " " else rest
        gap = _SEPARATOR.match(rest)
        following = _lowered(rest[:24]) if gap is None and rest[:1] == " " else ()
        if following and following[0] in _SUBJECTS:
            gap = re.match(r"\s+", rest)
        if gap is None or not rest[gap.end() :].strip(" .!?…"):
            break
        text = rest[gap.end()].upper() + rest[gap.end() + 1 :]
    end = text.rstrip(" .!?…")
    head, comma, last = end.rpartition(",")
    if comma and last.strip().lower() in names and head:
        text = head + (text[len(end) :] or ".")
    return _TAG.sub(".", text)


_OPENING = re.compile(
    r"(?:by the way|before i forget|to be honest|of course|you know(?= what)?|as for me|guess what|i mean|for sure|([\w'’]+))",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(r"\s*(?:[,!.;:…—–]+|\s-)\s*")


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
    """Return the words of a sentence in lower case, with straight apostrophes; cached, as several rules need them."""
    return tuple(words(text.lower().replace("’", "'")))


def is_afterword(text: str) -> bool:
    """Return whether `text` is a very short sentence that only comments on the one before it ("Just kidding.").

    Pleasantries are none, nor is what answers or asks.

    >>> [is_afterword(one) for one in ("Not.", "Just kidding!", "As if.", "Thanks!", "Not you?", "Red.")]
    [True, True, True, False, False, False]
    """
    found = _lowered(text)
    if not 0 < len(found) <= AFTERWORDS or _QUESTION_END.search(text):
        return False
    return _AFTERWORDS.issuperset(found) and _NO_AFTERWORDS.isdisjoint(found)


def takes_back(text: str) -> bool:
    """Return whether an afterword denies the sentence before it, or says that it was not meant."""
    return negated(text) or not _TAKES_BACK.isdisjoint(_lowered(text))


AFTERWORDS = 3
"""Words of a sentence that only says how the one before it is meant, at most."""
_TAKES_BACK = _EN["takes_back"] | load_word_lists("es")["takes_back"]
_AFTERWORDS = STOP_WORDS | _TAKES_BACK | word_set("not never hardly barely")
_NO_AFTERWORDS = _EN["interjections"] - word_set("so actually but") | _EN["yes_no"]


def is_clause(text: str) -> bool:
    """Return whether `text` seems to have a finite verb (an auxiliary, a past form, a pronoun subject)."""
    found = _lowered(text)
    return any(
        word in _EN["finite"]
        or word in _EN["subject_pronouns"]
        or word in _EN["irregular_past"]
        or (len(word) > 4 and word.endswith("ed"))
        for word in found
    ) or any(map(_is_present_verb, found[1:]))


def _is_present_verb(word: str) -> bool:
    """Return whether a lower-case word is a frequent verb in -s ("helps", "sounds")."""
    return word.endswith("s") and (
        word[:-1] in _EN["common_verbs"] or word[:-1] in ("sound", "taste", "matter", "happen")
    )


def opens_with_answer(text: str) -> bool:
    """Return whether `text` gives a short phrase, with a remark or what points to it: "Kyoto, as far as I know".

    >>> opens_with_answer("In Kyoto, as far as I know."), opens_with_answer("I think it's Kyoto now.")
    (True, True)
    >>> opens_with_answer("She moved, I think.")
    False
    """
    if (pointed := _POINTS.match(text)) and len(text.split()) <= MOST_POINTED:
        return (_EN["finite"] | _EN["subject_pronouns"]).isdisjoint(_lowered(text[pointed.end() :]))
    head, comma, _ = text.partition(",")
    first = _lowered(head)[:1]
    return bool(comma) and 0 < len(head.split()) <= 6 and not is_clause(head) and first != ("when",)


_POINTS = re.compile(
    r"(?:(?:i|we) (?:think|believe|guess|suppose),? (?:that )?)?(?:it's|it is|that's|that is|that would be|that'd be)\b",
    re.IGNORECASE,
)
MOST_POINTED = 9
"""Most words of an answer that only points to something; a longer one has content."""


def is_yes_no_answer(text: str) -> bool:
    """Return whether `text` opens with yes, no or a word that stands for them."""
    found = re.match(r"\w+", text)
    return found is not None and found.group().lower() in _EN["yes_no"]


def skip_reason(text: str, names: Collection[str], *, assistant: bool) -> str | None:
    """Return why an English sentence that is no question makes no fact, or None if it makes one.

    ``"evaluation"`` ("It was so relaxing.") is worth keeping behind the statement that it is about, and only there.

    Args:
        text: one sentence, its opening already stripped.
        names: what the participants are called, lower case.
        assistant: the speaker is an AI assistant: offers and advice without anything concrete are skipped too.
    """
    if _THANKS.match(text) or _HERE_YOU_GO.match(text) or _MARKER.match(text) or lacks_content(text, names):
        return "evaluation" if _LOOKS_BACK.match(text) else "pleasantry"
    # Concrete is a number, a title, an address, or a name other than the participants'.
    concrete = any(ch.isdigit() for ch in text) or "http" in text or '"' in text or "**" in text
    concrete = concrete or any(
        word[0].isupper()
        and word not in ("I", "OK")
        and not word.startswith(("I'", "I’"))
        and word.lower() not in names
        for word in words(text)[1:]
    )
    if concrete:
        return None
    if assistant:
        return "offer of help" if _OFFER.search(text) else "assistant chatter"
    found = _lowered(text)
    if found[0] in _EN["imperatives"] and len(found) <= 14:
        return "encouragement"
    if _ADVICE.match(text):
        return "advice"
    if _EVALUATION.match(text) and len(found) <= 14:  # "Your trip sounds great", "What a day!"
        content = [at for at, word in enumerate(found) if word not in _BACKCHANNEL]
        copula = max(
            (at for at, word in enumerate(found) if word in _COPULAS or word.endswith("'s")), default=-1
        )
        behind = 0 <= copula < len(found) - 1 and max(content, default=-1) <= copula
        if behind or (len(found) <= 9 and (len(content) <= 1 or _EXCLAIMS.match(text))):
            return "evaluation"
    return "fragment" if len(found) <= 2 and not is_clause(text) else None


MARK = "…"
"""Stands where words were left out."""

ANSWER_WORDS = 14
"""Most words of a bare answer's sentence."""
QUESTION_WORDS = 25
READ_CHARS = 600
"""Characters at the end of a turn in which a question is looked for."""

PASSAGE_CHARS = 300
"""Characters of a long turn that are quoted around the words of a question, about."""
PASSAGES = 3
"""Sentences of a long turn that are quoted for words of a question which no other says."""

_UNSPACED = "\u2e80"
"""Scripts from here on are written without spaces, two characters or so a word."""
_ENDS = frozenset(".!?…。！？।؟\n")
_GOES_ON = frozenset(",;:)-–—")

Span = tuple[int, int]


def kept_quote(said: str, pieces: Sequence[str]) -> str:
    r"""Return the quoted pieces of a turn as they are stored: neighbours joined as in the turn, the others on lines.

    >>> kept_quote("I moved. How are you? I like it.  A lot!", ["I moved.", "I like it.", "A lot!"])
    'I moved.\nI like it.  A lot!'
    """
    spans = _find(said, pieces)
    return "\n".join(said[start:end] for start, end in spans) if spans else " ".join(pieces)


def quoted(said: str, quote: str | None) -> str:
    r"""Return the words of a turn that a stored quote stands for, with `MARK` where others are left out.

    A quote that cannot be found, or is None, is the whole turn: what is returned was said, whatever the quote is.

    >>> quoted("I moved. How are you? I like it.", "I moved.\nI like it.")
    'I moved. … I like it.'
    """
    if quote is None:
        return said
    lines = [line for line in quote.split("\n") if line.strip()]
    spans = _find(said, [quote]) or _find(said, lines)
    return _marked(said, spans) if spans else said


def passage(said: str, wanted: Collection[str], shown: str | None = None) -> str:
    """Return the sentences of a long text that match a question best, with `MARK` where others are left out.

    Args:
        said: all of the text.
        wanted: lexical tokens of the question.
        shown: what is quoted of the text already, as by `quoted`. It stays, and is all unless other sentences say half as much that it does not.

    >>> passage("I sail. The hut is at Elm Bay. Ida cooks. We dive.", {"ida"}, "I sail.")
    'I sail. … Ida cooks. We dive.'
    """
    spans = [] if shown is None else _find(said, [one.strip() for one in shown.split(MARK) if one.strip()])
    if shown and not spans:
        return shown
    pieces = split_sentences(said)
    words = [frozenset(wanted).intersection(lexical_tokens(one.text)) for one in pieces]
    times = Counter(token for own in words for token in own)

    def worth(tokens: Collection[str]) -> float:
        return sum(math.log1p(len(pieces) / times[token]) for token in tokens)

    covered = {
        token
        for own, one in zip(words, pieces, strict=True)
        for token in own
        if any(start < one.end and one.start < end for start, end in spans)
    }
    least, taken = worth(covered) / 2, list[int]()
    while len(taken) < PASSAGES and not covered.issuperset(times):
        best = max(range(len(pieces)), key=lambda at: (worth(words[at] - covered), -at))
        if worth(words[best] - covered) < least:
            break
        taken.append(best)
        covered |= words[best]
    if not taken:
        return _marked(said, spans) if spans else said
    for at in taken:  # the first goes on as long as sentences fit, any with its afterwords
        end, used = at, sum(len(pieces[one].text) for one in taken)
        while end + 1 < len(pieces):
            used += len(pieces[end + 1].text)
            if not is_afterword(pieces[end + 1].text) and (at != taken[0] or used > PASSAGE_CHARS):
                break
            end += 1
        spans.append((pieces[at].start, pieces[end].end))
    merged: list[Span] = []
    for start, stop in sorted(spans):
        meets = bool(merged) and not any(ch.isalnum() for ch in said[merged[-1][1] : start])
        merged.append((merged[-1][0], max(merged.pop()[1], stop)) if meets else (start, stop))
    return _marked(said, merged)


def in_full(spoken: Sequence[SpokenText], speaker: str, said: str, limit: int) -> tuple[SpokenText, ...]:
    """Return quoted sentences extended to the speaker's whole turn, if that has `limit` characters at most.

    For a prompt: what the other sentences tell of the same thing is worth more than their tokens.
    """
    if len(said) > limit:
        return tuple(spoken)
    return tuple(SpokenText(speaker, said) if one.speaker == speaker else one for one in spoken)


def is_bare(text: str) -> bool:
    """Return whether the first sentence of a text is an answer that cannot be understood without its question.

    >>> is_bare("In Porto, I think. It rains."), is_bare("Yes I do."), is_bare("I have lived there for years.")
    (True, True, False)
    """
    first = next((piece.text for piece in split_sentences(text)), "")
    if max(len(first.split()), sum(ch > _UNSPACED for ch in first) // 2) > ANSWER_WORDS:
        return False
    return not is_clause(first) or is_yes_no_answer(first) or opens_with_answer(first)


def open_question(before: str) -> str | None:
    """Return the question that is the last or last but one sentence of a turn; None if there is none.

    >>> open_question("Nice! Is it the 12th? I forgot."), open_question("It is the 12th.")
    ('Is it the 12th?', None)
    """
    last = split_sentences(before[-READ_CHARS:])[-2:]
    for piece in reversed(last):
        if is_question(piece.text):
            words = piece.text.split(" ")
            cut = f"{MARK} {' '.join(words[-QUESTION_WORDS:])}"
            return piece.text if len(words) <= QUESTION_WORDS else cut
    return None


def _find(said: str, pieces: Sequence[str]) -> list[Span]:
    """Return the positions of pieces in a turn, in order, neighbours joined; none unless the turn has all of them."""
    spans: list[Span] = []
    for piece in pieces:
        behind = spans[-1][1] if spans else 0
        at = said.find(piece, behind) if piece else -1
        while at > 0 and piece[0].isalnum() and said[at - 1].isalnum() and said[at - 1] < _UNSPACED:
            at = said.find(piece, at + 1)  # not within a word
        if at < 0:
            return []
        joins = bool(spans) and not any(ch.isalnum() for ch in said[behind:at])
        spans.append((spans.pop()[0] if joins else at, at + len(piece)))
    return spans


def _marked(said: str, spans: Sequence[Span]) -> str:
    """Return passages of a turn with `MARK` between them, and where the first or last is only a part of a sentence."""
    (first, _), (_, last) = spans[0], spans[-1]
    before, behind = said[:first].rstrip(" \t"), said[last:].lstrip(" \t")
    begun = before[-1:].isalnum() or before[-1:] in (",", ";")
    goes_on = said[last - 1] not in _ENDS and (behind[:1].isalnum() or behind[:1] in _GOES_ON)
    text = f" {MARK} ".join(said[start:end] for start, end in spans)
    return f"{f'{MARK} ' if begun else ''}{text}{f' {MARK}' if behind and goes_on else ''}"


ASKED_CHARS = 600
"""Most characters of a text that is one question; in a longer text the questions are looked for at its ends."""
BESIDE_CHARS = 200
"""Characters kept in front of a question, on its line, as its context."""

_ELIDED = frozenset(load_word_tables("en")["elided"])
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
    r"""Return the question in a long text: those at its end, else at its beginning, else both ends of the text.

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


def is_request_question(text: str, code: Code) -> bool:
    """Return whether a question asks for an action, not for information.

    >>> is_request_question("Could I get a refund after all?", "en")
    True
    >>> is_request_question("Can you tell me where my parcel is?", "en")
    False
    """
    lists, found = load_word_lists(code), list(_lowered(text))
    if code == "en" and _POSSIBLE.search(text.lower()):
        return True
    if code == "other" and _HAN.search(text):
        chinese = load_word_lists("zh")
        tells = any(word in text for word in chinese["speech"] | chinese["question_words"])
        return not tells and any(word in text[:_OPENING_CHARS] for word in chinese["asking_modals"])
    if code == "other":  # without a list of question words, the modal has to come first
        clauses = [words(clause.lower()) for clause in text.split(",")]
        found = next((one for one in clauses if one and one[0] in lists["asking_modals"]), [])
    at = next((at for at, word in enumerate(found[:6]) if word in lists["asking_modals"]), None)
    if at is None or not lists.get("question_words", frozenset()).isdisjoint(found[:at]):
        return False
    behind = found[at + 1 :]
    if code != "en":
        return len(behind) > 1 and lists["information"].isdisjoint(behind)
    if behind[:1] not in (["i"], ["we"], ["you"], ["u"]) or (
        found[at] == "would" and behind[0] in ("i", "we")
    ):
        return False
    behind = [word for word in behind[1:] if word not in lists["adverbs"] and word != "please"]
    tells = not lists["question_words"].isdisjoint(behind[1:4]) and behind[:1] != ["do"]
    return len(behind) > 1 and behind[0] not in lists["information"] and not tells


def is_imperative(text: str, code: Code, *, to_assistant: bool = False) -> bool:
    """Return whether a sentence that is no question tells the listener to do something for the speaker.

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
        return by_form or first in load_word_lists("es")["imperatives"]
    found = list(_lowered(_ADVERBIAL.sub("", text, count=1)))
    polite = "please" in found
    while found and found[0] in _OPENS:
        found = found[1:]
    if len(found) < 2 or code != "en":
        return False
    forbids = found[0] in ("don't", "never") or found[:2] == ["do", "not"]
    if forbids:
        verb = found[2 if found[0] == "do" else 1 :][:1]
        return bool(verb) and _EN["consoling"].isdisjoint(verb) and verb[0] not in STOP_WORDS
    first, second, behind = found[0], found[1], found[1:]
    if first in _TELLS and second == "me" and found[2:3] != ["to"]:  # "tell me more"
        return False
    # It begins with a verb in its base form: a known one, or a word in front of an object.
    finite, past = _EN["finite"], _EN["irregular_past"]
    if first in _VERBS:
        is_verb = second not in finite and second not in past and not second.endswith("ed")
    else:
        known = first in _NO_VERBS or first in _EN["states"]
        joins = second in _OBJECTS or (to_assistant and second in _EN["prepositions"])
        plain = not first.endswith(("ed", "ing", "ly", "s"))
        is_verb = joins and plain and not known and finite.isdisjoint(behind) and past.isdisjoint(behind)
    return is_verb and (to_assistant or polite or not _ME.isdisjoint(behind))
