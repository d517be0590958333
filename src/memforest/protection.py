"""Keys that encrypt memory files, and rules that redact texts.

Keys of encrypted memories: what is taken for one, and the key of a file that is derived from it. No I/O.

No message, no ``repr`` and no mapping shows a key.


The built-in patterns of `Config.redact_patterns`, which remove private data from texts before they are stored.

They find what is written in a usual form, and nothing else: no names, no streets, no number that is spelled out. Each match
is replaced by the pattern's name in brackets, so that a text that was redacted stays as it is when it comes again.

"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TypeAlias

from memforest.errors import ConfigError

KEY_BYTES = 32
"""Least length of a key, and the length of the key of a file (AES-256)."""

CHECK_BYTES = 16

_HEX = re.compile(rf"(?:[0-9a-fA-F]{{2}}){{{KEY_BYTES},}}")
_FILE = b"memforest file key v1"
_CHECK = b"memforest key check v1"
_HOW = (
    f"give at least {KEY_BYTES} random bytes, or their {2 * KEY_BYTES} hexadecimal digits; "
    '`python -c "import secrets; print(secrets.token_hex(32))"` makes one'
)


@dataclass(frozen=True, slots=True)
class FileKey:
    """The key of one file, and what tells without the file whether it is the right one."""

    raw: bytes = field(repr=False)
    """`KEY_BYTES` bytes."""
    check: str
    """Hexadecimal digits that follow from the key and tell nothing about it; they are stored beside the file."""


class Key:
    """A key from which those of files are derived.

    It can be copied and pickled, for a worker process; a pickle holds it in plain text.

    Args:
        source: at least 32 random bytes, or their hexadecimal digits; or a function without arguments that returns
            either, called in a worker thread whenever a file is opened.

    Raises:
        ConfigError: if it is something else. Words that a person chose are no key: whoever has a file could try them out.

    Example:
        >>> Key("00ff" * 16)
        Key(...)
    """

    __slots__ = ("_source",)

    def __init__(self, source: bytes | str | Callable[[], bytes | str]) -> None:
        self._source = source if callable(source) and not isinstance(source, type) else _read(source)

    @classmethod
    def of(cls, setting: KeySetting) -> Key | None:
        """Return a setting as a key; None for none.

        Raises:
            ConfigError: if it is no key.
        """
        return setting if setting is None or isinstance(setting, Key) else cls(setting)

    def now(self) -> Key:
        """Return a key that does not ask the function again.

        Raises:
            ConfigError: if what the function returns is no key.
        """
        return Key(self._source()) if callable(self._source) else self

    def of_file(self, salt: bytes) -> FileKey:
        """Return the key of the file with a salt: HKDF with SHA-256.

        Source: RFC 5869 sections 2.2 and 2.3; each output is one block long.

        Raises:
            ConfigError: if a function was given, and what it returns is no key.
        """
        source = self._source
        extracted = hmac.digest(salt, _read(source()) if callable(source) else source, sha256)
        check = hmac.digest(extracted, _CHECK + b"\x01", sha256)[:CHECK_BYTES]
        return FileKey(hmac.digest(extracted, _FILE + b"\x01", sha256), check.hex())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Key):
            return NotImplemented
        mine, theirs = self._source, other._source
        if callable(mine) or callable(theirs):
            return mine is theirs
        return hmac.compare_digest(mine, theirs)

    def __hash__(self) -> int:
        return hash(self._source)

    def __repr__(self) -> str:
        return "Key(...)"


KeySetting: TypeAlias = bytes | str | Callable[[], bytes | str] | Key | None


def _read(source: object) -> bytes:
    if isinstance(source, str) and _HEX.fullmatch(source.strip()):
        return bytes.fromhex(source.strip())
    if isinstance(source, str):
        raise ConfigError(f"the key is a text that is not hexadecimal, or too short: {_HOW}")
    if not isinstance(source, (bytes, bytearray)):
        raise ConfigError(f"the key is of the type {type(source).__name__!r}: {_HOW}")
    if len(source) < KEY_BYTES:
        raise ConfigError(f"the key is too short: {_HOW}")
    return bytes(source)


AnyKey: TypeAlias = Key | FileKey
"""The key of all memories, or that of one file."""


_Keep = Callable[[str], bool]


def _digits(text: str) -> str:
    return "".join(char for char in text if char.isdigit())


def _is_card(text: str) -> bool:
    """Return whether the last of the digits is their check digit (ISO/IEC 7812-1, annex B: the Luhn formula)."""
    digits = [int(char) for char in reversed(_digits(text))]
    doubled = (sum(divmod(2 * one, 10)) if at % 2 else one for at, one in enumerate(digits))
    return 13 <= len(digits) <= 19 and sum(doubled) % 10 == 0


def _is_iban(text: str) -> bool:
    """Return whether the check digits are those of the rest (ISO 13616: modulo 97)."""
    plain = re.sub(r"\s", "", text).upper()
    moved = plain[4:] + plain[:4]
    return 15 <= len(plain) <= 34 and int("".join(str(int(char, 36)) for char in moved)) % 97 == 1


def _is_phone(text: str) -> bool:
    return 8 <= len(_digits(text)) <= 15  # at most 15: ITU-T E.164, 6.2.1


def _is_address(text: str) -> bool:
    return all(int(part) < 256 for part in text.split("."))


def _always(_text: str) -> bool:
    return True


PATTERNS: Mapping[str, tuple[re.Pattern[str], _Keep]] = {
    "email": (re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"), _always),
    "iban": (
        re.compile(r"\b[A-Za-z]{2}[0-9]{2}(?: ?[A-Za-z0-9]{4}){2,7}(?: ?[A-Za-z0-9]{1,3})?\b", re.ASCII),
        _is_iban,
    ),
    "card": (re.compile(r"(?<![\d.-])[0-9](?:[ -]?[0-9]){12,18}(?![\d-])"), _is_card),
    "ip": (re.compile(r"(?<![\d.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![\d.])"), _is_address),
    "phone": (re.compile(r"(?<![\w+])(?:\+|00)[0-9](?:[ ./()-]{0,2}[0-9]){6,14}(?!\d)"), _is_phone),
    "key": (
        re.compile(
            r"\b(?:sk|pk|rk)[-_][\w-]{16,200}|\bgh[pousr]_\w{20,255}|\bAKIA[0-9A-Z]{16}\b|\bxox[abprs]-[\w-]{10,200}"
        ),
        _always,
    ),
}
"""Name -> pattern and check. They find mail addresses, account numbers (IBAN), payment cards, IPv4 addresses,
telephone numbers with a country code (+ or 00), and keys of well-known services."""


def redact_patterns(text: str, names: Sequence[str]) -> str:
    """Return a text with the matches of some of `PATTERNS` replaced, in the order of that table.

    Example:
        >>> redact_patterns("Write to ana@example.org or call +34 600 123 456.", ["email", "phone"])
        'Write to [email] or call [phone].'
    """
    for name in PATTERNS:
        if name in names:
            text = PATTERNS[name][0].sub(partial(_replaced, name), text)
    return text


def _replaced(name: str, found: re.Match[str]) -> str:
    return f"[{name}]" if PATTERNS[name][1](found[0]) else found[0]
