"""What a good model would answer to each step, by local rules; the schemas are those of `memforest.reading`.

Each goes from the message that holds the data to the reply; `tests.doubles.replies.RULES` says which step is whose.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Literal

from tests.doubles.blocks import read_data_block
from tests.doubles.exploring import entity_lines, question_parts, reasoning, takes_apart

from memforest.reading.explore_llm import EntityFile, QuestionParts, Reasoning
from memforest.reading.extract_local import LocalExtractor
from memforest.reading.plan_local import plan_question
from memforest.reading.replies import (
    AnswerReply,
    BrowseChoice,
    BrowseGuide,
    EntityReply,
    Extraction,
    FactReply,
    Judgement,
    Profile,
    ProfileSection,
    QuestionNeeds,
    Relation,
    Sifted,
    Summary,
    TreeQueries,
    Verdict,
)
from memforest.reading.summarise_llm import named_in, passages
from memforest.reading.summarise_local import LocalSummariser
from memforest.reading.tokens import count_words, cut_words
from memforest.records import Chunk, ExtractedFact, Mention, SummaryRequest, Turn
from memforest.text import fold, lexical_tokens, words

Row = Mapping[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NAMED = {"participant": "person", "unknown": "thing"}


def extraction(data: str) -> Extraction:
    """Return the statements of a chunk, as the local extractor reads them."""
    rows = read_data_block(data, "turns")
    before = read_data_block(data, "context")
    session = (*read_data_block(data, "session"), {})[0]
    chunk = Chunk(
        session_id="",
        ordinal=0,
        turns=tuple(_turn(row, int(row["turn"])) for row in rows),
        before=tuple(_turn(row, at - len(before)) for at, row in enumerate(before)),
        participants=tuple(session.get("participants", ())),
    )
    made = LocalExtractor().extract_chunk(chunk)
    turns = {turn.ordinal: turn for turn in chunk.turns}
    statements = [_statement(one, [turns[at] for at in one.turns if at in turns]) for one in made.candidates]
    return Extraction(statements=[one for one in statements if one.turns])


def _turn(row: Row, ordinal: int) -> Turn:
    return Turn(
        id=str(ordinal),
        speaker=str(row.get("speaker", "")),
        text=str(row.get("text", "")),
        said=_moment(str(row.get("time", ""))),
        ordinal=ordinal,
        role=row.get("role"),
    )


def _moment(shown: str) -> datetime:
    """Return a time as prompts show it ("Tuesday 2031-03-11 18:20"); the epoch if there is none."""
    try:
        found = datetime.fromisoformat(shown.split(" ", 1)[-1])
    except ValueError:
        found = _EPOCH
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def _statement(candidate: ExtractedFact, turns: Sequence[Turn]) -> FactReply:
    return FactReply(
        quote=candidate.quote.splitlines()[0],
        text=candidate.text,
        turns=[turn.ordinal for turn in turns],
        kind="state" if candidate.states else "event",
        start=None if candidate.start is None else candidate.start.date().isoformat(),
        negated=candidate.negated,
        entities=[_named(mention) for mention in candidate.mentions],
        relations=[
            Relation(
                entity=state.entity,
                attribute=state.attribute,
                value=state.value,
                previous=state.previous,
                change=state.change,
            )
            for state in candidate.states
        ]
        + [Relation(entity=one.source, verb=one.label, value=one.target) for one in candidate.relations],
    )


def _named(mention: Mention) -> EntityReply:
    """Return a name; with its kind if that is known and nobody's who takes part, or where no capital shows that it is one."""
    cased = mention.name.lower() != mention.name.upper()
    return EntityReply(
        name=mention.name,
        type="" if cased and mention.kind in _NAMED else _NAMED.get(mention.kind, mention.kind),
    )


