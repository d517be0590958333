"""Reads the stance of a statement to the things it names: whether something is so, starts, ends, or is only thought of.

"Bob still trains at Ironworks", "Bob left Ironworks for Fitbox", "Bob might try Fitbox": three stances to a gym,
and nothing in them is about gyms. The stance of a sentence to each noun phrase in it is read from
aspect, tense and modality alone, so that a timeline can be made of any attribute: the words of change around a thing
("*joined* Kinetik", "*gave* the oboe *up*", "*has not left* Acme"), the role that it has for somebody ("Bob's new *physio* is a
man called Piet"; the noun is whatever stands behind an owner, no role is listed), and whose it is ("Bob's dentist trains at
Ironworks" is no news of Bob's gym, "half of Ana's rye bread" is Ana's, and "her boss at Acme" puts her at Acme too).

English has rules (``data/stance/en.toml``); a statement in another language has no stances.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from memforest.reading.phrases import (
    TOKEN,
    ParsedStatement,
    Phrase,
    Sentence,
    Stance,
    chosen_phrases,
    contrasted,
    is_content,
    is_person,
    listed,
    past_forms,
    rules,
    word_list,
)

MOST_BETWEEN = 4
"""Most words between a word of change and its phrase: "bought *herself a bright red* Tesla"."""


def change_of(before: str, behind: str) -> Stance | None:
    """Return the change that the words around a phrase express (start, end or back), or None.

    A start that somebody is only asked to make ("tells me to get one") is ``unreal``.

    Args:
        before: the words of its sentence in front of the phrase.
        behind: the words behind it.
    """
    found = _told_behind(before, behind)
    if found is not None:
        return found
    wording = rules()
    last = {name: _last(wording[name], before) for name in ("leave", "enter", "again")}
    best = max(last, key=lambda name: last[name])
    return None if last[best] < 0 else _governing(best, before, last[best])


def _told_behind(before: str, behind: str) -> Stance | None:
    """Return the change in the words behind a phrase, or in "new" in front of it: "a *new* Corvid", "Renate *has left*"."""
    wording = rules()
    follows = behind.lstrip()
    if wording["fresh"].search(before[-12:]) and _FRESH_END.search(before):
        return "start"
    if wording["again"].match(follows):
        return "back"
    if wording["gone"].match(follows):
        return "end"
    return "start" if wording["arrive"].match(follows) else None


def _governing(name: str, before: str, at: int) -> Stance | None:
    """Return the change that the word at `at` expresses, if it governs the phrase behind `before`, or None."""
    match = rules()[name].search(before, at)
    between = before[match.end() if match else at :]
    if name == "leave":
        if _TO_NEW.search(between) or _EXCHANGED.match(before[at:]):
            return "start"
        return "end" if _is_near(between) else None
    if not _is_near(between) or (name == "enter" and match and _HABIT.match(match.group())):
        return None
    if _ADVISED.search(before[:at]):
        return "unreal"
    return "back" if name == "again" else "start"


def governor_at(name: str, before: str) -> int:
    """Return the start of the last wording of a class in a text, if it governs the phrase behind the text, or -1."""
    pattern = rules()[name]
    at = _last(pattern, before)
    found = pattern.search(before, at) if at >= 0 else None
    return at if found is not None and _is_near(before[found.end() :]) else -1


def is_kept(before: str) -> bool:
    """Return whether the text denies an end, so that nothing changed: "has *not left* Kinetik"."""
    if not _NEGATED.search(before):
        return False
    at = governor_at("leave", before)
    return at >= 0 and _NEGATED_HERE.search(before[:at]) is not None


def _last(pattern: re.Pattern[str], text: str) -> int:
    """Return the start of a pattern's last match, or -1."""
    at = -1
    for match in pattern.finditer(text):
        at = match.start()
    return at


def _is_near(between: str) -> bool:
    """Return whether a word of change governs a phrase across the words between them."""
    return len(between.split()) <= MOST_BETWEEN and not _APART.search(between)


