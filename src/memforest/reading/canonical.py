"""Canonical facts: statements that say the same become one fact with several occurrences (paper §4.1).

Two stages. *Exact*: equal folded text and equal stated time are one identity, a tagged hash. *Near*:
without a model to judge, a high cosine is not enough ("lent Caroline" and "lent Melanie" are .990; no cosine
tells "will move" from "moved"), so a merge also needs every guard of `may_merge` to hold, the strictest of
which is the wording itself. What guards forbid stays two facts: a false merge destroys a memory, a missed one costs a
line of context. The plan is a pure function of what it is given and does not depend on the order of the statements.

Two statements are worded the same when they differ in nothing but case, punctuation, articles, intensifiers,
contractions, a few everyday synonyms ("mum"), number words, and the end of the clause at which a
circumstance stands ("On Monday Ann left." / "Ann left on Monday."). Every other word decides: pronouns,
prepositions, tense, modality, plural. The word lists are data (``data/merge_words.toml``); a language without
any keeps case and punctuation as the only freedom.

A cosine means different things to different models, so the least merging one comes from `scripts/calibrate_merge.py`,
which measures each embedder on pairs that must merge and pairs that must not. One without a calibration merges exact
matches only.

Entities have Unicode-safe keys (`memforest.text.entity_key`). Who speaks in a session is there also known by the
first word of a longer name and by a short form that starts only one speaker's name ("Mel" for Melanie);
both are kept as aliases for questions. Speakers of other sessions are not considered: whom a name means
must not depend on the order in which sessions arrive, and another session's Mel may be another Mel. Two
different full names are never joined: a false join mixes two people's lives.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.resources import files
from itertools import pairwise
from operator import attrgetter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from memforest.reading.tokens import detect_language, load_word_lists, read_toml
from memforest.records import EntityKind, ExtractedFact, ResolvedDate
from memforest.store import facts, meta
from memforest.store.connections import Tx
from memforest.store.facts import use_aliases
from memforest.text import entity_key, fold, numbers, word_set, words
from memforest.times import to_ms

_VERSION = 1
"""Raised with every change of the code below that gives a text another wording."""

_CLAUSE_END = re.compile(r"[.!?;:…]+(?=[\s\"”')\]]|$)|[。¿¡「」『』]+|[\"“”«»\[\]]")
_COMMA = re.compile(r",(?!\d)|[、，]| [-–—] ")
_SIGNS = frozenset("?¿👍👎✅❌✔✖")
"""Signs that decide what a statement means although they are no words."""
_MARK = "\x00"  # stands for a comma among the words; no word of a text can be it
_MINUS = re.compile(r"(?<![^\W_])-(?=\d)")
_SYMBOL = re.compile(r"[+<=>|~$&%#@]|[^\x00-\x7f]")
_NAMED = {"&": "and", "%": "percent", "#": "number", "@": "at"}
_ORDINALS = word_set("""
    first second third fourth fifth sixth seventh eighth ninth tenth twice thrice dozen
    """)
"""Numbers that count differently from their cardinal: "her first race" is not "her one race"."""
_COUNTED_ARTICLE = word_set("few little")
"""Behind these "a" decides: "few friends" are not "a few friends"."""


Wording = tuple[tuple[tuple[str, ...], ...], frozenset[str]]
"""A statement's words, clause by clause, and the signs in it that decide (a question mark)."""


@lru_cache(maxsize=1)
def _lists() -> Mapping[str, Any]:
    """Return the word sets, the tables of synonyms and contractions, and the fillers of each language."""
    raw = read_toml("data", "merge_words.toml")
    english, spanish = (load_word_lists(code)["function_words"] for code in ("en", "es"))
    sets = {name: word_set(text) for name, text in raw.pop("lists").items()}
    return {
        **raw,
        **sets,
        "fillers": {code: word_set(text) for code, text in raw["fillers"].items()},
        "unspaced": re.compile("|".join(map(re.escape, raw["unspaced_fillers"].split()))),
        "participles": load_word_lists("en")["participles"],
        "english": english - spanish,
        "spanish": spanish - english,
    }


