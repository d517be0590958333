"""Random token sequences for functions that read text, and the readings that `test_text_fuzz` tries them on.

The tokens are what the functions look for themselves: words of their lists, names, possessives, numbers, dates,
quotation marks; and what surprises code about text: other scripts, marks, emoji, nothing at all.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from random import Random
from typing import Any, get_args

import numpy as np
from tests.doubles.replies import all_prompts
from tests_long.hand_made import make_vocabulary
from tests_long.stored import observed

from memforest import times
from memforest.errors import MemForestError
from memforest.ports import AnswerEvidence, ChatReply
from memforest.reading import (
    clauses,
    drafts,
    entities,
    explore_llm,
    extract_llm,
    extract_local,
    periods,
    phrases,
    prompts,
    question_parts,
    replies,
    reply_checks,
    stance,
    summarise_llm,
)
from memforest.reading.answer_local import (
    LocalAnswerer,
    Wanted,
    holds,
    quoted,
    read_features,
    read_pieces,
    read_question,
    ruled_out,
)
from memforest.reading.canonical import PlacedFact as SaidFact
from memforest.reading.canonical import fact_identity, is_short_form, plan_facts, signature, tie_end
from memforest.reading.clauses import is_imperative, is_request_question
from memforest.reading.date_phrases import find_dates, question_time
from memforest.reading.drafts import is_bare_yes
from memforest.reading.entities import called, is_assistant, with_kinds
from memforest.reading.extract_local import LocalExtractor, read_statement
from memforest.reading.plan_local import plan_question, without_dates
from memforest.reading.prompts import head_and_tail
from memforest.reading.question_parts import complexity_of, read_mentions
from memforest.reading.relations import find_relations
from memforest.reading.replies import EntityReply, Extraction, FactReply, Relation
from memforest.reading.states import (
    LANGUAGES,
    asked_state,
    attribute_name,
    find_states,
    labelled,
    load_table,
    noun_name,
)
from memforest.reading.summarise_llm import RecordCheck
from memforest.reading.summarise_local import LocalSummariser, most_telling
from memforest.reading.timestamps import date_languages, dated_text, further_dates, parse_timestamp
from memforest.reading.tokens import cut_words, find_names, load_word_lists, split_sentences
from memforest.records import Chunk, Mention, QuestionPlan, SubQuery, SummaryRequest, TreeCard, Turn
from memforest.search.attributes import Contexts, find_kinds, placed_in
from memforest.search.change import order_observations
from memforest.search.vectors import index_tokens, turn_text, without_names
from memforest.search.vocabulary import Topic, choose_values
from memforest.text import cut, snowball_stem

__all__ = ["ADAPTED", "EXEMPT", "NAMES", "random_text", "readers", "text_functions"]

WHEN = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)
UTC = timezone.utc
NAMES = ("Ann", "Bob", "José García", "東京", "Dr Sun", "The Blue Heron", "Salt & Pine")
NAMED = tuple(Mention(name, "person", "subject") for name in NAMES[:2])
KNOWN = {name.casefold(): name for name in NAMES}

_POOLS: tuple[tuple[str, ...], ...] = (
    (*NAMES, "Porto", "I", "Acme", "Queen", "McDonald", "Mario's", "Bob's", "Ann’s", "Macy's", "James'", "İstanbul"),
    ("'s", "’s", "s'", "'", "’", "my", "her", "his", "Her", "Still", "whose", "of", "and", "&", "in", "on", "the"),
    ("live", "lives", "moved", "move to", "work at", "used to", "left", "quit", "got", "bought", "started", "no longer"),
    ("before", "after", "since", "until", "first", "last", "now", "again", "back to", "instead of", "replaced by"),
    ("what", "Where", "when did", "How many", "who", "which kind of", "does", "did", "is", "was", "¿dónde", "cuándo"),
    ("me mudé a", "vivo en", "mi", "el", "la", "ayer", "desde hace", "no", "ya no", "wohne in", "je suis", "пошёл"),
    ("not", "never", "n't", "doesn't", "can't wait", "If", "would", "maybe", "hopefully", "Yes,", "No,", "ok", "lol"),
    ("yesterday", "last week", "two days ago", "the week before 9 June", "in May", "2023-05-01", "31/02/2023", "5pm"),
    ("0", "1", "7", "1,500", "3.5", "1/2", "000", "1e999", "٣", "⅓", "²", "10000000000000000000", "12:99", "twenty"),
    ("red bike", "gym", "rye bread", "chief of staff", "marketing assistant", "dog named Max", "job", "a", "an", "baking"),
    ('"', "“", "”", "«", "»", "‘", "(", ")", "[", "]", "{", "}", "[image: a dog]", "asked", 'Ann, asked "Why?": '),
    (".", ",", ";", ":", "!", "?", "…", "—", "-", "¿", "¡", "。", "？", "؟", "।", "...", "?!", "/", "\\", "*", "_", "§"),
    ("東", "京都へ行きました", "ภาษาไทย", "हिन्दी", "한국어", "العربية", "עברית", "ß", "ﬁ", "ŉ", "ǰ", "Ⅷ", "𝒜", "İ", "ı", "ΐ"),
    ("\u0301", "e\u0301", "\u0345", "\u200b", "\u200d", "\u202e", "\u061c", "\u2028", "\u0085", "\ufffd", "\ufeff", "\xad"),
    ("🙂", "👩‍👩‍👧", "🇵🇹", "1️⃣", "\U0010ffff", "\ue000", "\x00", "\x1b[31m", "\x0b", "\x1f", "\t", "\n", "\r\n", " "),
    ("", "x" * 300, "word " * 60, "a'" * 80, "https://x.y/z?a=b&c=d", "data:image/png;base64,iVBORw0KGgo=", "👍" * 40),
    ('{"statements": [', '{"quote": "Ann", "text": "Ann lives.", "turns": [0]}', "]}", "null", "true", "NaN", "```json", "<turns>", "\\u0000"),
)  # fmt: skip
_JOINS = (" ", " ", " ", "", ". ", ", ", "\n", ".")


def random_text(random: Random) -> str:
    """Return up to 14 tokens in a row, most of them from a few pools; with and without spaces and full stops."""
    pools = [*random.sample(_POOLS, 3), _listed_words()]
    join = random.choice(_JOINS)
    found = [random.choice(random.choice(pools)) for _ in range(random.randint(0, 14))]
    return join.join(found) + random.choice(("", "", ".", "?", " ", "'s"))


@lru_cache(maxsize=1)
def _listed_words() -> tuple[str, ...]:
    """Return the single words of the package's own lists: what its rules look for."""
    found = set(
        phrases.listed("persons")
        | phrases.past_forms()
        | question_parts.operator_words("What did Ann use before that?")
    )
    for code in ("en", "es"):
        found.update(word for group in load_word_lists(code).values() for word in group)
    return tuple(sorted(found))