_APART = re.compile(r"[,;:]| and ")
_FRESH_END = re.compile(r"[\w-]\s+$")
_TO_NEW = re.compile(r"\w.{0,40}\b(?:to|for|into|onto|and)\b")
_EXCHANGED = re.compile(r"(?:replac|swap|exchang)\w* .{1,40}\bwith\b", re.IGNORECASE)
"""The new thing stands behind "with": "replaced the kettle *with* a samovar", but not "broke up *with*"."""
_ADVISED = re.compile(
    r"(?<!\bdecided )(?<!\bchose )(?<!\bmanaged )(?<!\bagreed )(?<!\bhad )(?<!\bgot )\bto $"
)
"""In front of an infinitive: told to do, not done, "tells me *to* get one"; but "decided to" is a start."""
_HABIT = re.compile(r"(?!was\b|is\b|has\b|does\b)\w+[^s\W]s\b")
"""A word of change in the simple present: "*takes* the tram", "*goes* for the tart"."""
_NEGATED = re.compile(r"n't\b|\b(?:not|never)\b", re.IGNORECASE)
_NEGATED_HERE = re.compile(r"(?:n't|\b(?:not|never))(?: [\w']+){0,2} $", re.IGNORECASE)


_OWNER = r"(?:\b(?:his|her|their|my|our)|[\w-]{1,32}'s)"
_IS = r"(?:is|was|were|are|became|becomes|has been|had been|will be|'s)"
_FILLER = r"(?:now|still|again|currently|once more|an?|the|certain|some|guy|man|woman|girl|lady|one|someone|somebody|called|named|in|on|at)"
_BEFORE = re.compile(
    rf"(?<![\w-]){_OWNER} ((?:[\w-]{{1,24}} ){{1,4}}?){_IS}(?: {_FILLER}){{0,5}}\s{{1,4}}$", re.IGNORECASE
)
_BEHIND = re.compile(
    rf",? (?:{_IS}|as|for)(?: (?:now|still|again|currently|once more))? {_OWNER} ", re.IGNORECASE
)
_ROLE_REACH = 64
"""Characters on either side of a phrase in which its role is looked for."""


def held_by(text: str, phrase: Phrase) -> str:
    """Return the words in front of a phrase that give it a role, "'s new physio is a man called "; "" if there are none."""
    found = _BEFORE.search(text[max(0, phrase.start - _ROLE_REACH) : phrase.start])
    return found.group() if found else ""


def role_of(text: str, phrase: Phrase) -> str:
    """Return the noun of a phrase's role ("physio"), lower case; "" if the sentence has none."""
    found = _BEFORE.search(text[max(0, phrase.start - _ROLE_REACH) : phrase.start])
    if found is not None:
        return _noun(found.group(1), last=True)
    behind = _BEHIND.match(text, phrase.end, phrase.end + _ROLE_REACH)
    return _noun(text[behind.end() : phrase.end + _ROLE_REACH], last=False) if behind else ""


def _noun(words: str, *, last: bool) -> str:
    """Return the noun behind an owner: the last of the words, or the last of their first noun phrase."""
    noun = ""
    for token in TOKEN.finditer(words):
        word = token.group().lower()
        if is_content(word) and word not in listed("no_frame"):
            noun = word
        elif not last and word not in word_list("determiners") and noun:
            break
    return noun


def answers_about(statement: ParsedStatement, who: str, others: Collection[str]) -> str:
    """Return the person that a statement's question is about, "" for nobody."""
    asked = statement.asked
    if place_of(asked, who) >= 0:
        return who
    named = [name for name in others if place_of(asked, name) >= 0]
    if named:
        return named[0]
    return statement.speaker if re.search(r"\byou(?:r|rs|'re|'ve)?\b", asked, re.IGNORECASE) else ""


