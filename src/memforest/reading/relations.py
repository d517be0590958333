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
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise, product

from memforest.reading.tokens import Code, load_word_lists, read_toml, split_sentences
from memforest.records import Relation, State
from memforest.text import entity_key, word_set

LANGUAGES = ("en", "es")
"""Languages with a table."""


@dataclass(frozen=True, slots=True)
class LinkWords:
    """The words of a language, lower case, by the part that they play in a clause."""

    parts: Mapping[str, frozenset[str]]
    endings: Mapping[str, tuple[str, ...]]
    adverbs: frozenset[str]
    verbs: frozenset[str]
    """Told by themselves: "went", "loves"."""
    bases: frozenset[str]
    """Behind a plural subject or "did": "love"."""
    participles: frozenset[str]
    no_verbs: frozenset[str]

    def plays(self, word: str, *parts: str) -> bool:
        """Return whether a word plays one of some parts."""
        return any(word in self.parts[part] for part in parts)

    def is_adverb(self, word: str) -> bool:
        """Return whether a word may stand between a subject and its verb."""
        return word in self.adverbs or (len(word) > 4 and word.endswith(self.endings["adverb"]))

    def is_past(self, word: str) -> bool:
        """Return whether a word is surely a verb in the past."""
        return word in self.verbs or (word not in self.no_verbs and word.endswith(self.endings["past"]))

    def is_told(self, word: str) -> bool:
        """Return whether a word is a verb that a single subject takes, in the past or present."""
        if word in self.verbs:
            return True
        no_verb = word.endswith((*self.endings["no_verb"], *self.endings["future"]))
        known = word in self.no_verbs or len(word) < 3 or "'" in word
        return not (known or no_verb) and word.endswith(self.endings["verb"])

    def is_verb(self, word: str) -> bool:
        """Return whether a word is a verb that a subject takes, be it one or several."""
        return word in self.bases or self.is_told(word)

    def is_done(self, word: str) -> bool:
        """Return whether a word is a participle behind "have"."""
        return word in self.participles or (len(word) > 3 and word.endswith(self.endings["done"]))

    def is_doing(self, word: str) -> bool:
        """Return whether a word is a present participle: "visiting"."""
        return len(word) > 4 and word.endswith(self.endings["doing"])

    def noun_of(self, words: Sequence[str]) -> str:
        """Return the noun of a relationship without determiners and "new": "best friend" for "new best friend"."""
        dropped = self.parts["determiners"] | self.parts["called"]
        return " ".join(word for word in words if word not in dropped)


@lru_cache(maxsize=len(LANGUAGES))
def load_words(code: str) -> LinkWords:
    """Return the words of one of `LANGUAGES`, read once per process from the package's data."""
    raw = read_toml("data", "relations", f"{code}.toml")
    parts = {name: word_set(text) for name, text in raw["words"].items()}
    lists = load_word_lists(code)
    base = lists.get("common_verbs", frozenset())
    helping = parts["be"] | parts["have"] | parts["do"]
    closed = ("determiners", "prepositions", "particles", "pronouns", "nouns", "joins", "owners")
    return LinkWords(
        parts=parts | {"unreal": parts["unreal"] | parts["denied"]},
        endings={name: tuple(text.split()) or ("\0",) for name, text in raw["endings"].items()},
        adverbs=(lists["adverbs"] | parts["fillers"]) - parts["denied"],
        verbs=(parts["verbs"] | lists.get("irregular_past", frozenset())) - helping,
        bases=base,
        participles=lists.get("participles", frozenset()) | lists.get("irregular_past", frozenset()),
        no_verbs=frozenset().union(*(parts[name] for name in closed))
        | lists.get("not_verbs", frozenset())
        | helping,
    )


_MOST_BETWEEN = 3
"""Words that a verb takes in front of a preposition: "took *a long walk* with"."""
_MOST_TAKEN = 9
"""Words between a verb and a name."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a mark, or names in a row; the last of them `owns` what follows if it has a possessive.

    `noun` is what a name is said to be of: "old dog" for "an old dog named Max".
    """

    text: str
    names: tuple[str, ...] = ()
    owns: bool = False
    noun: str = ""
    company: bool = False
    """Whether others act with them who have no name."""

    @property
    def is_word(self) -> bool:
        """Whether it is a common word: no name, no mark, no figure, nothing with a capital."""
        return not self.names and self.text[0].isalpha() and self.text.islower()


