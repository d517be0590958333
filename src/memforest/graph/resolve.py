"""Which entities are one: a pure function of their names, kinds and neighbours, and of what people decided.

The rules, surest first: a person's choice; names that are equal but for case, punctuation, blanks, accents and umlauts;
names that are equal but for a title or a word such as "team"; a first name, a surname or initials of one longer name;
abbreviations and beginnings of first names; slips of one letter. But for the first two a name must fit exactly one other,
and how much else must speak for it (kinds, shared neighbours) is measured: `scripts/calibrate_names.py`. Two that stand
beside each other, two full names that differ in a word, a person and a firm, and names with other numbers are never
joined. Of people's words that contradict each other the newest counts.

Worth comparing are entities whose names share a word, a beginning, letters or a slip of one letter: an entity asks under
keys that its own name gives, and answers under keys that names like it would ask by. What is said of two entities by
their names is said by `memforest.graph.names`; the keys only leave out pairs that no rule joins.

Nothing depends on the order of the entities or on their ids. A `Resolver` keeps whom names fit, so that
after a change only those near it ask again; groups are made of that anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from memforest.graph.names import (
    LEAST_OTHER,
    LEAST_SPELLED,
    TIERS,
    Decision,
    Form,
    Least,
    Likeness,
    NamedEntity,
    Resolution,
    apart,
    compare,
    form_of,
    least,
    other_keys,
)
from memforest.reading.canonical import MIN_DROPPED, MIN_SHORT_FORM
from memforest.search.snapshot import groups_of
from memforest.store.corrections import ChoiceRow

MOST_ASKED = 64
"""A key that more entities answer to tells nothing: nothing is joined by it."""
_CROWDS = {"a": 1, "w": 1, "u": 1, "t": 1, "i": 1, "s": 1, "c": 2, "b": 2, "~": 3, "-": 3, "e": 9}
"""Keys of the rules by which too many may answer -> the least tier of rules that is then not asked."""
MOST_BEGINNING = 16
"""Beginnings of first names that more entities have are nobody's short form."""
_MOST = {"b": MOST_BEGINNING, "e": 0}
"""Keys to which fewer than `MOST_ASKED` may answer; by the end of a first name nothing is joined."""
_LONGEST_WORD = 24
_LONGEST_UNSPACED = 8


class Keys(NamedTuple):
    """What an entity asks by, what it answers to, and what it does both by."""

    asks: list[str]
    answers: list[str]
    both: list[str]


def keys_of(named: NamedEntity, form: Form) -> Keys:
    """Return the keys of an entity."""
    tokens = form.tokens
    keys = Keys(
        [f"a{named.key}"],
        [f"a{key}" for key in sorted(other_keys(named))],
        ["=" + full for full in form.full],
    )
    if not tokens:
        return keys
    if form.cut and (joined := "".join(tokens)) not in form.full:
        keys.both.append("=" + joined)
    person = form.family in ("person", "unknown")
    if form.unspaced:
        _unspaced(tokens[0], keys)
        return keys
    if person and len(tokens[0]) <= _LONGEST_WORD:
        for size in range(MIN_SHORT_FORM, len(tokens[0]) - MIN_DROPPED + 1):
            keys.answers.extend(("b" + tokens[0][:size], "e" + tokens[0][-size:]))
    if len(tokens) == 1:
        _one_word(form, keys)
        return keys
    if person:
        _person(tokens, keys)
    if form.family != "person":
        _thing(tokens, keys)
    return keys


def _unspaced(name: str, keys: Keys) -> None:
    keys.asks.append("u" + name)
    if 2 < len(name) <= _LONGEST_UNSPACED:
        parts = {part for size in range(2, len(name)) for part in (name[:size], name[-size:])}
        keys.answers.extend(["u" + part for part in sorted(parts)])


def _one_word(form: Form, keys: Keys) -> None:
    word = form.tokens[0]
    keys.asks.extend(("w" + word, "b" + word, "e" + word))
    if len(form.short) > 1:
        keys.asks.append("c" + form.short)
    if LEAST_SPELLED <= len(word) <= _LONGEST_WORD and word.isalpha():
        # Neither a letter doubled nor two that changed places make another set of letters.
        keys.both.append("~" + word[0] + word[-1] + "".join(sorted(set(word))))
        if len(word) >= LEAST_OTHER - 1:
            shorter = {word[:index] + word[index + 1 :] for index in range(1, len(word) - 1)}
            keys.both.extend(["-" + one for one in (word, *sorted(shorter))])