def _turn(said: str, ordinal: int = 0, speaker: str = "Ann", role: str | None = None) -> Turn:
    return Turn(str(ordinal), speaker, said, WHEN, ordinal, role)


def _chunk(said: str) -> Chunk:
    """Return a chunk in which a text answers, and is told by an assistant."""
    turns = (_turn("Where do you live?", 0, "Bob"), _turn(said, 1), _turn(said, 2, "assistant", "assistant"))
    return Chunk("s", 0, turns, (_turn(said[::-1] or "?", 3),), ("Ann", "Bob", "assistant", said[:40] or "x"))


def _joins(said: str) -> None:
    """Check what a model says of the names of a text, in the words of the text itself."""
    words = [*said.split(), "x"][:4]
    told = [
        Relation(entity=one, attribute=attribute, verb=verb, value=other)
        for one in ("Ann", words[0])
        for other in (words[-1], said)
        for attribute, verb in ((said, ""), ("", " ".join(words)), ("", said))
    ]
    names = [Mention("Ann"), *(Mention(word) for word in words)]
    statement = FactReply(text=said, quote=said, relations=told)
    states, found, left_out = reply_checks.check_relations(statement, said, names)
    assert len({*states, *found}) + len(left_out) <= len(told)


def _evidence(said: str) -> AnswerEvidence:
    return AnswerEvidence(said, said[::-1], WHEN, WHEN, WHEN + timedelta(days=1), 1.0, "Ann")