@lru_cache(maxsize=1)
def wording_rules() -> bytes:
    """Return 16 bytes that change whenever a text may get another wording: of the word lists and the code."""
    data = files("memforest.data")
    lists = [
        data.joinpath("merge_words.toml"),
        *(data.joinpath("language", f"{c}.toml") for c in ("en", "es")),
    ]
    state = blake2b(str(_VERSION).encode(), digest_size=16)
    for one in lists:
        state.update(one.read_bytes())
    return state.digest()


@lru_cache(maxsize=256)  # a write asks three times: for what is near, for the plan, and for the store
def wording(text: str) -> Wording:
    """Return the wording of a fact's text.

    Example:
        >>> wording("Ann doesn't really like the 2 dogs!")[0]
        (('ann', 'does', 'not', 'like', '2', 'dogs'),)
        >>> wording("Ann does not like two dogs.") == wording("Ann doesn't really like the 2 dogs!")
        True
    """
    plain = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").replace("ʼ", "'")
    # A sign that stands for a word is written out: "€5" is not "$5", "-5" not "5".
    plain = _MINUS.sub(" minus ", plain)
    if _SYMBOL.search(plain):
        plain = "".join(
            f" {_NAMED.get(ch) or unicodedata.name(ch, ch).casefold()} "
            if ch in _NAMED or unicodedata.category(ch) in ("Sm", "Sc")
            else ch
            for ch in plain
        )
    # Stricter about the language than the extractor: in "A Lucía llamó Mateo" the "a" says who called whom.
    lists, said = _lists(), words(plain)
    english, spanish = (sum(word in known for word in said) for known in (lists["english"], lists["spanish"]))
    code = "es" if spanish > english else "en" if english or plain.isascii() else ""
    fillers = frozenset() if detect_language(plain) == "other" else lists["fillers"].get(code, frozenset())
    clauses: list[tuple[str, ...]] = []
    for clause in _CLAUSE_END.split(plain):
        found: list[str] = []  # the words that count, with `_MARK` where a comma stands between two of them
        for piece in _COMMA.split(clause if clause.isascii() else lists["unspaced"].sub("", clause)):
            if found and found[-1] != _MARK:
                found.append(_MARK)
            for word in _expanded(words(piece)):
                digits = () if word in fillers or word in _ORDINALS else numbers(word)
                cardinal = len(digits) == 1 and (word.isalpha() or word.replace(",", "").isdecimal())
                if word not in fillers:
                    found.append(digits[0] if cardinal else word)  # "two", "1,500"
        clauses.append(tuple(found[:-1] if found[-1:] == [_MARK] else found))
    return tuple(clause for clause in clauses if clause), _SIGNS.intersection(text.replace("？", "?"))


def _expanded(found: list[str]) -> Iterator[str]:
    """Yield words with contractions written out and synonyms replaced; a possessive keeps its mark."""
    lists = _lists()
    for word, after in pairwise([*found, ""]):
        head, mark, tail = word.rpartition("'")
        head = lists["same"].get(head, head)
        done = after in lists["participles"] or after.endswith("ed")
        if word == "a" and after in _COUNTED_ARTICLE:
            yield "some"
        elif word in lists["negatives"]:
            yield from lists["negatives"][word].split()
        elif word.endswith("n't"):
            yield from (word[:-3], "not")
        elif not mark:
            yield from lists["same"].get(word, word).split()
        elif tail in lists["clitics"]:
            yield from (head, lists["clitics"][tail])
        elif tail == "d":
            yield from (head, "had" if done else "would")
        elif tail == "s" and (head in lists["subjects"] or after in lists["after_is"]):
            yield from (head, "has" if done else "is")
        else:
            yield from (head, f"'{tail}")


