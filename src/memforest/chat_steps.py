"""The steps that a chat model can do: a registry, which an index extends.

A step is declared in data alone, so that knowing of it imports nothing: its prompts are files, and what reads a reply
is named as ``"module:name"`` and found when it is needed. The steps of an index are
registered by its module ``memforest.systems.NAME.steps``, which is imported when steps are first asked for, so that settings
know them before anything is opened.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, overload

from memforest.errors import ConfigError

_NAME = re.compile(r"[a-z][a-z_]{0,30}")
_DOTTED = r"(?!\d)\w+(?:\.(?!\d)\w+)*"
_PLACE = re.compile(f"{_DOTTED}:{_DOTTED}")
_INDEXES = "memforest.systems"


@dataclass(frozen=True, slots=True)
class ChatStep:
    """A kind of request to a chat model.

    Raises:
        ConfigError: if a name is none, or no reply is named as ``"module:name"``.
    """

    name: str
    """A lower-case word, as in `Config.chat_steps`, in usage and in traces."""
    does: str
    """What the model does, for people: "chooses the way down a tree"."""
    prompts: Mapping[str, str]
    """Id of each prompt -> ``"module:name"`` of the `Reply` that it asks for."""
    package: str = "memforest"
    """In whose folder ``prompts`` the prompts are, as ``ID.toml``."""
    waits: bool = field(default=False, kw_only=True)
    """Whether somebody waits for the reply, as in a query: such a call goes before those of writes."""

    def __post_init__(self) -> None:
        """Refuse what could not be found later."""
        for name in (self.name, *self.prompts):
            if not _NAME.fullmatch(name):
                raise ConfigError(f"{name!r} is no name of a step or prompt; give a lower-case word")
        if not self.prompts or not self.does.strip():
            raise ConfigError(f"step {self.name!r}: give at least one prompt, and say what the model does")
        for place in self.prompts.values():
            if not _PLACE.fullmatch(place):
                raise ConfigError(f"step {self.name!r}: {place!r} is no 'module:name'")

    def reply(self, prompt: str) -> Any:
        """Return the type of the reply to one of its prompts.

        Raises:
            ConfigError: if there is nothing of that name.
        """
        place = self.prompts[prompt]
        try:
            return pkgutil.resolve_name(place)
        except (ImportError, AttributeError) as exc:
            raise ConfigError(f"step {self.name!r} names {place!r}, which is not there: {exc}") from exc


_OWN = "memforest.steps.llm.replies:"
_EXPLORE = "memforest.steps.llm.explore_replies:"
_steps: dict[str, ChatStep] = {
    step.name: step
    for step in (
        ChatStep(
            "extract",
            "reads statements out of turns",
            {"extract": f"{_OWN}Extraction"},
        ),
        ChatStep(
            "judge",
            "tells whether statements say the same",
            {"judge": f"{_OWN}Judgement"},
        ),
        ChatStep(
            "summarise",
            "summarises the nodes of trees",
            dict.fromkeys(
                (
                    "consolidate",
                    "hmem_memory",
                    "summarise_conversation",
                    "summarise_entity",
                    "summarise_scene",
                    "summarise_session",
                    "timem_segment",
                    "timem_session",
                    "timem_day",
                    "timem_week",
                ),
                f"{_OWN}Summary",
            )
            | {"hmem_profile": f"{_EXPLORE}EntityFile", "timem_profile": f"{_OWN}Profile"},
        ),
        ChatStep(
            "plan",
            "says what to look for: in each recalled tree, how much of a memory a question needs, or in which parts",
            {
                "hmem_plan": f"{_EXPLORE}QuestionParts",
                "plan": f"{_OWN}BrowseGuide",
                "timem_plan": f"{_OWN}QuestionNeeds",
            },
            waits=True,
        ),
        ChatStep(
            "browse",
            "chooses the way down a tree",
            {"browse": f"{_OWN}BrowseChoice"},
            waits=True,
        ),
        ChatStep(
            "answer",
            "answers from the evidence, also a question in parts",
            {
                "answer": f"{_OWN}AnswerReply",
                "hmem_answer": f"{_OWN}AnswerReply",
                "hmem_reason": f"{_EXPLORE}Reasoning",
            },
            waits=True,
        ),
        ChatStep(
            "sift",
            "chooses which recalled memories help with a question, where an index asks",
            {"timem_gate": f"{_OWN}Sifted"},
            waits=True,
        ),
    )
}
"""The package's own; then those of indexes, in the order in which they were registered."""
_searched: set[tuple[str, ...]] = set()
"""Paths of the folder of indexes on which steps were looked for."""


def register_step(step: ChatStep) -> ChatStep:
    """Make a step known to settings, prompts, documentation and `doctor`; return it.

    The same step again changes nothing.

    Raises:
        ConfigError: if its name, or the id of one of its prompts, is another step's.
    """
    known = _steps.get(step.name)
    if known not in (None, step):
        raise ConfigError(f"there is a step {step.name!r} already; give this one another name")
    for prompt in step.prompts:
        owner = _owner(prompt)
        if owner not in (None, known):
            raise ConfigError(f"step {step.name!r}: prompt {prompt!r} is one of step {owner.name!r}")
    _steps[step.name] = step
    return step


def registered_steps() -> tuple[ChatStep, ...]:
    """Return all steps: the package's own, then those of indexes."""
    path = tuple(import_module(_INDEXES).__path__)
    if path not in _searched:
        for index in sorted(one.name for one in pkgutil.iter_modules(path) if one.ispkg):
            module = f"{_INDEXES}.{index}.steps"
            if find_spec(module) is not None:
                import_module(module)
        _searched.add(path)
    return tuple(_steps.values())


def step_names() -> tuple[str, ...]:
    """Return the names of all steps, in order."""
    return tuple(step.name for step in registered_steps())


def chat_step(name: str) -> ChatStep | None:
    """Return the step of a name, None if there is none."""
    return next((step for step in registered_steps() if step.name == name), None)


def prompt_step(prompt: str) -> ChatStep | None:
    """Return the step that a prompt belongs to, None if it belongs to none."""
    registered_steps()
    return _owner(prompt)


def _owner(prompt: str) -> ChatStep | None:
    return next((step for step in _steps.values() if prompt in step.prompts), None)


class StepNames(Sequence[str]):
    """The names of all steps that are registered at the moment, in order.

    Example:
        >>> "extract" in STEPS, STEPS[0]
        (True, 'extract')
    """

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        return step_names()[at]

    def __len__(self) -> int:
        return len(registered_steps())

    def __repr__(self) -> str:
        return repr(step_names())


STEPS: Sequence[str] = StepNames()
"""The names of the steps that a chat model can do."""