def place_of(text: str, name: str) -> int:
    """Return the position of a name in a text, or -1."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if (at == 0 or not text[at - 1].isalnum()) and (end == len(text) or not text[end].isalnum()):
            return at
        at = text.find(name, at + 1)
    return -1


def subject_of(text: str, who: str, others: Collection[str], previous: str) -> str:
    """Return the name of the person that a sentence is about, "?" for somebody unnamed, "" for nobody."""
    first = text.split(" ", 1)[0].rstrip(",.;:").lower()
    if first in ("he", "she", "he's", "she's", "his", "her"):
        return previous or "?"
    places = [(at, name) for name in (who, *others) if (at := place_of(text, name)) >= 0]
    found = _FOUND.search(text)
    if found is not None and any(name == found.group(1) for _, name in places):
        return found.group(1)
    person = 32
    if first not in ("as", "being", "still"):
        person = next((m.start() for m in TOKEN.finditer(text, 0, 32) if is_person(m.group())), 32)
    if not places:
        return "?" if person < 24 else ""
    at, name = min(places, key=lambda pair: (pair[0], -len(pair[1])))
    return "?" if person < min(at, 16) else name


_FOUND = re.compile(r"\b(?:find|catch|meet|reach) ([^\W\d_][\w-]*(?: [^\W\d_a-z][\w-]*)?) (?:at|in|on)\b")


def mentioned(text: str, who: str, others: Collection[str], previous: str) -> str:
    """Return the only person that a sentence names, else the person of the sentence before."""
    places = [name for name in (who, *others) if place_of(text, name) >= 0]
    return places[0] if len(places) == 1 else previous


def is_elliptical(text: str) -> bool:
    """Return whether a sentence leaves out its subject, the speaker: "Still in Davis", "Here in Davis …"."""
    return rules()["elliptical"].match(text) is not None


def owner_of(text: str, phrase: Phrase, names: Collection[str]) -> str:
    """Return the owner named right in front of a phrase, "" for none: "half of *Ana's* rye bread"."""
    found = _WHOSE_OWNER.search(text[: phrase.start])
    if found is None:
        return ""
    ending = re.compile(
        "|".join(rf"(?<!\w){re.escape(name)}$" for name in sorted(names, key=len, reverse=True))
    )
    owner = ending.search(text[: found.start()])
    return owner.group() if owner else ""


_WHOSE_OWNER = re.compile(r"'s (?:[a-z-]+ ){0,2}$")


def is_affected(text: str, who: str, subject: str) -> bool:
    """Return whether an unnamed subject acts on the person: "The shelter brought Bob a dog"."""
    return subject == "?" and place_of(text, who) > 0


def is_joined(text: str, who: str, subject: str) -> bool:
    """Return whether a person is the second subject of a sentence: "Ana and *Bob* live in Leeds"."""
    joined = rf"{re.escape(subject)}(?:, [^\W\d_][\w-]*)?,? and {re.escape(who)}(?!\w|'s)"
    return subject not in ("", "?") and re.match(joined, text) is not None


def is_somebody_elses(text: str, who: str, phrase: Phrase) -> bool:
    """Return whether a phrase belongs to a relative or contact of the person: "Bob's dentist trains at …"."""
    owner = text.find(f"{who}'s ")
    if owner < 0 or owner > phrase.start:
        return False
    between = text[owner + len(who) + 3 : phrase.start].lower()
    if _APPOSED.fullmatch(between) or rules()["sharing"].fullmatch(between.strip()):
        return False
    words = [token.group() for token in TOKEN.finditer(between)]
    for i, word in enumerate(words[:4]):
        if is_person(word):
            return who.lower() not in words[i + 1 :] and not (phrase.named and _NAMED.search(between))
        if word in word_list("finite") or word in past_forms() or word in word_list("prepositions"):
            return False
    return False


_NAMED = re.compile(
    r"\b(?:is|was|became|been)(?: (?:now|still|again|currently|an?|the|certain|some|guy|man|woman|one|someone|called|named))*\s*$"
)
"""The words between a role and its holder's name: "Bob's doctor *is still* Dr Sun"."""
_APPOSED = re.compile(r"(?:[\w-]+ ){0,3}[\w-]+, ")
"""The words between an owner and the name of the thing owned: "Bob's *new doctor,* Dr Sun"."""


