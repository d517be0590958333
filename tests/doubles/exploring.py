"""What a good model would answer where a question is taken apart, by local rules; see `tests.doubles.rules`."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from tests.doubles.blocks import read_data_block

from memforest.reading.explore_llm import EntityFile, PlannedPart, QuestionParts, Reasoning, SourcedLine
from memforest.reading.plan_local import plan_question
from memforest.reading.question_parts import parts_of
from memforest.reading.reply_checks import is_order
from memforest.reading.tokens import split_sentences
from memforest.text import fold, lexical_tokens

_MOST_QUERIES = re.compile(r"^At most (\d+) queries\.$", re.MULTILINE)
_MOST_LINES = re.compile(r"^At most (\d+) lines in all\.$", re.MULTILINE)
_DESCRIBED = re.compile(
    r"\b(?:my|his|her|their) (sister|brother|mother|father|boss|friend|neighbour|cousin|partner)\b",
    re.IGNORECASE,
)
_ASKS_WHO = re.compile(r"^(?:who|whom)\b", re.IGNORECASE)
_RECENT = 3
"""The last lines of an entity that are recent; the others last."""


def takes_apart(data: str) -> bool:
    """Return whether a request of the step "plan" is to take a question apart."""
    return _MOST_QUERIES.search(data) is not None


def question_parts(data: str, moment: Callable[[str], datetime]) -> QuestionParts:
    """Return the parts that the local rules make of a question, within the number that is asked for.

    `moment` reads a day as prompts show it.
    """
    row = (*read_data_block(data, "question"), {})[0]
    question = str(row.get("question", ""))
    names = {fold(str(name)): str(name) for name in row.get("people", ())}
    plan = plan_question(question, reference=moment(str(row.get("today", ""))), names=names)
    asked = _MOST_QUERIES.findall(data)
    parts = parts_of(plan, question, most=int(asked[-1])) if question.strip() else []
    return QuestionParts(
        queries=[
            PlannedPart(
                id=one.id,
                text=one.text,
                depends_on=list(one.depends_on),
                scope=one.scope or "mixed",
                when=plan.dates[0] if one.interval is not None and plan.dates else None,
            )
            for one in parts
        ]
    )


def reasoning(data: str) -> Reasoning:
    """Return the line that shares most words with what is asked, up to an order in it; none shares any: no answer.

    Who is meant by it is missing where the line only describes somebody ("my sister"), as it was said.
    """
    query = str((*read_data_block(data, "query"), {})[0].get("query", ""))
    asked = set(lexical_tokens(query))
    lines = read_data_block(data, "lines")
    shared = [len(asked.intersection(lexical_tokens(str(line["text"])))) for line in lines]
    if not any(shared):
        return Reasoning()
    line = lines[max(range(len(lines)), key=lambda at: (shared[at], -at))]
    text, speaker = str(line["text"]), str(line.get("speaker", ""))
    found = _DESCRIBED.search(text)
    if found is not None and speaker and _ASKS_WHO.match(query):
        whom = f"the name of {speaker}'s {found[1]}"
        return Reasoning(missing=whom, query=f"What is {whom}?")
    told = [piece.text for piece in split_sentences(text) if not is_order(piece.text)]
    return Reasoning(answer=told[0] if told else None)


def entity_lines(data: str) -> EntityFile:
    """Return the lines of an entity as they are, each with itself as its source, as many as are asked for."""
    asked = _MOST_LINES.findall(data)
    rows = read_data_block(data, "lines")[: int(asked[-1]) if asked else None]
    made = [SourcedLine(text=str(row["text"]), sources=[int(row["line"])]) for row in rows]
    split = max(1, len(made) - _RECENT)
    return EntityFile(lasting=made[:split], recent=list(reversed(made[split:])))
