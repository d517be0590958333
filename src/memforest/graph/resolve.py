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

Nothing depends on the order of the entities or on their ids. A `Resolver` keeps what it worked out, so that a change
costs what is near it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from memforest.graph.names import (
    LEAST_OTHER,
    LEAST_SPELLED,
    TIERS,
    Decision,
    Form,
    Least,
    Likeness,
    NameDecision,
    NamedEntity,
    Resolution,
    apart,
    compare,
    form_of,
    is_full,
    least,
    other_keys,
)
from memforest.reading.canonical import MIN_DROPPED, MIN_SHORT_FORM

MOST_ASKED = 64
"""A key that more entities answer to tells nothing: nothing is joined by it."""
_CROWDS = {"a": 1, "w": 1, "u": 1, "t": 1, "i": 1, "s": 1, "c": 2, "b": 2, "~": 3, "-": 3}
"""Keys of the rules by which more than `MOST_ASKED` may answer -> the least tier of rules that is then not asked."""
MOST_BEGINNING = 16
"""Beginnings of first names that more entities have are nobody's short form."""
_FEW = 16
_LONGEST_WORD = 24
_LONGEST_UNSPACED = 8


class Keys(NamedTuple):
    """What an entity asks by, what it answers to, what it does both by, and the word that short forms are of."""

    asks: list[str]
    answers: list[str]
    both: list[str]
    word: str


def keys_of(named: NamedEntity, form: Form) -> Keys:
    """Return the keys of an entity."""
    tokens = form.tokens
    # The word that a short form may be of: a person's first name, or one that may be.
    may = tokens and not form.unspaced and form.family in ("person", "unknown")
    is_word = may and MIN_SHORT_FORM + MIN_DROPPED <= len(tokens[0]) <= _LONGEST_WORD
    keys = Keys([f"a{named.key}"], [], ["=" + full for full in form.full], tokens[0] if is_word else "")
    if named.names or named.aliases:
        keys.answers.extend(f"a{key}" for key in sorted(other_keys(named)))
    if not tokens:
        return keys
    if form.cut and (joined := "".join(tokens)) not in form.full:
        keys.both.append("=" + joined)
    if form.unspaced:
        _unspaced(tokens[0], keys)
    elif len(tokens) == 1:
        _one_word(form, keys)
    elif form.family in ("person", "unknown"):
        _person(tokens, keys)
        if form.family == "unknown":
            _thing(tokens, keys)
    else:
        _thing(tokens, keys)
    return keys


def _unspaced(name: str, keys: Keys) -> None:
    keys.asks.append("u" + name)
    if 2 < len(name) <= _LONGEST_UNSPACED:
        parts = {part for size in range(2, len(name)) for part in (name[:size], name[-size:])}
        keys.answers.extend(["u" + part for part in sorted(parts)])


def _one_word(form: Form, keys: Keys) -> None:
    word = form.tokens[0]
    keys.asks.append("w" + word)
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


def _short(keys: Keys) -> str:
    """Return the name of one word that an entity asks by, or nothing."""
    return keys.asks[1][1:] if len(keys.asks) > 1 and keys.asks[1][0] == "w" else ""


class _Words:
    """Words in order, each with the entities whose word it is, to find those that begin with another."""

    def __init__(self) -> None:
        self._ordered: list[str] = []
        self._new: set[str] = set()
        self._of: dict[str, list[int]] = {}

    def add(self, word: str, entity: int) -> None:
        if word in self._of:
            self._of[word].append(entity)
        else:
            self._of[word] = [entity]
            self._new.add(word)

    def remove(self, word: str, entity: int) -> None:
        self._of[word].remove(entity)

    def beginning(self, short: str) -> tuple[set[int], bool]:
        """Return the entities with a word that begins with a short one and is longer by so much, and whether there are more."""
        if len(self._new) > _FEW:
            self._ordered = sorted({*self._ordered, *self._new})
        else:
            for word in self._new:
                insort(self._ordered, word)
        self._new = set()
        found: set[int] = set()
        for place in range(bisect_left(self._ordered, short), len(self._ordered)):
            word = self._ordered[place]
            if not word.startswith(short):
                break
            if len(word) >= len(short) + MIN_DROPPED:
                found.update(self._of[word])
                if len(found) > MOST_BEGINNING:
                    return found, True
        return found, False


