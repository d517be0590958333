"""Results as plain values that JSON takes as they are, and in one line for people.

Cursors of pages: the key of the last item of a page, as a text that a caller hands back as it is.

A cursor belongs to one listing with its arguments: another's is refused. It holds times, ids and numbers, and no words.

"""

from __future__ import annotations

import json
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, ClassVar, Generic, TypeVar

from memforest.errors import InputError
from memforest.settings import MAX_CURSOR_CHARS
from memforest.text import cut

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MOST_LEVELS = 200
"""Containers within containers; what lies deeper is left out, as Python's JSON could not write it."""
SHOWN_CHARS = 60
LINE_CHARS = 200
_AS_IT_IS = frozenset((str, int, bool, type(None)))


def plain(value: Any, levels: int = MOST_LEVELS) -> Any:
    """Return a value as `json.dumps` takes it, without a `default=`.

    Dataclasses and mappings are dicts, times ISO 8601, sequences, sets and arrays lists, errors kind and message. A number that is not finite becomes None, and what JSON has no form for the text that `str` gives.

    Example:
        >>> plain({"when": (datetime(2025, 9, 7),), "score": float("nan")})
        {'when': ['2025-09-07T00:00:00'], 'score': None}
    """
    # Every response of a server and line of JSON goes through here, a search with some thousand values: the most frequent
    # kinds come first, and abstract classes, which are slow to ask, last.
    kind: type = type(value)
    if kind in _AS_IT_IS or isinstance(value, str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if levels == 0:
        return "…"
    if (names := _names_of(kind)) is not None:
        return {name: plain(getattr(value, name), levels - 1) for name in names}
    if isinstance(value, (list, tuple)):
        return [plain(one, levels - 1) for one in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (dict, Mapping)):
        return {str(key): plain(one, levels - 1) for key, one in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((plain(one, levels - 1) for one in value), key=repr)
    return _single(value, levels)


def json_bytes(value: Any) -> bytes:
    """Return what `plain` makes of a value as JSON in UTF-8, without blanks.

    It is written in one pass, in which `json` asks only for what it does not know itself. A value that cannot be written so,
    as it holds a number that is not finite, is made plain first.

    Example:
        >>> json_bytes({"when": datetime(2025, 9, 7), "score": float("nan")})
        b'{"when":"2025-09-07T00:00:00","score":null}'
    """
    try:
        return _AT_ONCE.encode(value).encode()
    except (TypeError, ValueError, RecursionError):
        return _AT_ONCE.encode(plain(value)).encode()


def _one_level(value: Any) -> Any:
    """Return what JSON does not know with its own level plain."""
    kind: type = type(value)
    if (names := _names_of(kind)) is not None:
        return {name: getattr(value, name) for name in names}
    return plain(value)


_AT_ONCE = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"), default=_one_level
)


@lru_cache(maxsize=256)
def _names_of(kind: type) -> tuple[str, ...] | None:
    """Return the names of the fields of a dataclass, None for any other class."""
    return tuple(one.name for one in fields(kind)) if is_dataclass(kind) else None


def _single(value: Any, levels: int) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Exception):
        return {"error": type(value).__name__, "message": str(value)}
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        return plain(value.tolist(), levels - 1)
    return str(value)


class Result:
    """What a verb returns: a frozen dataclass that prints in one line and serialises as it is."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values: `json.dumps` takes them, and times are ISO 8601 texts."""
        made: dict[str, Any] = plain(self)
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({cut(self._line(), LINE_CHARS)})"

    def _line(self) -> str:
        """Return the fields that are not empty, in one line."""
        shown = ((one.name, _shown(getattr(self, one.name))) for one in fields(self))  # type: ignore[arg-type]
        return ", ".join(f"{name}={text}" for name, text in shown if text)


class Several(Result, Generic[T_co]):
    """A result that iterates over what is in one of its fields, and is false where that is empty."""

    __slots__ = ()
    _of: ClassVar[str]
    """The field's name."""

    def _items(self) -> Sequence[T_co]:
        found: Sequence[T_co] = getattr(self, self._of)
        return found

    def __iter__(self) -> Iterator[T_co]:
        return iter(self._items())

    def __len__(self) -> int:
        return len(self._items())


def _shown(value: Any) -> str:
    """Return a value in a few characters; nothing for one that is empty."""
    if isinstance(value, str):
        return cut(repr(value), SHOWN_CHARS) if value else ""
    if isinstance(value, datetime):
        return value.isoformat(timespec="minutes")
    if isinstance(value, (Mapping, tuple, list)):
        return f"<{len(value)}>" if value else ""
    return "" if value is None else cut(repr(value), SHOWN_CHARS)


VERSION = 1
"""Of the form of a cursor; those of another form are refused."""

Part = int | str
Key = tuple[Part, ...]
"""Where an item stands in its listing."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One listing with its arguments, which makes and reads its cursors."""

    name: str
    digest: str

    @classmethod
    def of(cls, name: str, *arguments: object) -> Listing:
        """Return the listing of a name with arguments: whose it is, and what is left out of it."""
        told = json.dumps([name, plain(list(arguments))], ensure_ascii=False)
        return cls(name, blake2b(told.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest())

    def cursor(self, key: Sequence[Part]) -> str:
        """Return the cursor of the item with a key."""
        told = json.dumps([VERSION, self.digest, *key], ensure_ascii=False, separators=(",", ":"))
        return urlsafe_b64encode(told.encode()).decode().rstrip("=")

    def page(
        self, found: Sequence[T], limit: int | None, key: Callable[[T], Sequence[Part]]
    ) -> tuple[Sequence[T], str | None]:
        """Return the first items of what was found, and the cursor of the next page; None when these are all."""
        page = found[:limit]
        return page, self.cursor(key(page[-1])) if len(page) < len(found) else None

    def key(self, cursor: object, *kinds: type) -> Key | None:
        """Return the key that a cursor holds; None for no cursor.

        Args:
            cursor: what the caller gave.
            kinds: int or str for each part of the key.

        Raises:
            InputError: if it is no cursor of this listing.
        """
        if cursor is None:
            return None
        wrong = InputError(
            f"the cursor is none of this listing of {self.name}: give `next_cursor` of the page before, with the same "
            "arguments"
        )
        if not isinstance(cursor, str) or len(cursor) > MAX_CURSOR_CHARS or not cursor.isascii():
            raise wrong
        try:
            told = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        except (ValueError, RecursionError):
            raise wrong from None
        if not isinstance(told, list) or told[:2] != [VERSION, self.digest]:
            raise wrong
        key = tuple(told[2:])
        if [type(part) for part in key] != list(kinds) or not all(map(_is_stored, key)):
            raise wrong
        return key


def _is_stored(part: Part) -> bool:
    """Return whether SQLite can hold a part of a key: whole numbers of 64 bits, texts without a lone surrogate."""
    if isinstance(part, int):
        return -(2**63) <= part < 2**63
    return not any(0xD800 <= ord(char) < 0xE000 for char in part)
