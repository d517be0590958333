"""The replies that model-guided steps expect (one pydantic model each, and its JSON schema), and reading them out of a text.

A list is read item by item: an item that does not fit is dropped and noted, and the others stay. What a model adds
is left aside. The schemas are those that strict structured output takes: every property required, no others allowed,
null by `anyOf`, nothing referred to (https://platform.openai.com/docs/guides/structured-outputs). That of a `sparse`
reply is not: what has a default may be left out of it. A property that says nothing costs a write about four tokens a
statement, and what a write waits for is the longest reply.

JSON is read whatever it is wrapped in, and as much of it as is complete. A reply that fits its model is well formed, no more:
whether it is true is checked by the step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_serializer,
    model_validator,
)

from memforest.times import printable

T = TypeVar("T")

_DROPPED = object()


def _as_list(value: Any) -> Any:
    """Return a value as a list: None as an empty one, a single item as a list of it."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _or_dropped(value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Return the item, or `_DROPPED` for an invalid one; the reason is added to the context's list."""
    try:
        return handler(value)
    except ValidationError as exc:
        if isinstance(info.context, list):
            info.context.append(f"an item of {info.field_name or 'a list'} was left out: {problems_of(exc)}")
        return _DROPPED


def _without_dropped(items: list[Any]) -> list[Any]:
    return [item for item in items if item is not _DROPPED]


Items = Annotated[
    list[Annotated[T, WrapValidator(_or_dropped)]],
    BeforeValidator(_as_list),
    AfterValidator(_without_dropped),
]
"""A list whose bad items are dropped."""


def _or_none(value: Any) -> Any:
    """Return None for a text such as "null" or "n/a", any other value unchanged."""
    if isinstance(value, str) and value.strip().lower() in ("", "null", "none", "n/a", "unknown"):
        return None
    return value


MaybeText = Annotated[str | None, BeforeValidator(_or_none)]
MaybeNumber = Annotated[int | None, BeforeValidator(_or_none)]
Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


def one_of(kind: Any, other: str) -> BeforeValidator:
    """Return what reads one of a `Literal`'s texts, in any case; `other` stands for anything else."""

    def read(value: Any) -> str:
        folded = value.strip().lower() if isinstance(value, str) else ""
        return folded if folded in get_args(kind) else other

    return BeforeValidator(read)


class Reply(BaseModel):
    """A reply of a model, with notes on how it was read."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True, coerce_numbers_to_str=True)
    sparse: ClassVar[bool] = False
    """Whether fields with a default may be left out, so that the schema is not strict."""
    _notes: list[str] = PrivateAttr(default_factory=list)

    @field_validator("*", mode="before")
    @classmethod
    def _printable(cls, value: Any) -> Any:
        """Remove control characters and lone surrogates, which a model may escape in its JSON."""
        if isinstance(value, list):
            return [printable(one) if isinstance(one, str) else one for one in value]
        return printable(value) if isinstance(value, str) else value

    def to_json(self) -> str:
        """Return the reply as a model would write it, without fields that may be left out."""
        return self.model_dump_json(exclude_defaults=self.sparse)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on items left out of the reply, and on a cut."""
        return tuple(self._notes)

    def note(self, text: str) -> None:
        """Add a note."""
        self._notes.append(text)


class EntityReply(Reply):
    """An entity that a fact names, and its kind in the model's words.

    The name alone will do. The kind matters for names without capitals, which would pass for common nouns.
    """

    name: str
    type: Text = ""

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        """Read a text as a name."""
        return {"name": value} if isinstance(value, str) else value

    @model_serializer
    def _short(self) -> Any:
        """Write a name without a kind as a text."""
        return {"name": self.name, "type": self.type} if self.type else self.name

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Allow a text in the place of the object."""
        return {"anyOf": [{"type": "string"}, handler.resolve_ref_schema(handler(core))]}


Change = Literal["is", "start", "end"]
Kind = Literal["event", "state", "preference", "plan", "detail"]


class Relation(Reply):
    """One attribute of one entity (`memforest.records.State`), or a verb that joins it to another (`memforest.records.Relation`)."""

    entity: str
    attribute: Text = ""
    verb: Text = ""
    value: str
    previous: MaybeText = None
    change: Annotated[Change, one_of(Change, "is")] = "is"


class FactReply(Reply):
    """A fact that a model read out of a chunk.

    `quote` is what it rests on, copied letter by letter out of one of `turns`; `start` is a day that its words of time mean.
    """

    quote: str
    text: str
    turns: Items[int] = []
    kind: Annotated[Kind, one_of(Kind, "event")] = "event"
    start: MaybeText = None
    negated: Annotated[bool, BeforeValidator(lambda value: False if value is None else value)] = False
    entities: Items[EntityReply] = []
    topics: Items[str] = []
    relations: Items[Relation] = []


class Extraction(Reply):
    """Reply of the step "extract"."""

    sparse = True
    statements: Items[FactReply]


class Verdict(Reply):
    """A judge's answer to one question: the number of the known fact that says the same, or None."""

    question: int
    same: MaybeNumber = None


