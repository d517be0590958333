"""Finds the states that a fact asserts, (Bob, residence, Miami), and how they change.

Three ways of asserting are known, from a small table per language (``data/states``): a few states that have verbs of
their own ("lives in", "works at"), whatever is somebody's ("Bob's bank is Monzo" asserts a "bank", which nobody
listed), and changes from one thing to another ("swapped the oolong for sencha"), which do not say of what.

A predicate is read from its beginning, right behind its subject, and a value is a name unless the pattern
says otherwise. So an unknown construction yields nothing: a wrong state is worse than a missed one. Questions,
wishes, plans, conditions and hearsay are no states. English and Spanish are read.

A table has ``words`` (lists by role), ``macros``, ``slots`` (states that have verbs of their own), ``nouns`` (states that a
noun of somebody's names) and ``turns`` (changes that do not say of what). Its patterns are matched from the beginning of a
predicate; ``{v}`` stands for a value, ``{o}`` for the one before it, ``{n}`` for a noun, and other names for macros.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any, Literal

from memforest.reading.tokens import (
    MAX_PIECE_CHARS,
    SentenceSpan,
    find_names,
    load_word_lists,
    read_toml,
    split_sentences,
)
from memforest.records import State

LANGUAGES = ("en", "es")
"""Languages with a table, in the order in which they are tried."""
UNSPECIFIED = "unspecified"
"""The attribute of a change without a named attribute."""
NAME, OTHER = "§", "¤"
"""Stand for every character of a known name, so that one pattern fits all: the subject's own, and other people's."""

Change = Literal["is", "start", "end"]

_PHRASE = r"[^\W\d_][\w-]*(?: [^\W\d_][\w-]*){0,3}"


@dataclass(frozen=True, slots=True)
class StatePattern:
    """A pattern of a predicate, and the attribute and the change that it asserts.

    The pattern's group ``v`` is the value, ``o`` the one before it, ``n`` the noun that names the attribute. A value at
    the pattern's end is only its beginning: it goes on as long as a value can. `plain` values need no capital.
    """

    attribute: str
    change: Change
    regex: re.Pattern[str]
    plain: bool = False
    past: bool = False
    """Asserted in the past: over, unless it is dated."""
    opens: str = ""
    """The group at the pattern's end."""


@dataclass(frozen=True, slots=True)
class Table:
    """One language's table, compiled. `words` are its lists by role."""

    words: Mapping[str, frozenset[str]]
    clause: re.Pattern[str]
    unreal: re.Pattern[str]
    conditional: re.Pattern[str]
    fiction: re.Pattern[str]
    """Opens a sentence from which on nothing is meant as it is said."""
    reports: re.Pattern[str]
    """Somebody's words follow, up to the end of the sentence."""
    lead: re.Pattern[str]
    """Adverbs in front of a subject."""
    front: re.Pattern[str]
    """Adverbs and reports of the subject's in front of a predicate."""
    pronoun: re.Pattern[str]
    patterns: tuple[StatePattern, ...]
    nouns: tuple[StatePattern, ...]
    """Those behind "Ada's bank", and those of "Ada changed her bank"."""
    changed: tuple[StatePattern, ...]
    inverse: re.Pattern[str]
    of: re.Pattern[str] | None
    noun: re.Pattern[str]
    """A question for a noun of somebody's."""
    subject: re.Pattern[str]
    """A question for a state of "Ada's brother"."""
    ask: tuple[tuple[str, re.Pattern[str]], ...]


