"""Finds the entities that a sentence mentions, the role of each, and its topics.

Capitalised runs, quoted titles, hashtags and handles; participants wherever they stand. Kinds come from small
lists and the words around a name, and are ``"unknown"`` where neither speaks. Scripts without capitals yield
participants and what stands in their quotation marks (「」『』《》).

People, places and organisations are found with the names, as how a statement reads depends on them; events and works are
told apart in the finished statement (`with_kinds`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from memforest.models.onnx import load_vocabulary
from memforest.reading.tokens import (
    Code,
    Token,
    is_verb_form,
    kinship,
    load_word_lists,
    load_word_tables,
    tokenise,
)
from memforest.records import EntityKind, Mention
from memforest.text import STOP_WORDS, entity_key, strip_accents, word_set

MAX_MENTIONS = 12
"""Most mentions of one sentence; an index page of names yields its first ones."""
MAX_TOPICS = 3

Role = Literal["subject", "object", "other"]

_EN = load_word_lists("en")
_SPANISH_PREPOSITIONS = word_set(
    "a al ante con contra de del desde en entre hacia hasta para por según sin sobre"
)
_PERSON_CUES = kinship("en") | kinship("es") | word_set("named called mr mrs ms dr llamado llamada")
_FINITE = _EN["finite"] | frozenset(load_word_tables("es")["verbs"].values())

# A word that may start with a capital, behind another word and a blank; re has no class of capitals.
_CAPITAL = re.compile(r"(?<=[\w,;:)] )[^\W\d_a-z][\w'’-]{1,60}")
_SMALL = word_set("of the de la del van von der di da y &")
_TITLES = word_set("mr mrs ms miss dr prof professor")
_NUMERAL = re.compile("[IVX]+")
_NO_NAME_BEFORE_NAME = (
    STOP_WORDS | _EN["interjections"] | _EN["adverbs"] | _EN["not_verbs"] | _EN["prepositions"]
)
_NO_NAME_STARTS = (
    STOP_WORDS
    | _EN["backchannel"]
    | _EN["adverbs"]
    | _EN["not_verbs"]
    | _EN["imperatives"]
    | _EN["prepositions"]
)


def names_inside(text: str) -> frozenset[str]:
    """Return the capitalised words of `text` that do not start a sentence, lower case: surely names."""
    found = (
        word.removesuffix("'s").removesuffix("’s") for word in _CAPITAL.findall(text) if word[0].isupper()
    )
    return frozenset(
        lower
        for word in found
        if (lower := word.lower()) not in _NO_NAME_STARTS and lower not in _EN["not_names"] and lower != "i"
    )


def find_mentions(
    sentence: str,
    *,
    participants: Mapping[str, str],
    known: Collection[str] = frozenset(),
    language: Code = "en",
) -> tuple[Mention, ...]:
    """Return the entities that one sentence mentions, in order, each once.

    The role is read off the word order: before the first verb is ``"subject"``, after it ``"object"``; behind a
    preposition or in the possessive it is ``"other"``.

    Args:
        sentence: one sentence.
        participants: entity key -> display name of everybody who takes part.
        known: lower-case words that are names although they may start a sentence (see `names_inside`).
        language: of the sentence. In ``"other"`` word order tells no roles, and many capitals (German) no names.
    """
    tokens = tokenise(sentence[:2000])
    if not any(token.capital or token.kind in ("tag", "handle", "quote") for token in tokens):
        tokens = []
    verbs = (
        at
        for at, token in enumerate(tokens)  # "In May Ann left": the verb comes later
        if (token.verb and not (at and token.bare == "May")) or (at and token.present)
    )
    verb = next(verbs, len(tokens))
    capitals = [token.capital for token in tokens if token.kind == "word"]
    most = 30 if language == "other" else 70  # per cent of capitals, more of which say little
    crowded = len(capitals) > 5 and sum(capitals) * 100 > most * len(capitals)
    found: list[Mention] = []
    index = 0
    while index < len(tokens) and len(found) < MAX_MENTIONS:
        token = tokens[index]
        end = index + 1
        if token.kind in ("tag", "handle"):
            found.append(Mention(token.text, "thing" if token.kind == "tag" else "person", "other"))
        elif token.kind == "quote":
            found += _quoted(token.text)
        elif token.capital or (token.kind == "word" and token.text[0].isupper() and _title(tokens, index)):
            end = _run_end(tokens, index, participants)
            mention = _named(
                tokens, index, end, verb, participants, known, crowded=crowded, language=language
            )
            if mention:
                found.append(mention)
        index = end
    found += [  # in a script without capitals, wherever they stand
        Mention(name, "participant", "subject" if sentence.startswith(name) else "other")
        for name in participants.values()
        if not name.isascii() and not any(ch.isupper() for ch in name) and name in sentence
    ]
    return merge_mentions(found)


def _quoted(text: str) -> list[Mention]:
    """Return a short quotation as a title; a quoted sentence is speech and names nothing."""
    inner = text[1:-1].strip()
    speech = {"i", "you", "me", "my", "we", "i'm", "don't"} & set(inner.lower().replace("’", "'").split())
    title = (
        not speech and len(inner.split()) <= 8 and not inner.endswith((".", "!", "?", "。", "！", "？", ","))
    )
    return [Mention(inner, "thing", "other")] if title and inner else []


def _opens(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a sentence or what stands behind a colon begins at a token."""
    return at == 0 or (tokens[at - 1].kind == "mark" and tokens[at - 1].text in ".!?:。")


