"""Finds what a statement says of two entities that it names: (Ana, visited, Porto).

A clause that begins with a name is read from there: its verb, and the next name that the verb or a preposition behind it
governs. The label is what stands between the two, as it stands, without forms of "be" and "have". Precision comes first: what
is asked, denied, wished for, planned, supposed or thought yields nothing, and neither does a clause of another build.

English and Spanish are read (``data/relations``); in any other language there are no relations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from memforest.language.governed import END, Predicate, Token
from memforest.language.joining import LANGUAGES, Words, load_words
from memforest.language.language import Code
from memforest.language.sentences import split_sentences
from memforest.text import entity_key
from memforest.types import Relation, State

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
        states: its states; two whom one of them joins are not joined again.
        language: of the statement.

    Example:
        >>> for one in find_relations("Ana flew to Porto with Bob.", names=["Ana", "Bob", "Porto"]):
        ...     print(one.source, one.label, one.target)
        Ana flew to Porto
        Ana flew with Bob
    """
    usable = tuple(dict.fromkeys(name for name in names if 0 < len(name.strip()) <= _MAX_NAME_CHARS))
    plain = _plain(text[:_MAX_TEXT_CHARS])
    if language not in LANGUAGES or sum(any(form in plain for form in _forms(name)) for name in usable) < 2:
        return ()
    pattern, words = _pattern_of(usable[:_MAX_NAMES]), load_words(language)
    known = {form: name for name in reversed(usable) for form in _forms(name)}
    told = {_pair(state.entity, state.value) for state in states}
    found: dict[Relation, None] = {}
    for piece in split_sentences(_without_speech(plain)):
        if piece.text.endswith(_ASKED) or piece.text.startswith("¿"):
            continue
        for source, label, target in _Sentence(_tokens(piece.text, pattern), words).relations():
            pair = _pair(source, target)
            if pair[0] != pair[1] and pair not in told and label and len(label) <= MAX_LABEL_CHARS:
                found[Relation(known[source], label, known[target])] = None
    return tuple(found)[:MAX_RELATIONS]


def _plain(text: str) -> str:
    return text.replace("’", "'")


def _forms(name: str) -> tuple[str, str]:
    """Return how a name is spelt inside a sentence and at its beginning: "the user", "The user"."""
    plain = _plain(name)
    return plain, plain[0].upper() + plain[1:]


def _pair(one: str, other: str) -> tuple[str, ...]:
    return tuple(sorted((entity_key(one) or one, entity_key(other) or other)))


def _without_speech(text: str) -> str:
    """Return a text with quotations of several words left out; a quoted name stays, without its marks."""

    def blank(match: re.Match[str]) -> str:
        inner = match.group()[1:-1]
        return "()" if len(inner.split()) >= _WORDS_OF_SPEECH else f" {inner} "

    return _QUOTED.sub(blank, text) if any(mark in text for mark in '"“«') else text


# -- tokens ---------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _pattern_of(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of a sentence's tokens: some names, the longest first, then words and marks."""
    given = sorted({form for name in names for form in _forms(name)}, key=lambda name: (-len(name), name))
    known = "|".join(re.escape(name) for name in given)
    return re.compile(
        rf"(?<!\w)(?P<name>{known})(?P<owns>'s?(?= ))?(?![\w'+&#@/%$-])|(?P<word>{_WORD})|(?P<mark>[^\w\s])"
    )


def _tokens(sentence: str, pattern: re.Pattern[str]) -> list[Token]:
    """Return the tokens of a sentence; a contracted "not" is a word of its own."""
    found: list[Token] = []
    for match in pattern.finditer(sentence):
        name, word = match["name"], match["word"]
        if name:
            found.append(Token(name, (name,), owns=match["owns"] is not None))
        elif word and word.lower().endswith("n't"):
            found += [Token(word[:-3].lower() or "do"), Token("not")]
        else:
            opens = word is not None and (not found or found[-1].text in "()[]:-—–")
            found.append(Token(match.group().lower() if opens else match.group()))
    return found


# -- one sentence ---------------------------------------------------------------------------------