@lru_cache(maxsize=len(LANGUAGES))
def load_table(code: str) -> Table:
    """Return the table of one of `LANGUAGES`, read once per process from the package's data."""
    raw = read_toml("data", "states", f"{code}.toml")
    lists: Mapping[str, str] = raw["words"]
    words = {role: frozenset(text.split()) for role, text in lists.items()}
    words["no_value"] = words["stops"] | words["pronouns"] | words["unreal"]
    words["calendar"] = load_word_lists(code).get("not_names", frozenset())
    words["modals"] = load_word_lists(code).get("modals", frozenset())
    words["breaks"] = words["ends_noun"] - words["stops"]
    words["ends_noun"] |= words["stops"]
    macros = {name: text.replace("{name}", f"{NAME}+") for name, text in raw["macros"].items()}
    nouns, joins = raw["nouns"], _any_of(lists["joins"])
    owned = macros | {"n": r"(?P<n>(?-i:[^\W\d_A-Z][\w-]*)(?: (?-i:[^\W\d_A-Z][\w-]*)){0,2}?)"}
    front = rf"(?:(?:{_any_of(lists['adverbs'])}),? |{raw['report']['says'].replace('{name}', f'{NAME}+')})*"
    return Table(
        words=words,
        clause=re.compile(rf"[,;:] (?:(?P<join>{joins}) )?|(?<!\w)(?P<alone>{joins}) ", re.IGNORECASE),
        unreal=re.compile(
            rf"(?:(?:{_any_of(lists['helping'])}) )*(?:{_any_of(lists['unreal'])}|\w+n't)(?!\w)",
            re.IGNORECASE,
        ),
        conditional=re.compile(rf"(?:{_any_of(lists['conditional'])})(?!\w)", re.IGNORECASE),
        fiction=re.compile(raw["report"]["fiction"], re.IGNORECASE),
        reports=re.compile(raw["report"]["words"].replace("{name}", f"{NAME}+"), re.IGNORECASE),
        lead=re.compile(rf"(?:(?:{_any_of(lists['adverbs'])}),? )*", re.IGNORECASE),
        front=re.compile(front, re.IGNORECASE),
        pronoun=re.compile(rf"(?:{_any_of(lists['pronouns'])}) ", re.IGNORECASE),
        patterns=tuple(one for name, slot in raw["slots"].items() for one in _patterns_of(name, slot, macros))
        + tuple(_compiled(UNSPECIFIED, raw["turns"], macros, plain=True)),
        nouns=tuple(_compiled("", nouns, macros)),
        changed=tuple(_compiled("", {"start": nouns["changed"]}, owned)),
        inverse=re.compile(
            rf"{macros['be']} (?P<owner>{OTHER}+)'s (?P<n>{_PHRASE})(?=[\s.,;!]|$)", re.IGNORECASE
        ),
        of=re.compile(nouns["of"], re.IGNORECASE) if "of" in nouns else None,
        noun=re.compile("|".join(nouns["ask"]).replace("{n}", f"(?P<n>{_PHRASE})")),
        subject=re.compile(nouns["asked"].replace("{n}", r"(?P<n>\w+)")),
        ask=tuple((name, re.compile(text)) for name, slot in raw["slots"].items() for text in slot["ask"]),
    )


def _any_of(text: str) -> str:
    return "|".join(sorted(text.split(), key=len, reverse=True))


def _patterns_of(
    attribute: str, slot: Mapping[str, Any], macros: Mapping[str, str]
) -> Iterator[StatePattern]:
    """Yield the patterns of a state that has verbs of its own."""
    parts, plain = {**macros, "at": slot.get("at", "")}, bool(slot.get("plain"))
    if base := slot.get("base"):
        parts |= {"base": base}
        yield from _compiled(attribute, {"end": ["{over} {base}"], "is": ["{base}"]}, parts, plain=plain)
    yield from _compiled(attribute, slot, parts, plain=plain)


def _compiled(
    attribute: str, sources: Mapping[str, Any], parts: Mapping[str, str], *, plain: bool = False
) -> Iterator[StatePattern]:
    changes: tuple[tuple[str, Change], ...] = (
        ("start", "start"),
        ("end", "end"),
        ("is", "is"),
        ("was", "is"),
    )
    for name, change in changes:
        for source in sources.get(name, ()):
            text = source
            for _ in range(3):  # macros in macros
                for part, pattern in parts.items():
                    text = text.replace(f"{{{part}}}", pattern)
            opens = text[-2:-1] if text.endswith(("{v}", "{o}")) else ""
            for group in "vo":
                text = text.replace(f"{{{group}}}", rf"(?P<{group}>\S{'' if group == opens else '.{0,60}?'})")
            yield StatePattern(
                attribute, change, re.compile(text, re.IGNORECASE), plain, name == "was", opens
            )


