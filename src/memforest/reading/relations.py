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
_MOST_OWNED = 4
"""Words between an owner and a name: "Ada's new best friend Tom"."""
_QUOTED = re.compile(r'"([^"]*)"|“([^“”]*)”|«([^«»]*)»')
_WORDS_OF_SPEECH = 4
_TOKEN = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|[^\w\s]")
_GOES_ON = frozenset("_+&#@/%$-'")
"""Behind a name, these make it a part of something else."""
_ASKED = ("?", "？", "؟")


@dataclass(frozen=True, slots=True)
class LinkWords:
    """The words of a language, lower case, by the part that they play in a clause, and the endings of its verbs."""

    parts: Mapping[str, frozenset[str]]
    endings: Mapping[str, tuple[str, ...]]

    def plays(self, word: object, *parts: str) -> bool:
        """Return whether a word plays one of some parts."""
        return any(word in self.parts[part] for part in parts)

    def ends(self, word: str, *names: str) -> bool:
        """Return whether a word of some length has one of the endings of a form."""
        return len(word) > 3 and any(word.endswith(self.endings[name]) for name in names)

    def is_adverb(self, word: object) -> bool:
        """Return whether a word may stand between a subject and its verb."""
        return self.plays(word, "adverbs") or (isinstance(word, str) and self.ends(word, "adverb"))

    def is_verb(self, word: object) -> bool:
        """Return whether a word is a verb in the past or present."""
        if not isinstance(word, str) or self.plays(word, "verbs", "bases"):
            return isinstance(word, str)
        other = self.plays(word, "no_verbs") or "'" in word or self.ends(word, "no_verb", "future")
        return len(word) > 2 and word.endswith(self.endings["verb"]) and not other


@lru_cache(maxsize=len(LANGUAGES))
def load_words(code: str) -> LinkWords:
    """Return the words of one of `LANGUAGES`, read once per process from the package's data."""
    raw, lists = read_toml("data", "relations", f"{code}.toml"), load_word_lists(code)
    parts = {name: word_set(text) for name, text in raw["words"].items()}
    helping = parts["be"] | parts["have"] | parts["do"]
    past = lists.get("irregular_past", frozenset())
    closed = ("determiners", "prepositions", "particles", "pronouns", "nouns", "joins", "owners")
    parts |= {
        "adverbs": (lists["adverbs"] | parts["fillers"]) - parts["unreal"],
        "verbs": (parts["verbs"] | past) - helping,
        "bases": lists.get("common_verbs", frozenset()),
        "participles": lists.get("participles", frozenset()) | past,
        "no_verbs": helping.union(lists.get("not_verbs", frozenset()), *(parts[name] for name in closed)),
    }
    return LinkWords(parts, {name: tuple(text.split()) or ("\0",) for name, text in raw["endings"].items()})


@dataclass(frozen=True, slots=True)
class Names:
    """Names in a row, as one subject or object; the last `owns` what follows if it has a possessive."""

    names: tuple[str, ...]
    owns: bool = False


Token = Names | str
"""Names, a word, or a mark; words that open a clause are in lower case."""
Joined = tuple[str, str, str]
"""A name, the label, and the name that it joins it to."""


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
    plain = text.replace("’", "'")
    # A name as it stands inside a sentence and at its beginning: "the user", "The user".
    spelt = ((name.replace("’", "'"), name) for name in sorted(names, reverse=True) if name.strip())
    known = {form: name for one, name in spelt for form in (one, one[0].upper() + one[1:]) if form in plain}
    if language not in LANGUAGES or len(known) < 2:
        return ()
    words = load_words(language)
    joined = {_pair(state.entity, state.value) for state in states}
    found: dict[Relation, None] = {}
    for piece in split_sentences(_QUOTED.sub(_unquoted, plain)):
        if piece.text.endswith(_ASKED) or piece.text.startswith("¿"):
            continue
        for source, label, target in _sentence_relations([*_tokens(piece.text, known), ".", "."], words):
            pair = _pair(source, target)
            if pair[0] != pair[1] and pair not in joined and len(label) <= MAX_LABEL_CHARS:
                found[Relation(known[source], label, known[target])] = None
    return tuple(found)[:MAX_RELATIONS]


