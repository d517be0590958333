"""Cursors of pages: the key of the last item of a page, as a text that a caller hands back as it is.

A cursor belongs to one listing with its arguments: another's is refused. It holds times, ids and numbers, and no words.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from memforest.errors import InputError
from memforest.limits import MAX_CURSOR_CHARS
from memforest.memory.plain import plain

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
