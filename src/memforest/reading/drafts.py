"""Drafts of facts (a sentence and those that join it), and the context in which a turn is read.

The context is the speaker and the listeners, their names, and the question just asked.

`with_names` puts names in the place of the first and second person, so that rules that read states and relations know who is meant:
"I've lived here since my dad died", said by Ana, is read as "Ana has lived here since Ana's dad died". Nobody is shown this: what is
stored and shown is what was said. So verbs are left as they are ("Ana live in Leeds"), and "we" is the speaker alone. In Spanish only a
verb of a small table at the start of a clause is read; other languages are left as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache

from memforest.reading.clauses import is_question, lacks_content, takes_back
from memforest.reading.date_phrases import DateSpan
from memforest.reading.entities import called, is_assistant, merge_mentions
from memforest.reading.tokens import Code, detect_language, load_word_lists, load_word_tables, split_sentences
from memforest.records import Chunk, Mention, ResolvedDate, Skipped, Turn
from memforest.text import STOP_WORDS, cut, entity_key, word_set, words

GROUP_WORDS = 35
"""Neighbouring sentences are joined up to this many words."""
PASSAGE_WORDS = 90
"""Behind the first `FINE_CHARS` characters of a turn they are joined up to this many words, about as many as are quoted whole."""
FINE_CHARS, ASSISTANT_FINE_CHARS = 4_000, 1_500

_OPENING_NAME = re.compile(r"(?<![\w'’])(?P<name>[^\W\d_][\w'’-]+) (?=(?P<verb>[^\W\d_]+))")
_EN, _ES = load_word_lists("en"), load_word_lists("es")
_NO_NAME_STARTS = STOP_WORDS | _EN["not_names"] | _EN["determiners"] | _EN["adverbs"] | _EN["backchannel"]
_CONTRACTIONS = load_word_tables("en")["contractions"]
_KEPT = (
    r"""https?://\S+|"[^"\n]{1,300}"|“[^”\n]{1,300}”|(?<!\S)\S+@\S+|"""
    r"(?<!\w)(?:[Ww]ar|[Pp]art|[Tt]ype|[Pp]hase|[Ll]evel|[Vv]olume|[Cc]hapter|[Ss]tage|Elizabeth) I(?!\w)"
)
"""Addresses, quotations, and what is numbered: in none of them "I" and "me" are the speaker."""
_PERSON = re.compile(
    rf"(?P<kept>{_KEPT})|(?<![\w'’@#/-])(?:(?:I|i|[Ww]e|[Yy]ou)(?:['’](?:m|ve|ll|d|re))?"
    r"|[Mm](?:y|ine)|(?:[Oo]|[Yy]o)urs?|me|us)(?!\w|['’/.]\w|-)"
)
_LEFT_OUT = re.compile(
    r"(?:(?:just|finally|recently|already|still|also|really)\s+)?(?P<verb>[^\W\d_]+) (?=\w)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Voices:
    """The speaker and the listener of a sentence; `listener` is None unless exactly two people take part.

    `nicknames` maps a shortened first name to the participant it can only mean ("Mel": "Melanie").
    """

    speaker: str
    listener: str | None
    nicknames: tuple[tuple[str, str], ...] = ()


def with_names(text: str, voices: Voices | None, language: Code) -> str:
    """Return a sentence with names for the first and second person, but in addresses and quotations; as it is without voices.

    >>> with_names("I love your dog, and my sister does too.", Voices("Ana", "Ben"), "en")
    "Ana love Ben's dog, and Ana's sister does too."
    >>> with_names("Just moved to Rome.", Voices("Ana", None), "en")
    'Ana just moved to Rome.'
    """
    if voices is None or language == "other":
        return text
    if language == "es":
        return with_name_spanish(text, voices.speaker) or text

    def name(found: re.Match[str]) -> str:
        said = found[0].lower().replace("’", "'")
        who = voices.listener if said.startswith("you") else voices.speaker
        if found["kept"] or who is None:
            return found[0]
        ending = "'s" if (said.startswith("m") and said != "me") or "our" in said else ""
        return f"{who}{ending} {_CONTRACTIONS.get(said, '')}".rstrip()

    opening = _LEFT_OUT.match(text)
    verb = opening["verb"].lower() if opening else ""
    past = verb in _EN["irregular_past"] or verb.endswith(("ed", "ing"))
    if past and verb not in _EN["not_elided"] | _EN["ed_bases"]:
        text = f"I {'is ' * verb.endswith('ing')}{text[0].lower()}{text[1:]}"
    text, called = _PERSON.sub(name, text), dict(voices.nicknames)
    short = "|".join(map(re.escape, sorted(called, key=len, reverse=True)))
    # All at once: what one of them becomes is no other one's to change.
    return re.sub(rf"(?<!\w)(?:{short})(?!\w)", lambda found: called[found[0]], text) if short else text


_VERBS = load_word_tables("es")["verbs"]
_START = re.compile(
    rf"(?P<yo>yo )?(?P<adverbs>(?:(?:{'|'.join(sorted(_ES['adverbs'] - {'no'}))}) ){{0,2}})"
    r"(?P<no>no )?(?P<clitic>me |lo |la |te )?(?P<verb>\w+)\b",
    re.IGNORECASE,
)
_GUSTA = re.compile(
    r"(?:a mí )?(?P<no>no )?me (?P<verb>gustan?|gustó|gustaría|encantan?|encantó|interesan?|duele|falta)\b",
    re.I,
)
_MINE = re.compile(r"\b(?P<first>[Mm])(?P<rest>is?)\b(?= \w)")
_JOINED = re.compile(r"(?P<gap>(?: y|, y|, pero| pero|;) )(?P<no>no )?(?P<clitic>me )?(?P<verb>\w+)\b")


def with_name_spanish(text: str, speaker: str) -> str | None:
    """Return `text` in the third person with `speaker` as its subject, or None if it is not a simple case.

    >>> with_name_spanish("Vivo en Madrid y trabajo en un banco.", "Lucía")
    'Lucía vive en Madrid y trabaja en un banco.'
    >>> with_name_spanish("No me gusta el café.", "Lucía")
    'A Lucía no le gusta el café.'
    """

    def joined(match: re.Match[str]) -> str:
        verb = _VERBS.get(match["verb"].lower())
        clitic = "se " if match["clitic"] else ""
        return f"{match['gap']}{match['no'] or ''}{clitic}{verb}" if verb else match.group()

    found = _GUSTA.match(text) or _START.match(text)
    if found is None or (found.re is _START and found["verb"].lower() not in _VERBS):
        return None
    no, verb = "no " if found["no"] else "", found["verb"].lower()
    rest = _MINE.sub(
        lambda m: ("S" if m["first"] == "M" else "s") + ("us" if m["rest"] == "is" else "u"),
        _JOINED.sub(joined, text[found.end() :]),
    )
    if found.re is _GUSTA:
        return f"A {speaker} {no}le {verb}{rest}"
    clitic = (found["clitic"] or "").lower().replace("me ", "se ")
    return f"{speaker} {found['adverbs'].lower()}{no}{clitic}{_VERBS[verb]}{rest}"


@dataclass(slots=True)
class DraftFact:
    """A fact in the making: a sentence and those that join it."""

    text: str
    raw: list[str]
    told: str
    """What it asserts, with names for "I" and "you"; nothing where it is a request, an answer or a picture."""
    whole: bool
    """Whether the text names the speaker by itself."""
    own: bool
    """Whether it tells of the speaker."""
    turns: tuple[int, ...]
    language: Code
    joins: bool
    date: DateSpan | None = None
    dates: tuple[ResolvedDate, ...] = ()
    names: tuple[Mention, ...] = ()
    negated: bool = False
    words: int = 0
    comment: bool = False  # worth keeping only behind the statement that it comments on
    answer: bool = False
    turned: bool = False  # taken back or denied by a sentence behind it, so it asserts nothing


def can_join(before: DraftFact, draft: DraftFact, most: int) -> bool:
    """Return whether `draft` may join the draft before it: at most `most` words together, and one date at most.

    What refers back to it may be dated, any other may not. In a passage, denied and asserted sentences may be joined, and those that
    tell of the speaker with those that do not.
    """
    if before.language != draft.language or draft.whole or (before.whole and not before.answer):
        return False
    total = before.words + draft.words
    if draft.joins:
        return (draft.date is None or before.date is None) and total <= most + 10
    if before.date is not None or draft.date is not None or total > most:
        return False
    if most > GROUP_WORDS or before.answer:
        return True
    return (before.negated, before.own) == (draft.negated, draft.own)


def join(before: DraftFact, draft: DraftFact) -> None:
    """Add `draft` to the draft before it."""
    before.text = f"{before.text} {draft.text}"
    before.told = f"{before.told} {draft.told}"
    before.raw += draft.raw
    before.date = before.date or draft.date
    before.dates = tuple(dict.fromkeys((*before.dates, *draft.dates)))
    before.words += draft.words
    before.names = merge_mentions((*before.names, *draft.names))
    before.turns = tuple(dict.fromkeys((*before.turns, *draft.turns)))


def referring(draft: DraftFact, before: DraftFact) -> None:
    """Put a name for the "he" or "she" that opens what a draft tells, if the draft before it names one person."""
    found = _OPENING_PRONOUN.match(draft.told)
    people = [one for one in before.names if one.kind == "person"]
    people = people or [one for one in before.names if one.kind == "unknown" and " " not in one.name]
    if found and len(people) == 1:
        draft.told = f"{people[0].name}{_VERBS_OF_PRONOUN[found['verb'] or '']}{draft.told[found.end() :]}"
        draft.names = merge_mentions((Mention(people[0].name, people[0].kind, "subject"), *draft.names))


_OPENING_PRONOUN = re.compile(r"(?:he|she)(?:['’](?P<verb>s|d|ll))?(?= )", re.IGNORECASE)
_VERBS_OF_PRONOUN = {"s": " is", "d": " would", "ll": " will", "": ""}


def afterword(before: DraftFact, raw: str) -> None:
    """Add a sentence that only comments on the draft before it ("Not.", "Just kidding.")."""
    before.text = f"{before.text} {raw}"
    before.raw.append(raw)
    if takes_back(raw):
        before.negated = before.turned = True


def acting_names(text: str) -> list[str]:
    """Return the capitalised words that open a sentence and precede a verb: "Zorka", but also "Pottery".

    >>> acting_names("Zorka lives in Brno. She likes it there.")
    ['Zorka']
    """
    return list(
        dict.fromkeys(
            match["name"].removesuffix("'s")
            for match in _OPENING_NAME.finditer(text)
            if (
                (at := match.start()) == 0
                or text[max(0, at - 2) : at] in (". ", "! ", "? ", ': "')
                or text[at - 1] == '"'
            )
            and _may_act(match)
        )
    )


def _may_act(found: re.Match[str]) -> bool:
    """Return whether a word can be a name and the next one its verb, or something that it has."""
    name, verb = found["name"], found["verb"]
    if (
        not name[0].isupper()
        or name.isupper()
        or not verb.islower()
        or name.lower().removesuffix("'s") in _NO_NAME_STARTS
    ):
        return False
    return (
        name.endswith("'s")
        or verb in _EN["finite"]
        or verb in _EN["irregular_past"]
        or verb.endswith(("s", "ed"))
    )


_YES_NO_WORDS = frozenset(_EN["yes_no"])
_YES_NO_FILLERS = _YES_NO_WORDS | word_set(
    "actually i do did have am it is was of course sir ma'am thanks i'm really"
)


def asks_yes_or_no(question: str) -> bool:
    """Return whether an English question is answered by yes or no."""
    return question.split(" ", 1)[0].lower().replace("’", "'") in _EN["auxiliaries"]


def asks_for_something(question: str) -> bool:
    """Return whether an English question asks for a thing, also indirectly: "Do you know which gym …?"."""
    return not asks_yes_or_no(question) or _INDIRECT.match(question) is not None


_INDIRECT = re.compile(
    r"(?:do|did|can|could) you (?:know|say|tell me|remember) (?:which|what|who|where)\b", re.IGNORECASE
)


def is_bare_yes(raw: str, address: frozenset[str]) -> bool:
    """Return whether a sentence is only yes or no, with a name at most."""
    return all(word.lower().strip(",.!") in _YES_NO_FILLERS | address for word in raw.split())


_QUESTION_WORDS = 25
_SHOWN_CHARS = 240
HEARD_CHARS = 400
CAPTION = re.compile(
    r"\[[^\[\]\n]{0,40}?\b(?:image|images|photo|picture|caption|imagen|foto)\b[^\[\]]{0,400}\]", re.IGNORECASE
)
_CAPTION_LABEL = re.compile(
    r"^\[\s*(?:(?:shares?|shared|shows?|sends?|sent)\s+)?(?:an?\s+)?(?:attached\s+)?(?:image|photo|picture|imagen|foto)?"
    r"(?:\s+caption)?\s*:\s*",
    re.IGNORECASE,
)
_PICTURE = re.compile(
    r"(?:an?|the|two|some)\s+(?:\w+ ){0,3}(?:photo|picture|image|painting|drawing|poster|screenshot)s?\b",
    re.I,
)
_BARE_QUESTION = (
    (_EN["question_words"] | _EN["prepositions"] | _EN["interjections"] | _ES["question_words"])
    | word_set("long much many one time day exactly then wait really huh")
    | word_set("desde hasta adónde tiempo por con para de a y o pero entonces cuando donde")
)
"""Words of a question without content of its own, which asks about the turn before."""
_ASKING = frozenset(("when", "where", "why", "how", "who", "since", "until"))
"""Of these words, one makes a question of it; "what?" and "really?" may only show surprise."""
_ABOUT_WORDS = 15


@dataclass(slots=True)
class Context:
    """The context in which a turn is read."""

    turn: Turn
    called: str
    """The speaker's name in a fact; their id if another participant would have the same name."""
    voices: Voices | None
    """None where a sentence cannot name the speaker, so that their words are quoted."""
    language: Code
    participants: dict[str, str]
    """Entity key -> name of a participant in a fact."""
    ids: dict[str, str]
    """Name of a participant in a fact -> their stored name, where the two differ."""
    address: frozenset[str]
    known: frozenset[str]
    question: str | None
    question_turn: tuple[int, ...]
    about: str | None
    """The sentence that the question is about, if it has no content of its own ("Since when?")."""
    assistant: bool
    to_assistant: bool
    """Whether only an assistant listens, or the speaker has the role of a user."""
    day_first: bool | None
    heard: str
    """The end of the turn before, if of the same day, and of this turn so far."""
    words: int = GROUP_WORDS
    """Up to how many neighbouring sentences are joined here."""
    drafts: list[DraftFact] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def skip(self, text: str, reason: str) -> None:
        """Record that `text` became no fact."""
        self.skipped.append(Skipped(self.turn.ordinal, cut(text, _SHOWN_CHARS), reason))


def picture_of(caption: str) -> str:
    """Return the content of a caption in brackets: "a photo of a dog on a beach"; "" if it has none."""
    inner = _CAPTION_LABEL.sub("", caption).strip("[] \n")
    return inner if not inner or _PICTURE.match(inner) else f"a photo of {inner}"


def context_of(chunk: Chunk, turn: Turn, previous: Turn | None, known: frozenset[str]) -> Context:
    """Return the context in which `turn` is read."""
    people = tuple(dict.fromkeys((*chunk.participants, turn.speaker)))
    language = detect_language(turn.text)
    roles = {one.speaker: one.role for one in (*chunk.before, *chunk.turns)}
    names = {name: called(name, roles.get(name), language) for name in people}
    several = Counter(names.values())
    named = {name: one for name, one in names.items() if several[one] == 1}  # who share one have no name
    own_names = tuple(name for name in people if named.get(name) == name)
    others = [name for name in people if name != turn.speaker]
    listener = named.get(others[0]) if len(others) == 1 else None
    own, assistant = named.get(turn.speaker), is_assistant(turn.speaker, turn.role)
    asker = previous if previous is not None and previous.speaker != turn.speaker else None
    question, asked_in, about = _NO_QUESTION if asker is None else _open_question(asker, turn, chunk, people)
    recent = previous is not None and turn.said - previous.said < timedelta(days=1)
    return Context(
        turn=turn,
        called=own or turn.speaker,
        voices=None if own is None else Voices(own, listener, _nicknames(own_names)),
        language=language,
        participants={
            key: name for one in people if (key := entity_key(name := named.get(one, one))) is not None
        },
        ids={name: one for one, name in named.items() if name != one},
        address=_forms_of_address(own_names) | frozenset(one.lower() for one in people),
        known=known,
        question=question,
        question_turn=asked_in,
        about=about,
        assistant=assistant,
        to_assistant=turn.role == "user"
        or (bool(others) and all(is_assistant(one, roles.get(one)) for one in others)),
        day_first=chunk.day_first,
        heard=previous.text[-HEARD_CHARS:] if previous is not None and recent else "",
    )


_NO_QUESTION: tuple[None, tuple[int, ...], None] = None, (), None


@lru_cache(maxsize=256)
def _forms_of_address(people: tuple[str, ...]) -> frozenset[str]:
    """Return the participants' forms of address, lower case: full names, their parts, beginnings of first names."""
    parts = {part.lower() for name in people for part in (name, *name.split())}
    return frozenset(
        parts | {name[:2].lower() for name in people} | {short.lower() for short, _ in _nicknames(people)}
    )


@lru_cache(maxsize=256)
def _nicknames(people: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the beginnings of first names, of three letters or more, that fit one participant only."""
    owners: dict[str, set[str]] = {}
    for name in people:
        first = name.split()[0] if name.split() else ""
        for size in range(3, len(first)):
            owners.setdefault(first[:size], set()).add(name)
    return tuple((short, next(iter(names))) for short, names in owners.items() if len(names) == 1)


def _open_question(
    previous: Turn, turn: Turn, chunk: Chunk, people: tuple[str, ...]
) -> tuple[str | None, tuple[int, ...], str | None]:
    """Return the question at the end of the turn before, its turn if in the chunk, and the sentence that it is about.

    There is such a statement where the question has no content of its own ("Since when?"): the one said last before it.
    """
    if not any(mark in previous.text[-400:] for mark in "?？؟"):
        return _NO_QUESTION
    pieces = [piece.text for piece in split_sentences(CAPTION.sub(" ", previous.text[-600:]))]
    questions = [piece for piece in pieces if is_question(piece)]
    address = _forms_of_address(chunk.participants)
    asked = {word.lower() for word in words(questions[-1])} if questions else set()
    if not questions or (lacks_content(questions[-1], address) and _ASKING.isdisjoint(asked)):
        return _NO_QUESTION
    shown = questions[-1].replace('"', "'").split()
    question = " ".join(shown if len(shown) <= _QUESTION_WORDS else ["…", *shown[-_QUESTION_WORDS:]])
    turns = [*chunk.before, *chunk.turns]
    before = turns[: turns.index(previous)][-1:] if previous in turns else []
    about = None
    if _BARE_QUESTION.issuperset(word.lower() for word in words(question)):
        for said in (*(one for one in before if one.speaker == turn.speaker), previous):
            sentences = split_sentences(CAPTION.sub(" ", said.text[-600:]))
            asserting = [
                one.text
                for one in sentences
                if not is_question(one.text) and not lacks_content(one.text, address)
            ]
            if asserting:
                shown = asserting[-1].replace('"', "'").rstrip(".!… ").split()
                about = " ".join(shown if len(shown) <= _ABOUT_WORDS else ["…", *shown[-_ABOUT_WORDS:]])
    if about is None and lacks_content(question, _forms_of_address(people)):
        return _NO_QUESTION
    return question, (previous.ordinal,) if previous in chunk.turns else (), about