class Blocks:
    """Keys and the entities that ask by them or answer to them."""

    def __init__(self) -> None:
        # Most keys have one entity, which then needs no list.
        self._asking: dict[str, int | list[int]] = {}
        self._answering: dict[str, int | list[int]] = {}
        self._both: dict[str, int | list[int]] = {}
        self._short: set[int] = set()
        self._begin = _Words()
        self._end = _Words()

    def add(self, entity: int, keys: Keys) -> None:
        """Add an entity with its keys."""
        if _short(keys):
            self._short.add(entity)
        for table, names in self._tables(keys):
            for name in names:
                had = table.setdefault(name, entity)
                if type(had) is list:
                    had.append(entity)
                elif had != entity:
                    table[name] = [had, entity]  # type: ignore[list-item]
        if keys.word:
            self._begin.add(keys.word, entity)
            self._end.add(keys.word[::-1], entity)

    def remove(self, entity: int, keys: Keys) -> None:
        """Remove an entity, by the keys that it was added with."""
        self._short.discard(entity)
        for table, names in self._tables(keys):
            for name in names:
                had = table[name]
                if isinstance(had, int):
                    del table[name]
                elif len(had) == 2:
                    table[name] = had[had[0] == entity]
                else:
                    had.remove(entity)
        if keys.word:
            self._begin.remove(keys.word, entity)
            self._end.remove(keys.word[::-1], entity)

    def _tables(self, keys: Keys) -> Iterable[tuple[dict[str, int | list[int]], Sequence[str]]]:
        return (self._asking, keys.asks), (self._answering, keys.answers), (self._both, keys.both)

    def anybody(self) -> set[int]:
        """Return the entities that `asked` may return something for."""
        found: set[int] = set()
        for name in self._asking.keys() & self._answering.keys():
            others = self._asking[name]
            found.update((others,) if isinstance(others, int) else others)
        for others in self._both.values():
            if type(others) is list:
                found.update(others)
        return found | self._short

    def asked(self, entity: int, keys: Keys) -> tuple[set[int], set[int], int, list[int]]:
        """Return the entities that an entity must be compared with.

        Returns:
            Whom to compare it with; those whose first word ends with its name; the least tier of the rules by which too
            many answered, 9 if none; and some of those.
        """
        found: set[int] = set()
        spoiled, crowd = 9, []
        for table, names in ((self._answering, keys.asks), (self._both, keys.both)):
            for name in names:
                others = table.get(name)
                if others is None or others == entity:
                    continue
                if isinstance(others, int):
                    found.add(others)
                elif len(others) <= MOST_ASKED:
                    found.update(others)
                elif name[0] in _CROWDS:
                    spoiled = min(spoiled, _CROWDS[name[0]])
                    crowd += others
        short = _short(keys)
        ending: set[int] = set()
        if len(short) >= MIN_SHORT_FORM:
            beginning, more = self._begin.beginning(short)
            if more:
                spoiled = min(spoiled, _CROWDS["b"])
                crowd += beginning
            else:
                found |= beginning
            ending = self._end.beginning(short[::-1])[0]
        found.discard(entity)
        ending.discard(entity)
        return found, ending, spoiled, crowd

    def asking(self, entity: int, keys: Keys) -> set[int]:
        """Return the entities that are to be compared with an entity because they ask, and itself."""
        found = {entity}
        names = [(self._asking, keys.answers), (self._both, keys.both)]
        word = keys.word
        sizes = range(MIN_SHORT_FORM, len(word) - MIN_DROPPED + 1)
        names.append((self._asking, ["w" + part for size in sizes for part in (word[:size], word[-size:])]))
        for table, some in names:
            for name in some:
                others = table.get(name, ())
                found.update((others,) if isinstance(others, int) else others)
        return found


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

    def group(self, entity: int) -> frozenset[int]:
        """Return the entities that an entity was said to be one with, itself too."""
        return self.groups.get(entity) or frozenset((entity,))

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


