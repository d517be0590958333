"""What every public verb shares: a model of its options, the check of its arguments, and a span for each call.

A verb's signature is the one place where its options are declared: `options_of` makes the pydantic model from it, with the lines of
the docstring as descriptions, and Python, REST, MCP, the command line and the reference page are checked or made by that model.

Spans follow the GenAI conventions for memory; see `memforest.spans` and docs/observability.md.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import is_dataclass
from datetime import datetime
from functools import cache, partial, wraps
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    ParamSpec,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from memforest.errors import InputError
from memforest.read.results import AskResult, IngestResult, QueryResult
from memforest.settings import brief
from memforest.spans import PROVIDER, Span, captures, span, store_id
from memforest.store.database import GATE

if TYPE_CHECKING:
    from pydantic import BaseModel

MOST_RECORDS = 50
"""Most records that a span holds where texts are captured."""
_FACT = re.compile(r"f1:[0-9a-f]{32}")
"""The id of a fact; any other text may be the caller's own."""
_ARGUMENT = re.compile(r"^(?P<indent> +)(?P<name>\w+): (?P<text>.*)$")

_WORDS = {
    "bool_type": "give True or False",
    "int_type": "give a whole number",
    "string_type": "give a text",
    "string_too_short": "give some text",
    "greater_than_equal": "give at least {ge}",
    "less_than_equal": "give at most {le}",
}
"""Kinds of pydantic's errors -> what to do instead, in the words of this library."""

V = TypeVar("V", bound=Callable[..., Coroutine[Any, Any, Any]])
P = ParamSpec("P")
R = TypeVar("R")


def verb(operation: str = "") -> Callable[[V], V]:
    """Return a decorator that checks the arguments of an async verb and records each call as a span.

    Args:
        operation: of the conventions for spans; where they have none, the span is named by the verb.
    """

    def decorate(function: V) -> V:
        public = function.__name__
        signature = inspect.signature(function)
        name, about = described(public, operation)

        @wraps(function)
        async def call(*args: Any, **kwargs: Any) -> Any:
            with span(name, about) as current:
                try:
                    given = signature.bind(*args, **kwargs).arguments
                except TypeError:  # a required argument is missing or there are too many, as in any call; or:
                    for each in kwargs:
                        if each not in signature.parameters:
                            raise _unknown(public, each, signature.parameters) from None
                    raise
                check_options(public, function, {key: value for key, value in given.items() if key != "self"})
                if not current.recording:
                    return await function(*args, **kwargs)
                _describe_call(current, args[0], given)
                result = await function(*args, **kwargs)
                _describe_result(current, result)
                return result

        return cast("V", call)

    return decorate


def takes_options_of(
    other: Callable[Concatenate[Any, P], Coroutine[Any, Any, Any]],
) -> Callable[[Callable[..., Coroutine[Any, Any, R]]], Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]]:
    """Return a decorator that gives a method the signature of another verb, whose options it hands on."""
    return partial(_signed, other, ())


def takes_user_and_options_of(
    other: Callable[Concatenate[Any, P], Coroutine[Any, Any, Any]],
) -> Callable[
    [Callable[..., Coroutine[Any, Any, R]]], Callable[Concatenate[Any, str, P], Coroutine[Any, Any, R]]
]:
    """Return a decorator that gives a method of a forest the signature of a verb of a user, behind the user's id."""
    user = inspect.Parameter("user_id", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="str")
    return partial(_signed, other, (user,))


def _signed(other: Callable[..., Any], leading: tuple[inspect.Parameter, ...], function: Any) -> Any:
    signature = inspect.signature(other)
    self, *rest = signature.parameters.values()
    function.__signature__ = signature.replace(
        parameters=[self, *leading, *rest], return_annotation=inspect.signature(function).return_annotation
    )
    function.__takes_options_of__ = other
    return function


