r"""The ports: what may stand for a model or a step in `Config`, and the lines of profiles that steps exchange.

Each port is a protocol: an object with these attributes will do, of whatever class; `memforest.config` says which setting
takes which. `remote`, `embed_questions`, `known_shares` and `answer_parts` are optional; the functions `is_remote` and
`embed_questions`, and `memforest.read.views.known_shares`, say what holds of an object that lacks them.

Every port takes a batch, so that a local implementation can loop in one worker thread and a remote one can have the whole batch
in flight. A step never raises for one bad input of a batch: it returns a failure in that input's place.

The text of a profile has a section for each participant, with the name as its heading and a fact a line:

>>> text = join_sections([("Ana", ["Lives in Lisbon since 2023-05-04.", "Works as a\nnurse."]), ("Ben", [])])
>>> print(text)
## Ana
- Lives in Lisbon since 2023-05-04.
- Works as a nurse.
>>> split_sections(text)
[('Ana', ['Lives in Lisbon since 2023-05-04.', 'Works as a nurse.'])]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from memforest.errors import ModelError
from memforest.records import (
    BrowsePlan,
    Chunk,
    ChunkOutcome,
    Equivalence,
    Precision,
    QuestionPlan,
    SpokenText,
    SummaryRequest,
    TreeCard,
)
from memforest.times import Interval, format_interval, from_ms, one_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """Maps texts to unit vectors. A text's vector depends on the text alone, never on its company.

    It may also have the parts of `Remote` and `EmbedsQuestions`. A model whose vocabulary lacks whole scripts may have
    ``known_shares(texts)``: for each text, in order, the share of it that the model has words for, 0 to 1. A text
    without letters has 1. A ranking counts the vector of a text by that share, and its words for the rest. It is
    called on every text of
    a script other than Latin when a memory is opened, so it should cost no more than cutting the text into tokens.
    """

    model_id: str
    """Identity stored beside every vector, e.g. ``"minilm-l6-v2-int8@8199be6f"``."""
    dimension: int

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit row per text, in order; float32, shape (n, dimension).

        Raises:
            ModelError: if the model cannot be used.
        """
        ...


