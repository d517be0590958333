"""Finds what a statement says of two entities that it names: (Ana, visited, Porto).

A clause that begins with a name is read from there: its verb, and the next name that the verb or a preposition behind it
governs. The label is what stands between the two, as it stands, without forms of "be" and "have". Precision comes first: what
is asked, denied, wished for, planned, supposed or thought yields nothing, and neither does a clause of another build.

English and Spanish are read (``data/relations``, and the lists of ``data/language``); in any other language there are no
relations.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product

from memforest.reading.tokens import Code, find_names, load_word_lists, read_toml, split_sentences
from memforest.records import Relation, State
from memforest.text import entity_key, word_set

LANGUAGES = ("en", "es")
"""Languages with a table."""
MAX_LABEL_CHARS = 40
"""Characters of a label."""
MAX_RELATIONS = 12
"""Relations of one statement."""
_MOST_CONTENT = 4
"""Words of a label with a meaning of their own: "took a long walk with"."""
_QUOTED = re.compile(r'"([^"]*)"|“([^“”]*)”|«([^«»]*)»')
_WORDS_OF_SPEECH = 4
_ASKED = ("?", "？", "؟")
_FIRST, _LAST = "\ue000", "\uf8ff"
"""Characters of private use, each of which stands for a name."""
_NAME = f"[{_FIRST}-{_LAST}]"
_GOES_ON = re.compile(r"[\w+&#@/%$'-](?<!')|'(?!s?(?: |$))")
"""Behind a name, this makes it a part of something else."""

Joined = tuple[str, str, str]
"""A name, the label, and the name that it joins it to."""


@dataclass(frozen=True, slots=True)
class LinkWords:
    """The words of a language, lower case, by the part that they play in a clause, and the patterns made of them."""

    parts: Mapping[str, frozenset[str]]
    endings: Mapping[str, tuple[str, ...]]
    owned: re.Pattern[str]
    """A noun that somebody is for an owner, in front of a name: "Ada's aunt *Noor*", "her aunt *Noor*"."""
    clause: re.Pattern[str]
    """Names, the words behind them, and the names that follow."""
    joint: re.Pattern[str]
    """What ends a clause."""
    unreal: re.Pattern[str]
    conditional: re.Pattern[str]

    def plays(self, word: str, *parts: str) -> bool:
        """Return whether a word plays one of some parts."""
        return any(word in self.parts[part] for part in parts)

    def ends(self, word: str, *names: str) -> bool:
        """Return whether a word of some length has one of the endings of a form."""
        return len(word) > 3 and any(word.endswith(self.endings[name]) for name in names)

    def is_verb(self, word: str) -> bool:
        """Return whether a word is a verb in the past or present."""
        if self.plays(word, "verbs"):
            return True
        other = self.plays(word, "no_verbs") or "'" in word or self.ends(word, "no_verb", "future")
        return len(word) > 2 and word.endswith(self.endings["verb"]) and not other


@lru_cache(maxsize=len(LANGUAGES))
def load_words(code: str) -> LinkWords:
    """Return the words of one of `LANGUAGES`, read once per process from the package's data."""
    raw, lists = read_toml("data", "relations", f"{code}.toml"), load_word_lists(code)
    parts = {name: word_set(text) for name, text in raw["words"].items()}
    helping = parts["be"] | parts["have"] | parts["do"] | parts["reflexive"]
    past = lists.get("irregular_past", frozenset())
    closed = ("determiners", "prepositions", "particles", "pronouns", "nouns", "joins", "owners")
    parts |= {
        "adverbs": (lists["adverbs"] | parts["fillers"]) - parts["unreal"],
        "verbs": (parts["verbs"] | past | lists.get("common_verbs", frozenset())) - helping,
        "participles": lists.get("participles", frozenset()) | past,
        "no_verbs": helping.union(lists.get("not_verbs", frozenset()), *(parts[name] for name in closed)),
    }
    any_of = {name: "|".join(map(re.escape, sorted(words))) or "\0" for name, words in parts.items()}
    adverb = rf"{any_of['adverbs']}|\w{{3,}}(?:{raw['endings']['adverb']})|\d+"
    joins, marks = rf"(?<!\w)(?:{any_of['joins']})(?!\w)", r"[^\w\s'-]|-(?=\s)"
    follow = rf"{any_of['follow']}|{any_of['prepositions']}|{any_of['determiners']}|{adverb}"
    behind = rf"(?= ?(?:{marks}|$)| (?:{joins}|(?:{follow})(?!\w)))"
    row = rf"{_NAME}(?:(?:,|,? (?:{any_of['and']})) {_NAME}){{0,11}}"
    word = rf"(?!{joins})(?-i:[^\W\d_A-Z][\w'-]*) "
    article = rf"(?:(?:{any_of['determiners']}) )*"
    return LinkWords(
        parts,
        {name: tuple(text.split()) or ("\0",) for name, text in raw["endings"].items()},
        owned=re.compile(
            rf"(?:(?P<owner>{_NAME})'s?|(?<!\w)(?:{any_of['owners']})) (?P<noun>(?:{word}){{0,3}}(?:{any_of['nouns']})) (?P<name>{_NAME})"
        ),
        clause=re.compile(
            rf"(?:^|(?P<join>{marks}|{joins})\s+)(?:(?:{any_of['lead']}|{adverb}),? ){{0,8}}"
            rf"(?:(?P<subject>{row})(?: (?:{any_of['and']}) (?:{any_of['others']}))? )?(?P<said>(?:{word}){{1,12}})"
            rf"(?:(?P<object>{row}){behind}(?: (?P<beside>{any_of['beside']}|{any_of['place']}) {article}"
            rf"(?P<further>{_NAME}){behind})?)?",
            re.IGNORECASE,
        ),
        joint=re.compile(f"{marks}|{joins}", re.IGNORECASE),
        unreal=re.compile(rf"(?<!\w)(?:{any_of['unreal']})(?!\w)|n't(?!\w)", re.IGNORECASE),
        conditional=re.compile(rf"(?<!\w)(?:{any_of['conditional']})(?!\w)", re.IGNORECASE),
    )