def _uses(text: str) -> dict[str, int]:
    return {p.term: 2 for s in phrases.read_statement(text).sentences for p in s.phrases}


def _answer(text: str) -> None:
    for kind in ("simple", "when", "since", "list", "current"):
        plan = QuestionPlan(kind, ("Ann",), "residence", text[:30])
        for question in (text, "How long has Ann lived in Porto?"):
            found = LocalAnswerer().answer(
                question,
                plan=plan,
                reference=WHEN,
                evidence=[_evidence(text), _evidence("Ann moved to Porto.")],
            )
            asyncio.run(found)


def _relevance(text: str) -> None:
    asked = read_question(text, QuestionPlan("predecessor", ("Ann",), None, text, mentions=(text,)))
    pieces = read_pieces([(0, _evidence(text))])
    ruled_out(asked, pieces)
    read_features(asked, pieces, pieces)


def _of_model(text: str) -> None:
    """Read a text as what a model says of a turn: statement, name, date, relation."""
    relation = {"entity": text, "attribute": text, "value": text, "previous": text, "change": text}
    said = {"text": text, "quote": text, "turns": [0, 1], "start": text, "topics": [text]}
    named = [{"name": text, "type": text}]
    made = Extraction.model_validate(
        {"statements": [{**said, "entities": named, "relations": [relation]}]}, context=[]
    )
    for told in (text, "I moved to Porto last week."):
        extract_llm.check_extraction(made, reply_checks.read_source(_chunk(told), UTC))


def _date_of_model(text: str) -> None:
    read = reply_checks.read_source(_chunk(text), UTC)
    statement = FactReply.model_validate({"text": text, "quote": text, "start": text}, context=[])
    for said in read.said.values():
        reply_checks.date_statement(statement, text, "en", said, text, read)


def _grounds(text: str) -> None:
    read = reply_checks.read_source(_chunk(text), UTC)
    names = [EntityReply(name=text[:50], type=text[:9])]
    for said in read.said.values():
        reply_checks.unsupported(f"Ann {text}", text, "en", names, said, text, read)
        reply_checks.date_is_spelt(text[:100], [said])
    reply_checks.invented(text, "en", read)
    found = reply_checks.find_quote(text, [1], read)
    assert found is None or found[1] in found[0].text


def _reply(text: str) -> None:
    for kind in {one.reply for one in all_prompts()}:
        with suppress(MemForestError):  # documented: it is no reply of that kind
            prompts.read_reply(ChatReply(text), kind)


def _blocks(text: str) -> None:
    card = TreeCard("entity", text, WHEN, WHEN, 3, text)
    prompts.data_block("trees", prompts.shown_cards([card], UTC, number="tree", chars=200, scope=True))


def _timestamp(text: str) -> None:
    with suppress(MemForestError):  # documented: it is no time
        parse_timestamp(text, timezone=UTC, field="x")


def _vocabulary(text: str) -> None:
    said = (text, f"Ann: {text}", f"Bob moved from Oslo to Porto. {text}", "Ann lives in Porto.")
    people, vectors = frozenset(("Ann", "Bob")), np.eye(len(said), dtype=np.float32)
    known = make_vocabulary(said, people, vectors, states=(("residence", text.lower()),))
    asked = Topic("Ann", np.ones(4), np.arange(4.0), text, "residence")
    list(choose_values(known, asked))
    known.named_in(text)


def _kinds(text: str) -> None:
    statements = [phrases.read_statement(one) for one in (text, f"Ann: {text}")]
    uses = {term: np.array([0, 1]) for term in _uses(text)}
    pairs = [(a, b) for a in uses for b in uses if a < b][:3]
    placed = [one for statement in statements for one in placed_in(statement, uses.keys())]
    contexts = Contexts().changed([], placed, {"ann"})
    find_kinds(contexts, sorted(uses), uses, np.eye(2, dtype=np.float32), pairs, [set(uses)])


