"""A conversation of 30 turns in three sessions, and ten questions of what was so when."""

from __future__ import annotations

SAID = [
    [
        "I live in Porto.",
        "I work at Acme.",
        "I adopted a cat called Miso.",
        "My dentist is Dr Sun.",
        "I joined the gym Kinetik.",
    ],
    [
        "I moved to Lisbon.",
        "I no longer work at Acme.",
        "I work at Globex.",
        "I sold my old bicycle.",
        "My sister Ana visited Oslo last week.",
    ],
    [
        "I moved to Berlin.",
        "My dentist is now Dr Moon.",
        "I left the gym Kinetik.",
        "I bought a cello on 3 May 2023.",
        "I started to learn Finnish.",
    ],
]
"""What the user says, a list a session, 75 days apart; the assistant answers each with "Noted."."""
QUESTIONS: list[tuple[str, str | None]] = [
    ("Where does bob live?", None),
    ("Where does bob live?", "2023-02-01"),
    ("Where does bob live?", "2023-04-20"),
    ("Where does bob work?", None),
    ("Where does bob work?", "2023-02-01"),
    ("Who is bob's dentist?", None),
    ("Who is bob's dentist?", "2023-02-01"),
    ("What is bob's cat called?", None),
    ("When did bob buy a cello?", None),
    ("Who visited Oslo?", "2023-04-20"),
]
"""A question, and as of when."""