_REACH = 48
"""Characters in front of a phrase in which its governing word is looked for."""


def stances_of(
    statement: ParsedStatement,
    who: str,
    others: Collection[str],
    terms: Mapping[str, float],
    speaker: str = "",
) -> Iterator[tuple[str, Stance]]:
    """Yield each of `terms` that a statement connects with a person, with its stance.

    Args:
        statement: as `read_statement` returns it.
        who: the person's name.
        others: the other names of people in the memory.
        terms: the phrases that matter, with their weights; of two that overlap, the longer counts, and of
            several in a sentence the heaviest and the one that it replaces.
        speaker: of the statement, if its text does not name one; nobody calls themselves "she".
    """
    if statement.language == "es":
        return
    whole = "\n".join((statement.speaker, statement.asked, *(one.text for one in statement.sentences)))
    # A person may be a value, or share its name: "Dr Sun" where "sun" is a term.
    others = [
        name
        for name in others
        if name in whole and not any(name.lower() in term or term in name.lower() for term in terms)
    ]
    names = (who, *others)
    for sentence, subject in _subjects(statement, who, others, speaker):
        owners = {p: owner_of(sentence.text, p, names) for p in chosen_phrases(sentence, terms)}
        clauses = {p: _clause(sentence.text, p) for p in owners}
        openers: dict[Phrase, str] = {}  # the person who opens a clause that is not the first of its sentence
        for phrase, (start, _) in clauses.items():
            opener = next((name for name in names if start and sentence.text.startswith(name, start)), "")
            acts = opener and _ACTS.match(sentence.text, start + len(opener))
            openers[phrase] = opener if acts else ""
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
        # A sentence without a person tells the speaker's news of its opening phrase: "*Kinetik* closed".
        news = found[chosen[0]] in _CHANGES and chosen[0].start <= len("The ")
        if not (concerned or turned or news):
            continue
        best = max(chosen, key=lambda p: terms[p.term])
        for phrase, stance in found.items():
            if is_somebody_elses(sentence.text, who, phrase):
                continue
            changes = stance in _CHANGES and stance != found[best]
            if phrase is best or phrase in turned or changes:
                yield phrase.term, "is" if statement.asked and stance == "event" else stance


