"""What a participant is called in a sentence: their name, or their role where all that is known of them is an id."""

from __future__ import annotations

import re

from memforest.language.language import load_word_lists

_ID = re.compile(
    r"\S+@\S+\.\S+"  # an e-mail address
    r"|(?=\S*\d)[0-9a-f]{6,}(?:-[0-9a-f]{2,})*"  # a UUID, a hash
    r"|[^\W\d_]*[-_#:.]*\d[\w-]*",  # a number, with letters or without: "user_123", "u42", "+4917..."
    re.IGNORECASE,
)


def is_id(name: str) -> bool:
    """Return whether a participant's name is no name but an id: an address, a UUID, a hash, a number.

    >>> [is_id(name) for name in ("ana@example.org", "user_123", "+49 170 1", "3f2c9a51-77aa-41d4", "Ana", "Agent 47")]
    [True, True, True, True, False, False]
    """
    bare = name.strip().lstrip("+(@")
    return _ID.fullmatch(bare) is not None or bare.replace(" ", "").isdecimal()


def is_assistant(name: str, role: str | None) -> bool:
    """Return whether somebody is an AI assistant, or an agent who speaks for a company: by role, else by name."""
    return (role or name).lower() in load_word_lists("en").lists["assistants"]


def called(name: str, role: str | None, code: str) -> str:
    """Return what a participant is called in a sentence: by name, and where it is no name by their role.

    >>> called("Ana", "user", "en"), called("3f2c9a51-77aa", "user", "en"), called("user", None, "es")
    ('Ana', 'the user', 'el usuario')
    """
    roles = load_word_lists("es" if code == "es" else "en").tables["roles"]
    return roles.get(name.casefold()) or (roles.get(role or "user", name) if is_id(name) else name)