def chosen_of(choices: Sequence[NameDecision], named: Mapping[int, NamedEntity]) -> Chosen:
    """Return the decisions that hold: newest first, each unless a newer one contradicts it.

    Of two of one moment that two are apart comes first. Decisions about an entity that is not there wait for it.
    """
    known = [one for one in choices if one.entity in named and one.other in named and one.entity != one.other]
    if not known:
        return Chosen()
    known.sort(
        key=lambda one: (-one.made_ms, one.same, *sorted((named[one.entity].key, named[one.other].key)))
    )
    groups: dict[int, frozenset[int]] = {}
    apart: dict[int, set[int]] = {}
    decisions = []
    for one in known:
        first, second = (groups.get(end, frozenset((end,))) for end in (one.entity, one.other))
        if one.same:
            if (
                first is second
                or one.other in first
                or any(not apart.get(end, set()).isdisjoint(second) for end in first)
            ):
                continue
            both = first | second
            groups.update(dict.fromkeys(both, both))
            ends = sorted((one.entity, one.other), key=lambda end: named[end].key)
            decisions.append(Decision(ends[1], ends[0], "choice", 1.0))
        elif one.other not in first:
            apart.setdefault(one.entity, set()).add(one.other)
            apart.setdefault(one.other, set()).add(one.entity)
    return Chosen(groups, {end: frozenset(others) for end, others in apart.items()}, tuple(decisions))


@dataclass(frozen=True, slots=True)
class NameMatch:
    """An entity whose name another's may be short for, the rule and its score, and whether enough speaks for it."""

    other: int
    rule: str
    score: float
    enough: bool


@dataclass(frozen=True, slots=True)
class World:
    """What groups are made of: entities and their names as they are compared, decisions, and matches of who asks."""

    named: Mapping[int, NamedEntity]
    forms: Mapping[int, Form]
    chosen: Chosen
    matches: Mapping[int, tuple[NameMatch, ...]]

    def two(self, one: int, other: int) -> bool:
        """Return whether two entities are surely two, whatever their groups."""
        first, second = self.named[one], self.named[other]
        if other in first.beside or one in second.beside:
            return True
        mine, theirs = self.forms[one], self.forms[other]
        if apart(mine, theirs):
            return True
        if first.kind == second.kind == "participant":
            found = compare(mine, theirs)
            return found is None or found.rule != "form"
        return is_full(mine) and is_full(theirs) and compare(mine, theirs) is None

    def unlike(self, one: int, other: int) -> bool:
        """Return whether two entities are surely two and nobody said that one of them has the other's name too."""
        if not self.two(one, other):
            return False
        first, second = self.named[one], self.named[other]
        if other in first.beside or one in second.beside:
            return True
        theirs, mine = self.chosen.groups.get(other, ()), self.chosen.groups.get(one, ())
        return all(self.two(one, too) for too in theirs) and all(self.two(too, other) for too in mine)

    def may_be_one(self, one: frozenset[int], other: frozenset[int]) -> bool:
        """Return whether two groups may be one."""
        if self.chosen.parts(one, other):
            return False
        return not any(self.unlike(first, second) for first in one for second in other)

    def order(self, entity: int) -> tuple[str, int]:
        """Return the sort key of an entity: its key, which is unique."""
        return self.named[entity].key, entity