def _person(tokens: tuple[str, ...], keys: Keys) -> None:
    first, last = tokens[0], tokens[-1]
    keys.answers.extend(
        ("w" + first, f"i{first} {last[0]}")
        if first == last
        else ("w" + first, "w" + last, f"i{first} {last[0]}")
    )
    keys.asks.append(f"t{first} {last}")
    if len(last) == 1:
        keys.asks.append(f"i{first} {last}")
    if len(tokens) > 2:
        keys.answers.extend(
            {f"t{first} {word}" for word in tokens[1:]} | {f"t{word} {last}" for word in tokens[:-1]}
        )
    ordered = f"o{first} {last}" if first < last else f"o{last} {first}"
    keys.both.extend((f"s{first[0]} {last}", f"l{first} {last[0]}{last[-1]}", ordered))


def _thing(tokens: tuple[str, ...], keys: Keys) -> None:
    first, last = tokens[0], tokens[-1]
    if "w" + first not in keys.answers:
        keys.answers.extend(("w" + first, "w" + last) if first != last else ("w" + first,))
    keys.answers.append("c" + "".join([word[0] for word in tokens]))
    keys.both.extend((f"m{first} {last[0]}{last[-1]}", f"m{first[0]}{first[-1]} {last}"))


class Blocks:
    """Keys and the entities that ask by them or answer to them."""

    def __init__(self) -> None:
        self._asking: defaultdict[str, set[int]] = defaultdict(set)
        self._answering: defaultdict[str, set[int]] = defaultdict(set)

    def add(self, entity: int, keys: Keys) -> None:
        """Add an entity with its keys."""
        for name in keys.asks + keys.both:
            self._asking[name].add(entity)
        for name in keys.answers + keys.both:
            self._answering[name].add(entity)

    def remove(self, entity: int, keys: Keys) -> None:
        """Remove an entity, by the keys that it was added with."""
        for name in keys.asks + keys.both:
            self._asking[name].discard(entity)
        for name in keys.answers + keys.both:
            self._answering[name].discard(entity)

    def asked(self, entity: int, keys: Keys) -> tuple[set[int], set[int], int]:
        """Return the entities that an entity must be compared with.

        Returns:
            Whom to compare it with; those by whose key too many answered; and the least tier of the rules by which they did.
        """
        found: set[int] = set()
        beside: set[int] = set()
        spoiled = 9
        for name in keys.asks + keys.both:
            others = self._answering.get(name, set())
            if len(others) <= _MOST.get(name[0], MOST_ASKED):
                found |= others
            elif name[0] in _CROWDS:
                beside |= others
                spoiled = min(spoiled, _CROWDS[name[0]])
        return found - {entity}, beside - {entity}, spoiled

    def asking(self, entity: int, keys: Keys) -> set[int]:
        """Return the entities that are to be compared with an entity because they ask, and itself."""
        return {entity}.union(*(self._asking.get(name, ()) for name in keys.answers + keys.both))


@dataclass(frozen=True, slots=True)
class Chosen:
    """People's decisions that hold.

    Args:
        groups: entity -> all entities that it was said to be one with, itself too.
        apart: entity -> the entities that it was said not to be.
        decisions: what made the groups, one for each entity that came to another.
    """

    groups: Mapping[int, frozenset[int]] = field(default_factory=dict)
    apart: Mapping[int, frozenset[int]] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()

    def parts(self, one: Iterable[int], other: frozenset[int] | set[int]) -> bool:
        """Return whether an entity of one group was said not to be one of the other."""
        return any(entity in self.apart and not self.apart[entity].isdisjoint(other) for entity in one)

    def changed(self, other: Chosen) -> set[int]:
        """Return the entities of which two sets of decisions say something different."""
        found: set[int] = set()
        for mine, theirs in ((self.groups, other.groups), (self.apart, other.apart)):
            found |= {
                entity for entity in mine.keys() | theirs.keys() if mine.get(entity) != theirs.get(entity)
            }
        for decision in set(self.decisions) ^ set(other.decisions):
            found |= {decision.entity, decision.into}
        return found