def noun_name(text: str, table: Table) -> tuple[str, bool]:
    """Return the name of an attribute from a noun phrase, without "new", and whether the phrase makes it a former one.

    What runs into a predicate ("my boss will be") has no name, and words of time and place behind a noun are none of it.
    """
    words = text.lower().split()
    if not table.words["modals"].isdisjoint(words):
        return "", False
    words = words[: next((at for at, word in enumerate(words) if word in table.words["breaks"]), None)]
    former = any(word in table.words["former"] for word in words)
    drop = table.words["qualifiers"] | table.words["former"] | table.words["determiners"]
    while words and words[0] in drop:
        del words[0]
    while words and words[-1] in drop | table.words["stops"]:
        del words[-1]
    favourite = table.words["favourite"]
    return " ".join(max(favourite) if word in favourite else word for word in words), former


def asked_state(question: str, mask: str) -> str | None:
    """Return the attribute that a question asks for: one with verbs of its own, else a noun of somebody's.

    Args:
        question: lower case, with `mask` for every name.
        mask: as in the question.

    Example:
        >>> asked_state("where did § live before lille?", "§"), asked_state("who is §'s new dentist?", "§")
        ('residence', 'dentist')
    """
    masked = question.replace(mask, NAME)
    for code in LANGUAGES:
        table = load_table(code)
        owned = table.subject.search(masked)
        for attribute, pattern in table.ask:
            if pattern.search(masked):
                return f"{owned['n']}.{attribute}" if owned else attribute
        found = table.noun.search(masked)
        if found is not None:
            words = found["n"].split()
            end = next((i for i, word in enumerate(words) if word in table.words["ends_noun"]), len(words))
            return noun_name(" ".join(words[:end]), table)[0] or None
    return None


def holds_many(attribute: str) -> bool:
    """Return whether several values of an attribute hold at once, so that a new one ends none of the old.

    >>> holds_many("brother"), holds_many("residence")
    (True, False)
    """
    noun = attribute.rpartition(".")[2].rpartition(" ")[2]
    return any(noun in load_table(code).words["many"] for code in LANGUAGES)


def attribute_name(attribute: str | None) -> str:
    """Return the name of an attribute as people read it; nothing for a change that does not say of what.

    >>> attribute_name("locker code"), attribute_name(UNSPECIFIED)
    ('locker code', '')
    """
    return "" if attribute is None or attribute == UNSPECIFIED else attribute


def labelled(attribute: str, text: str) -> str:
    """Return what is told of an attribute behind its name, if that has one."""
    name = attribute_name(attribute)
    return f"{name}: {text}" if name else text


Span = tuple[int, int]

_MAX_WORDS = 5
"""Words of a value."""
_MAX_CLAUSES = 12
"""Clauses read per sentence."""
_PLAIN = {ord("’"): "'", ord(NAME): " ", ord(OTHER): " "}
_QUOTED = re.compile(r'"[^"]*"|“[^“”]*”|«[^«»]*»|「[^「」]*」')
_WORDS_OF_SPEECH = 4
_QUESTION_END = ("?", "？", "؟")
# A text without this is one sentence, and need not be cut.
_SENTENCE_INSIDE = re.compile(r"[.!?…؟।。！？｡][^.]|\n")
_TOKEN = re.compile(r"(?:[^\s,;:!?()\[\]\"“”«»\0—–]|[,:](?=\d))+")
_ABBREVIATED = re.compile(r"(?:[A-Z]|Dr|Mr|Mrs|Ms|St|Prof)\.$")
_DATED = re.compile(r"\b(?:19|20)\d\d\b")
_UNTIL = re.compile(r"\b(?:until|till|hasta)\b")
_SMALL_WORD = re.compile(r"[^\W\d_A-Z][\w-]* ")