def _title(tokens: Sequence[Token], at: int) -> str:
    """Return the title in front of a token, empty if there is none: "Dr Sun", "Mr. Will"."""
    before = at - 2 if at > 1 and tokens[at - 1].text == "." else at - 1
    return tokens[before].text if before >= 0 and tokens[before].lower in _TITLES else ""


def _run_end(tokens: Sequence[Token], start: int, participants: Collection[str]) -> int:
    """Return the position behind the capitalised run at `start`: "University of Oslo" is one."""
    end = start + 1
    while end < len(tokens) and end - start < 6 and not tokens[end - 1].possessive:
        if tokens[end].capital:
            end += 1
        elif (
            tokens[end].lower in _SMALL
            and (following := end + 1 + (end + 1 < len(tokens) and tokens[end + 1].lower in _SMALL))
            < len(tokens)
            and tokens[following].capital
            and (tokens[start].lower not in _NO_NAME_STARTS or not _opens(tokens, start))
            and entity_key(tokens[end - 1].bare) not in participants
            and entity_key(tokens[following].bare) not in participants
        ):
            end = following + 1
        else:
            break
    return end


def _named(
    tokens: Sequence[Token],
    start: int,
    end: int,
    verb: int,
    participants: Mapping[str, str],
    known: Collection[str],
    *,
    crowded: bool,
    language: Code,
) -> Mention | None:
    """Return the mention that a capitalised run makes, or None if it is only the start of a sentence."""
    title = _title(tokens, start)
    opens = _opens(tokens, start) and not title
    inside = not opens and not crowded and tokens[start - 1].kind == "word"
    first = tokens[start].lower
    if opens and end - start > 1 and (first.endswith(("ing", "ed")) or is_verb_form(first)):
        start, opens = start + 1, False
    while start < end:
        single = end - start == 1
        ordinary = tokens[start].lower in (_NO_NAME_STARTS if single else _NO_NAME_BEFORE_NAME)
        if not (single if tokens[start].text == "I" else ordinary):  # "So Tom …", but "World War I"
            break
        if title or (inside and not single and tokens[start].text != "I"):  # "the Great Western Railway"
            break
        if tokens[start].lower in known or entity_key(tokens[start].bare) in participants:
            break
        start, opens, inside = start + 1, False, False
    name = " ".join([*(token.text for token in tokens[start : end - 1]), tokens[end - 1].bare])
    key = entity_key(name)
    if start == end or key is None or len(name) < 2 or _NUMERAL.fullmatch(name):
        return None
    if (
        opens
        and end - start > 1
        and tokens[end - 1].lower in load_word_lists("es" if language == "es" else "en")["holidays"]
    ):
        return None  # a wish: "Merry Christmas!"
    if title and not tokens[start].capital:
        name = f"{title} {name}"  # "Sun" would be a day
    at = start - 1
    if language == "en" and at > 0 and tokens[at].lower in _EN["determiners"]:
        at -= 1
    before = tokens[at].lower if at >= 0 else ""
    governed = before in (_EN["prepositions"] if language == "en" else _SPANISH_PREPOSITIONS)
    role: Role = "subject" if start < verb else "object"
    if language == "other" or tokens[end - 1].possessive or governed:
        role = "other"
    if key in participants:
        return Mention(participants[key], "participant", role)
    lower = tokens[start].lower
    trusted = lower in known or lower in _EN["given_names"] or lower in _EN["places"]
    if end - start == 1 and not trusted and not title:
        rare = language == "en" and not tokens[end - 1].text.isupper() and _is_rare(lower)
        if crowded or (opens and not rare and not _verb_follows(tokens, end)):
            return None
    return Mention(name, _kind(tokens, start, end, language), role)


