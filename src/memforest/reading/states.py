"""Finds the states that a statement tells outright: (Bob, residence, Miami), and what it says of their change.

Three ways of telling are known, from a small table per language (``data/states``): a few states that have verbs of
their own ("lives in", "works at"), whatever is somebody's ("Bob's bank is Monzo" tells of a "bank", which nobody
listed), and changes from one thing to another ("swapped the oolong for sencha"), which do not say of what.

A predicate is read from its beginning, right behind its subject, and a value is a name unless the way of telling
says otherwise. So an unknown construction yields nothing: a wrong state is worse than a missed one. Questions,
wishes, plans, conditions and hearsay are no states. English and Spanish are read.


The table of ways in which a language tells a state: ``data/states``, read and compiled.

A table has ``words`` (lists by role), ``macros``, ``slots`` (states that have verbs of their own), ``nouns`` (states that a
noun of somebody's names) and ``turns`` (changes that do not say of what). Its patterns are matched from the beginning of a
predicate; ``{v}`` stands for a value, ``{o}`` for the one before it, ``{n}`` for a noun, and other names for macros.

"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from itertools import islice
from typing import Any, Literal

from memforest.reading.tokens import MAX_PIECE_CHARS, SentenceSpan, load_word_lists, split_sentences
from memforest.records import State

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LANGUAGES = ("en", "es")
"""Languages with a table, in the order in which they are tried."""
UNSPECIFIED = "unspecified"
"""The attribute of a change that does not say what it is a change of."""
NAME, OTHER = "§", "¤"
"""Stand for every character of a known name, so that one pattern fits all: the subject's own, and other people's."""

Change = Literal["is", "start", "end"]

_PHRASE = r"[^\W\d_][\w-]*(?: [^\W\d_][\w-]*){0,3}"


@dataclass(frozen=True, slots=True)
class StatePattern:
    """One way of telling: of which attribute, which change, and the pattern of the predicate.

    The pattern's group ``v`` is the value, ``o`` the one before it, ``n`` the noun that names the attribute. A value at
    the pattern's end is only its beginning: it goes on as long as a value can. `plain` values need no capital.
    """

    attribute: str
    change: Change
    regex: re.Pattern[str]
    plain: bool = False
    past: bool = False
    """Told in the past: over, unless it is dated."""
    opens: str = ""
    """The group at the pattern's end."""