class _Sentence:
    """One sentence, read under the words of one language."""

    __slots__ = ("found", "tokens", "words")

    def __init__(self, tokens: list[Token], words: Words) -> None:
        self.words, self.tokens = words, tokens
        self.found: list[tuple[str, str, str]] = []

    def relations(self) -> list[tuple[str, str, str]]:
        """Return what its clauses say of two names; nothing where something in it is only supposed."""
        if sum(bool(token.names) for token in self.tokens) < 2:
            return []
        if any(self.words.is_("conditional", token.text.lower()) for token in self.tokens):
            return []
        self.tokens = self._reduced()
        self.tokens = list(self._grouped())
        subject = last = _NOBODY
        for join, clause in self._clauses():
            subject, at = self._subject(join, clause, subject, last)
            last = _NOBODY if clause[-1].owns else Token("", clause[-1].names[-1:])
            unreal = any(self.words.is_("unreal", token.text.lower()) for token in clause if not token.names)
            told = subject.names and not subject.owns and not unreal
            if not told or not Predicate(self.words, clause, at, subject, self.add).read():
                subject = _NOBODY
        return self.found

    def add(self, sources: Sequence[str], label: str, targets: Sequence[str]) -> None:
        """Note what is said of each of some names and each of others."""
        self.found += [(one, label, other) for one in sources for other in targets]

    # -- "Ada's aunt Noor" --------------------------------------------------------------------------

    def _reduced(self) -> list[Token]:
        """Return the tokens with a name in the place of "Ada's aunt Noor", and note whose aunt she is."""
        made: list[Token] = []
        index = 0
        while index < len(self.tokens):
            token = self.tokens[index]
            index += 1
            own = token.owns or self.words.is_("owners", token.text.lower())
            opens = own or self.words.is_any(token.text.lower(), "determiners")
            end = self._noun_end(index, own=own) if opens else 0
            if not end:
                made.append(token)
                continue
            noun = self.words.noun_of([one.text for one in self.tokens[index:end] if one.is_word])
            if own:
                owner = token.names if token.owns else self._owner(token.text.lower(), made)
                self.add(owner, noun, self.tokens[end].names)
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
                called = self.words.is_("called", before) and at > start + 1
                return at if called or (own and at > start and self.words.is_("nouns", before)) else 0
            apposed = own and token.text == "," and self._at(at + 2).text == ","  # "Ada's aunt, Noor, ..."
            if apposed and self._at(at + 1).names and self.words.is_("nouns", self.tokens[at - 1].text):
                return at + 1
            if not token.is_word or self.words.is_("prepositions", token.text):
                return 0
        return 0

    def _owner(self, own: str, before: Sequence[Token]) -> tuple[str, ...]:
        """Return whose aunt "her aunt" is: whom the sentence begins with, if all other names in front of her are places'."""
        names = [at for at, token in enumerate(before) if token.names]
        if not names or before[names[0]].owns or not all(map(self._leads, before[: names[0]])):
            return ()
        if self.words.is_("mine", own):
            return before[names[0]].names
        placed = all(self.words.is_("onward", before[at - 1].text) for at in names[1:])
        return before[names[0]].names if placed else ()

    # -- names in a row, clauses --------------------------------------------------------------------

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
        """Return how many tokens a further name of a row takes with what joins it; 0 if there is none."""
        start = at
        if self._at(at).text == ",":
            at += 1
        if self.words.is_("and", self._at(at).text):
            at += 1
        if at == start or not self._at(at).names or self.tokens[at - 1].owns:
            return 0
        return 0 if self.tokens[start - 1].owns else at + 1 - start

    def _company(self, at: int) -> int:
        """Return how many tokens those without a name take who act with somebody: "Ada *and her two kids* went"."""
        if not self.words.is_("and", self._at(at).text):
            return 0
        first = self._at(at + 1)
        if self.words.is_("others", first.text):
            return 2
        if not first.owns and not self.words.is_any(first.text, "owners", "determiners"):
            return 0
        for end in range(at + 3, at + 6):
            if not self._at(end - 1).is_word:
                return 0
            if self.words.is_past(self._at(end).text) or self.words.is_any(self._at(end).text, "be", "have"):
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
            self.words.is_verb(token.text) or self.words.is_any(token.text, "be", "have", "do", "unreal")
        )

    def _ends_clause(self, token: Token, before: Token) -> bool:
        """Return whether a mark or a word between clauses is one here: not "so" in "is so proud"."""
        if token.names or token.text in ("'", "/") or (before.is_word and self.words.is_("be", before.text)):
            return False
        return self.words.is_("joins", token.text) or not token.text[0].isalnum()

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
        """Return whom a clause is about, and where its predicate begins."""
        at = 0
        while at < len(clause) and self._leads(clause[at]):
            at += 1
        if at == len(clause):
            return _NOBODY, at
        if clause[at].names:
            return clause[at], at + 1
        told = self.words.is_told(clause[at].text) or self.words.is_any(clause[at].text, "be", "have")
        joints = join.split()
        if told and joints and all(self.words.is_any(one, "carry", "lead") for one in joints):
            return before, at
        return (last if told and joints and self.words.is_("who", joints[-1]) else _NOBODY), at

    def _leads(self, token: Token) -> bool:
        text = token.text.lower()
        if token.names or self.words.is_("reflexive", text):
            return False
        return self.words.is_("lead", text) or self.words.is_adverb(text) or text.isdecimal()