END = Token(".")
"""Stands behind the last token."""

Joined = tuple[str, str, str]
"""A name, the label, and the name that it joins it to."""


class Predicate:
    """The predicate of a clause, read from a place on.

    Args:
        words: of the language.
        clause: its tokens.
        at: where its predicate begins.
        subject: the names that it is about, none of them an owner.
        found: the list to which its relations are added.
    """

    __slots__ = ("at", "clause", "found", "several", "subject", "words")

    def __init__(
        self, words: LinkWords, clause: Sequence[Token], at: int, subject: Token, found: list[Joined]
    ) -> None:
        self.words, self.found = words, found
        self.clause, self.at = clause, at
        self.subject, self.several = subject.names, subject.company or len(subject.names) > 1

    def read(self) -> bool:
        """Add its relations to `found`; return whether it is a predicate, whose subject a further verb may share."""
        label, helped = self._helped()
        token = self._token()
        if helped in ("", "do"):
            if not token.is_word or self.words.plays(token.text, "prepositions", "determiners"):
                return False
            plural = helped == "do" or self.several
            if not (self.words.is_verb(token.text) if plural else self.words.is_told(token.text)):
                return False
            label = [*label, token.text]
            self.at += 1
        elif helped == "have" and token.is_word and self.words.is_done(token.text):
            label = [*label[:-1], token.text]
            self.at += 1
        elif helped == "be" and token.is_word and not self.words.plays(token.text, "prepositions"):
            label = label[:-1]
            if self.words.is_doing(token.text):
                label.append(token.text)
                self.at += 1
        self._objects(label, held=bool(label) and self.words.plays(label[-1], "holds"))
        return True

    def _token(self, further: int = 0) -> Token:
        at = self.at + further
        return self.clause[at] if at < len(self.clause) else END

    def _helped(self) -> tuple[list[str], str]:
        """Go behind the adverbs and helping verbs; return the last of these, and what kind it is."""
        label, helped = list[str](), ""
        while self._token().is_word:
            text = self._token().text
            kind = next((one for one in ("be", "have", "do") if self.words.plays(text, one)), "")
            if kind:
                label, helped = [text], kind
            elif self.words.plays(text, "reflexive"):
                label = [text]
            elif not self.words.is_adverb(text):
                break
            self.at += 1
        return label, helped

    def _objects(self, label: list[str], *, held: bool) -> None:
        """Add relations to the name that a verb or its object governs, and to a name beside that."""
        taken = self._taken()
        target = self._token()
        if not target.names or target.owns or not self._may_follow(self._token(1)):
            return
        prepositions = [word for word in taken if self.words.plays(word, "prepositions")]
        said = target.noun if held and not taken else self._label(label, taken, held=held)
        if not said:
            return
        self.found += product(self.subject, (said,), target.names)
        self.at += 1
        following = self._token().text
        allowed = self.words.plays(following, "beside") or (
            self.words.plays(following, "place")
            if not prepositions
            else self.words.plays(prepositions[-1], "beside") and self.words.plays(following, "onward")
        )
        if allowed and label and not held:
            self.at += 1
            while self.words.plays(self._token().text, "determiners"):
                self.at += 1
            beside = self._token()
            if beside.names and not beside.owns and self._may_follow(self._token(1)):
                self.found += product(self.subject, (" ".join([*label, following]),), beside.names)

    def _taken(self) -> list[str]:
        """Return the words in front of the next name, articles right in front of it left out; go there."""
        taken: list[str] = []
        while self._token().is_word and len(taken) < _MOST_TAKEN:
            if not self.words.is_adverb(self._token().text):
                taken.append(self._token().text)
            self.at += 1
        while taken and self.words.plays(taken[-1], "determiners"):
            taken.pop()
        return taken

    def _label(self, label: list[str], taken: list[str], *, held: bool) -> str | None:
        """Return the label between a subject and a name behind some words; None if these are no single phrase."""
        small = ("prepositions", "particles", "determiners", "pronouns")
        content = [word for word in taken if not self.words.plays(word, *small)]
        prepositions = [word for word in taken if self.words.plays(word, "prepositions")]
        last = taken[-1] if taken else ""
        if len(content) > _MOST_BETWEEN or self._goes_on(taken):
            return None
        if any(self.words.plays(word, "pronouns", "be", "have") for word in taken[bool(label) :]):
            return None
        if not content:
            governed = (
                label and not held and (not taken or self.words.plays(last, "prepositions", "particles"))
            )
            return " ".join([*label, *taken]) if governed else None
        if self.words.plays(last, "prepositions"):
            kept = taken
        elif label and not held and self.words.plays(last, "nouns") and not prepositions:
            kept = []
        elif len(taken) == 1 and self.words.is_doing(last):
            kept = taken
        else:
            return None
        while not label and kept and self.words.plays(kept[0], "determiners"):
            kept = kept[1:]
        return " ".join([*label, *kept])

    def _goes_on(self, taken: Sequence[str]) -> bool:
        """Return whether a verb may follow "to": "came *to see*", but "went to the game", "to school"."""
        known = ("determiners", "prepositions", "pronouns", "owners", "nouns")
        return any(before == "to" and not self.words.plays(word, *known) for before, word in pairwise(taken))

    def _may_follow(self, token: Token) -> bool:
        """Return whether a word may stand behind a name that a verb governs: no noun, and no verb of the name's."""
        text = token.text.lower()
        return not token.names and (
            token is END
            or self.words.plays(text, "follow", "prepositions", "determiners")
            or self.words.is_adverb(text)
            or text.isdecimal()
        )


