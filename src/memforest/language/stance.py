"""How a statement stands to the things it names: is it so, since when, is it over, or only thought of?

"Bob still trains at Ironworks", "Bob left Ironworks for Fitbox", "Bob might try Fitbox": three stances to a gym,
and nothing in them is about gyms. This module reads the stance of a sentence to each noun phrase in it from
aspect, tense and modality alone, so that a timeline can be made of any attribute.

English has rules (``data/stance/en.toml``); a statement in another language has no stances.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from memforest.language.aspect import Stance, past_forms, rules, word_list
from memforest.language.change import change_of, governor_at, is_kept
from memforest.language.contrast import contrasted
from memforest.language.phrases import TOKEN, Phrase, Sentence, Statement, chosen_phrases, is_content
from memforest.language.role import held_by
from memforest.language.whose import (
    answers_about,
    is_affected,
    is_elliptical,
    is_joined,
    is_somebody_elses,
    mentioned,
    owner_of,
    place_of,
    subject_of,
)

_REACH = 48
"""Characters in front of a phrase in which the word that governs it stands."""


def stances_of(
    statement: Statement, who: str, others: Collection[str], terms: Mapping[str, float], speaker: str = ""
) -> Iterator[tuple[str, Stance]]:
    """Yield (term, stance) for every phrase among `terms` that a statement connects with a person.

    Args:
        statement: as `read_statement` returns it.
        who: the person's name.
        others: the other names of people in the memory.
        terms: the phrases that matter, with their weight; of two that overlap, the longer counts, and of
            several in a sentence the heaviest and what it takes the place of.
        speaker: who said it, if the statement does not say; nobody calls themselves "she".
    """
    if statement.language == "es":
        return
    whole = "\n".join((statement.speaker, statement.asked, *(one.text for one in statement.sentences)))
    others = [name for name in others if name in whole and not _is_value(name.lower(), terms)]
    names = (who, *others)
    for sentence, subject in _subjects(statement, who, others, speaker):
        owners = {p: owner_of(sentence.text, p, names) for p in chosen_phrases(sentence, terms)}
        clauses = {p: _clause(sentence.text, p) for p in owners}
        openers = {p: _opener(sentence.text, clauses[p][0], names) for p in owners}
        chosen = [p for p, owner in owners.items() if owner in ("", who) and openers[p] in ("", who)]
        spoken = subject == "" and statement.speaker == who
        concerned = who in openers.values() or _concerns(
            statement, sentence.text, who, subject, owners.values()
        )
        if not chosen or not (concerned or spoken):
            continue
        found = {phrase: _stance(sentence.text, phrase, clauses[phrase], who) for phrase in chosen}
        turned = contrasted(sentence.text, chosen, found)
        found |= turned
        if not concerned and not turned and not _is_spoken_of(sentence.text, chosen[0], found):
            continue
        best = max(chosen, key=lambda p: terms[p.term])
        for phrase, stance in found.items():
            if is_somebody_elses(sentence.text, who, phrase):
                continue
            changes = stance in _CHANGES and stance != found[best]
            if phrase is best or phrase in turned or changes:
                yield phrase.term, "is" if statement.asked and stance == "event" else stance


def _is_value(name: str, terms: Collection[str]) -> bool:
    """Return whether a person is one of the values, or called by one: "Dr Sun" where "sun" is a name."""
    return any(name in term or term in name for term in terms)


def _subjects(
    statement: Statement, who: str, others: Collection[str], speaker: str
) -> Iterator[tuple[Sentence, str]]:
    """Yield every sentence with the person it is about, "?" for somebody unnamed, "" for nobody."""
    speaker = statement.speaker or speaker
    previous = answers_about(statement, who, others) if statement.asked else ""
    known: list[str] = []
    for sentence in statement.sentences:
        if previous == speaker and len(known) > 1:
            previous = next(name for name in known if name != speaker)  # nobody calls themselves "she"
        subject = subject_of(sentence.text, who, others, previous)
        known = [name for name in (who, *others) if place_of(sentence.text, name) >= 0]
        if statement.asked and previous and sentence is statement.sentences[0]:
            subject = previous
        previous = subject if subject not in ("", "?") else mentioned(sentence.text, who, others, previous)
        yield sentence, subject


def _is_spoken_of(text: str, first: Phrase, found: Mapping[Phrase, Stance]) -> bool:
    """Return whether a sentence that names nobody tells its speaker's news of the thing it opens with: "*Kinetik* closed"."""
    opens = first.start <= len("The ")
    return opens and (found[first] in _CHANGES or _TO_SPEAKER.search(text) is not None)