def _is_rare(lower: str) -> bool:
    """Return whether a word is none of the whole words of the vocabulary of BERT, nor a form of one: many names are."""
    plain = strip_accents(lower)
    endings = ("", "s", "es", "ed", "d", "ing", "ly", "er", "ers", "y")
    known = load_vocabulary()
    return (
        len(plain) > 3
        and plain.isalpha()
        and not any(plain.endswith(one) and plain.removesuffix(one) in known for one in endings)
        and not any(plain.endswith(one) and plain.removesuffix(one) + "e" in known for one in ("ing", "ed"))
    )


def _verb_follows(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a past or -s verb stands at `index`: at the start of a sentence "Zorka moved" is a name."""
    if index >= len(tokens) or tokens[index].kind != "word":
        return False
    lower, first = tokens[index].lower, tokens[index - 1].lower
    if first.endswith(("ing", "s", "tion", "ness", "ity", "ment", "ed", "ly")):
        return False
    return lower in _TOLD_OF_PEOPLE


_TOLD_OF_PEOPLE = word_set("moved lent said told asked lives works gave bought married went")


def _kind(tokens: Sequence[Token], start: int, end: int, language: Code) -> EntityKind:
    """Return the kind of a name from its own words, then from the words before it."""
    own = {token.lower for token in tokens[start:end]}
    before = [token.lower for token in tokens[max(0, start - 3) : start] if token.kind == "word"]
    last = before[-1] if before else ""
    if own & _EN["organisation_words"]:
        return "organisation"
    if last in _PERSON_CUES or tokens[start].lower in _EN["given_names"]:
        return "person"
    if last in ("at", "for", "en", "para") and _has_stem(before, ("work", "trabaj", "job", "intern")):
        return "organisation"
    if own & _EN["place_words"] or own & _EN["places"] or last in ("in", "near", "visit", "visited"):
        return "place"
    spanish = language == "es" and (
        last == "en" or (last == "a" and _has_stem(before, ("mud", "viaj", "fu", "v")))
    )
    moved = last in ("from", "to") and _has_stem(
        before, ("move", "trip", "travel", "flew", "went", "go", "com")
    )
    return "place" if spanish or moved else "unknown"


def _has_stem(before: Sequence[str], stems: tuple[str, ...]) -> bool:
    """Return whether one of the words before a name starts with one of `stems`."""
    return any(word.startswith(stems) for word in before)


_RANK = {"subject": 0, "object": 1, "other": 2}


def merge_mentions(mentions: Iterable[Mention]) -> tuple[Mention, ...]:
    """Return `mentions` with each entity once: first name, first known kind, strongest role."""
    merged: dict[str, Mention] = {}
    for mention in mentions:
        key = entity_key(mention.name)
        if key is None:
            continue
        old = merged.get(key)
        if old is None:
            merged[key] = mention
            continue
        kind = mention.kind if old.kind == "unknown" else old.kind
        role = min(old.role, mention.role, key=_RANK.__getitem__)
        merged[key] = Mention(old.name, kind, role)
    return tuple(merged.values())


def find_topics(sentence: str, *, names: Collection[str] = frozenset()) -> tuple[str, ...]:
    """Return up to `MAX_TOPICS` content words or pairs that say what `sentence` is about, strongest first.

    Nouns are guessed by position: a word behind a determiner or preposition, two content words in a row as one
    topic. Without such a word there is no topic. Lower case.

    Args:
        sentence: one statement; English, other languages yield their longer words.
        names: lower-case words that are names, which are mentions and no topics.
    """
    scored: list[tuple[int, int, str]] = []
    run: list[str] = []
    before = ""
    for index, token in enumerate([*tokenise(sentence[:1000]), Token("mark", ".")]):
        noun = token.nounlike and before in _EN["determiners"] and not run
        content = noun or (token.content and token.lower not in names)
        if content:
            run.append(token.lower)
            continue
        if run:
            weight = 2 * (
                before in _EN["determiners"] or before in _EN["prepositions"] or before.endswith("'s")
            ) + min(len(run), 2)
            scored.append((-weight, index, " ".join(run[-2:])))
        run, before = [], token.text.lower()
    topics = dict.fromkeys(topic for _, _, topic in sorted(scored))
    return tuple(topics)[:MAX_TOPICS]


_BEFORE = 40
"""Characters in front of a name that are looked at."""
_MARKS = "\"'“”‘’«»「」『』《》 "


def with_kinds(text: str, mentions: Iterable[Mention], language: Code) -> tuple[Mention, ...]:
    """Return mentions with the kind "event" or "work" for an unknown kind or "thing", where the words show it.

    Args:
        text: the statement that they stand in.
        mentions: its mentions; of the others the kind stays.
        language: of the statement; English and Spanish are known.

    Example:
        >>> with_kinds("Ana read the novel Quayside.", [Mention("Quayside")], "en")
        (Mention(name='Quayside', kind='work', role='other'),)
    """
    if language == "other":
        return tuple(mentions)
    return tuple(
        one if one.kind not in ("unknown", "thing") else _told(text, one, language) for one in mentions
    )


def _told(text: str, mention: Mention, language: Code) -> Mention:
    lists = load_word_lists(language)
    own = [word.casefold() for word in mention.name.split()]
    outer = own[:1] if language == "es" else own[-1:]  # "Feria del Libro", "Book Fair"
    if lists["event_words"].intersection(outer) or lists["holidays"].intersection(own):
        return replace(mention, kind="event")
    at = text.find(mention.name)
    before = re.findall(r"[^\W\d_]+", text[max(0, at - _BEFORE) : at].casefold()) if at > 0 else []
    quoted = at > 0 and text[at - 1] in _MARKS.strip()
    if before and before[-1] in lists["titled"]:
        del before[-1]
    last = before[-1] if before else ""
    if last in lists["work_words"] or (quoted and last in lists["work_verbs"]):
        return replace(mention, kind="work")
    return mention


_ID = re.compile(
    r"\S+@\S+\.\S+"  # an e-mail address
    r"|(?=\S*\d)[0-9a-f]{6,}(?:-[0-9a-f]{2,})*"  # a UUID, a hash
    r"|[^\W\d_]*[-_#:.]*\d[\w-]*",  # a number, with letters or without: "user_123", "u42", "+4917..."
    re.IGNORECASE,
)


def is_id(name: str) -> bool:
    """Return whether a participant's name is an id: an e-mail address, a UUID, a hash or a number.

    >>> [is_id(name) for name in ("ana@example.org", "user_123", "+49 170 1", "3f2c9a51-77aa-41d4", "Ana", "Agent 47")]
    [True, True, True, True, False, False]
    """
    bare = name.strip().lstrip("+(@")
    return _ID.fullmatch(bare) is not None or bare.replace(" ", "").isdecimal()


def is_assistant(name: str, role: str | None) -> bool:
    """Return whether somebody is an AI assistant, or an agent who speaks for a company: by role, else by name."""
    return (role or name).lower() in load_word_lists("en")["assistants"]


def called(name: str, role: str | None, code: str) -> str:
    """Return a participant's name for a sentence; if it is an id, their role ("the user").

    >>> called("Ana", "user", "en"), called("3f2c9a51-77aa", "user", "en"), called("user", None, "es")
    ('Ana', 'the user', 'el usuario')
    """
    roles = load_word_tables("es" if code == "es" else "en")["roles"]
    return roles.get(name.casefold()) or (roles.get(role or "user", name) if is_id(name) else name)