def judgement(data: str) -> Judgement:
    """Return for each new statement the first known one that has the same words in the same order."""
    verdicts = []
    for row in read_data_block(data, "questions"):
        known = {int(number): words(fold(str(text))) for number, text in dict(row["known"]).items()}
        new = words(fold(str(row["new"])))
        same = next((number for number, text in sorted(known.items()) if text == new), None)
        verdicts.append(Verdict(question=int(row["question"]), same=same))
    return Judgement(verdicts=verdicts)


_KINDS = {
    "conversation": "session",
    "entry": "entity",
    "theme": "scene",
    "record": "record",
    "stretch": "conversation",
    **dict.fromkeys(("segment", "session", "day", "week", "profile", "memory"), "record"),
}
_ENTITY = re.compile(r"^<entity>$", re.MULTILINE)
_MOST_WORDS = re.compile(r"^At most (\d+) words(?: for each person)?\.$", re.MULTILINE)


def summary(data: str) -> Summary | Profile | EntityFile:
    """Return the summary that the local summariser chooses from the notes, within the words asked for.

    That of a month is a section for each participant, of the notes' sentences that are theirs alone or name them; of an entity
    its lines are told.
    """
    if _ENTITY.search(data):
        return entity_lines(data)
    node = (*read_data_block(data, "node"), {})[0]
    if "profile" in node:
        return _profile(data, [str(name) for name in node.get("participants", ())])
    return Summary(summary=_chosen(data, node))


def _profile(data: str, participants: Sequence[str]) -> Profile:
    told = _texts_of(data, "notes")
    lines: dict[str, list[str]] = {name: [] for name in participants}
    for text, _, owners in passages(told, participants):
        for name in owners & named_in(text, participants):
            if text not in lines[name]:
                lines[name].append(text)
    asked = _MOST_WORDS.findall(data)
    room = int(asked[-1]) if asked else 60
    kept = [(name, _that_fit(some, room)) for name, some in lines.items()]
    if not any(some for _, some in kept) and told and participants:
        kept = [(participants[0], [f"{participants[0]}: {cut_words(told[0], max(1, room - 2))}"])]
    return Profile(sections=[ProfileSection(name=name, lines=some) for name, some in kept if some])


def _that_fit(lines: Sequence[str], room: int) -> list[str]:
    kept = []
    for line in lines:
        if (size := count_words(line)) <= room:
            kept.append(line)
            room -= size
    return kept


def _texts_of(data: str, block: str) -> tuple[str, ...]:
    return tuple(str(row["text"]) for row in read_data_block(data, block))


def _chosen(data: str, node: Row) -> str:
    kind = next((kind for key, kind in _KINDS.items() if key in node), "session")
    label = next((str(node[key]) for key in _KINDS if key in node), "")
    asked = _MOST_WORDS.findall(data)
    request = SummaryRequest(
        kind=kind,
        label=label,
        start=_EPOCH,
        end=_EPOCH,
        inputs=_texts_of(data, "notes") or _texts_of(data, "turns"),
        max_words=int(asked[-1]) if asked else 60,
        history=_texts_of(data, "history"),
    )
    return LocalSummariser().summarise_one(request)


_TWO_SIDES = re.compile(
    r"\b(?:before|after|since|between|compared?|differ\w*|than|versus|vs|antes de|después de|desde)\b",
    re.IGNORECASE,
)


_OF_A_PERSON = re.compile(r"\b(?:would|should|prefer\w*|personality|recommend|suggest)\b", re.IGNORECASE)
_COMPLEXITY: Mapping[str | None, Literal[0, 1, 2]] = {None: 0, "simple": 0, "hybrid": 1, "complex": 2}
_TREES = re.compile(r"^<trees>$", re.MULTILINE)
_LINES = re.compile(r"^<lines>$", re.MULTILINE)