@dataclass(frozen=True, slots=True)
class Table:
    """One language's table, compiled. `words` are its lists by role."""

    words: Mapping[str, frozenset[str]]
    clause: re.Pattern[str]
    unreal: re.Pattern[str]
    conditional: re.Pattern[str]
    lead: re.Pattern[str]
    """Adverbs in front of a subject."""
    front: re.Pattern[str]
    """Adverbs and reports of the subject's in front of a predicate."""
    pronoun: re.Pattern[str]
    tellings: tuple[StatePattern, ...]
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
    path = resources.files("memforest") / "data" / "states" / f"{code}.toml"
    raw: Mapping[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    lists: Mapping[str, str] = raw["words"]
    words = {role: frozenset(text.split()) for role, text in lists.items()}
    words["no_value"] = words["stops"] | words["pronouns"] | words["unreal"]
    words["calendar"] = load_word_lists(code).lists.get("not_names", frozenset())
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
        lead=re.compile(rf"(?:(?:{_any_of(lists['adverbs'])}),? )*", re.IGNORECASE),
        front=re.compile(front, re.IGNORECASE),
        pronoun=re.compile(rf"(?:{_any_of(lists['pronouns'])}) ", re.IGNORECASE),
        tellings=tuple(one for name, slot in raw["slots"].items() for one in _tellings_of(name, slot, macros))
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


def _tellings_of(
    attribute: str, slot: Mapping[str, Any], macros: Mapping[str, str]
) -> Iterator[StatePattern]:
    """Yield the ways of telling one of the states that have verbs of their own."""
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
    """Return the name of an attribute from a noun phrase, without "new", and whether the phrase makes it a former one."""
    words = text.lower().split()
    former = any(word in table.words["former"] for word in words)
    drop = table.words["qualifiers"] | table.words["former"] | table.words["determiners"]
    while words and words[0] in drop:
        del words[0]
    while words and words[-1] in drop:
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
    """Return the states that a resolved third-person statement tells, in its order.

    Args:
        text: the statement, e.g. ``"Bob moved from Davis to Miami in July 2024."``.
        subjects: the names that it mentions; only these (and a name behind "X's brother") can be the entity of a state.

    Example:
        >>> find_states("Bob moved from Davis to Miami in July 2024.", subjects=["Bob"])
        (State(entity='Bob', attribute='residence', value='Miami', previous='Davis', change='start'),)
    """
    names = _pattern_of(tuple(subjects))
    if names is None:
        return ()
    flat = _without_speech(text.translate(_PLAIN))
    found: dict[State, None] = {}
    whole = len(flat) <= MAX_PIECE_CHARS and not _SENTENCE_INSIDE.search(flat)
    for piece in [SentenceSpan(0, len(flat), flat)] if whole else split_sentences(flat):
        if piece.text.endswith(_QUESTION_END) or piece.text.startswith("¿"):
            continue
        given = text[piece.start : piece.end]
        for code in LANGUAGES:
            states = dict.fromkeys(_Reader(piece.text, given, names, load_table(code)).states())
            found |= states
            if states:
                break
    return tuple(found)


@lru_cache(maxsize=512)
def _pattern_of(subjects: tuple[str, ...]) -> tuple[re.Pattern[str], Mapping[str, str]] | None:
    """Return the pattern of some names, the longest first, and (lower case -> as given); None without names."""
    given = {name.replace("’", "'").lower(): name for name in subjects if name.strip()}
    if not given:
        return None
    found = "|".join(re.escape(name) for name in sorted(given, key=lambda name: (-len(name), name)))
    return re.compile(rf"(?<![^\W_])(?:{found})(?![^\W_])", re.IGNORECASE), given


def _without_speech(text: str) -> str:
    """Return `text` with quotations of several words blanked by NUL; a quoted name stays."""
    if not any(mark in text for mark in '"“«「'):
        return text

    def blank(match: re.Match[str]) -> str:
        return "\0" * len(match.group()) if len(match.group().split()) >= _WORDS_OF_SPEECH else match.group()

    return _QUOTED.sub(blank, text)


@dataclass(slots=True)
class _Subject:
    """Whom a clause is about, and where it ends and its predicate begins; `noun` is "brother" for "Ada's brother"."""

    entities: tuple[str, ...]
    end: int
    at: int
    noun: str = ""


class _Reader:
    """One sentence under one table."""

    __slots__ = ("everybody", "given", "known", "masked", "table", "text")

    def __init__(
        self, text: str, given: str, names: tuple[re.Pattern[str], Mapping[str, str]], table: Table
    ) -> None:
        pattern, as_given = names
        self.text, self.given, self.table = text, given, table
        self.known = {found.start(): as_given[found.group().lower()] for found in pattern.finditer(text)}
        self.everybody = self.masked = pattern.sub(lambda found: NAME * len(found.group()), text)

    def states(self) -> Iterator[State]:
        """Yield the states of every clause whose subject is known."""
        table = self.table
        if not self.known or table.conditional.match(self.masked):
            return
        subject: _Subject | None = None
        for start, before, join in self._clauses():
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
            self._mask_others(subject)
            predicate = _end(table.front, self.masked, subject.at)
            unreal = table.unreal.match(self.masked, predicate) is not None
            yield from self._told(subject, predicate, only_ends=unreal)
            if unreal:
                subject = None

    def _mask_others(self, subject: _Subject) -> None:
        """Mark the names of other people than a clause is about: "Ada quit *Tom*'s job"."""
        for start, name in self.known.items():
            if name not in subject.entities:
                end = self._name_end(start)
                self.masked = f"{self.masked[:start]}{OTHER * (end - start)}{self.masked[end:]}"

    def _clauses(self) -> Iterator[tuple[int, int, str]]:
        """Yield where a clause may begin, where the joint in front of it does, and the word that joins it."""
        yield 0, 0, ""
        for one in islice(self.table.clause.finditer(self.everybody), _MAX_CLAUSES):
            yield one.end(), one.start(), one["join"] or one["alone"] or ""

    # -- subjects --------------------------------------------------------------------------------

    def _subject(self, at: int) -> _Subject | None:
        """Return the subject that begins at a place: names, "Ada's brother" or "Ada's brother Tom"."""
        if at not in self.known:
            return self._of_subject(at)
        entities, end = [self.known[at]], self._name_end(at)
        while more := _AND.match(self.masked, end):
            entities.append(self.known[more.end()])
            end = self._name_end(more.end())
        owned = _OWNED.match(self.masked, end)
        if owned:
            return self._owned(entities[-1], owned.end())
        return _Subject(tuple(entities), end, end + 1)

    def _name_end(self, at: int) -> int:
        return _end(_MASKED, self.everybody, at)

    def _owned(self, owner: str, at: int) -> _Subject | None:
        """Return the subject "owner's ...": a name behind the noun, or the noun where a predicate follows it."""
        end = at
        for _ in range(3):
            word = _SMALL_WORD.match(self.masked, end)
            if word is None:
                return None
            end = word.end()
            front = _end(self.table.front, self.masked, end)
            if any(one.regex.match(self.masked, front) for one in (*self.table.nouns, *self.table.tellings)):
                return _Subject((owner,), end - 1, end, self.masked[at:end].strip())
            name = self._value(end, None, plain=False)
            if name is not None and name[0] == end:
                return _Subject((self.given[slice(*name)],), name[1], name[1] + 1)
        return None

    def _of_subject(self, at: int) -> _Subject | None:
        """Return the subject "el trabajo de Bob"."""
        found = self.table.of.match(self.masked, at) if self.table.of else None
        if found is None:
            return None
        owner = self.known[found.start("owner")]
        return _Subject((owner,), found.end(), found.end() + 1, found["n"])

    # -- predicates ------------------------------------------------------------------------------

    def _told(self, subject: _Subject, at: int, *, only_ends: bool) -> Iterator[State]:
        """Yield the states of a predicate; of one that is not so only what it says to be over."""
        if subject.noun and not only_ends:
            own = list(self._of_noun(subject, at))
            if own:
                yield from own
                return
        told: set[str] = set()
        for telling in self.table.tellings:
            skip = telling.attribute in told or (telling.attribute == UNSPECIFIED and told)
            if skip or (only_ends and telling.change != "end"):
                continue
            spans = self._match(telling, at)
            if spans is not None:
                told.add(telling.attribute)
                prefix = f"{subject.noun.split()[-1]}." if subject.noun else ""
                for entity in subject.entities:
                    yield self._state(entity, prefix + telling.attribute, telling, spans)
        if not (told or subject.noun or only_ends):
            yield from self._changed(subject, at)
            yield from self._inverse(subject, at)

    def _of_noun(self, subject: _Subject, at: int) -> Iterator[State]:
        """Yield the state of "Ada's bank is Monzo"."""
        attribute, former = noun_name(subject.noun, self.table)
        favourite = not self.table.words["favourite"].isdisjoint(attribute.split())
        for telling in self.table.nouns if attribute else ():
            spans = self._match(replace(telling, plain=favourite), at)
            if spans is not None:
                over = former or (telling.change == "is" and self._is_past(at))
                yield self._state(subject.entities[0], attribute, telling, spans, over=over)
                return

    def _is_past(self, at: int) -> bool:
        return self.masked[at:].split(maxsplit=1)[0].lower() in self.table.words["was"]

    def _changed(self, subject: _Subject, at: int) -> Iterator[State]:
        """Yield the state of "Ada changed her bank from Chase to Monzo"."""
        for telling in self.table.changed:
            found = telling.regex.match(self.masked, at)
            spans = self._match(telling, at)
            attribute = noun_name(found["n"], self.table)[0] if found else ""
            if spans is not None and attribute:
                yield self._state(subject.entities[0], attribute, telling, spans)
                return

    def _inverse(self, subject: _Subject, at: int) -> Iterator[State]:
        """Yield the state of "Tom is Ada's new manager": Ada's, with Tom as the value."""
        found = self.table.inverse.match(self.masked, at)
        if found is None or len(subject.entities) != 1:
            return
        words = found["n"].split()
        ends = next(
            (i for i, w in enumerate(words) if w.lower() in self.table.words["ends_noun"]), len(words)
        )
        attribute, former = noun_name(" ".join(words[:ends]), self.table)
        if attribute:
            over = former or self._is_past(at)
            owner = self.known[found.start("owner")]
            yield State(owner, attribute, subject.entities[0], None, "end" if over else "is")

    def _match(self, telling: StatePattern, at: int) -> tuple[Span, Span | None] | None:
        """Return the value that a predicate tells, and the one before it; None where either cannot be one."""
        found = telling.regex.match(self.masked, at)
        if found is None:
            return None
        bare = telling.attribute == UNSPECIFIED
        spans: list[Span | None] = []
        for group in ("v", "o") if "o" in found.re.groupindex else ("v",):
            end = None if telling.opens == group else found.end(group)
            spans.append(self._value(found.start(group), end, plain=telling.plain, bare=bare))
        value, before = spans[0], spans[-1]
        if value is None or before is None:
            return None
        return value, before if len(spans) > 1 else None

    def _state(
        self,
        entity: str,
        attribute: str,
        telling: StatePattern,
        spans: tuple[Span, Span | None],
        *,
        over: bool = False,
    ) -> State:
        """Return a state whose values are cut from the text as it was written, white space folded."""
        value, before = spans
        rest = self.text[value[1] :]
        over = over or (telling.past and not (_DATED.search(rest) and not _UNTIL.search(rest)))
        cut = [
            None if span is None else " ".join(self.given[slice(*span)].split()) for span in (value, before)
        ]
        return State(entity, attribute, cut[0] or "", cut[1], "end" if over else telling.change)

    # -- values ----------------------------------------------------------------------------------

    def _value(self, start: int, end: int | None, *, plain: bool, bare: bool = False) -> Span | None:
        """Return where the value at a place begins and ends, or None if no value can stand there.

        Args:
            start: of its text, articles included.
            end: of its text, if that is known; then all of it has to be a value.
            plain: whether it may be written small.
            bare: whether then no "a" may stand in front of it, behind which a thing is new and has no name.
        """
        tokens = self._tokens(start, end)
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
            size = next((i for i, one in enumerate(tokens) if not self._is_plain(one.group())), len(tokens))
        chosen = tokens[:size]
        if not chosen or all(one.group().lower() in words["calendar"] | words["no_value"] for one in chosen):
            return None
        last = chosen[-1].end()
        if _MASKED.match(chosen[-1].group()) and self.masked.startswith("'s", last - 2):
            return None
        return None if end is not None and self.masked[last:end].strip(" .") else (chosen[0].start(), last)

    def _tokens(self, start: int, end: int | None) -> list[re.Match[str]]:
        """Return the words of a value's text up to the first mark."""
        found: list[re.Match[str]] = []
        for one in _TOKEN.finditer(self.masked, start, len(self.masked) if end is None else end):
            if found and self.masked[found[-1].end() : one.start()].strip():
                break
            text = one.group()
            if text.endswith(".") and not _ABBREVIATED.search(text):
                cut = _TOKEN.match(self.masked, one.start(), one.start() + len(text.rstrip(".")))
                return [*found, cut] if cut else found
            found.append(one)
            if len(found) == _MAX_WORDS + 2:
                break
        return found

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

    def _is_plain(self, word: str) -> bool:
        return word[0].isalpha() and word.lower() not in self.table.words["no_value"]


_MASKED = re.compile(f"[{NAME}{OTHER}]+")
_OWNED = re.compile(r"(?:'s|(?<=[sxz])') ")
_AND = re.compile(rf"(?:, | and | & |, and | y | e )(?={NAME})")


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return where a pattern that may be empty ends at a place."""
    found = pattern.match(text, at)
    return found.end() if found else at


def _is_strong(word: str) -> bool:
    """Return whether a word may open a name: by its capital, a digit, a currency, or a script without capitals."""
    if any(ch.isupper() for ch in word):
        return word not in ("I", "I'm")
    return not word[0].islower()