MAX_LABEL_CHARS = 40
"""Characters of a label."""
MAX_RELATIONS = 12
"""Relations of one statement."""
_MAX_TEXT_CHARS = 2_000
_MAX_NAME_CHARS = 200
_MAX_NAMES = 64
_WORDS_OF_SPEECH = 4
_QUOTED = re.compile(r'"[^"]*"|“[^“”]*”|«[^«»]*»')
_WORD = r"[^\W_]+(?:['-][^\W_]+)*"
_NOBODY = Token("")
_ASKED = ("?", "？", "؟")


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
    usable = tuple(dict.fromkeys(name for name in names if 0 < len(name.strip()) <= _MAX_NAME_CHARS))
    plain = text[:_MAX_TEXT_CHARS].replace("’", "'")
    spelt = {}  # a name inside a sentence and at its beginning: "the user", "The user"
    for name in usable:
        form = name.replace("’", "'")
        spelt[name] = (form, form[0].upper() + form[1:])
    if language not in LANGUAGES or sum(any(one in plain for one in forms) for forms in spelt.values()) < 2:
        return ()
    named = {form for name in usable[:_MAX_NAMES] for form in spelt[name]}
    words = load_words(language)
    known = {form: name for name in reversed(usable) for form in spelt[name]}
    joined = {_pair(state.entity, state.value) for state in states}
    found: dict[Relation, None] = {}
    for quoted in reversed(
        list(_QUOTED.finditer(plain))
    ):  # speech is left out; a quoted name loses its marks
        inner = quoted.group()[1:-1]
        kept = "()" if len(inner.split()) >= _WORDS_OF_SPEECH else f" {inner} "
        plain = plain[: quoted.start()] + kept + plain[quoted.end() :]
    for piece in split_sentences(plain):
        if piece.text.endswith(_ASKED) or piece.text.startswith("¿"):
            continue
        for source, label, target in _Sentence(_tokens(piece.text, named), words).relations():
            pair = _pair(source, target)
            if pair[0] != pair[1] and pair not in joined and label and len(label) <= MAX_LABEL_CHARS:
                found[Relation(known[source], label, known[target])] = None
    return tuple(found)[:MAX_RELATIONS]


def _pair(one: str, other: str) -> tuple[str, ...]:
    return tuple(sorted((entity_key(one) or one, entity_key(other) or other)))


_TOKEN = re.compile(rf"(?P<word>{_WORD})|[^\w\s]")
_BEHIND_NAME = re.compile(r"(?P<owns>'s?(?= ))?(?![\w'+&#@/%$-])")


def _named(sentence: str, names: Collection[str]) -> list[tuple[int, int, str, int, bool]]:
    """Return where names stand, the longest first at each place: (start, minus length, name, end, whether it owns).

    Compiling a pattern of the names of every statement costs more than reading it.
    """
    found = []
    for name in names:
        at = sentence.find(name)
        while at >= 0:
            behind = _BEHIND_NAME.match(sentence, at + len(name))
            before = sentence[at - 1 : at]
            if behind and not (before.isalnum() or before == "_"):
                found.append((at, -len(name), name, behind.end(), behind["owns"] is not None))
            at = sentence.find(name, at + 1)
    return sorted(found)


