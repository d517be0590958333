"""The bounds of what callers may give, each in one place: the core checks by them, and front ends write their schemas from them.

What is beyond one is an `InputError`, or is cut with a warning where the text below says so. They bound what one call may
cost; none of them bounds what a memory holds.
"""

from __future__ import annotations

from types import MappingProxyType

MAX_ID_CHARS = 1_024
"""Characters of the id of a user, session or turn, and of an idempotency key: composed ids (tenant, app, thread) fit many
times, and an index of ids stays small."""

MAX_TURN_CHARS = 100_000
"""Characters of a turn, unless `Config.max_turn_chars` says otherwise: a long document; more is one turn of its own for each
part. A longer turn is refused alone."""

MAX_FACT_CHARS = 4_000
"""Characters of a corrected statement: a statement is a sentence or a few."""

MAX_METADATA_DEPTH = 64
"""Lists and mappings within each other that metadata may hold; what reads it level by level must not run out of stack."""

MAX_TOP_K = 1_000
"""Pieces of evidence of one question (`top_k`): ten times what any prompt holds. Ranking orders all that a
question finds; what this bounds is how much is read back and written out."""

MAX_PAGE = 1_000
"""Items of a page: what a caller holds and a server writes in one answer."""

MAX_CURSOR_CHARS = 8_000
"""Characters of the cursor of a page. One holds the key of one item, of which an id is the longest part: `MAX_ID_CHARS`
characters of four bytes each in JSON and base64."""

MAX_TIME_CHARS = 120
"""Characters of a time that is written: several times the longest date in words."""

MAX_TREE_DEPTH = 100
"""Levels that `tree` unfolds: views are nested as deep as trees are, and a segment tree whose bounds are switched off may be as
high as it has leaves."""

QUESTION_CHARS = 2_000
"""Characters of a question that are read, half at each of its ends; a longer one is cut where it comes in, so that all steps
see the same, with a warning."""

MAX_BODY_BYTES = 10_000_000
"""Bytes of one request to a server: a session of a hundred of the longest turns. Longer histories come in more sessions."""

MAX_BODY_ITEMS = 100_000
"""Values of one request to a server, in all lists and objects together: what is made of a byte of JSON costs up to a hundred."""

STORED_ROLES = ("user", "assistant", "system", "developer", "tool", "function")
"""The roles of chat protocols that a turn may have. A person's name belongs in ``speaker``."""

ROLE_ALIASES = MappingProxyType({"human": "user", "ai": "assistant"})
"""Other names of roles, as some protocols write them -> the role that is stored."""

TEXT = ("content", "text", "message")
TIME_KEYS = ("timestamp", "time", "date", "created_at", "createdAt", "created", "timestamp_ms", "date_ms", "ts", "create_time",
             "update_time")  # fmt: skip
ID = ("id", "turn_id", "message_id", "dia_id")
SPEAKER = ("speaker", "name")
CAPTION = ("caption", "blip_caption")
"""Under which names a message has its text, time, id, speaker and the caption of its picture, the first that is there before
others; a file's messages and those of `add` alike."""

ROLES = (*STORED_ROLES, *ROLE_ALIASES)
"""All roles that are read."""


def has_too_many_items(body: bytes) -> bool:
    r"""Return whether JSON holds more than `MAX_BODY_ITEMS` values beside each other, before anything is made of it.

    Commas are counted, those within texts not: these are what stands behind every second quotation mark that is not escaped.

    Example:
        >>> has_too_many_items(b"[" + b"1," * 100_000 + b"1]"), has_too_many_items(b'["' + b"," * 200_000 + b'"]')
        (True, False)
    """
    if body.count(b",") < MAX_BODY_ITEMS:
        return False
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 4 * MAX_BODY_ITEMS:  # a name and a text of each
        return True
    return sum(part.count(b",") for part in plain.split(b'"')[::2]) >= MAX_BODY_ITEMS