class Judgement(Reply):
    """Reply of the step "judge"."""

    verdicts: Items[Verdict]


class Summary(Reply):
    """Reply of the step "summarise"."""

    summary: str


class ProfileSection(Reply):
    """The lines of a profile about one participant."""

    name: str
    lines: Items[str]


class Profile(Reply):
    """Reply of the step "summarise" about a month: a section for each participant."""

    sections: Items[ProfileSection]


class TreeQueries(Reply):
    """The queries for one of the trees that a planner was shown, with its number."""

    tree: int
    queries: Items[str]


class BrowseGuide(Reply):
    """Reply of the step "plan"; see `memforest.records.BrowsePlan`."""

    kind: MaybeText = None
    anchor: MaybeText = None
    trees: Items[TreeQueries]


class BrowseChoice(Reply):
    """Reply of the step "browse": the numbers of the promising children, best first."""

    ranked: Items[int]


def _digit(value: Any) -> Any:
    """Return a complexity written as a text as a number."""
    return int(value) if isinstance(value, str) and value.strip() in ("0", "1", "2") else value


class QuestionNeeds(Reply):
    """Reply of the step "plan" about a question alone: how much of a memory it needs, and words to look for."""

    complexity: Annotated[Literal[0, 1, 2], BeforeValidator(_digit)]
    keywords: Items[str]


class Sifted(Reply):
    """Reply of the step "sift": the numbers of the memories that help, the most useful first."""

    relevant: Items[int]


class AnswerReply(Reply):
    """Reply of the step "answer"; no answer is an abstention. The reason comes first, to be thought of first."""

    reason: Text = ""
    answer: MaybeText = None
    cited: Items[int] = []


def problems_of(error: ValidationError) -> str:
    """Return the problems without the values: those are the model's text, and may be the user's."""
    found = []
    for one in error.errors(include_input=False, include_url=False, include_context=False)[:4]:
        where = ".".join(str(part) for part in one["loc"])
        what = "is missing" if one["type"] == "missing" else one["msg"].lower()
        found.append(f"{where}: {what}" if where else what)
    return "; ".join(found)


@lru_cache(maxsize=32)
def json_schema(kind: type[Reply]) -> Mapping[str, Any]:
    """Return the JSON schema of a reply as structured output wants it: strictly, unless the reply is sparse."""
    raw = kind.model_json_schema()
    return {
        str(key): value
        for key, value in _plain(raw, raw.get("$defs", {}), sparse=kind.sparse).items()
        if key != "$defs"
    }


def _plain(node: Any, kinds: Mapping[str, Any], *, sparse: bool) -> Any:
    """Return a part of a schema: references written out, no titles and no defaults, and what is required.

    That is every property; in a sparse schema, those without a default, and none is null.
    """
    if isinstance(node, list):
        return [_plain(one, kinds, sparse=sparse) for one in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _plain(kinds[node["$ref"].rsplit("/", 1)[-1]], kinds, sparse=sparse)
    rest = [one for one in node.get("anyOf", ()) if one != {"type": "null"}]
    if sparse and len(rest) == 1:
        return _plain(rest[0], kinds, sparse=sparse)
    out = {
        key: _plain(value, kinds, sparse=sparse)
        for key, value in node.items()
        if key not in ("title", "default", "description", "properties", "$defs")
    }
    if "properties" in node:
        out["properties"] = {
            name: _plain(value, kinds, sparse=sparse) for name, value in node["properties"].items()
        }
        out["required"] = list(node.get("required", ())) if sparse else list(node["properties"])
        out["additionalProperties"] = False
    return out


MAX_DEPTH = 32
"""Deepest nesting that is read; no reply needs more than five."""
MAX_CHARS = 200_000
"""Characters of a reply that are read; a reply of 4,096 tokens has some 16,000."""

_OPEN = re.compile(r"""\{\s*["'\w{}]|\[\s*["'{\[\]\d-]|\{\s*$""")
"""A bracket with what a value may begin with behind it: "[sic]" and "[" as a smile begin none."""
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\],]', re.DOTALL)
_CLOSING = str.maketrans("{[", "}]")
_ALONE = re.compile(r"\W{0,20}(?:json\W{0,20})?", re.IGNORECASE)
"""What may stand around an empty list that is the reply; in a remark "[]" says nothing."""


