"""The steps of a memory, chosen once from its configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from memforest.config import Config, is_reranker
from memforest.endpoint import ChatEndpoint
from memforest.errors import ConfigError
from memforest.models.calls import Calls, Trace
from memforest.models.catalog import MS_MARCO, open_reranker
from memforest.models.local import CallableReranker
from memforest.ports import (
    Answerer,
    BrowsePlanner,
    Browser,
    Extractor,
    Judge,
    Planner,
    Reranker,
    Summariser,
    is_remote,
)
from memforest.reading.answer_local import LocalAnswerer
from memforest.reading.extract_local import LocalExtractor
from memforest.reading.plan_local import RulePlanner
from memforest.reading.summarise_local import LocalSummariser

if TYPE_CHECKING:
    from memforest.reading.prompts import Value
    from memforest.reading.replies import Reply


R = TypeVar("R", bound="Reply")

LOCAL_SUMMARY_WORDS = 60
CHAT_SUMMARY_WORDS = 200
"""Most words of a summary when the configuration does not say (reference configuration: 200)."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The model-shaped steps that a memory runs."""

    extractor: Extractor
    summariser: Summariser
    planner: Planner
    answerer: Answerer
    fallback: Answerer = field(default_factory=LocalAnswerer)
    """Answers where the answerer fails: without any model."""
    reader: Extractor = field(default_factory=LocalExtractor)
    """Reads the chunks on which the extractor fails: without any model."""
    reranker: Reranker | None = None
    """None when the best candidates are not read again."""
    judge: Judge | None = None
    """None when rules alone decide about near-duplicates."""
    guide: BrowsePlanner | None = None
    """None when trees are browsed by the question itself."""
    browser: Browser | None = None
    """None when trees are browsed by embedding."""
    summary_words: int = LOCAL_SUMMARY_WORDS
    """Most words of a summary."""
    summary_length: str = ""
    """What is noted behind the maker of a summary where their length is set, so that those of another one are stale."""
    calls: Calls | None = None
    """The way to the chat model."""
    by_chat: frozenset[str] = frozenset()
    """The steps that go there."""

    async def ask(
        self,
        prompt: str,
        reply: type[R],
        values: Mapping[str, Value],
        *,
        max_tokens: int = 1_024,
        check: Callable[[R], str | None] | None = None,
    ) -> R:
        """Send a prompt of a registered step to the chat model, and return its reply.

        Data goes into the prompt as rows between tags; the call is counted in the ledger of the operation under way,
        bounded by its budget and written to the trace; an unusable reply is sent back once, with what is wrong.

        Args:
            prompt: its id.
            reply: the type that its step names for the reply.
            values: the prompt's variables: numbers and rows of data.
            max_tokens: most tokens of the reply.
            check: returns what is wrong with a well-formed reply, None if nothing.

        Raises:
            ConfigError: if there is no such prompt, its reply is of another type, or no chat model does its step.
            ReplyError: if the second reply is unusable, too.
            BudgetError, ModelUnavailableError, ModelRefusedError, ModelRequestError: as `Calls.complete`.
        """
        from memforest.reading.prompts import ask, load_prompt

        found = load_prompt(prompt)
        if found.reply is not reply:
            raise ConfigError(f"prompt {prompt!r} asks for {found.reply.__name__}, not for {reply.__name__}")
        if self.calls is None or found.step not in self.by_chat:
            raise ConfigError(
                f"step {found.step!r} needs a chat model: give Config(chat=...) with {found.step!r} in chat_steps"
            )
        return await ask(self.calls, found, values, max_tokens=max_tokens, check=check)

    async def close(self) -> None:
        """Close the connections to a chat model that the configuration names; the next call opens new ones."""
        if self.calls is not None:
            await self.calls.close()

    @property
    def extracts_apart(self) -> bool:
        """Whether the extractor asks a model for every chunk, so that all sessions of a call go to it at once."""
        return is_remote(self.extractor)


def choose_steps(config: Config) -> Steps:
    """Return the configured steps: an object named in the configuration, else the chat model, else the local one.

    Raises:
        ConfigError: if there is no such reranker, or `chat` is no model.
        WeightsError: if the reranker is asked for and its weights are not installed.
    """
    calls = _calls(config)
    by_chat = {} if calls is None else _by_chat(calls, config)
    reranker = choose_reranker(config)
    local = LocalAnswerer(
        threshold=config.answer_threshold,
        reranker="" if reranker is None else reranker.model_id,
        zone=config.zone,
    )
    return Steps(
        extractor=config.extractor or by_chat.get("extract") or LocalExtractor(timezone=config.zone),
        reader=LocalExtractor(timezone=config.zone),
        summariser=config.summariser or by_chat.get("summarise") or LocalSummariser(),
        planner=config.planner or RulePlanner(zone=config.zone),
        answerer=config.answerer or by_chat.get("answer") or local,
        fallback=local,
        reranker=reranker,
        judge=by_chat.get("judge"),
        guide=by_chat.get("plan"),
        browser=by_chat.get("browse"),
        summary_words=config.summary_words
        or (CHAT_SUMMARY_WORDS if "summarise" in by_chat else LOCAL_SUMMARY_WORDS),
        summary_length="" if config.summary_words is None else f", {config.summary_words} words",
        calls=calls,
        by_chat=frozenset() if calls is None else frozenset(config.chat_steps),
    )


def _calls(config: Config) -> Calls | None:
    """Return the way to the configured chat model."""
    chat = config.chat
    if chat is None:
        return None
    trace = None if config.trace is None else Trace(config.trace, clock=config.clock, redact=config.redact)
    if isinstance(chat, ChatEndpoint):
        from memforest.models.openai import OpenAIChat

        model = OpenAIChat(chat)
        return Calls(model, max_in_flight=chat.max_in_flight, trace=trace, close=model.close)
    return Calls(chat, trace=trace)  # a ChatModel, as `Config` has checked


def _by_chat(calls: Calls, config: Config) -> dict[str, Any]:
    """Return step -> what asks the chat model; imported here, as most memories need none of it."""
    from memforest.reading.extract_llm import ChatExtractor
    from memforest.reading.steps_llm import ChatAnswerer, ChatBrowser, ChatGuide, ChatJudge
    from memforest.reading.summarise_llm import ChatSummariser

    made: dict[str, Callable[[], Any]] = {
        "extract": lambda: ChatExtractor(calls, timezone=config.zone),
        "judge": lambda: ChatJudge(calls),
        "summarise": lambda: ChatSummariser(calls, timezone=config.zone),
        "plan": lambda: ChatGuide(calls, timezone=config.zone),
        "browse": lambda: ChatBrowser(calls, timezone=config.zone),
        "answer": lambda: ChatAnswerer(calls, timezone=config.zone),
    }
    return {step: make() for step, make in made.items() if step in config.chat_steps}


def choose_reranker(config: Config) -> Reranker | None:
    """Return the configured reranker, None where there is none. Errors are those of `choose_steps`."""
    value, embedder = config.reranker, config.embedder
    if value == "auto":  # it was fitted beside what the local embedders find
        local = isinstance(embedder, str) and not embedder.startswith(("none", "hash-words"))
        value = "local" if local and MS_MARCO.find() is not None else None
    if value is None or value == "none":
        return None
    if isinstance(value, str):
        return open_reranker(value)
    if is_reranker(value):
        return value
    assert callable(value)  # a function, as `Config` has checked
    name = getattr(value, "__name__", type(value).__name__)
    return CallableReranker(value, model_id=f"callable:{name}")
