"""Which entities are one: a pure function of their names, kinds and neighbours, and of what people decided.

The rules, surest first: a person's choice; names that are equal but for case, punctuation, blanks, accents and umlauts;
names that are equal but for a title or a word such as "team"; a first name, a surname or initials of one longer name;
abbreviations and beginnings of first names; slips of one letter. But for the first two a name must fit exactly one other,
and how much else must speak for it (kinds, shared neighbours) is measured: `scripts/calibrate_names.py`. Two that stand
beside each other, two full names that differ in a word, a person and a firm, and names with other numbers are never joined.

Nothing depends on the order of the entities or on their ids. A `Resolver` keeps what it worked out, so that a change costs
what is near it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from memforest.graph.blocks import Blocks, Keys, keys_of
from memforest.graph.chosen import Chosen, chosen_of
from memforest.graph.likeness import TIERS, Least, Likeness, apart, compare, least
from memforest.graph.named import Choice, Decision, Named, Resolution
from memforest.graph.names import Form, form_of, other_keys
from memforest.graph.settle import Match, World, settle

MOST_NEIGHBOURS = 32
"""Who has more neighbours is everybody's, and so is a participant: to share one says nothing."""
MOST_OVERLAPS = 8
"""Most names that a short name is near to: those with most shared neighbours, then those most often named."""


def resolve(named: Sequence[Named], choices: Sequence[Choice] = ()) -> Resolution:
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
        named: Iterable[Named] = (),
        choices: Sequence[Choice] = (),
        *,
        wants: Mapping[str, Least] | None = None,
    ) -> None:
        self._wants = least() if wants is None else wants
        self._named: dict[int, Named] = {}
        self._forms: dict[int, Form] = {}
        self._blocks = Blocks()
        self._choices = tuple(choices)
        self._chosen = Chosen()
        self._matches: dict[int, tuple[Match, ...]] = {}
        self._matched_by: dict[int, set[int]] = {}
        self._near: dict[int, tuple[tuple[int, str], ...]] = {}
        self._groups: dict[int, frozenset[int]] = {}
        self._stands: dict[int, int] = {}
        self._decisions: dict[int, list[Decision]] = {}
        self.update(tuple(named))

    def update(
        self,
        changed: Collection[Named] = (),
        gone: Collection[int] = (),
        choices: Sequence[Choice] | None = None,
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

    def _take_in(self, changed: Collection[Named], gone: Collection[int]) -> set[int]:
        """Put entities in and out; return those whose comparisons may come out another way."""
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
        """Find whose name an entity's may be short for, and whose it is near to."""
        for match in self._matches.pop(entity, ()):
            self._matched_by[match.other].discard(entity)
        self._near.pop(entity, None)
        if entity not in self._named:
            return
        asked = self._blocks.asked(entity, self._keys(entity))
        if asked.found and (matches := self._fitting(entity, asked.found, asked.spoiled)):
            self._matches[entity] = matches
            for match in matches:
                self._matched_by.setdefault(match.other, set()).add(entity)
        near = asked.found | asked.ending
        near.update(asked.crowd)
        near.discard(entity)
        if near and len(self._forms[entity].tokens) == 1:
            self._near[entity] = self._alike(entity, near)

    def _fitting(self, entity: int, others: set[int], spoiled: int) -> tuple[Match, ...]:
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

    def _likeness(self, one: Named, form: Form, other: int) -> Likeness | None:
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

    def _match(self, one: Named, other: int, likeness: Likeness) -> Match:
        """Return a match with whether enough speaks for it."""
        wants = self._wants[likeness.rule]
        evidence = 0
        if wants.evidence:
            mine, theirs = self._forms[one.id].family, self._forms[other].family
            evidence = int(mine == theirs != "unknown") + self._shared(one, other)
        enough = evidence >= wants.evidence and likeness.score >= wants.likeness
        return Match(other, likeness.rule, likeness.score, enough)

    def _shared(self, one: Named, other: int) -> int:
        """Return how many neighbours two entities share that tell something, at most two."""
        shared = one.neighbours & self._named[other].neighbours
        return min(2, sum(self._tells(entity) for entity in shared)) if shared else 0

    def _several(self, matches: list[Match]) -> bool:
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


def _weight(one: Named) -> tuple[bool, int, str]:
    """Return how sure it is that a name is spelled as it should be, of two as long."""
    return one.kind == "participant", one.supports, one.key


def _overlap(word: str, other: Form) -> str:
    """Return how a short name is in another: ``"prefix"``, ``"suffix"``, or nothing."""
    first, last = other.tokens[0], other.tokens[-1]
    if first.startswith(word):
        return "prefix"
    return "suffix" if last == word or (first.endswith(word)) else ""