def find_json(
    text: str, names: Collection[str], listed: str | None = None
) -> tuple[dict[str, Any], bool] | None:
    """Return the JSON object in a reply and whether it is complete; None if there is none.

    Of several the last whole one counts, else the one that the text ends in, up to its last complete item: a model that
    thinks aloud ends with what it means. Any object goes before a bare list, which may be a remark.

    Args:
        text: what the model wrote.
        names: the properties of the object; one of them at least must be there.
        listed: the property that is meant when the model wrote a bare list; None when a list is no reply.

    >>> find_json('Sure! {"ranked": [2, 0,]} Anything else?', {"ranked"})
    ({'ranked': [2, 0]}, True)
    >>> find_json('{"ranked": [2, 0, 1', {"ranked"})
    ({'ranked': [2, 0]}, False)
    """
    said = _without_reasoning(text[:MAX_CHARS])
    best, rank, at, whole = None, (False, False), 0, True
    while whole and (opening := _OPEN.search(said, at)) is not None:
        start = opening.start()
        at, missing = _end_of(said, start)
        whole = not missing
        value = _loaded(said[start:at] + missing)
        if value == [] and not (_ALONE.fullmatch(said[:start]) and _ALONE.fullmatch(said[at:])):
            continue
        found = _unwrapped(value, names, listed)
        mine = (found is not None and found != {listed: value}, whole)
        if found is not None and mine >= rank:
            best, rank = (found, whole), mine
    return best


def _end_of(text: str, start: int) -> tuple[int, str]:
    """Return where the value that begins at a bracket ends, or its last complete item, and the brackets that are missing then."""
    stack, end, missing = "", start + 1, "}" if text[start] == "{" else "]"
    for token in _TOKEN.finditer(text, start):
        sign = token[0]
        if len(stack) > MAX_DEPTH:  # no reply
            break
        if sign in "{[":
            stack += sign
        elif sign in "}]":
            stack = stack[:-1]
            if not stack:
                return token.end(), ""
        # An item of a list is complete or not there; of an object each member is.
        if sign in "}],[" and "[" not in stack[:-1]:
            end = token.start() + (sign != ",")
            missing = stack[::-1].translate(_CLOSING)
    return end, missing


def _loaded(text: str) -> Any:
    """Return the value of a text as JSON, mended where a model wrote it badly; None where there is none."""
    try:
        return json.loads(text, strict=False, parse_constant=lambda _name: None)
    except (ValueError, RecursionError):
        import json_repair
    try:
        # As text: its own values have half characters where JSON has them as pairs.
        return json.loads(
            json_repair.repair_json(text, skip_json_loads=True), parse_constant=lambda _name: None
        )
    except (ValueError, RecursionError):
        return None


def _without_reasoning(text: str) -> str:
    """Return a reply without the reasoning in front of it; one that starts with its JSON has none."""
    text = text.lstrip("\ufeff \t\r\n")
    _, mark, behind = text.rpartition("</think>")
    return behind if mark and not text.startswith(("{", "[")) and _OPEN.search(behind) else text


def _unwrapped(value: Any, names: Collection[str], listed: str | None) -> dict[str, Any] | None:
    """Return the object that was meant: the value, its only member or item, or an object around a bare list."""
    only = value
    if isinstance(value, (dict, list)) and len(value) == 1:
        (only,) = value.values() if isinstance(value, dict) else value
    for one in (value, only):
        if isinstance(one, dict) and not one.keys().isdisjoint(names):
            return one
    return {listed: value} if isinstance(value, list) and listed is not None else None