def _subjects(
    statement: ParsedStatement, who: str, others: Collection[str], speaker: str
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


_ACTS = re.compile(r"\s+(?!and\b)")
"""Follows a person who opens a clause and is neither an owner nor the first of several."""


def _concerns(statement: ParsedStatement, text: str, who: str, subject: str, owners: Collection[str]) -> bool:
    """Return whether a sentence is about a person."""
    spoken = statement.language == "en" and statement.speaker == who
    left_out = subject == "" and spoken and (is_elliptical(text) or _OF_SPEAKER.search(text) is not None)
    together = is_joined(text, who, subject)
    return subject == who or who in owners or left_out or together or is_affected(text, who, subject)


_OF_SPEAKER = re.compile(r"\b(?:I|my|we|our)\b")
_CHANGES = frozenset(("start", "back", "end"))


def _stance(text: str, phrase: Phrase, bounds: tuple[int, int], who: str) -> Stance:
    """Return the stance of a sentence about a person to a phrase in the clause within `bounds`."""
    clause = text[bounds[0] : bounds[1]]
    before = text[max(0, phrase.start - _REACH) : phrase.start]
    if is_kept(before):
        return "is"
    if rules()["unreal"].search(_without_kept(clause)) or _SUPPOSED.search(_without_kept(text)):
        return "unreal"
    if rules()["over"].search(clause) or _ERA.match(text, phrase.end):
        return "over"
    if role := held_by(text, phrase):
        return _of_role(role, text[phrase.end :])
    behind = text[phrase.end : phrase.end + 32].replace(f" and {who} ", " ").replace(f" {who}", " me")
    changed = change_of(_without_kept(before), behind)
    if changed is not None:
        denied = _TAKEN_BACK.search(text[phrase.end :])  # "enrolled, but it was cancelled"
        return "unreal" if changed != "end" and denied else changed
    if _is_regained(text, phrase, bounds[1], who):
        return "back"
    return "is" if _is_so(text, phrase, clause, who) else "event"


def _is_so(text: str, phrase: Phrase, clause: str, who: str) -> bool:
    """Return whether a clause without a change says how things are, not what happened or is talked about."""
    wording = rules()
    before = text[max(0, phrase.start - _REACH) : phrase.start]
    if governor_at("talk", before) >= 0 or _AHEAD.search(clause):
        return False
    owner = rf"(?:\b(?:his|her|their|its|my|our)|{re.escape(who)}'s) (?:\w+ ){{0,2}}"
    had = rf"(?:{owner}|\b(?:as|being) (?:the|an?) )$"  # "her Tesla", "being the treasurer"
    if wording["steady"].search(clause) or re.search(had, before, re.IGNORECASE):
        return True
    if _modifies(text, phrase) and (not phrase.named or wording["regard"].search(clause)):
        return False
    return not _is_past(clause, who)


def _of_role(role: str, behind: str) -> Stance:
    """Return the stance to the holder of a role: "my dentist *is now* …", "my new dentist is …", "my old dentist was …"."""
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


def _is_regained(text: str, phrase: Phrase, end: int, who: str) -> bool:
    """Return whether "again" behind a phrase says that a person has it, or it has them, once more: "Kinetik *has me again*"."""
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
    """Return whether a word has the form of a finite verb."""
    low = word.lower()
    return (
        low in word_list("finite")
        or _is_past_form(low)
        or (low.endswith("s") and low[:-1] in word_list("common_verbs"))
    )


def _is_past_form(low: str) -> bool:
    return low in past_forms() or (low.endswith("ed") and len(low) > 4)


def _modifies(text: str, phrase: Phrase) -> bool:
    """Return whether a phrase only qualifies the noun behind it: "cello music"."""
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
    """Return the bounds of the clause around a phrase, fragments behind it included ("…, just dreaming")."""
    start, end = 0, len(text)
    for match in rules()["clause"].finditer(text):
        joins = match.group() == " and "
        # A verb in the past behind "and" is another action, and opens a clause.
        word = TOKEN.match(text, match.end()) if joins else None
        acts = not joins or (word is not None and _is_past_form(word.group()))
        if match.end() <= phrase.start and acts:
            start = match.end()
        elif match.start() >= phrase.end and not joins and not _FRAGMENT.match(text, match.end()):
            end = match.start()
            break
    return start, end


_FRAGMENT = re.compile(
    r"(?:(?:his|her|their|my|our|\w+'s) (?:former|old|previous|ex|usual|favou?rite)\b|just|only|not|maybe|perhaps|once|for fun|and no more|back then|years ago|in those days|at the time)\b",
    re.IGNORECASE,
)


_TAKEN_BACK = re.compile(r"[,;] (?:but|then|and then|until)\b|\bbut (?:never|did|could|was|it|they)\b")
_SUPPOSED = re.compile(r"\b(?:if|would|might)\b", re.IGNORECASE)


def _without_kept(text: str) -> str:
    """Return a text without denied ends ("has not left"), which change nothing."""
    return rules()["kept"].sub(" ", text) if _NOT.search(text) else text


_NOT = re.compile(r"n't\b|\b(?:not|never)\b", re.IGNORECASE)


def _is_past(clause: str, who: str) -> bool:
    """Return whether the first verb of a clause is in the simple past."""
    for match in TOKEN.finditer(clause.replace(who, " ")):
        word = match.group().lower()
        if _is_past_form(word):
            return True
        if _is_verb(word):
            return False
    return False