def chosen_of(choices: Sequence[ChoiceRow], named: Mapping[int, NamedEntity]) -> Chosen:
    """Return the decisions that hold; see `memforest.search.snapshot.groups_of`."""
    groups, apart, pairs = groups_of(choices, {row: one.key for row, one in named.items()})
    decisions = tuple(Decision(*pair, "choice", 1.0) for pair in pairs)
    return Chosen(groups, {end: frozenset(others) for end, others in apart.items()}, decisions)


@dataclass(frozen=True, slots=True)
class NameMatch:
    """An entity whose name another's may be short for, the rule and its score, and whether enough speaks for it."""

    other: int
    rule: str
    score: float
    enough: bool


MOST_NEIGHBOURS = 32
"""Who has more neighbours is everybody's, and so is a participant: to share one says nothing."""
MOST_OVERLAPS = 8
"""Most names that a short name is near to: those with most shared neighbours, then those most often named."""


class Resolver:
    """Keeps which entities are one while they change. Neither their order nor their ids matter, except that ids name the result.

    Not safe for several threads. A resolution that was given out stays as it is.

    Example:
        >>> ana = NamedEntity(1, "ana ruiz", "participant", "Ana Ruiz", supports=4)
        >>> Resolver([ana, NamedEntity(2, "ana", "person", "Ana", supports=9)]).resolution.into
        {2: 1}

    Args:
        named: the entities.
        choices: what people decided.
        wants: what each rule asks for; by default what was measured.
    """

    def __init__(
        self,
        named: Iterable[NamedEntity] = (),
        choices: Sequence[ChoiceRow] = (),
        *,
        wants: Mapping[str, Least] | None = None,
    ) -> None:
        self._wants = least() if wants is None else wants
        self._named: dict[int, NamedEntity] = {}
        self._forms: dict[int, Form] = {}
        self._blocks = Blocks()
        self._choices = tuple(choices)
        self._chosen = Chosen()
        self._matches: dict[int, tuple[NameMatch, ...]] = {}
        """By who asks."""
        self._near: dict[int, tuple[tuple[int, str], ...]] = {}
        self.resolution = Resolution()
        """Which entities are one, as of the last update."""
        self.update(tuple(named))

    def update(
        self,
        changed: Collection[NamedEntity] = (),
        gone: Collection[int] = (),
        choices: Sequence[ChoiceRow] | None = None,
    ) -> None:
        """Take in entities that are new or changed, entities that are gone, and all of people's decisions.

        Only what these touch is compared by name again.

        Args:
            changed: entities as they are now. Neighbours are mutual: who lost or got one is changed too.
            gone: ids of entities that are no more.
            choices: all decisions there are; None where they are as before.
        """
        touched = self._take_in(changed, gone)
        if choices is not None:
            self._choices = tuple(choices)
        chosen = chosen_of(self._choices, self._named)
        touched |= chosen.changed(self._chosen)
        self._chosen = chosen
        there = touched & self._named.keys()
        if len(there) < len(self._named):  # else all ask anyway
            touched = touched.union(*(self._blocks.asking(one, self._keys(one)) for one in there))
        for entity in touched:
            self._ask(entity)
        self.resolution = self._settled()

    def _order(self, entity: int) -> tuple[str, int]:
        """Return the sort key of an entity: its key, which is unique."""
        return self._named[entity].key, entity

    def _take_in(self, changed: Collection[NamedEntity], gone: Collection[int]) -> set[int]:
        """Add and remove entities; return those whose comparisons may have changed."""
        touched = set(gone).union(one.id for one in changed)
        told = {entity: self._named[entity].neighbours for entity in touched if self._tells(entity)}
        for entity in touched & self._named.keys():
            keys = self._keys(entity)
            touched |= self._blocks.asking(entity, keys)
            self._blocks.remove(entity, keys)
            del self._named[entity], self._forms[entity]
        for one in changed:
            self._named[one.id] = one
            form = self._forms[one.id] = form_of(one)
            self._blocks.add(one.id, keys_of(one, form))
        # Who told something as a neighbour and no longer does, or the other way round, changes what its neighbours share.
        tells = {one.id: one.neighbours for one in changed if self._tells(one.id)}
        both = told | tells
        return touched.union(*(both[entity] for entity in told.keys() ^ tells.keys()))

    def _keys(self, entity: int) -> Keys:
        return keys_of(self._named[entity], self._forms[entity])

    def _tells(self, entity: int) -> bool:
        """Return whether to have an entity as a neighbour says something."""
        one = self._named.get(entity)
        return one is not None and one.kind != "participant" and len(one.neighbours) <= MOST_NEIGHBOURS

    def _ask(self, entity: int) -> None:
        """Find the entities whose names an entity's name may be short for, or begins or ends like."""
        self._matches.pop(entity, None)
        self._near.pop(entity, None)
        if entity not in self._named:
            return
        found, beside, spoiled = self._blocks.asked(entity, self._keys(entity))
        if matches := self._fitting(entity, found, spoiled):
            self._matches[entity] = matches
        if len(self._forms[entity].tokens) == 1 and (near := self._alike(entity, found | beside)):
            self._near[entity] = near

    def _fitting(self, entity: int, others: set[int], spoiled: int) -> tuple[NameMatch, ...]:
        """Return the entities with a name that this one's may be: equal ones, and those of its surest rule.

        None of that rule if two of them are surely two, or if more than can be looked at answered.
        """
        mine, one = self._forms[entity], self._named[entity]
        likely = {
            other: self._likeness(one, mine, other) for other in others if not apart(mine, self._forms[other])
        }
        matches = [self._match(one, other, found) for other, found in likely.items() if found is not None]
        equal = [match for match in matches if match.rule == "form"]
        tier = min((TIERS[match.rule] for match in matches if match.rule != "form"), default=9)
        best = [match for match in matches if TIERS[match.rule] == tier]
        several = any(self._unlike(first.other, second.other) for first, second in combinations(best, 2))
        if spoiled <= tier or not any(match.enough for match in best) or several:
            best = []
        return (*equal, *best)

    def _likeness(self, one: NamedEntity, form: Form, other: int) -> Likeness | None:
        """Return by which rule an entity's name may be short for the other's; None too if it is the other's that may be."""
        theirs, named = self._forms[other], self._named[other]
        if (named.aliases or named.names) and one.key in other_keys(named):
            found = compare(form, theirs)
            return found if found is not None and TIERS[found.rule] == 0 else Likeness("alias", 1.0)
        mine, yours = len(form.tokens), len(theirs.tokens)
        if mine > yours:
            return None
        found = compare(form, theirs)
        if found is None or mine < yours:
            return found
        if TIERS[found.rule] < TIERS["typo"] and len(one.key) != len(named.key):
            return found if len(one.key) < len(named.key) else None
        return found if _weight(one) < _weight(named) else None

    def _match(self, one: NamedEntity, other: int, likeness: Likeness) -> NameMatch:
        """Return a match with whether enough speaks for it."""
        wants = self._wants[likeness.rule]
        mine, theirs = self._forms[one.id].family, self._forms[other].family
        evidence = int(mine == theirs != "unknown") + self._shared(one, other)
        enough = evidence >= wants.evidence and likeness.score >= wants.likeness
        return NameMatch(other, likeness.rule, likeness.score, enough)

    def _shared(self, one: NamedEntity, other: int) -> int:
        """Return how many neighbours two entities share that tell something, at most two."""
        shared = one.neighbours & self._named[other].neighbours
        return min(2, sum(self._tells(entity) for entity in shared)) if shared else 0

    def _two(self, one: int, other: int) -> bool:
        """Return whether two entities are surely two, whatever their groups."""
        first, second = self._named[one], self._named[other]
        if other in first.beside or one in second.beside:
            return True
        mine, theirs = self._forms[one], self._forms[other]
        if apart(mine, theirs):
            return True
        if first.kind == second.kind == "participant":
            found = compare(mine, theirs)
            return found is None or found.rule != "form"
        # Persons with first name and surname, or who may be.
        full = (len(form.tokens) > 1 and form.family in ("person", "unknown") for form in (mine, theirs))
        return all(full) and compare(mine, theirs) is None

    def _unlike(self, one: int, other: int) -> bool:
        """Return whether two entities are surely two and nobody said that one of them has the other's name too."""
        first, second = self._named[one], self._named[other]
        if other in first.beside or one in second.beside:
            return True
        theirs, mine = self._chosen.groups.get(other, (other,)), self._chosen.groups.get(one, (one,))
        return all(self._two(one, too) for too in theirs) and all(self._two(too, other) for too in mine)

    def _may_be_one(self, one: frozenset[int], other: frozenset[int]) -> bool:
        """Return whether two groups may be one."""
        if self._chosen.parts(one, other):
            return False
        return not any(self._unlike(first, second) for first in one for second in other)

    def _alike(self, entity: int, others: Iterable[int]) -> tuple[tuple[int, str], ...]:
        """Return the entities whose names begin or end as a short one's, nearest first."""
        one, mine = self._named[entity], self._forms[entity]
        word = mine.tokens[0]
        found = []
        for other in others:
            theirs, named = self._forms[other], self._named[other]
            if not theirs.tokens or theirs.tokens == mine.tokens or apart(mine, theirs):
                continue
            two = other in one.beside or entity in named.beside
            if (
                not two
                and other not in self._chosen.apart.get(entity, ())
                and (how := _overlap(word, theirs))
            ):
                found.append((-self._shared(one, other), -named.supports, named.key, other, how))
        return tuple((other, how) for *_, other, how in sorted(found)[:MOST_OVERLAPS])

    def _settled(self) -> Resolution:
        """Group the entities.

        People's decisions come first, then equal names, then the others: surest rules first, longest names first, and where
        names are as long the likest first. An entity joins only if all that its name fits are one group by then.
        """
        groups = dict(self._chosen.groups)
        decisions = list(self._chosen.decisions)

        def join(pairs: Iterable[tuple[int, NameMatch]]) -> None:
            for entity, match in sorted(
                pairs, key=lambda pair: (-pair[1].score, self._order(pair[0]), self._order(pair[1].other))
            ):
                one, other = (groups.get(end, frozenset((end,))) for end in (entity, match.other))
                if one != other and self._may_be_one(one, other):
                    groups.update(dict.fromkeys(one | other, one | other))
                    decisions.append(Decision(entity, match.other, match.rule, match.score))

        join((one, match) for one, some in self._matches.items() for match in some if match.rule == "form")
        steps: dict[tuple[int, int], list[int]] = {}
        for entity, some in self._matches.items():
            rules = [TIERS[match.rule] for match in some if match.rule != "form"]
            if rules:
                steps.setdefault((min(rules), -len(self._forms[entity].tokens)), []).append(entity)
        for step in sorted(steps):
            fitting = ((entity, self._only(entity, groups)) for entity in steps[step])
            join([(entity, match) for entity, match in fitting if match is not None])
        stands = {
            entity: first
            for group in set(groups.values())
            for first in (min(group, key=self._standing),)
            for entity in group
            if entity != first
        }
        into = {entity: stands[entity] for entity in sorted(stands, key=self._order)}
        decisions.sort(key=lambda one: (self._order(one.entity), self._order(one.into)))
        return Resolution(into, tuple(decisions), tuple(self._overlaps(into, groups)))

    def _only(self, entity: int, groups: Mapping[int, frozenset[int]]) -> NameMatch | None:
        """Return the best match of an entity if all its matches are one group and enough speaks for one of them."""
        matches = [match for match in self._matches[entity] if match.rule != "form"]
        if len({groups.get(match.other, frozenset((match.other,))) for match in matches}) != 1:
            return None
        enough = [match for match in matches if match.enough]
        return min(enough, key=lambda one: (-one.score, self._order(one.other))) if enough else None

    def _standing(self, entity: int) -> tuple[bool, int, str]:
        one = self._named[entity]
        return one.kind != "participant", -one.supports, one.key

    def _overlaps(
        self, into: Mapping[int, int], groups: Mapping[int, frozenset[int]]
    ) -> Iterable[tuple[int, int, str]]:
        """Return the pairs of groups with names that begin or end alike, in the order of their keys."""
        found: dict[tuple[int, int, str], None] = {}
        for entity in sorted(self._near, key=self._order):
            one = into.get(entity, entity)
            for other, how in self._near[entity]:
                stands = into.get(other, other)
                if stands != one and not self._chosen.parts(
                    groups.get(entity, (entity,)), groups.get(other, frozenset((other,)))
                ):
                    found[one, stands, how] = None
        return found


def _weight(one: NamedEntity) -> tuple[bool, int, str]:
    """Return how sure it is that a name is spelled as it should be, of two as long."""
    return one.kind == "participant", one.supports, one.key


def _overlap(word: str, other: Form) -> str:
    """Return how a short name is in another: ``"prefix"``, ``"suffix"``, or nothing."""
    first, last = other.tokens[0], other.tokens[-1]
    if first.startswith(word):
        return "prefix"
    return "suffix" if last == word or (first.endswith(word)) else ""