def _order_observations(text: str) -> None:
    told = enumerate((text, text[::-1], "Porto"))
    order_observations([observed(at, "1", at, value, latest_ms=at + 5) for at, value in told])


def _stances(text: str) -> None:
    statement = phrases.read_statement(text)
    for who in ("Ann", text[:12] or "Bob"):
        list(
            stance.stances_of(statement, who, ("Bob", "José García"), dict.fromkeys(_uses(text), 1.0), "Bob")
        )
    for sentence in statement.sentences:
        places = phrases.places(sentence)
        phrases.turning_points(sentence.text, places, _uses(text))
        phrases.exchanged(sentence.text, places, _uses(text))
        list(phrases.held_phrases(places, _uses(text)))
        phrases.chosen_phrases(sentence, _uses(text))


def _drafts(text: str) -> None:
    one, other = (
        drafts.DraftFact(said, [said], said, False, True, (0,), "en", False, names=NAMED)
        for said in (text, text[::-1])
    )
    drafts.referring(one, other)
    if drafts.can_join(one, other, drafts.PASSAGE_WORDS):
        drafts.join(one, other)


def _phrase(read: Callable[[str, phrases.Phrase], object]) -> Callable[[str], None]:
    """Return a reader of each noun phrase of a text, for functions that take one."""

    def run(text: str) -> None:
        for sentence in phrases.read_statement(text).sentences:
            for phrase in sentence.phrases[:20]:
                read(sentence.text, phrase)

    return run


def _facts(text: str) -> None:
    outcome = LocalExtractor().extract_chunk(_chunk(text))
    said = [SaidFact(one, 0, (1,), 0, str(place)) for place, one in enumerate(outcome.candidates)]
    for one in outcome.candidates:
        signature(one)
    plan_facts(said, stored_ids={}, vectors={}, threshold=None)


def _summary(text: str) -> None:
    given = (text, "Ann lives in Porto.", text[::-1], f"Bob: {text}")
    for most in (1, 8, 60):
        LocalSummariser().summarise_one(SummaryRequest("entity", text, WHEN, WHEN, given, most))


def _record(text: str) -> None:
    """Check a text as a record, and as a line of a profile, against itself and other texts."""
    request = SummaryRequest(
        "record", text, WHEN, WHEN, (text,), 60, participants=("Ann", "Bob", text[:20] or "x")
    )
    for made_of in ((f"Ann: {text}", f"## Bob\n- {text[::-1]}"), ("Bob sings.",)):
        check = RecordCheck(request, made_of, ("2024-06-01", "2024-06-01"), UTC, "timem_day")
        for said in (text, f'Bob said "{text}" on 3 May.'):
            check.size(said), check.about(said), check.invention(said), check.misplaced(said, "Bob")


def most_words(most: int) -> int:
    """Return a bound on the words of a summary."""
    return most