@cache
def options_of(function: Callable[..., Any]) -> type[BaseModel]:
    """Return the pydantic model of a verb's options: a field for each argument, with its default and description."""
    from pydantic import (  # at the first call, so that `import memforest` need not wait
        ConfigDict,
        Field,
        create_model,
    )

    own, other = _sources(function)
    hints = {**get_type_hints(other, include_extras=True), **get_type_hints(own, include_extras=True)}
    described = described_arguments(inspect.getdoc(other) or "") | described_arguments(
        inspect.getdoc(own) or ""
    )
    fields: dict[str, Any] = {}
    for each in inspect.signature(function).parameters.values():
        if each.name != "self":
            default = ... if each.default is each.empty else each.default
            fields[each.name] = (
                _by_instance(hints[each.name]),
                Field(default, description=described.get(each.name)),
            )
    title = "".join(part.title() for part in own.__name__.split("_"))
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    # A child that is forked while pydantic makes a model would wait for ever when it makes its own.
    with GATE.inside():
        return create_model(f"{title}Options", __config__=config, **fields)


def _sources(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the function of a verb itself, and the one that declares its options, mostly the same."""
    own = inspect.unwrap(function)
    return own, inspect.unwrap(getattr(function, "__takes_options_of__", own))


def described_arguments(doc: str) -> dict[str, str]:
    r"""Return the description of each argument from the ``Args:`` section of a docstring.

    Example:
        >>> described_arguments("Do it.\n\nArgs:\n    when: the time,\n        aware.\n    how: the way.\n")
        {'when': 'the time, aware.', 'how': 'the way.'}
    """
    found: dict[str, str] = {}
    inside, last, indent = False, "", 0
    for line in doc.splitlines():
        if line.strip() in ("Args:", "Raises:", "Returns:", "Example:"):
            inside = line.strip() == "Args:"
        elif inside and line.strip():
            at = len(line) - len(line.lstrip())
            if (match := _ARGUMENT.match(line)) and (not last or at <= indent):
                last, indent = match["name"], at
                found[last] = match["text"]
            elif last:
                found[last] += f" {line.strip()}"
    return found


def _by_instance(hint: Any) -> Any:
    """Replace dataclasses in a type by "an instance of it", which pydantic then does not look into."""
    from pydantic import InstanceOf

    if isinstance(hint, type) and is_dataclass(hint):
        return cast("Any", InstanceOf)[hint]
    if get_origin(hint) is Annotated or not get_args(hint):
        return hint
    if any(isinstance(one, type) and is_dataclass(one) for one in get_args(hint)):
        union = None
        for one in map(_by_instance, get_args(hint)):
            union = one if union is None else union | one
        return union
    return hint


def check_options(
    public: str, function: Callable[..., Any], given: Mapping[str, Any], but: Collection[str] = ()
) -> None:
    """Raise unless arguments, by name, are those of a verb, with types and ranges that its signature allows.

    Times and files are left to those who read them: `read_time` knows the zone, `check_path` what a path is.

    Args:
        public: the verb's name, for messages.
        function: the verb.
        given: the arguments.
        but: options that may not be given here.

    Raises:
        InputError: if there is no such option, a required one is missing, or one has a wrong type or is out of range.
    """
    from pydantic import ValidationError

    model, unchecked, pairs = _model(function)
    known = [each for each in model.model_fields if each not in but]
    for name, value in given.items():
        if name not in known:
            raise _unknown(public, name, known)
        if inspect.iscoroutinefunction(value):
            raise InputError(
                f"{public}({name}=...) takes a plain function, not an async one; it may start a task"
            )
        texts = [value] if isinstance(value, str) else value if isinstance(value, (list, tuple)) else ()
        try:
            for text in texts:
                if isinstance(text, str):
                    text.encode()
        except UnicodeEncodeError:
            raise InputError(f"{public}({name}) holds a lone surrogate; decode it as UTF-8 first") from None
    for name in known:
        if name not in given and model.model_fields[name].is_required():
            raise InputError(f"{public}() lacks {name!r}; it takes {', '.join(known)}")
    # A pair may come as a list, as out of JSON.
    asked = {
        key: tuple(value) if isinstance(value, list) and key in pairs else value
        for key, value in given.items()
        if key not in unchecked
    }
    try:
        model.__pydantic_validator__.validate_python(asked, strict=True)
    except ValidationError as exc:
        for error in exc.errors(include_url=False):
            where = str(error["loc"][0])
            if where in asked:  # else it is required and unchecked
                words = _WORDS.get(error["type"], error["msg"].replace("Input should be", "give", 1))
                wrong = words.format_map(error.get("ctx", {}))
                # A text in the place of something else may be what a user said: only a choice is shown again.
                choice = not isinstance(asked[where], str) or error["type"] == "literal_error"
                shown = f"{where}={brief(asked[where])}" if choice else where
                raise InputError(f"{public}({shown}): {wrong}") from None


def _unknown(public: str, name: object, known: Iterable[str]) -> InputError:
    names = ", ".join(each for each in known if each != "self")
    return InputError(f"{public}() has no option {brief(name)}; it takes {names}")


@cache
def _model(function: Callable[..., Any]) -> tuple[type[BaseModel], frozenset[str], frozenset[str]]:
    """Return the model of a verb's options, the names of those that it does not check, and of those that are tuples."""
    hints = {name: hint for source in _sources(function) for name, hint in get_type_hints(source).items()}
    unchecked = frozenset(name for name, hint in hints.items() if _holds(hint, (datetime, Path)))
    pairs = frozenset(
        name
        for name, hint in hints.items()
        if any(get_origin(one) is tuple for one in (hint, *get_args(hint)))
    )
    return options_of(function), unchecked, pairs


def _holds(hint: Any, kinds: tuple[type, ...]) -> bool:
    return (
        hint in kinds or get_origin(hint) is os.PathLike or any(_holds(one, kinds) for one in get_args(hint))
    )


def described(verb: str, operation: str) -> tuple[str, dict[str, str | int | float | bool]]:
    """Return name and attributes of the spans of a verb, and of the part of it that is about one user."""
    about: dict[str, str | int | float | bool] = {"gen_ai.provider.name": PROVIDER, "memforest.verb": verb}
    if operation:
        about["gen_ai.operation.name"] = operation
    return operation or f"memforest.{verb}", about


def count_upserted(current: Span, results: Iterable[object]) -> None:
    """Add to a span how many facts a write made or added to; nothing where no result is one of a write."""
    found = [one for one in results if isinstance(one, IngestResult)]
    if found:
        current.set("gen_ai.memory.record.count", sum(one.facts_inserted + one.facts_merged for one in found))


def _describe_call(current: Span, owner: object, given: Mapping[str, Any]) -> None:
    user = given.get("user_id", given.get("target_user_id", getattr(owner, "user_id", None)))
    if isinstance(user, str):
        current.set("gen_ai.memory.store.id", store_id(user))
    if isinstance(record := given.get("fact_id"), str) and _FACT.fullmatch(record):
        current.set("gen_ai.memory.record.id", record)
    if captures() and isinstance(question := given.get("question"), str):
        current.set("gen_ai.memory.query.text", question)


def _describe_result(current: Span, result: object) -> None:
    if isinstance(result, AskResult):
        result = result.result
    if isinstance(result, QueryResult):
        current.set("gen_ai.memory.record.count", len(result.evidence))
        if captures():
            shown = [{"id": one.fact_id, "content": one.text} for one in result.evidence[:MOST_RECORDS]]
            current.set("gen_ai.memory.records", json.dumps(shown, ensure_ascii=False))
    elif hasattr(result, "gone"):
        current.set("gen_ai.memory.record.count", result.gone.get("facts", 0))
    else:
        count_upserted(current, result if isinstance(result, list) else [result])