def find_states(text: str, *, subjects: Sequence[str]) -> tuple[State, ...]:
    """Return the states that a resolved third-person statement asserts, in its order.

    Args:
        text: the statement, e.g. ``"Bob moved from Davis to Miami in July 2024."``.
        subjects: the names that it mentions; only these (and a name behind "X's brother") can be the entity of a state.

    Example:
        >>> find_states("Bob moved from Davis to Miami in July 2024.", subjects=["Bob"])
        (State(entity='Bob', attribute='residence', value='Miami', previous='Davis', change='start'),)
    """
    named = {name.replace("’", "'").lower(): name for name in subjects if name.strip()}
    if not named:
        return ()
    # Quotations of several words are speech, and blanked by NUL; a quoted name stays.
    flat = text.translate(_PLAIN)
    for found in _QUOTED.finditer(flat):
        if len(found.group().split()) >= _WORDS_OF_SPEECH:
            flat = flat[: found.start()] + "\0" * len(found.group()) + flat[found.end() :]
    states: dict[State, None] = {}
    whole = len(flat) <= MAX_PIECE_CHARS and not _SENTENCE_INSIDE.search(flat)
    for piece in [SentenceSpan(0, len(flat), flat)] if whole else split_sentences(flat):
        lower = "".join(char.lower() if len(char.lower()) == 1 else char for char in piece.text)
        spans = find_names(lower, named)
        known = {start: named[name] for start, name in spans}
        if not known or piece.text.endswith(_QUESTION_END) or piece.text.startswith("¿"):
            continue
        given, masked = text[piece.start : piece.end], piece.text
        for start, name in spans:
            masked = masked[:start] + NAME * len(name) + masked[start + len(name) :]
        for code in LANGUAGES:
            own = dict.fromkeys(_Reader(piece.text, given, known, masked, load_table(code)).states())
            states |= own
            if own:
                break
        if any(load_table(code).fiction.search(piece.text) for code in LANGUAGES):
            break
    return tuple(states)


@dataclass(slots=True)
class _Subject:
    """The subject of a clause, where it ends and its predicate begins; `noun` is "brother" for "Ada's brother"."""

    entities: tuple[str, ...]
    end: int
    at: int
    noun: str = ""