ADAPTED: dict[str, Callable[[str], object]] = {
    "text.cut": lambda t: cut(t, 20),
    "text.snowball_stem": lambda t: [snowball_stem(word.lower(), "spanish") for word in t.split()],
    "search.vectors.index_tokens": lambda t: index_tokens(t, t, WHEN),
    "search.vectors.turn_text": lambda t: turn_text(t, t),
    "reading.canonical.fact_identity": lambda t: fact_identity(t, WHEN, None),
    "reading.canonical.plan_facts": _facts,
    "reading.canonical.is_short_form": lambda t: [is_short_form(t, t[:5]), is_short_form(t[:3], t)],
    "reading.canonical.tie_end": tie_end,
    "reading.periods.iso_day": periods.iso_day,
    "reading.date_phrases.find_dates": lambda t: find_dates(t, WHEN, UTC),
    "reading.date_phrases.question_time": lambda t: question_time(t, WHEN, UTC),
    "reading.timestamps.parse_timestamp": _timestamp,
    "reading.timestamps.further_dates": lambda t: further_dates(t, WHEN, UTC, ()),
    "reading.states.attribute_name": attribute_name,
    "reading.states.labelled": lambda t: labelled(t, t),
    "search.vectors.without_names": lambda t: without_names(t, NAMES),
    "reading.answer_local.LocalAnswerer": _answer,
    "reading.answer_local.quoted": lambda t: quoted(t, t, WHEN, UTC),
    "reading.answer_local.holds": lambda t: [holds(kind, t) for kind in get_args(Wanted)],
    "reading.answer_local.read_question": _relevance,
    "reading.drafts.with_names": lambda t: [
        drafts.with_names(t, drafts.Voices("Ann", heard), code)
        for heard in (None, "Bob", t or "x")
        for code in ("en", "es", "other")
    ],
    "reading.drafts.with_name_spanish": lambda t: drafts.with_name_spanish(t, "Ann"),
    "reading.drafts.referring": _drafts,
    "reading.entities.called": lambda t: [called(t, role, "en") for role in ("user", "assistant", None)],
    "reading.entities.is_assistant": lambda t: [is_assistant(t, role) for role in (t, None)],
    "reading.clauses.is_imperative": lambda t: [is_imperative(t, code) for code in ("en", "es", "other")],
    "reading.clauses.is_request_question": lambda t: [
        is_request_question(t, code) for code in ("en", "es", "other")
    ],
    "reading.drafts.is_bare_yes": lambda t: is_bare_yes(t, frozenset(("ann",))),
    "reading.timestamps.date_languages": lambda t: date_languages(t, "other"),
    "reading.entities.find_mentions": lambda t: [
        entities.find_mentions(t, participants=KNOWN, language=code) for code in ("en", "es", "other")
    ],
    "reading.extract_local.LocalExtractor": lambda t: LocalExtractor().extract_chunk(_chunk(t)),
    "reading.extract_local.read_statement": lambda t: read_statement(
        t, speaker="Ann", participants=("Ann", "Bob"), said=WHEN, zone=UTC
    ),
    "reading.question_parts.read_mentions": lambda t: read_mentions(t, KNOWN, frozenset(("will", "may"))),
    "reading.question_parts.read_operator": lambda t: [
        question_parts.read_operator(t, dated=d) for d in (True, False)
    ],
    "reading.phrases.is_content": lambda t: [phrases.is_content(word) for word in phrases.TOKEN.findall(t)],
    "reading.clauses.lacks_content": lambda t: clauses.lacks_content(t, NAMES),
    "reading.clauses.skip_reason": lambda t: [
        clauses.skip_reason(t, NAMES, assistant=a) for a in (True, False)
    ],
    "reading.clauses.strip_address": lambda t: clauses.strip_address(t, NAMES),
    "reading.plan_local.without_dates": lambda t: without_dates(t, (t[:9], "4 March")),
    "reading.plan_local.plan_question": lambda t: plan_question(t, reference=WHEN, names=KNOWN),
    "reading.tokens.cut_words": lambda t: [cut_words(t, most) for most in (1, 5, 40)],
    "reading.extract_local.strip_address_spanish": lambda t: extract_local.strip_address_spanish(t, NAMES),
    "reading.stance.stances_of": _stances,
    "reading.phrases.is_person": lambda t: [phrases.is_person(word) for word in t.lower().split()],
    "reading.phrases.most_used": lambda t: phrases.most_used(t.split(), _uses(t)),
    "reading.phrases.turning_points": _stances,
    "reading.states.noun_name": lambda t: [noun_name(t, load_table(code)) for code in LANGUAGES],
    "reading.states.asked_state": lambda t: asked_state(t.lower().replace("ann", "§"), "§"),
    "reading.phrases.exchanged": _stances,
    "reading.phrases.contrasted": _stances,
    "reading.phrases.linked_order": _stances,
    "reading.stance.change_of": lambda t: stance.change_of(t, t[::-1]),
    "reading.stance.is_kept": stance.is_kept,
    "reading.stance.held_by": _phrase(stance.held_by),
    "reading.stance.role_of": _phrase(stance.role_of),
    "reading.tokens.find_names": lambda t: find_names(t, ("Ann", t[:30], *t.split()[:9])),
    "reading.relations.find_relations": lambda t: [
        find_relations(t, names=("Ann", "Bob", t[:30], *t.split()[:9]), language=code)
        for code in ("en", "es", "other")
    ],
    "reading.entities.with_kinds": lambda t: [
        with_kinds(t, [Mention(t[:30]), Mention(t[5:9])], code) for code in ("en", "es", "other")
    ],
    "reading.states.find_states": lambda t: find_states(t, subjects=("Ann", "Bob", t[:30] or "x")),
    "reading.summarise_local.LocalSummariser": _summary,
    "reading.question_parts.complexity_of": lambda t: complexity_of(t, QuestionPlan()),
    "reading.summarise_local.most_telling": lambda t: most_telling([t, *t.splitlines()[:9]], 40),
    "reading.stance.answers_about": lambda t: stance.answers_about(
        phrases.read_statement(t), "Ann", ("Bob",)
    ),
    "reading.stance.is_affected": lambda t: stance.is_affected(t, "Ann", "Bob"),
    "reading.stance.is_joined": lambda t: stance.is_joined(t, "Ann", "Bob"),
    "reading.stance.is_somebody_elses": _phrase(lambda t, p: stance.is_somebody_elses(t, "Ann", p)),
    "reading.stance.mentioned": lambda t: stance.mentioned(t, "Ann", ("Bob", t[:9] or "x"), "Bob"),
    "reading.stance.owner_of": _phrase(lambda t, p: stance.owner_of(t, p, NAMES)),
    "reading.stance.place_of": lambda t: [stance.place_of(t, name) for name in (*NAMES, t[:5] or "x")],
    "reading.stance.subject_of": lambda t: stance.subject_of(t, "Ann", ("Bob", t[:9] or "x"), ""),
    "reading.extract_llm.check_extraction": _of_model,
    "reading.reply_checks.check_relations": _joins,
    "reading.explore_llm.answer_problem": lambda t: explore_llm.answer_problem(t, (t[:9], *NAMES)),
    "reading.explore_llm.follow_up_refused": lambda t: explore_llm.follow_up_refused(
        t, SubQuery("1", t[:40].strip() or "Who?"), explore_llm.anchors_of([t[9:]]), missing=t[:9]
    ),
    "reading.reply_checks.date_statement": _date_of_model,
    "reading.reply_checks.unsupported": _grounds,
    "reading.reply_checks.find_quote": _grounds,
    "reading.reply_checks.date_is_spelt": _grounds,
    "reading.prompts.head_and_tail": lambda t: head_and_tail(t, 9),
    "reading.prompts.not_blank": lambda t: prompts.not_blank([t, " ", t]),
    "reading.prompts.readable": lambda t: prompts.readable([t, t]),
    "reading.prompts.within": lambda t: [prompts.within(t, most) for most in (0, 1, 7)],
    "reading.reply_checks.invented": _grounds,
    "reading.summarise_llm.named_in": lambda t: summarise_llm.named_in(t, (*NAMES, t[:30])),
    "reading.summarise_llm.participant_named": lambda t: summarise_llm.participant_named(t, (*NAMES, t)),
    "reading.summarise_llm.RecordCheck": _record,
    "reading.timestamps.dated_text": lambda t: dated_text(t, WHEN, UTC),
    "reading.replies.find_json": lambda t: [
        replies.find_json(t, ("text", "turns"), one) for one in ("text", None)
    ],
    "reading.blocks.read_data_block": _blocks,
    "reading.reply_checks.dates_of": lambda t: reply_checks.dates_of(t, "en", WHEN, UTC, None),
    "reading.reply_checks.stands_in": lambda t: [reply_checks.stands_in(t[:n], t) for n in (0, 3, len(t))],
    "reading.prompts.read_reply": _reply,
    "search.attributes.find_kinds": _kinds,
    "times.html_table": lambda t: times.html_table([t, "day"], [(t, t)]),
    "reading.clauses.kept_quote": lambda t: clauses.kept_quote(
        t, [one.text for one in split_sentences(t)][::2]
    ),
    "reading.clauses.passage": lambda t: [
        clauses.passage(t, set(t.casefold().split()[::2]), one)
        for one in (None, "", t[: len(t) // 2], clauses.quoted(t, t[len(t) // 2 :]))
    ],
    "reading.clauses.quoted": lambda t: clauses.quoted(t, t[: len(t) // 2]),
    "reading.prompts.asked_row": lambda t: prompts.asked_row(t, WHEN, UTC, [t]),
    "search.attributes.placed_in": _kinds,
    "search.change.order_observations": _order_observations,
    "search.vocabulary.make_vocabulary": _vocabulary,
}
"""Functions that need more than a text, and how each is given one; keys are places below `memforest`."""

EXEMPT: dict[str, str] = {
    "reading.question_parts.asks": "takes a name out of the package's own tables, or a setting, in front",
    "reading.timestamps.month_first_warning": "takes a name out of the package's own tables, or a setting, in front",
    "reading.timestamps.zone_note": "takes a name out of the package's own tables, or a setting, in front",
    "reading.date_rules.month_number": "takes what a pattern of the calendar has matched",
    "reading.date_rules.holiday": "takes what a pattern of the calendar has matched",
    "reading.date_scene.full_year": "takes what a pattern of the calendar has matched",
    "reading.date_language.mended": "takes a word, and the words of the calendar",
    "reading.date_language.load_language": "takes the code of a language of the package",
    "reading.periods.unit_period": "takes the name of a unit, one of a list",
    "reading.timestamps.zone_named": "takes a setting, and raises ConfigError",
    "reading.prompts.data_block": "takes the name of a block, written in the package",
    "reading.prompts.numbered": "takes the name of a number, written in the package",
    "reading.prompts.load_prompt": "takes the name of a prompt of the package",
    "reading.prompts.prompt_data": "takes the name of a prompt of the package",
    "reading.stance.governor_at": "takes the name of a class of wording of the package",
    "reading.answer_local.date_words": "takes the code of a language of the package",
    "reading.answer_local.weights_for": "takes the id of a model",
    "reading.phrases.listed": "takes the name of a list of the package",
    "reading.phrases.word_list": "takes the name of a list of the package",
    "reading.tokens.kinship": "takes the code of a language of the package",
    "reading.tokens.load_word_lists": "takes the code of a language of the package",
    "reading.tokens.load_word_tables": "takes the code of a language of the package",
    "reading.tokens.read_toml": "takes the path of a file of the package",
    "reading.states.holds_many": "takes the name of an attribute",
    "reading.relations.load_words": "takes the code of a language of the package",
    "reading.states.load_table": "takes the code of a language of the package",
}
"""Public functions with a text in front that never see a stored text or a question, and why."""

_ROOMS = ("memforest.reading",)
_MODULES = ("text", "search.vectors", "search.vocabulary", "search.attributes", "search.change")


def text_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield (place, function) for every public function of the rooms for text whose first argument is text."""
    places = [f"memforest.{name}" for name in _MODULES]
    for room in _ROOMS:
        package = importlib.import_module(room)
        places += [f"{room}.{one.name}" for one in pkgutil.iter_modules(package.__path__)]
    for place in places:
        module = importlib.import_module(place)
        for name in sorted(name for name in vars(module) if not name.startswith("_")):
            function = inspect.unwrap(getattr(module, name))
            if inspect.isfunction(function) and function.__module__ == place:
                first = next(iter(inspect.signature(function).parameters.values()), None)
                if first is not None and first.annotation in (
                    "str",
                    "Sequence[str]",
                    "ParsedStatement",
                    "str | None",
                ):
                    yield f"{place.removeprefix('memforest.')}.{name}", getattr(module, name)


def needs_more(function: Callable[..., Any]) -> bool:
    """Return whether a function must be given more than its first argument, a text."""
    first, *rest = inspect.signature(function).parameters.values()
    return first.annotation != "str" or any(one.default is inspect.Parameter.empty for one in rest)


def readers() -> dict[str, Callable[[str], object]]:
    """Return place -> a function of one text, for everything in `ADAPTED` and all that take nothing else."""
    plain = {
        place: function
        for place, function in text_functions()
        if place not in ADAPTED and place not in EXEMPT and not needs_more(function)
    }
    return {**plain, **ADAPTED}
