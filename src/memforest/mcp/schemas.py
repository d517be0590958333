"""Functions as tools: their schemas in few tokens, and without the argument that a server for one user does not have."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

_EMPTY: tuple[object, ...] = (None, "", [])
_INNER = ("items", "additionalProperties")
_UNTOLD = ("title", "$defs", "minLength", "maxLength")


def compact(schema: Mapping[str, Any], *, nested: bool = True) -> dict[str, Any]:
    """Return a JSON Schema that says the same in fewer words.

    References are put in place, generated titles and descriptions of classes left out, and lengths of texts, which are checked
    all the same. What may be left out may not be null: the server takes null for an argument that is left out, and leaves it out
    of its results.

    Args:
        schema: as pydantic makes it, without references to itself.
        nested: say which fields of nested objects are always there.

    Example:
        >>> compact({"title": "A", "properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}}})
        {'properties': {'n': {'type': 'integer'}}}
    """
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    if not nested:
        definitions = {
            name: {key: value for key, value in one.items() if key != "required"}
            for name, one in definitions.items()
        }
    return _walk(schema, definitions)


def _walk(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    if "anyOf" in node:
        arms = [arm for arm in node["anyOf"] if arm != {"type": "null"}]
        rest = {key: value for key, value in node.items() if key != "anyOf"}
        node = {**rest, **arms[0]} if len(arms) == 1 else {**rest, "anyOf": arms}
        if "$ref" in node:
            return _walk(node, definitions)
    short: dict[str, Any] = {}
    for key, value in node.items():
        if _says_nothing(key, value, node):
            continue
        if key == "properties":
            short[key] = {name: _walk(one, definitions) for name, one in value.items()}
        elif key in _INNER and isinstance(value, Mapping):
            short[key] = _walk(value, definitions)
        elif key == "anyOf":
            short[key] = [_walk(one, definitions) for one in value]
        else:
            short[key] = value
    return short


def _says_nothing(key: str, value: object, node: Mapping[str, Any]) -> bool:
    if key == "description":
        return "properties" in node
    return (
        key in _UNTOLD
        or (key == "default" and value in _EMPTY)
        or (key == "additionalProperties" and value is True)
    )


def without(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return an async function without one argument, which is the empty text in every call.

    Args:
        function: whose annotations can be evaluated.
        name: of the argument.
    """
    signature = inspect.signature(function)
    hints = get_type_hints(function, include_extras=True)
    hints.pop(name)

    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs, **{name: ""})

    del call.__wrapped__  # else its annotations are read instead
    kept = [
        one.replace(annotation=hints[one.name]) for one in signature.parameters.values() if one.name != name
    ]
    call.__annotations__ = hints
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]  # what `inspect.signature` reads
        parameters=kept, return_annotation=hints.get("return", signature.return_annotation)
    )
    return call