def _pair(one: str, other: str) -> tuple[str, ...]:
    return tuple(sorted((entity_key(one) or one, entity_key(other) or other)))


def _unquoted(found: re.Match[str]) -> str:
    """Return a quoted name without its marks; speech is left out."""
    inner = next(filter(None, found.groups()), "")
    return "()" if len(inner.split()) >= _WORDS_OF_SPEECH else f" {inner} "


def _tokens(sentence: str, names: Collection[str]) -> list[Token]:
    """Return the names, words and marks of a sentence."""
    found: list[Token] = []
    at = 0
    for start, name in [*find_names(sentence, names), (len(sentence), "")]:
        for one in _TOKEN.findall(sentence, at, start):
            opens = not found or found[-1] in ("(", ")", ":", "-", "—", "–")
            found.append(one.lower() if opens else one)
        at = start + len(name)
        owns = sentence.startswith("'s ", at) or sentence.startswith("' ", at)
        if name and (owns or sentence[at : at + 1] not in _GOES_ON):
            found.append(Names((name,), owns))
            at += 2 if sentence.startswith("'s ", at) else owns
        else:
            at = start
    return found


def _sentence_relations(tokens: Sequence[Token], words: LinkWords) -> Iterator[Joined]:
    """Yield the relations in the clauses of a sentence; none if it is conditional."""
    if sum(isinstance(one, Names) for one in tokens) < 2:
        return
    if any(words.plays(one.lower(), "conditional") for one in tokens if isinstance(one, str)):
        return
    tokens, owned = _without_owners(tokens, words)
    yield from owned
    subject: Names | None = None
    for joins, clause in _clauses(_in_rows(tokens, words), words):
        at = 0
        while at < len(clause) - 1 and _leads(clause[at], words):
            at += 1
        first = clause[at]
        if isinstance(first, Names):
            subject, at = first, at + 1
        elif not joins or not words.plays(joins[-1], "carry"):  # "visited Porto *and* flew to Lille"
            subject = None
        said = [one.lower() for one in clause if isinstance(one, str)]
        if any(one.endswith("n't") or words.plays(one, "unreal") for one in said):
            subject = None
        if subject is not None and not subject.owns:
            yield from _predicate(clause[at:], subject, words)


def _without_owners(tokens: Sequence[Token], words: LinkWords) -> tuple[list[Token], list[Joined]]:
    """Return the tokens with "Noor" for "Ada's aunt Noor", and the relations between the two."""
    made: list[Token] = []
    found: list[Joined] = []
    at = 0
    while at < len(tokens):
        token, at = tokens[at], at + 1
        made.append(token)
        if not (words.plays(token, "owners") or (isinstance(token, Names) and token.owns)):
            continue
        end = next((end for end in range(at, len(tokens)) if not isinstance(tokens[end], str)), at)
        noun = [one for one in tokens[at:end] if isinstance(one, str)]
        plain = all(word.islower() and not words.plays(word, "prepositions") for word in noun)
        if 0 < len(noun) <= _MOST_OWNED and plain and words.plays(noun[-1], "nouns"):
            label = " ".join(word for word in noun if not words.plays(word, "determiners"))
            named = tokens[end]
            if isinstance(token, Names) and isinstance(named, Names):
                found.append((token.names[0], label, named.names[0]))
            made[-1], at = named, end + 1
    return made, found


def _in_rows(tokens: Sequence[Token], words: LinkWords) -> Iterator[Token]:
    """Yield the tokens, names in a row as one: "Ada, Noor and Tom", "Ada and others"."""
    at, verb = 0, False
    while at < len(tokens) - 2:
        token, at = tokens[at], at + 1
        if isinstance(token, str):
            verb = words.is_verb(token) or (verb and not _ends_clause(token, words))
        elif not token.owns:
            row, ends = [token], [at]
            while not row[-1].owns:
                behind = at + (tokens[at] == ",")
                behind += words.plays(tokens[behind], "and")
                named = tokens[behind]
                if behind == at or not isinstance(named, Names):
                    break
                row.append(named)
                ends.append(at := behind + 1)
            # "visited Porto and Noor stayed": Noor begins a clause
            acts = next((one for one in tokens[at:] if not words.is_adverb(one)), "")
            acting = words.is_verb(acts) or words.plays(acts, "be", "have", "do", "unreal")
            if len(row) > 1 and (row[-1].owns or (verb and acting)):
                del row[-1], ends[-1]
            at, token = ends[-1], Names(tuple(one.names[0] for one in row), row[-1].owns)
            if words.plays(tokens[at], "and") and words.plays(tokens[at + 1], "others"):
                at += 2
        yield token