def same_wording(a: Wording, b: Wording) -> bool:
    """Return whether two wordings say the same in the same words.

    Every clause of one must equal its counterpart, or be it with a circumstance moved from one end to the
    other. A clause with a conjunction, a reporting verb, "only" or a negation must equal it as it stands,
    because there the place decides what the circumstance belongs to.
    """
    (clauses, signs), (others, other_signs) = a, b
    if signs != other_signs or len(clauses) != len(others):
        return False
    for one, other in zip(clauses, others, strict=True):
        left, right = (tuple(word for word in clause if word != _MARK) for clause in (one, other))
        if left == right:
            continue
        if sorted(left) != sorted(right) or _lists()["fixing"].intersection(left):
            return False
        if not (_moved(one, right) and _moved(other, left)):
            return False
    return True


def _moved(clause: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether `other` is `clause` with a circumstance moved from one end to the other.

    A comma may stand where the clause is turned and nowhere else: `other` has none.
    """
    for at in range(1, len(clause)):
        front, back = clause[:at], clause[at:]
        front = front[:-1] if front[-1] == _MARK else front
        back = back[1:] if back[0] == _MARK else back
        if back + front == other and (front[0] in _lists()["movable"] or back[0] in _lists()["movable"]):
            return True
    return False


@dataclass(frozen=True, slots=True)
class PlacedFact:
    """A fact and where it was said."""

    candidate: ExtractedFact
    chunk: int
    turns: tuple[int, ...]
    """Row ids of the supporting turns."""
    said_ms: int
    place: str
    """Session id and ordinals: orders what was said at one instant."""

    @property
    def fact_id(self) -> str:
        """The identity of the fact."""
        one = self.candidate
        return fact_identity(one.text, one.start, one.end, one.dates)

    @property
    def start_ms(self) -> int | None:
        """Start of the stated time, UTC ms."""
        return None if self.candidate.start is None else to_ms(self.candidate.start)

    @property
    def end_ms(self) -> int | None:
        """End of the stated time, UTC ms."""
        return None if self.candidate.end is None else to_ms(self.candidate.end)

    @property
    def tie(self) -> str:
        """`place` made unique by the head of the fact's identity; it stands in every node above the fact."""
        return f"{self.place}{tie_end(self.fact_id)}"


@dataclass(frozen=True, slots=True)
class Signature:
    """The properties that two facts must share to be merged."""

    wording: Wording
    negated: bool
    start: int | None
    end: int | None
    dates: tuple[str, ...]
    """The days that its words of time mean, besides the stated time; see `stated_days`."""
    parts: frozenset[tuple[str, str]]
    """(entity key, role) of every mention: who did it, and to whom."""

    @property
    def digest(self) -> bytes:
        """Return 8 bytes that are equal for any two facts that may merge, so that few are compared; the same in every process."""
        said, signs = self.wording
        clauses = tuple(tuple(sorted(w for w in clause if w != _MARK)) for clause in said)
        parts = (sorted(signs), clauses, self.negated, self.start, self.end, *self.dates)
        return blake2b(repr(parts).encode(), digest_size=16).digest()[:8]


@dataclass(frozen=True, slots=True)
class Same:
    """A judge's verdict: the identity of the fact that says the same, and the cosine of the two."""

    fact_id: str
    cosine: float


@dataclass(slots=True)
class FactPlan:
    """One canonical fact to be written: where it was said, and the stored fact it joins, if any."""

    fact_id: str
    candidate: ExtractedFact
    said: list[PlacedFact] = field(default_factory=list)
    joins: int | None = None
    """Row id of the stored fact that gets all of this as occurrences."""
    cosines: dict[str, float] = field(default_factory=dict)
    """Id of a fact in other words -> its cosine to the fact it was merged into."""


def tie_end(fact_id: str) -> str:
    """Return the end of the ties of a fact's occurrences: eight characters that tell the facts of one place apart."""
    return f"\x1f{fact_id[3:11]}"


@lru_cache(maxsize=512)  # a write asks for the same statements' identities again and again
def fact_identity(
    text: str, start: datetime | None, end: datetime | None, dates: tuple[ResolvedDate, ...] = ()
) -> str:
    """Return the tagged content hash that identifies a fact: ``f1:`` and 32 hex digits.

    The digest is over the folded text, the stated interval in ms, and other days that its words mean, joined by NUL.
    """
    stated = [str(to_ms(t)) if t is not None else "" for t in (start, end)]
    stated += stated_days(start, end, dates)
    return "f1:" + blake2b("\0".join((fold(text), *stated)).encode(), digest_size=16).hexdigest()


def stated_days(
    start: datetime | None, end: datetime | None, dates: tuple[ResolvedDate, ...]
) -> tuple[str, ...]:
    """Return the days that a fact's date words mean, in ms, without those of its stated time.

    "Until Friday" states no time from when it was so, and is another statement each week.
    """
    days = ((one.start, one.end) for one in dates if (one.start, one.end) != (start, end))
    return tuple(f"{to_ms(first)}-{'' if last is None else to_ms(last)}" for first, last in days)


def signature(candidate: ExtractedFact) -> Signature:
    """Return the merge signature of a fact."""
    return Signature(
        wording=wording(candidate.text),
        negated=candidate.negated,
        start=None if candidate.start is None else to_ms(candidate.start),
        end=None if candidate.end is None else to_ms(candidate.end),
        dates=stated_days(candidate.start, candidate.end, candidate.dates),
        parts=frozenset((key, m.role) for m in candidate.mentions if (key := entity_key(m.name))),
    )


def may_merge(a: Signature, b: Signature) -> bool:
    """Return whether two similar facts may be merged.

    Polarity and stated time must be equal, the mentions the same with no role contradicting, and the
    wording the same: a "red car" is not a "blue car", and not a "car" either.
    """
    if (a.negated, a.start, a.end, a.dates) != (b.negated, b.start, b.end, b.dates):
        return False
    left, right = _roles(a.parts), _roles(b.parts)
    agree = a.parts == b.parts or (
        left.keys() == right.keys()
        and all(not roles or not right[key] or roles == right[key] for key, roles in left.items())
    )
    return agree and same_wording(a.wording, b.wording)


def _roles(parts: frozenset[tuple[str, str]]) -> dict[str, set[str]]:
    """Return entity key -> its roles, without "other"."""
    found: dict[str, set[str]] = {}
    for key, role in parts:
        found.setdefault(key, set()).update({role} - {"other"})
    return found


def plan_facts(
    said: Iterable[PlacedFact],
    *,
    stored_ids: Mapping[str, int],
    vectors: Mapping[str, NDArray[np.float32]],
    stored: Sequence[tuple[int, Signature, NDArray[np.float32]]] = (),
    threshold: float | None,
    same: Mapping[str, Same] | None = None,
) -> list[FactPlan]:
    """Group what was said into canonical facts.

    Args:
        said: statements in any order.
        stored_ids: fact id -> row id of facts that the memory has, those that `same` names included.
        vectors: fact id -> unit vector of a statement's text.
        stored: (row id, signature, unit vector) of stored facts that may be near one of the statements.
        threshold: least cosine of a near merge, in [0, 1]; None merges exact matches and what `same` says only.
        same: a judge's verdicts, by the identity of the later statement.

    Returns:
        The facts, ordered by identity; each with its occurrences in the order they were said.
    """
    plans: dict[str, FactPlan] = {}
    for one in sorted(said, key=attrgetter("said_ms", "tie")):
        plan = plans.setdefault(
            one.fact_id, FactPlan(one.fact_id, one.candidate, joins=stored_ids.get(one.fact_id))
        )
        plan.said.append(one)
    if same:
        _merge_judged(plans, stored_ids, same)
    if threshold is not None:
        _merge_near(plans, vectors, stored, threshold)
    return [plans[key] for key in sorted(plans)]


def _merge_judged(
    plans: dict[str, FactPlan], stored_ids: Mapping[str, int], same: Mapping[str, Same]
) -> None:
    """Merge the facts that a judge found equal, and skip verdicts about facts that are gone."""
    now: dict[str, str] = {}
    for key in list(plans):  # in the order they were said
        verdict = same.get(key)
        if verdict is None or plans[key].joins is not None:
            continue
        target = now.get(verdict.fact_id, verdict.fact_id)
        if target in plans and target != key:
            _fold(plans, key, target, verdict.cosine)
            now[key] = target
        elif target in stored_ids:
            plans[key].joins, plans[key].cosines[key] = stored_ids[target], verdict.cosine


def _fold(plans: dict[str, FactPlan], key: str, target: str, cosine: float) -> None:
    """Merge a plan into another: its statements become occurrences of that fact."""
    folded, into = plans.pop(key), plans[target]
    into.said = sorted([*into.said, *folded.said], key=attrgetter("said_ms", "tie"))
    into.cosines.update(folded.cosines)
    into.cosines[key] = cosine


def _merge_near(
    plans: dict[str, FactPlan],
    vectors: Mapping[str, NDArray[np.float32]],
    stored: Sequence[tuple[int, Signature, NDArray[np.float32]]],
    threshold: float,
) -> None:
    """Merge near-duplicates into stored facts, else into the earliest new one; nothing is merged into a merged one."""
    known: dict[bytes, list[tuple[int, Signature, NDArray[np.float32]]]] = {}
    for one in stored:
        known.setdefault(one[1].digest, []).append(one)
    kept: dict[bytes, list[tuple[str, Signature]]] = {}
    order = sorted((plan.said[0].said_ms, plan.said[0].tie, key) for key, plan in plans.items())
    for _, _, key in order:
        plan = plans[key]
        if plan.joins is not None or key not in vectors:
            continue
        mine = signature(plan.candidate)
        near = [  # one pair at a time, so that a cosine depends on nothing else
            (float(v @ vectors[key]), row) for row, s, v in known.get(mine.digest, ()) if may_merge(mine, s)
        ]
        if near and (best := max(near, key=lambda pair: (pair[0], -pair[1])))[0] >= threshold:
            plan.cosines[key], plan.joins = best
            continue
        new = kept.setdefault(mine.digest, [])
        others = [(float(vectors[k] @ vectors[key]), k) for k, s in new if may_merge(mine, s)]
        if others and max(others)[0] >= threshold:
            cosine, other = max(others)
            _fold(plans, key, other, cosine)
        else:
            new.append((key, mine))


JUDGE_BELOW = 0.03
"""How far below the least merging cosine a pair is still shown to a judge."""
UNMEASURED = 0.93
"""Least cosine that is put to a judge with an embedder that was not measured (reference configuration:
fact_manager.similarity_threshold)."""


@cache
def merge_threshold(model_id: str) -> float | None:
    """Return the calibrated threshold of an embedder in [0, 1], or None when it has none."""
    text = files("memforest.data").joinpath("merge_thresholds.json").read_text(encoding="utf-8")
    entry = json.loads(text)["models"].get(model_id)
    return None if entry is None else float(entry["threshold"])


def judge_threshold(model_id: str) -> float:
    """Return the least cosine at which two facts are shown to a judge, in [0, 1]."""
    merging = merge_threshold(model_id)
    return UNMEASURED if merging is None else merging - JUDGE_BELOW


MIN_SHORT_FORM = 3
"""Fewest characters of a short form: two letters ("Al") start too many names."""
MIN_DROPPED = 2
"""Fewest characters a short form leaves out: "Ann" is not short for Anna."""
_QUOTES = "\"'\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f"


def speaker_key(name: str) -> str | None:
    """Return the key of a speaker, whose name may be a sign without letters; None for a blank name."""
    return entity_key(name) or (name.casefold().strip() or None)


def spelling(name: str) -> str:
    """Return a name in normal form C, with single spaces and without quotation marks around it.

    Example:
        >>> spelling("  \u201cJoe\u2019s  Diner\u201d ")
        'Joe\u2019s Diner'
    """
    bare = " ".join(unicodedata.normalize("NFC", name).split())
    while len(bare) > 1 and bare[0] in _QUOTES and bare[-1] in _QUOTES:
        bare = bare[1:-1].strip()
    return bare


@dataclass(slots=True)
class EntityBook:
    """Finds or makes the entities that one session names, inside one write transaction; `write` stores what is new."""

    _tx: Tx
    labels: dict[int, str] = field(default_factory=dict)
    """Of the entities that the book has found or made."""
    known: Mapping[str, str] = field(default_factory=dict)
    """Key -> the label of an entity that is known elsewhere; others are labelled by the first name that is met."""
    rows: dict[str, int | None] = field(default_factory=dict)
    """Key -> row id; None for one that was looked for and is not there."""
    _kinds: dict[int, EntityKind] = field(default_factory=dict)
    _free: int = 0
    """The next row id when the first new entity came; 0 while there is none."""
    _new: dict[int, str] = field(default_factory=dict)
    """Row id -> key of the entities that are still to be inserted."""
    _changed: set[int] = field(default_factory=set)
    """Stored entities of a kind that is surer now."""
    _aliases: dict[tuple[str, int, int], None] = field(default_factory=dict)
    _speakers: dict[str, int] = field(default_factory=dict)

    def learn(self, keys: Iterable[str]) -> None:
        """Look keys up together, so that none needs a statement of its own."""
        new = set(keys) - self.rows.keys()
        found = facts.entities_with_keys(self._tx, new) if new else {}
        for key in new:
            one = found.get(key)
            self.rows[key] = None if one is None else one.row
            if one is not None:
                self.labels[one.row] = one.label
                self._kinds[one.row] = cast("EntityKind", one.kind)

    def participant(self, name: str) -> int | None:
        """Return the entity of a speaker; None when the name has no letters to key by."""
        key = speaker_key(name)
        if key is None:
            return None
        self._speakers[key] = row = self.put(key, name, "participant")
        return row

    def entity(self, name: str, kind: EntityKind, occurrence: int | None = None) -> int | None:
        """Return the entity that a name means, made if it is new; None when it cannot be keyed.

        With the occurrence that names it, a short form is kept as an alias for as long as that occurrence is.
        """
        key = entity_key(name)
        if key is None:
            return None
        if key in self._speakers:
            return self._speakers[key]
        speakers = {row for full, row in self._speakers.items() if is_short_form(key, full)}
        if len(speakers) == 1:
            (speaker,) = speakers
            if occurrence is not None:
                self._aliases[key, speaker, occurrence] = None
            return speaker
        return self.put(key, name, "unknown" if kind == "participant" else kind)

    def put(self, key: str, name: str, kind: EntityKind) -> int:
        """Return the entity of a key, made if it is new. Of several kinds the surest counts, whichever came first."""
        if key not in self.rows:
            self.learn([key])
        row = self.rows[key]
        if row is None:
            # Nobody else takes one before `write` does: the transaction is this writer's.
            self._free = self._free or meta.take_ids(self._tx, "entity", 0)
            self.rows[key] = row = self._free + len(self._new)
            self._new[row], self.labels[row], self._kinds[row] = key, self.known.get(key, name), kind
        elif facts.KINDS.index(kind) < facts.KINDS.index(self._kinds[row]):
            self._kinds[row] = kind
            self._changed |= {row} - self._new.keys()
        return row

    def write(self) -> None:
        """Store the entities that are new or of a surer kind, and the uses of short forms; occurrences stand already."""
        rows = [
            facts.EntityRow(row, key, self.labels[row], self._kinds[row]) for row, key in self._new.items()
        ]
        if rows:
            meta.take_ids(self._tx, "entity", len(rows))
            facts.add_entities(self._tx, rows)
        if self._changed:
            facts.put_kinds(self._tx, [(self._kinds[row], row) for row in sorted(self._changed)])
        if self._aliases:
            use_aliases(self._tx, list(self._aliases))
        self._free, self._new, self._changed, self._aliases = 0, {}, set(), {}


def is_short_form(short: str, full: str) -> bool:
    """Return whether `short` can stand for the participant key `full`.

    Example:
        >>> is_short_form("mel", "melanie"), is_short_form("ana", "ana ruiz"), is_short_form("me", "melanie")
        (True, True, False)
    """
    first = full.split(" ")[0].split("_")[0]
    if short == first:
        return short != full
    return MIN_SHORT_FORM <= len(short) <= len(first) - MIN_DROPPED and first.startswith(short)