def _opener(text: str, start: int, names: Collection[str]) -> str:
    """Return the person with whom the clause that starts somewhere opens, if it is not the first of its sentence."""
    found = next((name for name in names if start and text.startswith(name, start)), "")
    return found if found and _ACTS.match(text, start + len(found)) else ""


_ACTS = re.compile(r"\s+(?!and\b)")
"""Behind a person with whom a clause opens: neither an owner nor the first of several."""


def _concerns(statement: Statement, text: str, who: str, subject: str, owners: Collection[str]) -> bool:
    """Return whether a sentence tells something of a person."""
    spoken = statement.language == "en" and statement.speaker == who
    left_out = subject == "" and spoken and (is_elliptical(text) or _OF_SPEAKER.search(text) is not None)
    together = is_joined(text, who, subject)
    return subject == who or who in owners or left_out or together or is_affected(text, who, subject)


_OF_SPEAKER = re.compile(r"\b(?:I|my|we|our)\b")
_TO_SPEAKER = re.compile(r"\b(?:me|us)\b")
_CHANGES = frozenset(("start", "back", "end"))


def _stance(text: str, phrase: Phrase, bounds: tuple[int, int], who: str) -> Stance:
    """Return how a sentence of a person stands to one phrase in it, which stands in the clause within some bounds."""
    clause = text[bounds[0] : bounds[1]]
    before = text[max(0, phrase.start - _REACH) : phrase.start]
    if is_kept(before):
        return "is"
    if _is_unreal(text, clause):
        return "unreal"
    if rules()["over"].search(clause) or _ERA.match(text, phrase.end):
        return "over"
    if role := held_by(text, phrase):
        return _of_role(role, text[phrase.end :])
    behind = text[phrase.end : phrase.end + 32].replace(f" and {who} ", " ").replace(f" {who}", " me")
    changed = change_of(_without_kept(before), behind)
    if changed is not None:
        return "unreal" if changed != "end" and _denied(text, phrase) else changed
    if _is_regained(text, phrase, bounds[1], who):
        return "back"
    opens = phrase.start - bounds[0] <= len("The ")
    return "is" if _is_so(text, phrase, clause, who, opens=opens) else "event"


def _is_so(text: str, phrase: Phrase, clause: str, who: str, *, opens: bool) -> bool:
    """Return whether a clause without a change tells what is so, and not what only happened or is spoken of."""
    wording = rules()
    before = text[max(0, phrase.start - _REACH) : phrase.start]
    spoken_of = governor_at("talk", before) >= 0 and not _AS_EVER.search(clause)
    if spoken_of or _AHEAD.search(clause):
        return False
    if wording["steady"].search(clause) or _owned(before, who):
        return True
    if opens and _HAS_DONE.match(text, phrase.end):
        return False
    if _modifies(text, phrase) and (not phrase.named or wording["regard"].search(clause)):
        return False
    return not _is_past(clause, who)


def _of_role(role: str, behind: str) -> Stance:
    """Return how it stands to what has a role: "my dentist *is now* …", "my new dentist is …", "my old dentist was …"."""
    wording = rules()
    if wording["over"].search(role) or _FORMERLY.search(role):
        return "over"
    if wording["again"].search(role) or wording["again"].match(behind.lstrip()):
        return "back"
    return "start" if _NEWLY.search(role) else "is"


_FORMERLY = re.compile(r"\b(?:old|last|earlier|original)\b|\b(?:was|were|had been)\b", re.IGNORECASE)
_NEWLY = re.compile(r"\b(?:new|newest|latest|became)\b", re.IGNORECASE)


_ERA = re.compile(r" (?:days|years|time|phase|era)\b")
_AHEAD = re.compile(
    r"\b(?:tomorrow|next (?:week|month|year|time|spring|summer|autumn|winter))\b", re.IGNORECASE
)
_AS_EVER = re.compile(r"\bas (?:ever|always|usual)\b")
_HAS_DONE = re.compile(r" (?:has|have)(?: \w+ly| just| now)? (?!been\b|had\b|me\b)\w+(?:ed|en|t|d)\b")
"""What a thing has done itself: "Kinetik *has opened* a second hall"."""