def _ends_clause(token: Token, words: LinkWords) -> bool:
    return isinstance(token, str) and (words.plays(token, "joins") or not token[0].isalnum())


def _clauses(tokens: Iterator[Token], words: LinkWords) -> Iterator[tuple[list[str], list[Token]]]:
    """Yield the clauses, each with the words and marks that join it to what is before."""
    joins, clause = list[str](), list[Token]()
    for token in tokens:
        if isinstance(token, str) and _ends_clause(token, words):
            if clause and words.plays(clause[-1], "be"):  # "is *so* proud"
                continue
            if clause:
                yield joins, clause
                joins, clause = [], []
            joins.append(token)
        else:
            clause.append(token)
    if clause:
        yield joins, clause


def _leads(token: Token, words: LinkWords) -> bool:
    """Return whether a word may stand in front of a subject: "last week", "then"."""
    text = token.lower() if isinstance(token, str) else ""
    return words.plays(text, "lead") or words.is_adverb(text) or text.isdecimal()


def _predicate(clause: Sequence[Token], subject: Names, words: LinkWords) -> Iterator[Joined]:
    """Yield the relations to the name that the verb of a predicate or a preposition governs, and to one beside that."""
    helper, said, at = "", list[str](), 0
    while at < len(clause) and isinstance(word := clause[at], str) and word.islower():
        if not said and words.plays(word, "be", "have", "do", "reflexive"):
            helper = word
        elif not words.is_adverb(word):
            said.append(word)
        at += 1
    named, *behind = [*clause[at:], "", "", "", ""]
    if not isinstance(named, Names) or named.owns or not _may_follow(behind[0], words):
        return
    while said and words.plays(said[-1], "determiners") and not words.plays(said[-1], "owners"):
        said.pop()
    label, verb = _label(helper, said, words)
    if not label:
        return
    yield from product(subject.names, (label,), named.names)
    governing = any(words.plays(word, "prepositions") for word in said)
    beside = words.plays(behind[0], "beside") or (words.plays(behind[0], "place") and not governing)
    if verb and beside:
        further = behind[2] if words.plays(behind[1], "determiners") else behind[1]
        after = behind[behind.index(further) + 1]
        if isinstance(further, Names) and not further.owns and _may_follow(after, words):
            yield from product(subject.names, (f"{verb} {behind[0]}",), further.names)


def _may_follow(token: Token, words: LinkWords) -> bool:
    """Return whether a word may stand behind a name that a verb governs: no noun, and no verb of the name's."""
    text = token.lower() if isinstance(token, str) else "\0"
    known = words.plays(text, "follow", "prepositions", "determiners")
    return text == "" or known or words.is_adverb(text) or text.isdecimal()


def _label(helper: str, said: Sequence[str], words: LinkWords) -> tuple[str, str]:
    """Return the label for what stands between two names, and its verb if it has one; no label if it is no single phrase."""
    while words.plays(helper, "be") and said and words.plays(said[0], "determiners"):
        said = said[1:]
    small = ("prepositions", "particles", "determiners", "pronouns")
    content = [word for word in said if not words.plays(word, *small)]
    if (
        not said
        or len(content) > _MOST_CONTENT
        or any(words.plays(w, "pronouns", "be", "have") for w in said)
    ):
        return "", ""
    nouns = ("determiners", "prepositions", "owners", "nouns")
    if any(one == "to" and not words.plays(other, *nouns) for one, other in pairwise(said)):
        return "", ""  # "came *to see*"
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