def _tokens(sentence: str, names: Collection[str]) -> list[Token]:
    """Return the tokens of a sentence: names, words and marks; a contracted "not" is a word of its own."""
    found: list[Token] = []
    named, at = _named(sentence, names), 0
    while True:
        match = _TOKEN.search(sentence, at)
        named = [one for one in named if one[0] >= at]
        if named and (match is None or named[0][0] <= match.start()):
            _, _, name, at, owns = named[0]
            found.append(Token(name, (name,), owns=owns))
            continue
        if match is None:
            return found
        at, word = match.end(), match["word"]
        if word and word.lower().endswith("n't"):
            found += [Token(word[:-3].lower() or "do"), Token("not")]
        else:
            opens = word is not None and (not found or found[-1].text in "()[]:-—–")
            found.append(Token(match.group().lower() if opens else match.group()))


class _Sentence:
    """One sentence, read under the words of one language."""

    __slots__ = ("found", "tokens", "words")

    def __init__(self, tokens: list[Token], words: LinkWords) -> None:
        self.words, self.tokens = words, tokens
        self.found: list[Joined] = []

    def relations(self) -> list[Joined]:
        """Return the relations in its clauses; none if the sentence is conditional."""
        if sum(bool(token.names) for token in self.tokens) < 2:
            return []
        if any(self.words.plays(token.text.lower(), "conditional") for token in self.tokens):
            return []
        self.tokens = self._reduced()
        self.tokens = list(self._grouped())
        subject = last = _NOBODY
        for join, clause in self._clauses():
            subject, at = self._subject(join, clause, subject, last)
            last = _NOBODY if clause[-1].owns else Token("", clause[-1].names[-1:])
            unreal = any(
                self.words.plays(token.text.lower(), "unreal") for token in clause if not token.names
            )
            asserted = subject.names and not subject.owns and not unreal
            if not asserted or not Predicate(self.words, clause, at, subject, self.found).read():
                subject = _NOBODY
        return self.found

    def _reduced(self) -> list[Token]:
        """Return the tokens with "Noor" for "Ada's aunt Noor", and add the relation between the two."""
        made: list[Token] = []
        index = 0
        while index < len(self.tokens):
            token = self.tokens[index]
            index += 1
            own = token.owns or self.words.plays(token.text.lower(), "owners")
            opens = own or self.words.plays(token.text.lower(), "determiners")
            end = self._noun_end(index, own=own) if opens else 0
            if not end:
                made.append(token)
                continue
            noun = self.words.noun_of([one.text for one in self.tokens[index:end] if one.is_word])
            if own:
                owner = token.names if token.owns else self._owner(token.text.lower(), made)
                self.found += product(owner, (noun,), self.tokens[end].names)
            else:
                self.tokens[end] = replace(self.tokens[end], noun=noun)
            if self.tokens[end - 1].text == ",":
                made.append(self.tokens[end])
                end += 2
            index = end
        return made

    def _noun_end(self, start: int, *, own: bool) -> int:
        """Return where the name stands behind a noun that begins at a place: "aunt *Noor*"; 0 if none does."""
        for at in range(start, min(start + 6, len(self.tokens))):
            token = self.tokens[at]
            if token.names:
                before = self.tokens[at - 1].text
                called = self.words.plays(before, "called") and at > start + 1
                return at if called or (own and at > start and self.words.plays(before, "nouns")) else 0
            apposed = own and token.text == "," and self._at(at + 2).text == ","  # "Ada's aunt, Noor, ..."
            if apposed and self._at(at + 1).names and self.words.plays(self.tokens[at - 1].text, "nouns"):
                return at + 1
            if not token.is_word or self.words.plays(token.text, "prepositions"):
                return 0
        return 0

    def _owner(self, own: str, before: Sequence[Token]) -> tuple[str, ...]:
        """Return the owner in "her aunt": the name that opens the sentence, if all other names before it are of places."""
        names = [at for at, token in enumerate(before) if token.names]
        if not names or before[names[0]].owns or not all(map(self._leads, before[: names[0]])):
            return ()
        if self.words.plays(own, "mine"):
            return before[names[0]].names
        placed = all(self.words.plays(before[at - 1].text, "onward") for at in names[1:])
        return before[names[0]].names if placed else ()

    def _grouped(self) -> Iterator[Token]:
        """Yield the tokens, names in a row as one: "Ada, Noor and Tom"."""
        index, verb = 0, False
        while index < len(self.tokens):
            token, end = self.tokens[index], index + 1
            if token.names and not token.owns:
                ends = [end]
                while step := self._further(end):
                    end += step
                    ends.append(end)
                acts = verb and self._acts(end)  # "visited Porto and Noor stayed": Noor begins a clause
                if len(ends) > 1 and (self.tokens[end - 1].owns or acts):
                    end = ends[-2]
                names = tuple(name for one in self.tokens[index:end] for name in one.names)
                company = self._company(end)
                token, end = replace(token, names=names, company=company > 0), end + company
            elif self._ends_clause(token, self._at(index - 1)):
                verb = False
            else:
                verb = verb or self.words.is_verb(token.text)
            yield token
            index = end

    def _further(self, at: int) -> int:
        """Return the number of tokens of the next name in a row, its joining words included; 0 if there is none."""
        start = at
        if self._at(at).text == ",":
            at += 1
        if self.words.plays(self._at(at).text, "and"):
            at += 1
        if at == start or not self._at(at).names or self.tokens[at - 1].owns:
            return 0
        return 0 if self.tokens[start - 1].owns else at + 1 - start

    def _company(self, at: int) -> int:
        """Return the number of tokens of unnamed companions: "Ada *and her two kids* went"."""
        if not self.words.plays(self._at(at).text, "and"):
            return 0
        first = self._at(at + 1)
        if self.words.plays(first.text, "others"):
            return 2
        if not first.owns and not self.words.plays(first.text, "owners", "determiners"):
            return 0
        for end in range(at + 3, at + 6):
            if not self._at(end - 1).is_word:
                return 0
            if self.words.is_past(self._at(end).text) or self.words.plays(self._at(end).text, "be", "have"):
                return end - at
        return 0

    def _at(self, at: int) -> Token:
        return self.tokens[at] if at < len(self.tokens) else END

    def _acts(self, at: int) -> bool:
        """Return whether a verb stands at a place."""
        while self.words.is_adverb(self._at(at).text):
            at += 1
        token = self._at(at)
        return token.is_word and (
            self.words.is_verb(token.text) or self.words.plays(token.text, "be", "have", "do", "unreal")
        )

    def _ends_clause(self, token: Token, before: Token) -> bool:
        """Return whether a mark or a word between clauses is one here: not "so" in "is so proud"."""
        if (
            token.names
            or token.text in ("'", "/")
            or (before.is_word and self.words.plays(before.text, "be"))
        ):
            return False
        return self.words.plays(token.text, "joins") or not token.text[0].isalnum()

    def _clauses(self) -> Iterator[tuple[str, list[Token]]]:
        """Yield the clauses, each with the words and marks that join it to what is before."""
        join, clause = "", list[Token]()
        for before, token in zip((END, *self.tokens), self.tokens, strict=False):
            if not self._ends_clause(token, before):
                clause.append(token)
                continue
            if clause:
                yield join.strip(", "), clause
                join, clause = "", []
            join = f"{join} {token.text}"
        if clause:
            yield join.strip(", "), clause

    def _subject(self, join: str, clause: Sequence[Token], before: Token, last: Token) -> tuple[Token, int]:
        """Return the subject of a clause, and where its predicate begins."""
        at = 0
        while at < len(clause) and self._leads(clause[at]):
            at += 1
        if at == len(clause):
            return _NOBODY, at
        if clause[at].names:
            return clause[at], at + 1
        verb = self.words.is_told(clause[at].text) or self.words.plays(clause[at].text, "be", "have")
        joints = join.split()
        if verb and joints and all(self.words.plays(one, "carry", "lead") for one in joints):
            return before, at
        return (last if verb and joints and self.words.plays(joints[-1], "who") else _NOBODY), at

    def _leads(self, token: Token) -> bool:
        text = token.text.lower()
        if token.names or self.words.plays(text, "reflexive"):
            return False
        return self.words.plays(text, "lead") or self.words.is_adverb(text) or text.isdecimal()