def _is_regained(text: str, phrase: Phrase, end: int, who: str) -> bool:
    """Return whether a clause ends in "again", of what a person has or who has them: "Kinetik *has me again*"."""
    behind = text[phrase.end : end]
    again = _AGAIN.search(behind)
    if again is None:
        return False
    between = behind[: again.start()]
    if not any(_is_verb(word.group()) for word in TOKEN.finditer(between)):
        return phrase.start > len("The ")
    return re.search(rf"\b(?:me|us|my|our|{re.escape(who)})\b", between) is not None


_AGAIN = re.compile(r"\b(?:again|once more|(?<!from )back)\b(?! (?:then|when|in|at|on|and))")


def _is_verb(word: str) -> bool:
    """Return whether a word is a verb in a tense, by its form."""
    low = word.lower()
    return (
        low in word_list("finite")
        or _is_past_form(low)
        or (low.endswith("s") and low[:-1] in word_list("common_verbs"))
    )


def _is_past_form(low: str) -> bool:
    return low in past_forms() or (low.endswith("ed") and len(low) > 4)


def _modifies(text: str, phrase: Phrase) -> bool:
    """Return whether a phrase only qualifies the noun behind it ("cello music"), which is not itself had."""
    behind = TOKEN.match(text, phrase.end + 1)
    if behind is None or text[phrase.end] != " " or not is_content(behind.group()):
        return False
    word = behind.group()
    return not (word.endswith("s") and word[:-1] in word_list("common_verbs")) and not _DOES.match(
        text, phrase.end
    )


_DOES = re.compile(r" [a-z]+s (?:[^\W\d_a-z]\w*|him|her|them|me|us|it|the|a|an|my|his|their|that|to)\b")
"""A word in -s with an object behind it is a verb: "the cello *calms her*"."""


def _clause(text: str, phrase: Phrase) -> tuple[int, int]:
    """Return the clause in which a phrase stands, with a fragment that hangs on to it ("…, just dreaming")."""
    start, end = 0, len(text)
    for match in rules()["clause"].finditer(text):
        joins = match.group() == " and "
        if match.end() <= phrase.start and not (joins and not _has_verb(text[match.end() :])):
            start = match.end()
        elif match.start() >= phrase.end and not joins and not _FRAGMENT.match(text, match.end()):
            end = match.start()
            break
    return start, end


def _has_verb(conjunct: str) -> bool:
    """Return whether what stands behind "and" begins with a verb in the past: another thing that was done."""
    word = TOKEN.match(conjunct)
    return word is not None and _is_past_form(word.group())


_FRAGMENT = re.compile(
    r"(?:(?:his|her|their|my|our|\w+'s) (?:former|old|previous|ex|usual|favou?rite)\b|just|only|not|maybe|perhaps|once|for fun|and no more|back then|years ago|in those days|at the time)\b",
    re.IGNORECASE,
)


def _is_unreal(text: str, clause: str) -> bool:
    """Return whether a clause, or the whole sentence by an "if", is only thought of or denied."""
    return (
        rules()["unreal"].search(_without_kept(clause)) is not None
        or _SUPPOSED.search(_without_kept(text)) is not None
    )


_SUPPOSED = re.compile(r"\b(?:if|would|might)\b", re.IGNORECASE)


def _without_kept(text: str) -> str:
    """Return a text without the denials that leave things as they are."""
    return rules()["kept"].sub(" ", text) if _NOT.search(text) else text


_NOT = re.compile(r"n't\b|\b(?:not|never)\b", re.IGNORECASE)


def _denied(text: str, phrase: Phrase) -> bool:
    """Return whether an adversative clause takes back what a sentence told: "enrolled, but it was cancelled"."""
    return (
        re.search(
            r"[,;] (?:but|then|and then|until)\b|\bbut (?:never|did|could|was|it|they)\b", text[phrase.end :]
        )
        is not None
    )


def _owned(before: str, who: str) -> bool:
    """Return whether a phrase is told to be had or been: "her Tesla", "Bob's new Tesla", "being the treasurer"."""
    owner = rf"(?:\b(?:his|her|their|its|my|our)|{re.escape(who)}'s) (?:\w+ ){{0,2}}"
    return re.search(rf"(?:{owner}|\b(?:as|being) (?:the|an?) )$", before, re.IGNORECASE) is not None


def _is_past(clause: str, who: str) -> bool:
    """Return whether the first verb of a clause is a simple past."""
    for match in TOKEN.finditer(clause.replace(who, " ")):
        word = match.group().lower()
        if _is_past_form(word):
            return True
        if _is_verb(word):
            return False
    return False