def find_relations(
    text: str, *, names: Sequence[str], states: Sequence[State] = (), language: Code = "en"
) -> tuple[Relation, ...]:
    """Return the relations between two of the names in a resolved third-person statement, in its order.

    Args:
        text: the statement.
        names: those that it mentions, as they are spelt there.
        states: its states; no relation joins two names that a state joins.
        language: of the statement.

    Example:
        >>> for one in find_relations("Ana flew to Porto with Bob.", names=["Ana", "Bob", "Porto"]):
        ...     print(one.source, one.label, one.target)
        Ana flew to Porto
        Ana flew with Bob
    """
    plain = _PRIVATE.sub(" ", text.replace("’", "'"))
    # A name as it stands inside a sentence and at its beginning: "the user", "The user".
    spelt = ((name.replace("’", "'"), name) for name in sorted(names, reverse=True) if name.strip())
    known = {form: name for one, name in spelt for form in (one, one[0].upper() + one[1:]) if form in plain}
    if language not in LANGUAGES or len(known) < 2:
        return ()
    words = load_words(language)
    joined = {_pair(state.entity, state.value) for state in states}
    found: dict[Relation, None] = {}
    for piece in split_sentences(_QUOTED.sub(_unquoted, plain)):
        masked, here = _masked(piece.text, known)
        asked = piece.text.endswith(_ASKED) or piece.text.startswith("¿")
        if asked or len(here) < 2 or words.conditional.search(masked):
            continue
        for source, label, target in _relations(masked, words):
            one, other = (known[here[ord(char) - ord(_FIRST)]] for char in (source, target))
            pair = _pair(one, other)
            if pair[0] != pair[1] and pair not in joined and len(label) <= MAX_LABEL_CHARS:
                found[Relation(one, label, other)] = None
    return tuple(found)[:MAX_RELATIONS]