def guide(data: str) -> BrowseGuide | QuestionNeeds | QuestionParts:
    """Return the question as the query of each tree, and a second one where it has two sides.

    About a question alone: how much of a memory it needs, by the rules of the local planner, and its first keywords; or its
    parts, by the local rules.
    """
    if takes_apart(data):
        return question_parts(data, _moment)
    row = (*read_data_block(data, "question"), {})[0]
    question = str(row.get("question", ""))
    if not _TREES.search(data):
        return _needs(question, row)
    names = {fold(name): str(name) for name in row.get("about", ())}
    plan = plan_question(question, reference=_moment(str(row.get("today", ""))), names=names)
    sides = _TWO_SIDES.search(question)
    other = "" if sides is None else question[sides.end() :].strip(" ?.!")
    queries = [question, other] if other else [question]
    return BrowseGuide(
        kind=None if plan.kind == "simple" else plan.kind,
        anchor=plan.anchor,
        trees=[
            TreeQueries(tree=int(tree["tree"]), queries=queries) for tree in read_data_block(data, "trees")
        ],
    )


def _needs(question: str, row: Row) -> QuestionNeeds:
    names = {fold(str(name)): str(name) for name in row.get("people", ())}
    plan = plan_question(question, reference=_moment(str(row.get("today", ""))), names=names)
    own = {token for name in names for token in lexical_tokens(name)}
    words_of = [word for word in plan.keywords if own.isdisjoint(lexical_tokens(word))]
    complexity = 2 if _OF_A_PERSON.search(question) else _COMPLEXITY[plan.complexity]
    return QuestionNeeds(complexity=complexity, keywords=words_of[:3])


def sifted(data: str) -> Sifted:
    """Return the memories that share words with the question, most shared first."""
    row = (*read_data_block(data, "question"), {})[0]
    memories = read_data_block(data, "memories")
    shared = _shared(str(row.get("question", "")), [str(one["text"]) for one in memories])
    order = sorted((at for at, count in enumerate(shared) if count), key=lambda at: (-shared[at], at))
    return Sifted(relevant=[int(memories[at]["number"]) for at in order])


def choice(data: str) -> BrowseChoice:
    """Return the nodes that share words with what is looked for, most shared first.

    If none does, those that stand for several leaves: a summary leaves things out.
    """
    row = (*read_data_block(data, "search"), {})[0]
    nodes = read_data_block(data, "nodes")
    shared = _shared(str(row.get("looking_for", "")), [str(node["text"]) for node in nodes])
    order = sorted((at for at, count in enumerate(shared) if count), key=lambda at: (-shared[at], at))
    if not order:
        order = [at for at, node in enumerate(nodes) if int(node["leaves"]) > 1]
    return BrowseChoice(ranked=[int(nodes[at]["node"]) for at in order[: int(row.get("most", len(nodes)))]])


def answer(data: str) -> AnswerReply | Reasoning:
    """Quote the piece of evidence that shares most words with the question.

    Abstain when none shares any but the names of those who speak. About a part of a question: its line, or what is missing.
    """
    if _LINES.search(data):
        return reasoning(data)
    row = (*read_data_block(data, "question"), {})[0]
    pieces = read_data_block(data, "evidence")
    texts = [f"{piece.get('statement', '')} {piece.get('quote', '')}" for piece in pieces]
    names = {token for piece in pieces for token in lexical_tokens(str(piece.get("speaker", "")))}
    question = str(row.get("question", ""))
    shared, without_names = _shared(question, texts), _shared(question, texts, without=names)
    fitting = [at for at in range(len(pieces)) if without_names[at]]
    if not fitting:
        return AnswerReply(reason="no piece of evidence shares a word with the question")
    best = max(fitting, key=lambda at: (shared[at], -at))
    piece = pieces[best]
    number = int(piece["number"])
    when = f"of {piece['days']}" if "days" in piece else f"said on {piece.get('said', '')}"
    return AnswerReply(
        reason=f"piece {number}, {when}", answer=str(piece.get("statement") or piece["quote"]), cited=[number]
    )


def _shared(query: str, texts: Sequence[str], *, without: Collection[str] = ()) -> list[int]:
    """Return how many content words of a query each text has, some left out unless there are no others."""
    asked = set(lexical_tokens(query))
    asked = (asked - set(without)) or asked
    return [len(asked.intersection(lexical_tokens(text))) for text in texts]
