"""Extraction without a model: every sentence of a turn becomes a dated, attributed statement, or is skipped by name.

A turn is cut into sentences; questions, pleasantries and an assistant's chatter are skipped. What remains is kept as it was said,
with its speaker (``Ana: "I moved to Leeds."``), an answer and a request with what they answer or ask; its dates are worked out, and
short neighbours are joined, because each statement costs an embedding: about one per turn of chat. Who "I" and "you" are is put
in for the rules that read states and relations (`memforest.reading.drafts`), and nowhere else.

Nothing is lost in silence: every sentence ends in an `ExtractedFact` or a `Skipped`, and the turn itself stays searchable.
A turn is read to its end; what stands far behind in it is joined to longer statements, so that a long text costs less than
as much talk. A picture's caption is expected as a bracketed block in the turn's text, such as ``[image: a dog on a beach]``.

The version of the rules is recorded with every chunk that they have read. It has two parts: a number that is raised by hand
when the code of the rules changes what they make, and a digest of the word lists and patterns, which are data.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.resources import files
from zoneinfo import ZoneInfo

from memforest.reading.clauses import (
    is_afterword,
    is_clause,
    is_imperative,
    is_question,
    is_request_question,
    is_yes_no_answer,
    kept_quote,
    lacks_content,
    opens_with_answer,
    skip_reason,
    statement_before_question,
    strip_address,
    takes_back,
)
from memforest.reading.date_phrases import DateSpan, find_dates
from memforest.reading.drafts import (
    ASSISTANT_FINE_CHARS,
    CAPTION,
    FINE_CHARS,
    GROUP_WORDS,
    HEARD_CHARS,
    PASSAGE_WORDS,
    Context,
    DraftFact,
    acting_names,
    afterword,
    asks_for_something,
    asks_yes_or_no,
    can_join,
    context_of,
    is_bare_yes,
    join,
    picture_of,
    referring,
    with_names,
)
from memforest.reading.entities import (
    Role,
    called,
    find_mentions,
    find_topics,
    merge_mentions,
    names_inside,
    with_kinds,
)
from memforest.reading.relations import find_relations
from memforest.reading.states import find_states
from memforest.reading.timestamps import date_languages, resolved_dates, valid_time
from memforest.reading.tokens import detect_language, load_word_lists, split_sentences
from memforest.records import Chunk, ChunkOutcome, ExtractedFact, Mention, Relation, Skipped, Turn
from memforest.settings import MAX_TURN_CHARS
from memforest.text import DATA_RUN, negated, words

RULES = 8
"""Raised with every change of the code that changes the facts it makes."""

_DATA = ("language", "time", "states", "stance", "relations")
"""Folders of `memforest/data` that the rules read."""


@cache
def rules_version() -> str:
    """Return the version of the rules: their number, and a digest of the lines of their data, comments left out."""
    digest = blake2b(digest_size=4)
    root = files("memforest.data")
    for folder in _DATA:
        for path in sorted(root.joinpath(folder).iterdir(), key=lambda one: one.name):
            if path.name.endswith(".toml"):
                lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
                kept = [line for line in lines if line and not line.startswith("#")]
                digest.update("\n".join([folder, path.name, *kept, ""]).encode())
    return f"{RULES}:{digest.hexdigest()}"


_ES = load_word_lists("es")


def strip_address_spanish(text: str, names: Collection[str]) -> str:
    """Return `text` without opening interjections and the names it calls ("Hola Ana, …")."""
    for _ in range(3):
        found = re.match(r"[¡¿]?(\w+)(?:[ ,]+(\w+))?\s*[,!.]+\s+(?=\S)", text)
        opening = [word.lower() for word in found.groups() if word] if found else []
        if found is None or not all(word in _ES["interjections"] or word in names for word in opening):
            break
        text = text[found.end()].upper() + text[found.end() + 1 :]
    return text


_CONTINUES = re.compile(
    r"(?:it|it's|they|they're|they've|he|he's|she|she's|that|that's|this|these|those|there|him|her|his|their|them|such)\b",
    re.IGNORECASE,
)
_SUBORDINATE = re.compile(
    r",? (?:because|although|though|even though|but|when|if|while|since|so that|which|who|until|unless|porque|pero|aunque|cuando)\b",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^(?:[-*•·]|\d{1,3}[.)])\s+")


class LocalExtractor:
    """The `Extractor` that needs no model: rules, word lists and a calendar. Deterministic.

    Args:
        timezone: the zone in which "yesterday" is meant and dates are written: a name or a tzinfo.
    """

    def __init__(self, *, timezone: str | tzinfo = "UTC") -> None:
        self.name = f"local-{rules_version()}"
        self._zone = ZoneInfo(timezone) if isinstance(timezone, str) else timezone

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Return one outcome per chunk, in order. The work is done in a worker thread."""
        return await asyncio.to_thread(list, map(self.extract_chunk, chunks))

    def extract_chunk(self, chunk: Chunk) -> ChunkOutcome:
        """Return the facts of one chunk in order of its turns, and what was skipped."""
        statements: list[ExtractedFact] = []
        skipped: list[Skipped] = []
        known = names_inside(" . ".join(turn.text[:MAX_TURN_CHARS] for turn in (*chunk.before, *chunk.turns)))
        previous = chunk.before[-1] if chunk.before else None
        for turn in chunk.turns:
            context = context_of(chunk, turn, previous, known)
            text = turn.text if turn.text.strip() else ""
            if not text:
                context.skip(turn.text, "empty")
            for run in DATA_RUN.findall(text):
                context.skip(run, "data")
            text = DATA_RUN.sub("\n", text)
            if len(text) > MAX_TURN_CHARS:
                context.skip(text[MAX_TURN_CHARS:], "too long")
                text = text[:MAX_TURN_CHARS]
            captions = [match.group() for match in CAPTION.finditer(text)]
            pieces = split_sentences(CAPTION.sub("\n", text))
            fine = ASSISTANT_FINE_CHARS if context.assistant else FINE_CHARS
            for piece, behind in zip(pieces, [*pieces[1:], None], strict=False):
                turned = behind is not None and is_afterword(behind.text) and takes_back(behind.text)
                context.words = 0 if turned else GROUP_WORDS if piece.end <= fine else PASSAGE_WORDS
                self._sentence(context, piece.text)
                context.heard = f"{context.heard}\n{piece.text}"[-HEARD_CHARS:]
            for caption in captions:
                if shown := picture_of(caption):
                    shared = f"{context.called} shared {shown}"
                    context.drafts.append(self._finish(context, caption, shared, shown=shared, dates=()))
                else:
                    context.skip(caption, "empty")
            statements += [self._statement(context, draft) for draft in context.drafts]
            skipped += context.skipped
            previous = turn
        return ChunkOutcome(candidates=tuple(statements), skipped=tuple(skipped))

    def _sentence(self, context: Context, raw: str) -> None:
        """Make a draft of one sentence, join it to the draft before, or skip it."""
        item, raw = raw, _BULLET.sub("", raw) or raw
        if not any(ch.isalnum() for ch in raw):
            return
        follows = context.drafts and context.heard.endswith(context.drafts[-1].raw[-1])
        if follows and is_afterword(raw):
            afterword(context.drafts[-1], raw)
            return
        asks = is_question(raw)
        head = "" if asks else raw  # a question may open with a statement
        if asks and context.language == "en":
            head = statement_before_question(raw) or ""
        draft = self._draft(context, head) if head else None
        if draft is not None and not asks:
            draft.raw = [item]  # as it stands there, with its number in a list
        made = [] if draft is None else [(head, draft)]
        asked = raw[len(head) :].lstrip(" ,;-—–")
        requests = asks and is_request_question(asked, context.language)
        if requests:
            made.append((asked, self._request(context, asked, asked)))
        for said, draft in made:
            if context.drafts and can_join(context.drafts[-1], draft, context.words):
                join(context.drafts[-1], draft)
            elif draft.comment:
                context.skip(said, "pleasantry")
            else:
                context.drafts.append(draft)
        if asks and not requests:
            context.skip(asked, "question")

    def _draft(self, context: Context, raw: str) -> DraftFact | None:
        """Return the draft of one sentence that is no question (a statement, an answer, a request), or None after skipping it."""
        if context.language == "other":
            return self._finish(context, raw, raw)
        spanish = context.language == "es"
        text = (strip_address_spanish if spanish else strip_address)(raw, context.address)
        if spanish and all(
            word.lower() in _ES["backchannel"] or word.lower() in context.address for word in words(text)
        ):
            context.skip(raw, "pleasantry")
            return None
        if not spanish and context.question and not context.drafts and not context.assistant:
            answer = self._answer(context, raw, text)
            if answer is not None:
                return answer
        asked = is_imperative(text, context.language, to_assistant=context.to_assistant)
        if asked and (spanish or not context.assistant):
            if spanish or not lacks_content(text, context.address):
                return self._request(context, raw, text)
            context.skip(raw, "pleasantry")
            return None
        if spanish:
            return self._finish(context, raw, text)
        reason = skip_reason(text, context.address, assistant=context.assistant)
        if reason and not (context.drafts and reason in ("evaluation", "fragment")):
            context.skip(raw, "pleasantry" if reason == "evaluation" else reason)
            return None
        draft = self._finish(context, raw, text)
        if context.drafts:
            referring(draft, context.drafts[-1])
        draft.comment = reason is not None
        draft.joins = draft.comment or _CONTINUES.match(text) is not None or not is_clause(text)
        return draft

    def _request(self, context: Context, raw: str, text: str) -> DraftFact:
        """Return the draft of a request: the asker, and the request as it was said."""
        verb = "pidió" if context.language == "es" else "asked"
        return self._finish(context, raw, text, shown=f'{context.called} {verb}: "{text}"')

    def _answer(self, context: Context, raw: str, text: str) -> DraftFact | None:
        """Return the draft of a sentence that only the question before it explains, or None."""
        question = context.question or ""
        bare = is_yes_no_answer(raw) and asks_yes_or_no(question)
        plain = bare and is_bare_yes(raw, context.address)
        asked = question if plain and raw[:1] not in "nN" else ""
        if plain or (bare and len(raw.split()) <= 8):
            text = raw
        elif (
            lacks_content(text, context.address)
            or len(text.split()) > 14
            or (is_clause(text) and not (opens_with_answer(text) and asks_for_something(question)))
        ) or skip_reason(text, context.address, assistant=False) not in (None, "fragment"):
            return None
        about = "" if context.about is None else f' about "{context.about}"'
        shown = f'{context.called}, asked "{question}"{about}: {text}'
        dates = self._spans(context, asked or text)  # "Is it the 12th?" "Yes"
        draft = self._finish(context, raw, text, shown=shown, dates=dates)
        draft.turns = (*context.question_turn, context.turn.ordinal)
        draft.words += len(question.split()) + len(about.split())
        draft.answer = True
        context.question = None
        return draft

    def _spans(self, context: Context, text: str) -> list[DateSpan]:
        """Return the dates of a text, in order."""
        said, order, before = context.turn.said, context.day_first, context.heard
        languages = date_languages(text, context.language)
        return find_dates(text, said, self._zone, languages, day_first=order, before=before)

    def _finish(
        self,
        context: Context,
        raw: str,
        text: str,
        *,
        shown: str | None = None,
        dates: Sequence[DateSpan] | None = None,
    ) -> DraftFact:
        """Return the draft of a sentence with its mentions, negation and length.

        Args:
            context: of its turn.
            raw: the sentence as it stands there.
            text: what is kept and read of it: without whom it addresses.
            shown: the statement, where it is more than the sentence and its speaker; it asserts nothing.
            dates: those of the statement; by default those of `text`.
        """
        spans = self._spans(context, text) if dates is None else dates
        clause = _SUBORDINATE.search(text)
        main = text[: clause.start()] if clause and clause.start() > 12 else text
        said = shown or text
        told = with_names(text, context.voices, context.language)
        return DraftFact(
            text=said,
            raw=[raw],
            told=told if shown is None else "",
            whole=shown is not None,
            own=told != text and context.called in told,
            turns=(context.turn.ordinal,),
            language=context.language,
            joins=False,
            date=spans[0] if spans else None,
            dates=resolved_dates(spans),
            names=find_mentions(
                text if shown is None else shown,
                participants=context.participants,
                known=context.known,
                language=context.language,
            ),
            negated=negated(main),
            # Scripts without spaces count three characters as one word.
            words=max(len(said.split()), 0 if said.isascii() else sum(ch > "\u2e80" for ch in said) // 3),
        )

    def _statement(self, context: Context, draft: DraftFact) -> ExtractedFact:
        """Return the finished fact of a draft: with its speaker in its text, with mentions, topics and states."""
        speaker, ids, told = context.called, context.ids, "" if draft.turned else draft.told
        part: Role = (
            "subject" if draft.whole or told.casefold().startswith(f"{speaker} ".casefold()) else "other"
        )
        listener = context.voices.listener if context.voices else None
        spoken_to = [Mention(listener, "participant", "other")] if listener and listener in told else []
        mentions = merge_mentions((*draft.names, Mention(speaker, "participant", part), *spoken_to))
        named = {mention.name for mention in mentions}
        acting = [] if context.language != "en" else [n for n in acting_names(told) if n not in named]
        states = find_states(told, subjects=(*(mention.name for mention in mentions), *acting))
        proven = {state.entity for state in states}.intersection(acting)
        mentions = merge_mentions(
            (*mentions, *(Mention(name, "person", "subject") for name in acting if name in proven))
        )
        ends = [one.name for one in mentions]
        relations: Sequence[Relation] = ()
        if len(ends) > 1:
            relations = find_relations(told, names=ends, states=states, language=draft.language)
        kinds = with_kinds(draft.text, mentions, draft.language)
        names = {word for mention in mentions for word in mention.name.lower().split()}
        start, end, precision = valid_time(draft.date)
        text = draft.text if draft.whole else f'{speaker}: "{draft.text}"'
        return ExtractedFact(
            text=text,
            turns=draft.turns,
            speaker=context.turn.speaker,
            quote=kept_quote(context.turn.text, draft.raw),
            start=start,
            end=end,
            precision=precision,
            dates=draft.dates,
            negated=draft.negated,
            mentions=tuple(replace(one, name=ids.get(one.name, one.name)) for one in kinds),
            topics=find_topics(draft.text, names=names),
            states=tuple(replace(one, entity=ids.get(one.entity, one.entity)) for one in states),
            relations=tuple(
                Relation(ids.get(one.source, one.source), one.label, ids.get(one.target, one.target))
                for one in relations
            ),
        )


def read_statement(
    text: str, *, speaker: str, participants: Sequence[str], said: datetime, zone: tzinfo
) -> ExtractedFact:
    """Return a fact with its text as written, and the mentions, states, topics and time that local rules find in it.

    It is read as if `speaker` had said it at `said`, so "I" is the speaker and "yesterday" the day before; of a statement of
    these rules, ``Ana: "I live in Leeds."``, what is quoted. Deterministic.

    Args:
        text: the statement, one sentence or more.
        speaker: whose statement it is.
        participants: everybody who speaks in the session.
        said: when it counts as said, aware UTC.
        zone: in which days begin.
    """
    return _read(text, speaker, tuple(participants), said, zone)


@lru_cache(maxsize=1024)  # a correction is read again for each place where the statement was said
def _read(
    text: str, speaker: str, participants: tuple[str, ...], said: datetime, zone: tzinfo
) -> ExtractedFact:
    opening = f'{called(speaker, None, detect_language(text))}: "'
    spoken = text[len(opening) : -1] if text.startswith(opening) and text.endswith('"') else text
    turn = Turn(id="0", speaker=speaker, text=spoken, said=said, ordinal=0)
    chunk = Chunk(session_id="", ordinal=0, turns=(turn,), participants=participants)
    facts = LocalExtractor(timezone=zone).extract_chunk(chunk).candidates
    dated = next((one for one in facts if one.start is not None), None)
    alone = () if facts else (Mention(speaker, "participant", "other"),)
    return ExtractedFact(
        text=text,
        turns=(0,),
        speaker=speaker,
        quote=text,
        start=None if dated is None else dated.start,
        end=None if dated is None else dated.end,
        precision="unknown" if dated is None else dated.precision,
        negated=facts[0].negated if facts else negated(text),
        mentions=merge_mentions((*(one for each in facts for one in each.mentions), *alone)),
        topics=tuple(dict.fromkeys(topic for one in facts for topic in one.topics)),
        states=tuple(dict.fromkeys(state for one in facts for state in one.states)),
    )