_PRIVATE = re.compile(_NAME)


def _pair(one: str, other: str) -> tuple[str, ...]:
    return tuple(sorted((entity_key(one) or one, entity_key(other) or other)))


def _unquoted(found: re.Match[str]) -> str:
    """Return a quoted name without its marks; speech is left out."""
    inner = next(filter(None, found.groups()), "")
    return "()" if len(inner.split()) >= _WORDS_OF_SPEECH else f" {inner} "


def _masked(sentence: str, names: Collection[str]) -> tuple[str, list[str]]:
    """Return a sentence with a character for each name, single spaces, and the names in their order."""
    here: list[str] = []
    masked, at = "", 0
    for start, name in find_names(sentence, names):
        end = start + len(name)
        if not _GOES_ON.match(sentence, end) and len(here) <= ord(_LAST) - ord(_FIRST):
            masked += sentence[at:start] + chr(ord(_FIRST) + len(here))
            here.append(name)
            at = end
    return " ".join((masked + sentence[at:]).split()), here


def _relations(masked: str, words: LinkWords) -> Iterator[Joined]:
    """Yield the relations in the clauses of a sentence."""
    for one in words.owned.finditer(masked):
        if one["owner"]:
            noun = [word for word in one["noun"].split() if not words.plays(word, "determiners")]
            yield one["owner"], " ".join(noun), one["name"]
    text = words.owned.sub(r"\g<name>", masked)
    subject = ""
    for found in words.clause.finditer(text):
        subject = found["subject"] or subject * words.plays(found["join"] or "", "carry")
        joint = words.joint.search(text, found.end())
        if words.unreal.search(text, found.start(), joint.start() if joint else len(text)):
            subject = ""
        label, verb = _label(found["said"].split(), words)
        if not (label and found["object"]):
            continue
        sources = _PRIVATE.findall(subject)
        yield from product(sources, (label,), _PRIVATE.findall(found["object"]))
        in_place = words.plays(found["beside"] or "", "place") and label != verb
        if verb and found["further"] and not in_place:
            yield from product(sources, (f"{verb} {found['beside']}",), found["further"])


def _label(said: Sequence[str], words: LinkWords) -> tuple[str, str]:
    """Return the label for what stands between two names, and its verb if it has one; no label if it is no single phrase."""
    said = [word for word in said if not (words.plays(word, "adverbs") or words.ends(word, "adverb"))]
    helper = ""
    while said and words.plays(said[0], "be", "have", "do", "reflexive"):
        helper, said = said[0], said[1:]
    while said and words.plays(said[-1], "determiners") and not words.plays(said[-1], "owners"):
        said = said[:-1]
    while words.plays(helper, "be") and said and words.plays(said[0], "determiners"):
        said = said[1:]
    small = ("prepositions", "particles", "determiners", "pronouns")
    content = [word for word in said if not words.plays(word, *small)]
    known = ("determiners", "prepositions", "owners", "nouns")
    goes_on = any(one == "to" and not words.plays(other, *known) for one, other in pairwise(said))
    bare = any(words.plays(word, "pronouns", "be", "have") for word in said)
    if not said or len(content) > _MOST_CONTENT or bare or goes_on:  # "came *to see*"
        return "", ""
    first, governs = said[0], words.plays(said[-1], "prepositions", "particles")
    kept = words.plays(helper, "reflexive")
    if words.plays(helper, "be"):  # "is visiting", "is married to", "is from"
        acts, kept = words.ends(first, "doing"), not content
    elif words.plays(helper, "have"):  # "has visited", "has faith in"
        acts = words.plays(first, "participles") or words.ends(first, "done")
        kept = not acts
    else:
        acts = words.is_verb(first)
    direct = acts and (len(said) == 1 or (len(said) == 2 and words.ends(said[1], "doing")))
    if not (direct or (governs and (acts or words.plays(helper, "be", "have")))):
        return "", ""
    front = f"{helper} " * kept
    return front + " ".join(said), f"{front}{first}" * acts