def settle(world: World, entities: Collection[int]) -> tuple[list[frozenset[int]], list[Decision]]:
    """Return the groups of more than one entity and why each came to be.

    People's decisions come first, then equal names, then the others: surest rules first, longest names first, and where
    names are as long the likest first. An entity joins only if all that its name fits are one group by then.

    Args:
        world: what groups are made of.
        entities: whom to group; with an entity all that its matches and decisions reach.
    """
    groups: dict[int, frozenset[int]] = {}
    for entity in entities:
        groups[entity] = world.chosen.group(entity)
    decisions: list[Decision] = []

    def join(entity: int, match: NameMatch) -> None:
        one, other = groups[entity], groups[match.other]
        if one is not other and one != other and world.may_be_one(one, other):
            both = one | other
            groups.update(dict.fromkeys(both, both))
            decisions.append(Decision(entity, match.other, match.rule, match.score))

    def likest(pair: tuple[int, NameMatch]) -> tuple[float, tuple[str, int], tuple[str, int]]:
        return -pair[1].score, world.order(pair[0]), world.order(pair[1].other)

    asking = [entity for entity in entities if entity in world.matches]
    equal = ((one, match) for one in asking for match in world.matches[one] if match.rule == "form")
    for entity, match in sorted(equal, key=likest):
        join(entity, match)
    for step in _steps(world, asking):
        fitting = [(entity, found) for entity in step if (found := _only(world, entity, groups)) is not None]
        for entity, match in sorted(fitting, key=likest):
            join(entity, match)
    return list({group for group in groups.values() if len(group) > 1}), decisions


def _steps(world: World, asking: Iterable[int]) -> list[list[int]]:
    """Return the asking entities in steps: surest rules first, longest names first."""
    steps: dict[tuple[int, int], list[int]] = {}
    for entity in asking:
        rules = [TIERS[match.rule] for match in world.matches[entity] if match.rule != "form"]
        if rules:
            steps.setdefault((min(rules), -len(world.forms[entity].tokens)), []).append(entity)
    return [steps[step] for step in sorted(steps)]


def _only(world: World, entity: int, groups: Mapping[int, frozenset[int]]) -> NameMatch | None:
    """Return the best match of an entity if all its matches are one group and enough speaks for one of them."""
    matches = [match for match in world.matches[entity] if match.rule != "form"]
    if len({groups[match.other] for match in matches}) != 1:
        return None
    enough = [match for match in matches if match.enough]
    return min(enough, key=lambda one: (-one.score, world.order(one.other))) if enough else None


MOST_NEIGHBOURS = 32
"""Who has more neighbours is everybody's, and so is a participant: to share one says nothing."""
MOST_OVERLAPS = 8
"""Most names that a short name is near to: those with most shared neighbours, then those most often named."""


def resolve(named: Sequence[NamedEntity], choices: Sequence[NameDecision] = ()) -> Resolution:
    """Return which of the entities are one. Neither their order nor their ids matter, except that ids name the result.

    Example:
        >>> ana = Named(1, "ana ruiz", "participant", "Ana Ruiz", supports=4)
        >>> resolve([ana, Named(2, "ana", "person", "Ana", supports=9)]).into
        {2: 1}
    """
    return Resolver(named, choices).resolution