@dataclass(slots=True)
class _Reader:
    """One sentence under one table."""

    text: str
    given: str
    """The text as it was written."""
    known: Mapping[int, str]
    """Where a name begins -> the name as given."""
    everybody: str
    """The text with `NAME` for every character of a name."""
    table: Table
    masked: str = ""
    """The same with `OTHER` for the names of other people than the clause is about."""

    def states(self) -> Iterator[State]:
        """Yield the states of every clause whose subject is known."""
        table = self.table
        if table.conditional.match(self.everybody) or table.fiction.search(self.text):
            return
        reported = table.reports.search(self.everybody)
        subject: _Subject | None = None
        # Where a clause may begin, where the joint in front of it begins, and the joining word.
        clauses = [(0, 0, "")]
        clauses += [
            (one.end(), one.start(), one["join"] or one["alone"] or "")
            for one in islice(table.clause.finditer(self.everybody), _MAX_CLAUSES)
        ]
        for start, before, join in clauses:
            if reported is not None and start >= reported.end():
                return
            self.masked = self.everybody
            at = _end(table.lead, self.masked, start)
            named = self._subject(at)
            if named is not None:
                subject = named
            elif subject is None or (join in table.words["who"] and before != subject.end):
                subject = None
                continue
            else:
                subject = replace(subject, at=_end(table.pronoun, self.masked, at))
            for first, name in self.known.items():  # mark the names of other people: "Ada quit *Tom*'s job"
                if name not in subject.entities:
                    end = _end(_MASKED, self.everybody, first)
                    self.masked = f"{self.masked[:first]}{OTHER * (end - first)}{self.masked[end:]}"
            predicate = _end(table.front, self.masked, subject.at)
            unreal = table.unreal.match(self.masked, predicate) is not None
            yield from self._asserted(subject, predicate, only_ends=unreal)
            if unreal:
                subject = None

    def _subject(self, at: int) -> _Subject | None:
        """Return the subject that begins at a place: names, "Ada's brother", "Ada's brother Tom", "el trabajo de Bob"."""
        if at not in self.known:
            found = self.table.of.match(self.masked, at) if self.table.of else None
            if found is None:
                return None
            return _Subject((self.known[found.start("owner")],), found.end(), found.end() + 1, found["n"])
        entities, end = [self.known[at]], _end(_MASKED, self.everybody, at)
        while more := _AND.match(self.masked, end):
            entities.append(self.known[more.end()])
            end = _end(_MASKED, self.everybody, more.end())
        owned = _OWNED.match(self.masked, end)
        return self._owned(entities[-1], owned.end()) if owned else _Subject(tuple(entities), end, end + 1)

    def _owned(self, owner: str, at: int) -> _Subject | None:
        """Return the subject "owner's ...": a name behind the noun, or the noun where a predicate follows it."""
        end = at
        for _ in range(3):
            word = _SMALL_WORD.match(self.masked, end)
            if word is None:
                return None
            end = word.end()
            front = _end(self.table.front, self.masked, end)
            if any(one.regex.match(self.masked, front) for one in (*self.table.nouns, *self.table.patterns)):
                return _Subject((owner,), end - 1, end, self.masked[at:end].strip())
            name = self._value(end, None, plain=False)
            if name is not None and name[0] == end:
                return _Subject((self.given[slice(*name)],), name[1], name[1] + 1)
        return None

    def _asserted(self, subject: _Subject, at: int, *, only_ends: bool) -> Iterator[State]:
        """Yield the states of a predicate; of an unreal one only those that it says have ended."""
        if subject.noun and not only_ends:  # "Ada's bank is Monzo"
            attribute, former = noun_name(subject.noun, self.table)
            favourite = not self.table.words["favourite"].isdisjoint(attribute.split())
            for pattern in self.table.nouns if attribute else ():
                spans = self._match(replace(pattern, plain=favourite), at)
                if spans is not None:
                    past = self.masked[at:].split(maxsplit=1)[0].lower() in self.table.words["was"]
                    over = former or (pattern.change == "is" and past)
                    yield self._state(subject.entities[0], attribute, pattern, spans, over=over)
                    return
        asserted: set[str] = set()
        for pattern in self.table.patterns:
            skip = pattern.attribute in asserted or (pattern.attribute == UNSPECIFIED and asserted)
            spans = None if skip or (only_ends and pattern.change != "end") else self._match(pattern, at)
            if spans is not None:
                asserted.add(pattern.attribute)
                prefix = f"{subject.noun.split()[-1]}." if subject.noun else ""
                for entity in subject.entities:
                    yield self._state(entity, prefix + pattern.attribute, pattern, spans)
        if not (asserted or subject.noun or only_ends):
            yield from self._of_nouns(subject, at)

    def _of_nouns(self, subject: _Subject, at: int) -> Iterator[State]:
        """Yield the states of "Ada changed her bank from Chase to Monzo" and of "Tom is Ada's new manager"."""
        for pattern in self.table.changed:
            changed = pattern.regex.match(self.masked, at)
            spans = self._match(pattern, at)
            attribute = noun_name(changed["n"], self.table)[0] if changed else ""
            if spans is not None and attribute:
                yield self._state(subject.entities[0], attribute, pattern, spans)
                break
        found = self.table.inverse.match(self.masked, at)
        if found is None or len(subject.entities) != 1:
            return
        words, ends = found["n"].split(), self.table.words["ends_noun"]
        end = next((at for at, word in enumerate(words) if word.lower() in ends), len(words))
        attribute, former = noun_name(" ".join(words[:end]), self.table)
        if attribute:
            past = self.masked[at:].split(maxsplit=1)[0].lower() in self.table.words["was"]
            owner = self.known[found.start("owner")]
            yield State(owner, attribute, subject.entities[0], None, "end" if former or past else "is")

    def _match(self, pattern: StatePattern, at: int) -> tuple[Span, Span | None] | None:
        """Return the bounds of a predicate's value and of the value before it; None if either cannot be a value."""
        found = pattern.regex.match(self.masked, at)
        if found is None:
            return None
        bare = pattern.attribute == UNSPECIFIED
        spans: list[Span | None] = []
        for group in ("v", "o") if "o" in found.re.groupindex else ("v",):
            end = None if pattern.opens == group else found.end(group)
            spans.append(self._value(found.start(group), end, plain=pattern.plain, bare=bare))
        value, before = spans[0], spans[-1]
        if value is None or before is None:
            return None
        return value, before if len(spans) > 1 else None

    def _state(
        self,
        entity: str,
        attribute: str,
        pattern: StatePattern,
        spans: tuple[Span, Span | None],
        *,
        over: bool = False,
    ) -> State:
        """Return a state whose values are cut from the text as it was written, white space folded."""
        value, before = spans
        rest = self.text[value[1] :]
        over = over or (pattern.past and not (_DATED.search(rest) and not _UNTIL.search(rest)))
        cut = [
            None if span is None else " ".join(self.given[slice(*span)].split()) for span in (value, before)
        ]
        return State(entity, attribute, cut[0] or "", cut[1], "end" if over else pattern.change)

    def _value(self, start: int, end: int | None, *, plain: bool, bare: bool = False) -> Span | None:
        """Return the bounds of the value at a place, or None if there is no value.

        Args:
            start: of its text, articles included.
            end: of its text, if that is known; then all of it has to be a value.
            plain: whether it may be written small.
            bare: whether then no "a" may stand in front of it, behind which a thing is new and has no name.
        """
        tokens: list[re.Match[str]] = []  # the words up to the first mark
        for one in _TOKEN.finditer(self.masked, start, len(self.masked) if end is None else end):
            marked = tokens and self.masked[tokens[-1].end() : one.start()].strip()
            if marked or len(tokens) == _MAX_WORDS + 2:
                break
            text = one.group()
            if text.endswith(".") and not _ABBREVIATED.search(text):
                cut = _TOKEN.match(self.masked, one.start(), one.start() + len(text.rstrip(".")))
                tokens += [cut] if cut else []
                break
            tokens.append(one)
        words = self.table.words
        articles = 0
        front = words["determiners"] | words["former"]
        while articles < len(tokens) and tokens[articles].group().lower() in front:
            articles += 1
        indefinite = any(one.group().lower() in words["indefinite"] for one in tokens[:articles])
        tokens = tokens[articles:]
        size = 0
        if tokens and _is_strong(tokens[0].group()):
            size = self._named(tokens)
        elif plain and not (bare and indefinite):
            unfit = (
                at
                for at, one in enumerate(tokens)
                if not one.group()[0].isalpha() or one.group().lower() in words["no_value"]
            )
            size = next(unfit, len(tokens))
        chosen = tokens[:size]
        if not chosen or all(one.group().lower() in words["calendar"] | words["no_value"] for one in chosen):
            return None
        last = chosen[-1].end()
        if _MASKED.match(chosen[-1].group()) and self.masked.startswith("'s", last - 2):
            return None
        return None if end is not None and self.masked[last:end].strip(" .") else (chosen[0].start(), last)

    def _named(self, tokens: Sequence[re.Match[str]]) -> int:
        """Return how many words a name has: those with a capital, and what joins them."""
        size = 1
        while size < len(tokens):
            word = tokens[size].group()
            following = tokens[size + 1].group() if size + 1 < len(tokens) else ""
            if _is_strong(word) and word.lower() not in self.table.words["calendar"]:
                size += 1
            elif word.lower() in self.table.words["connectors"] and following and _is_strong(following):
                size += 2
            else:
                break
        return min(size, _MAX_WORDS)


_MASKED = re.compile(f"[{NAME}{OTHER}]+")
_OWNED = re.compile(r"(?:'s|(?<=[sxz])') ")
_AND = re.compile(rf"(?:, | and | & |, and | y | e )(?={NAME})")


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return where a pattern's match at a place ends; the place itself if there is none."""
    found = pattern.match(text, at)
    return found.end() if found else at


def _is_strong(word: str) -> bool:
    """Return whether a word may open a name: by its capital, a digit, a currency, or a script without capitals."""
    if any(ch.isupper() for ch in word):
        return word not in ("I", "I'm")
    return not word[0].islower()