class Reranker(Protocol):
    """Reads a question and a text together and says how well the text answers it."""

    model_id: str
    """Identity shown in traces, e.g. ``"ms-marco-minilm-l12-int8@1225ccd6"``."""

    async def score(self, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return one finite number per text, in order, higher is better; float64 of shape (n,).

        A text's score depends on the question and the text alone, never on its company. Only differences
        between the scores of one call are used, so any scale will do.

        Raises:
            ModelError: if the model cannot be used.
        """
        ...


STANDS = ("nothing", "stands", "changes", "ends", "past", "planned", "denied")
"""What a text says about the thing that a question asks for: nothing; it is so; it has become so; it is over; it was
so once; it is planned; it is denied."""


@runtime_checkable
class ReadsStates(Protocol):
    """An optional part of `Reranker`, for one that also tells how what is asked about stands."""

    async def read_states(self, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return for each text its score and how likely each of `STANDS` is; float64 of shape (n, 1 + 7). Errors are those of `score`."""
        ...


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat request."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a step asks a chat model.

    `step` names the step ("extract", "judge", "summarise", "place", "plan", "browse", "answer"). The first message is
    the same for all requests of a step, so that servers can keep its prefix. `schema` is the JSON schema of the reply,
    or None for plain text. `strict` says that every property is required, so a server with strict schemas can enforce
    it. `max_tokens` bounds the reply.
    """

    step: str
    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    max_tokens: int = 1024
    strict: bool = True


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a chat model returned.

    `finish` is ``"length"`` when the reply was cut at `max_tokens`. `cached_tokens` are those prompt tokens
    that the server had kept. `retries` counts how often the call was tried again before it succeeded.
    """

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    finish: Literal["stop", "length"] = "stop"
    retries: int = 0


class ChatModel(Protocol):
    """Answers chat requests; safe to call many times at once, from any event loop."""

    model_id: str
    """Recorded with everything that is made with its replies, e.g. ``"qwen3-30b"``."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Return the reply to a request.

        Raises:
            ModelUnavailableError: if the model cannot be reached, after retries.
            ModelRefusedError: if no call to the model can succeed until a setting is mended.
            ModelRequestError: if this request is not accepted.
        """
        ...


class Extractor(Protocol):
    """Turns chunks into candidate statements (paper §4.1). It may have the part of `Remote` too."""

    name: str
    """Name and version, recorded with what it made, e.g. ``"local-1"``."""

    async def extract(self, chunks: Sequence[Chunk]) -> list[ChunkOutcome]:
        """Return one outcome per chunk, in order."""
        ...


class Summariser(Protocol):
    """Summarises inner nodes from their children (paper Alg. 1)."""

    name: str

    async def summarise(self, requests: Sequence[SummaryRequest]) -> Sequence[str | ModelError]:
        """Return one summary per request, in order, with an error in the place of one that could not be made.

        A node whose summary failed stays dirty, and so does all above it. One that is `memforest.ports.UnchangedText`
        needs no embedding inside a tree: its vector is the mean of its children's. A request that wants every node
        summarised gets none that is.

        A method ``maker_of(request) -> str`` may return the name that is stored with each summary. It should have a
        version for each `SummaryRequest.prompt`, so a changed prompt makes only its own summaries stale.
        Otherwise all are noted with `name`.
        """
        ...


class Planner(Protocol):
    """Reads a question: which entities, which attribute, which time operator, which words are its topic.

    Nobody reads a question again behind it: an index knows the plan, search tokens and vectors, and no text. The text
    itself goes to the embedder, to a reranker, and to the steps that write for it: a browse planner and an answerer.
    """

    name: str

    async def plan(self, question: str, *, reference: datetime, names: Mapping[str, str]) -> QuestionPlan:
        """Return the plan of a question.

        Args:
            question: as the user typed it.
            reference: aware UTC; what "now" and "last month" are relative to.
            names: every surface form the memory knows (case-folded) -> the entity's display name.
        """
        ...


@dataclass(frozen=True, slots=True)
class AnswerEvidence:
    """One ranked piece of evidence as an answerer sees it. Times are aware UTC; `speaker` said the quote, the whole turn.

    `text` is for people. `spoken` has the words with their speakers, and is empty if a model worded the text.
    `statement` is the text of the fact, and is empty for a turn or a summary; see `Evidence`. `precision` is how
    exactly the
    statement states its time. A summary has neither speaker nor quote: `turns` is how many turns it sums up, from `start` to
    `end`. `before` are speaker and text of the turn before the quote, which it may reply to; both are empty for the first of a
    session. `leads` says that time order chose it and put it first, `perhaps` that this is only likely, and `value` is the value of
    its timeline, if it has one.

    `place` is its place in the first ranking, from 0, and `relevance` that of `Evidence`. `succeeds` is how likely, in 0..1, it tells
    how something stands since another piece told it, and `ended` how likely another piece does so of this one. `by_assistant` says
    whose words they are, and `logit` what a cross-encoder made of the question and the piece, if one read them.
    """

    text: str
    quote: str
    said: datetime
    start: datetime | None = None
    end: datetime | None = None
    score: float = 0.0
    speaker: str = ""
    turns: int | None = None
    statement: str = ""
    spoken: tuple[SpokenText, ...] = ()
    precision: Precision = "unknown"
    before: tuple[str, str] = ("", "")
    leads: bool = False
    value: str = ""
    perhaps: bool = False
    place: int | None = None
    relevance: float | None = None
    succeeds: float = 0.0
    ended: float = 0.0
    by_assistant: bool = False
    logit: float | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """A part of a question, and what was concluded about it from its own evidence; empty where nothing was."""

    text: str
    answer: str


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with the indices of the evidence it rests on; `text` is None when it abstains, and `reason` says why.

    `score` is how sure the answerer is of it, in [0, 1], of an abstention how sure it would have been; None where it does
    not say. `nearest` is the index of the evidence that comes nearest to an answer, where it abstains and there is any.
    """

    text: str | None
    cited: tuple[int, ...] = ()
    reason: str = ""
    score: float | None = None
    nearest: int | None = None


class Answerer(Protocol):
    """Answers a question from ranked evidence, or abstains."""

    name: str

    async def answer(
        self, question: str, *, plan: QuestionPlan, reference: datetime, evidence: Sequence[AnswerEvidence]
    ) -> Answer:
        """Return an answer that cites its evidence, or one whose text is None.

        Raises:
            StepError: if there is no usable answer; the local answerer then answers.
        """
        ...


class Remote(Protocol):
    """An optional part of `Embedder` and `Extractor`: whether each call asks a server, whose time is not ours.

    What is remote gets its work at once, so that its waits overlap: an extractor the chunks of all sessions, an
    embedder all statements of a session in one call. Without it, it is False.
    """

    remote: bool


class EmbedsQuestions(Protocol):
    """An optional part of `Embedder`, for models that want an instruction in front of questions.

    Without it, questions are embedded like any text.
    """

    async def embed_questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return what `Embedder.embed` returns, for questions."""
        ...


@runtime_checkable
class AnswersParts(Protocol):
    """An optional part of `Answerer`, for one that puts an answer together where an index took the question apart.

    Without it, the question is answered from the evidence of all its parts.
    """

    parts_name: str
    """Name and version of this part, shown in traces."""

    async def answer_parts(
        self,
        question: str,
        *,
        plan: QuestionPlan,
        reference: datetime,
        evidence: Sequence[AnswerEvidence],
        parts: Sequence[Settled],
    ) -> Answer:
        """Return what `Answerer.answer` returns, given what was concluded about the parts.

        Raises:
            StepError: as `Answerer.answer`.
        """
        ...


def is_remote(port: object) -> bool:
    """Return whether a model or step says that each of its calls asks a server."""
    return hasattr(port, "remote") and bool(port.remote)


async def embed_questions(embedder: Embedder, questions: Sequence[str]) -> NDArray[np.float32]:
    """Embed questions: in the embedder's own way, or like any text where it has none.

    Raises:
        ModelError: if the model cannot be used.
    """
    embed = embedder.embed_questions if hasattr(embedder, "embed_questions") else embedder.embed
    found: NDArray[np.float32] = await embed(questions)
    return found


LineKind = Literal["state", "change", "event", "said", "entity", "relation", "fact", "written"]
"""What a line is; ``"written"`` is one that a chat model wrote. A ``"relation"`` or a ``"fact"`` is in the profile of an entity."""
StatedSpan = tuple[int, int | None, Precision]
"""The time that a fact states, [start, end) in UTC ms, and how exactly; no end where it is open."""
MOST_SOURCES = 32
"""Sources of a line: the first half and the last half of more."""

_HEADING, _ITEM = "##", "-"


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A line of one participant's profile, with the rows of the facts and turns that it rests on, in the order they were said."""

    participant: str
    text: str
    kind: LineKind
    facts: tuple[int, ...]
    turns: tuple[int, ...]


def ends_of(sources: Sequence[int]) -> tuple[int, ...]:
    """Return each source once, of many the first and the last ones.

    >>> len(ends_of(range(100))), ends_of([3, 3, 1])
    (32, (3, 1))
    """
    once = tuple(dict.fromkeys(sources))
    half = MOST_SOURCES // 2
    return once if len(once) <= MOST_SOURCES else (*once[:half], *once[-half:])


def stated_time(span: StatedSpan, zone: tzinfo) -> str:
    """Return a time as exact as it is stated, of several days the first and the last; of an open one the beginning."""
    start_ms, end_ms, precision = span
    start = from_ms(start_ms)
    closed = Interval.at(start) if end_ms is None else Interval(start, from_ms(end_ms))
    exact: Precision = "day" if precision in ("instant", "week", "unknown") else precision
    return format_interval(closed, exact, zone=zone, style="iso").replace("/", " to ")


def since_text(start_ms: int, span: StatedSpan | None, zone: tzinfo, *, began: bool) -> str:
    """Return since when something is so: from its first fact, which may state a time.

    Args:
        start_ms: when it was first so, as far as is known.
        span: the time that its first fact states.
        zone: whose days are written.
        began: whether it was told as a beginning.
    """
    sure = span is not None and (began or span[1] is None)
    stated = span if span is not None and span[0] == start_ms else (start_ms, None, "day")
    return f"{'since' if sure else 'known since'} {stated_time(stated, zone)}"


def join_sections(sections: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return the text of sections, each a name with its lines; what `split_sections` reads back.

    Names and lines are put on one line each, so that neither can begin a section. Blank lines are left out, and sections
    without a line. Of one name there is one section, where it comes first, with the lines of all.
    """
    held: dict[str, list[str]] = {}
    for name, lines in sections:
        held.setdefault(one_line(name), []).extend(whole for line in lines if (whole := one_line(line)))
    made: list[str] = []
    for name, lines in held.items():
        if lines:
            made += (f"{_HEADING} {name}".rstrip(), *(f"{_ITEM} {line}" for line in lines))
    return "\n".join(made)


def split_sections(text: str) -> list[tuple[str, list[str]]]:
    """Return the sections of a profile's text, in order: each a name and its lines.

    A text of another form loses nothing: text before the first heading goes into a section with the name "", and a
    line without a dash counts as a line. Sections of one name are one, as `join_sections` writes them.
    """
    held: dict[str, list[str]] = {}
    name = ""
    for whole in filter(None, map(one_line, text.splitlines())):
        mark, _, rest = whole.partition(" ")
        if mark == _HEADING:
            name = rest
        elif line := rest if mark == _ITEM else whole:
            held.setdefault(name, []).append(line)
    return list(held.items())


class Judge(Protocol):
    """Says whether statements that are near each other are one fact (paper §4.1)."""

    name: str

    async def judge(self, questions: Sequence[Equivalence]) -> list[int | None]:
        """Return per question which of the known statements says the same as the new one, or None for none.

        In doubt it is None: a missed merge costs a line of context, a false one destroys a memory.

        Raises:
            ModelError: if nothing of it could be judged.
        """
        ...


class UnchangedText(str):
    """A summary made of the children's texts, unchanged because they are short.

    A node with such a summary needs no embedding inside a tree: its vector is the mean of its children's.
    """

    __slots__ = ()


class BrowsePlanner(Protocol):
    """Says what to look for in each of the recalled trees (paper §4.3)."""

    name: str

    async def plan_browse(
        self, question: str, *, plan: QuestionPlan, reference: datetime, trees: Sequence[TreeCard]
    ) -> BrowsePlan:
        """Return the sub-queries of each tree.

        Raises:
            StepError: if there is no usable plan; the trees are then browsed by the question itself.
        """
        ...


class Browser(Protocol):
    """Chooses where to go down in a tree (paper §4.3, LLM-guided browse)."""

    name: str

    async def choose(
        self, query: str, *, reference: datetime, children: Sequence[TreeCard], most: int
    ) -> list[int]:
        """Return the positions of the promising children, best first, at most `most`; none when none is.

        Raises:
            StepError: if there is no usable choice; the tree is then browsed by embedding.
        """
        ...