class Resolver:
    """Keeps which entities are one while they change.

    Not safe for several threads. A resolution that was given out stays as it is.

    Args:
        named: the entities.
        choices: what people decided.
        wants: what each rule asks for; by default what was measured.
    """

    def __init__(
        self,
        named: Iterable[NamedEntity] = (),
        choices: Sequence[NameDecision] = (),
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
        self._matched_by: dict[int, set[int]] = {}
        self._near: dict[int, tuple[tuple[int, str], ...]] = {}
        self._groups: dict[int, frozenset[int]] = {}
        self._stands: dict[int, int] = {}
        self._decisions: dict[int, list[Decision]] = {}
        self.update(tuple(named))

    def update(
        self,
        changed: Collection[NamedEntity] = (),
        gone: Collection[int] = (),
        choices: Sequence[NameDecision] | None = None,
    ) -> None:
        """Take in entities that are new or changed, entities that are gone, and all of people's decisions.

        Args:
            changed: entities as they are now. Neighbours are mutual: who lost or got one is changed too.
            gone: ids of entities that are no more.
            choices: all decisions there are; None where they are as before.
        """
        first = not self._named
        touched = self._take_in(changed, gone)
        if choices is not None:
            self._choices = tuple(choices)
        chosen = chosen_of(self._choices, self._named)
        touched |= chosen.changed(self._chosen)
        self._chosen = chosen
        if first:
            for entity in self._blocks.anybody():
                self._ask(entity)
            self._settle({*self._matches, *self._matched_by, *chosen.groups})
            return
        for entity in tuple(touched):
            if entity in self._named:
                touched |= self._blocks.asking(entity, self._keys(entity))
        near = self._reached(touched)
        for entity in touched:
            self._ask(entity)
        self._settle(near | self._reached(touched))

    @property
    def into(self) -> dict[int, int]:
        """Entity that is joined -> entity that stands for its group."""
        return dict(self._stands)

    @property
    def resolution(self) -> Resolution:
        """Which entities are one, as of the last update."""
        by_key = self._order
        decisions = [one for some in self._decisions.values() for one in some]
        decisions.sort(key=lambda one: (by_key(one.entity), by_key(one.into)))
        into = {entity: self._stands[entity] for entity in sorted(self._stands, key=by_key)}
        return Resolution(into, tuple(decisions), tuple(self._overlaps()))

    def _order(self, entity: int) -> tuple[str, int]:
        return self._named[entity].key, entity

    def _take_in(self, changed: Collection[NamedEntity], gone: Collection[int]) -> set[int]:
        """Add and remove entities; return those whose comparisons may have changed."""
        touched = set(gone).union(one.id for one in changed)
        first = not self._named
        told: dict[int, frozenset[int]] = {}
        for entity in () if first else tuple(touched):
            was = self._named.get(entity)
            if was is None:
                continue
            if self._tells(entity):
                told[entity] = was.neighbours
            keys = self._keys(entity)
            touched |= self._blocks.asking(entity, keys)
            self._blocks.remove(entity, keys)
            del self._named[entity], self._forms[entity]
        for one in changed:
            self._named[one.id] = one
            form = self._forms[one.id] = form_of(one)
            self._blocks.add(one.id, keys_of(one, form))
        for one in () if first else changed:
            if self._tells(one.id) and one.id not in told:
                touched |= one.neighbours
            elif one.id in told and self._tells(one.id):
                del told[one.id]
        # Who told something as a neighbour and no longer does, or the other way round, changes what its neighbours share.
        return touched.union(*told.values())

    def _keys(self, entity: int) -> Keys:
        return keys_of(self._named[entity], self._forms[entity])

    def _tells(self, entity: int) -> bool:
        """Return whether to have an entity as a neighbour says something."""
        one = self._named.get(entity)
        return one is not None and one.kind != "participant" and len(one.neighbours) <= MOST_NEIGHBOURS

    def _reached(self, entities: set[int]) -> set[int]:
        """Return the entities, and all that matches and decisions lead to from them."""
        found = set(entities)
        waiting = list(entities)
        while waiting:
            entity = waiting.pop()
            near = {match.other for match in self._matches.get(entity, ())}
            near |= self._matched_by.get(entity, set())
            near |= self._groups.get(entity, frozenset()) | self._chosen.groups.get(entity, frozenset())
            waiting += near - found
            found |= near
        return found

    def _ask(self, entity: int) -> None:
        """Find the entities whose names an entity's name may be short for, or begins or ends like."""
        for match in self._matches.pop(entity, ()):
            self._matched_by[match.other].discard(entity)
        self._near.pop(entity, None)
        if entity not in self._named:
            return
        found, ending, spoiled, crowd = self._blocks.asked(entity, self._keys(entity))
        if found and (matches := self._fitting(entity, found, spoiled)):
            self._matches[entity] = matches
            for match in matches:
                self._matched_by.setdefault(match.other, set()).add(entity)
        near = found | ending
        near.update(crowd)
        near.discard(entity)
        if near and len(self._forms[entity].tokens) == 1:
            self._near[entity] = self._alike(entity, near)

    def _fitting(self, entity: int, others: set[int], spoiled: int) -> tuple[NameMatch, ...]:
        """Return the entities with a name that this one's may be: equal ones, and those of its surest rule.

        None of that rule if two of them are surely two, or if more than can be looked at answered.
        """
        equal, best, tier = [], [], 9
        mine, one = self._forms[entity], self._named[entity]
        for other in others:
            if apart(mine, self._forms[other]):
                continue
            likeness = self._likeness(one, mine, other)
            if likeness is None:
                continue
            match = self._match(one, other, likeness)
            if TIERS[match.rule] == 0:
                equal.append(match)
            elif TIERS[match.rule] < tier:
                best, tier = [match], TIERS[match.rule]
            elif TIERS[match.rule] == tier:
                best.append(match)
        if spoiled <= tier or not any(match.enough for match in best) or self._several(best):
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
        evidence = 0
        if wants.evidence:
            mine, theirs = self._forms[one.id].family, self._forms[other].family
            evidence = int(mine == theirs != "unknown") + self._shared(one, other)
        enough = evidence >= wants.evidence and likeness.score >= wants.likeness
        return NameMatch(other, likeness.rule, likeness.score, enough)

    def _shared(self, one: NamedEntity, other: int) -> int:
        """Return how many neighbours two entities share that tell something, at most two."""
        shared = one.neighbours & self._named[other].neighbours
        return min(2, sum(self._tells(entity) for entity in shared)) if shared else 0

    def _several(self, matches: list[NameMatch]) -> bool:
        """Return whether two of the matches are surely two."""
        world = self._world()
        return any(
            world.unlike(first.other, second.other)
            for index, first in enumerate(matches)
            for second in matches[:index]
        )

    def _alike(self, entity: int, others: Iterable[int]) -> tuple[tuple[int, str], ...]:
        """Return the entities whose names begin or end as a short one's, nearest first."""
        one, mine = self._named[entity], self._forms[entity]
        word = mine.tokens[0]
        found = []
        for other in others:
            theirs, named = self._forms[other], self._named[other]
            if not theirs.tokens or theirs.tokens == mine.tokens or apart(mine, theirs):
                continue
            if other in one.beside or entity in named.beside or other in self._chosen.apart.get(entity, ()):
                continue
            how = _overlap(word, theirs)
            if how:
                found.append((-self._shared(one, other), -named.supports, named.key, other, how))
        return tuple((other, how) for *_, other, how in sorted(found)[:MOST_OVERLAPS])

    def _world(self) -> World:
        return World(self._named, self._forms, self._chosen, self._matches)

    def _settle(self, entities: set[int]) -> None:
        """Group entities anew."""
        for entity in entities:
            self._groups.pop(entity, None)
            self._stands.pop(entity, None)
            self._decisions.pop(entity, None)
        there = [entity for entity in entities if entity in self._named]
        groups, decisions = settle(self._world(), there)
        for group in groups:
            stands = min(group, key=self._standing)
            for entity in group:
                self._groups[entity] = group
                if entity != stands:
                    self._stands[entity] = stands
        chosen = (one for one in self._chosen.decisions if one.entity in entities)
        for decision in (*decisions, *chosen):
            self._decisions.setdefault(decision.entity, []).append(decision)

    def _standing(self, entity: int) -> tuple[bool, int, str]:
        one = self._named[entity]
        return one.kind != "participant", -one.supports, one.key

    def _overlaps(self) -> list[tuple[int, int, str]]:
        """Return the pairs of groups with names that begin or end alike, in the order of their keys."""
        found: dict[tuple[int, int, str], None] = {}
        for entity in sorted(self._near, key=self._order):
            one = self._stands.get(entity, entity)
            for other, how in self._near[entity]:
                into = self._stands.get(other, other)
                if into != one and not self._chosen.parts(
                    self._groups.get(entity, (entity,)), self._groups.get(other, frozenset((other,)))
                ):
                    found.setdefault((one, into, how))
        return list(found)


def _weight(one: NamedEntity) -> tuple[bool, int, str]:
    """Return how sure it is that a name is spelled as it should be, of two as long."""
    return one.kind == "participant", one.supports, one.key


def _overlap(word: str, other: Form) -> str:
    """Return how a short name is in another: ``"prefix"``, ``"suffix"``, or nothing."""
    first, last = other.tokens[0], other.tokens[-1]
    if first.startswith(word):
        return "prefix"
    return "suffix" if last == word or (first.endswith(word)) else ""
