"""The chat-request features that one model of one endpoint supports: learnt from its complaints, then kept.

Endpoints that speak "OpenAI" differ in three things: how JSON is asked for (a schema, JSON of any shape, or words
alone), what the bound of a reply is called, and whether a temperature may be named. A request that is refused for one
of these (400, 422) is put in other words and sent again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from memforest.endpoint import ChatEndpoint
from memforest.models.base import ChatRequest

Form = Literal["schema", "json", "text"]

_FORM = re.compile(
    r"response[_ ]format|json[_ ]schema|json[_ ]object|json mode|structured[_ ]output|guided|grammar"
)
_BOUND = re.compile(r"\bmax_(?:completion_)?tokens\b")
_TEMPERATURE = re.compile(r"\btemperature\b")
_REFUSED = re.compile(
    r"support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|not available|deprecated|extra (?:input|field)"
)
"""Without one of these, a complaint that names a parameter is about its value."""
_LENGTH = re.compile(
    r"context[_ ](?:length|window|size)|maximum (?:context|input|sequence|model)|too (?:long|large|many tokens)"
    r"|token limit|max(?:imum)? (?:number of )?tokens|input length|exceeds? .{0,40}(?:tokens|length|limit)"
)


def is_about_length(complaint: str) -> bool:
    """Return whether a server's complaint, in lower case, is that the input is too long.

    Example:
        >>> is_about_length("this model's maximum context length is 8192 tokens"), is_about_length("no such field")
        (True, False)
    """
    return _LENGTH.search(complaint) is not None


@dataclass(frozen=True, slots=True)
class Dialect:
    """How requests are put to one model.

    `bound` is the name of the field that bounds a reply, `swapped` says that it is the second one tried.
    """

    form: Form
    bound: Literal["max_tokens", "max_completion_tokens"]
    swapped: bool = False
    temperature: bool = True

    @classmethod
    def first(cls, endpoint: ChatEndpoint, *, openai: bool) -> Dialect:
        """Return the dialect to try first; OpenAI's own models accept only the newer name of the token bound."""
        form: Form = "schema" if endpoint.structured == "auto" else endpoint.structured
        return cls(form, "max_completion_tokens" if openai else "max_tokens")

    def body(self, endpoint: ChatEndpoint, request: ChatRequest) -> dict[str, Any]:
        """Return the fields of a request's body, `ChatEndpoint.extra_body` apart."""
        messages = [{"role": one.role, "content": _sendable(one.content)} for one in request.messages]
        body: dict[str, Any] = {
            "model": endpoint.model,
            "messages": messages,
            self.bound: endpoint.max_reply_tokens or request.max_tokens,
        }
        if endpoint.temperature is not None and self.temperature:
            body["temperature"] = endpoint.temperature
        if request.schema is None:
            return body
        if self.form == "schema":
            schema = strict(request.schema) if request.strict else request.schema
            shape = {"name": request.step, "schema": schema, "strict": request.strict}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
            return body
        if self.form == "json":
            body["response_format"] = {"type": "json_object"}
        if messages:
            # At the end, so that what all requests of a step begin with stays the same.
            messages[-1]["content"] += _in_words(request.schema)
        return body

    def without(self, complaint: str, body: Mapping[str, Any], *, may_reform: bool) -> Dialect | None:
        """Return what to try after a complaint, None when it is about something else.

        Args:
            complaint: what the server said, in lower case.
            body: what was sent.
            may_reform: whether JSON may be asked for in another way (``structured="auto"``).
        """
        refused = _REFUSED.search(complaint) is not None and not is_about_length(complaint)
        if refused and "temperature" in body and _TEMPERATURE.search(complaint):
            return replace(self, temperature=False)
        if refused and not self.swapped and _BOUND.search(complaint):
            other: Any = "max_tokens" if self.bound != "max_tokens" else "max_completion_tokens"
            return replace(self, bound=other, swapped=True)
        if may_reform and "response_format" in body and _FORM.search(complaint):
            return replace(self, form="json" if self.form == "schema" else "text")
        return None


def _sendable(text: str) -> str:
    """Return a text without lone surrogates, which cannot be encoded."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _in_words(schema: Mapping[str, Any]) -> str:
    written = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return f"\n\nReply with one JSON object and nothing else. It must fit this JSON schema:\n{written}"


def strict(schema: Any) -> Any:
    """Return a JSON schema as strict servers want it: every property required, no others, no defaults.

    Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas

    Example:
        >>> strict({"type": "object", "properties": {"a": {"type": "integer", "default": 1}}})["required"]
        ['a']
    """
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            made[key] = {name: strict(one) for name, one in value.items()}  # names, not keywords
        elif key in ("enum", "const"):
            made[key] = value
        elif key != "default":
            made[key] = strict(value)
    if isinstance(schema.get("properties"), Mapping):
        made["required"] = list(schema["properties"])
        made["additionalProperties"] = False
    return made
