"""Built-in patterns of what `Config.redact_patterns` takes out of texts before they are stored.

They find what is written in a usual form, and nothing else: no names, no streets, no number that is spelled out. Each match
is replaced by the pattern's name in brackets, so that a text that was redacted stays as it is when it comes again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

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
"""Name -> where it may stand, and which of these it is: mail addresses, account numbers (IBAN), payment cards, IPv4
addresses, telephone numbers with their country's number (+ or 00), and keys of well-known services."""


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
