"""Years of synthetic talk that turns: each session has a theme, and goes from one topic of it to the next.

What turns share, a theme's, a topic's and a turn's own words are drawn from a seed, and stand in fixed proportions. So
turns of one topic are more alike than those of one theme, and these more than any two: for embedders that know spelling
alone too. It is talk with the turns of talk, not with its sense: use it to time what is built on likeness, never
to judge retrieval.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from random import Random

from synthetic.chat import BEGIN, Session, vocabulary

__all__ = ["TurningTalk"]

SPEAKERS = ("Ana", "Ben")
HOURS = 20
"""Between the beginnings of two sessions."""
TOPICS, TURNS = (2, 4), (4, 12)
"""Topics of a session, and turns of a topic."""
SHARED, OF_THEME, OF_TOPIC, OWN = (6, 7), (3, 4), (5, 6), 5
"""Words of a turn, and how many there are to draw them from; its own ones are any."""


class TurningTalk:
    """An endless conversation; equal seeds give equal ones, and every session is drawn by itself."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._words = vocabulary()
        self._shared = Random(f"{seed} shared").sample(self._words, SHARED[1])

    def session(self, number: int) -> Session:
        """Return a session; those with higher numbers are later."""
        random, said = Random(f"{self._seed} session {number}"), BEGIN + timedelta(hours=number * HOURS)
        theme, turns = random.sample(self._words, OF_THEME[1]), list[dict[str, str]]()
        for _ in range(random.randint(*TOPICS)):
            topic = random.sample(self._words, OF_TOPIC[1])
            for _ in range(random.randint(*TURNS)):
                said += timedelta(seconds=random.randint(20, 200))
                speaker = SPEAKERS[len(turns) % 2]
                turns.append(
                    {
                        "speaker": speaker,
                        "text": self._text(random, theme, topic),
                        "timestamp": said.isoformat(),
                    }
                )
        return f"s{number:07d}", turns

    def questions(self, count: int, sessions: int) -> Iterator[str]:
        """Yield questions, each with words of one turn of the first so many sessions."""
        random = Random(f"{self._seed} questions")
        for _ in range(count):
            said = random.choice(self.session(random.randrange(sessions))[1])["text"]
            yield f"What did {random.choice(SPEAKERS)} say about {' '.join(random.sample(said[:-1].split(), 4))}?"

    def _text(self, random: Random, theme: Sequence[str], topic: Sequence[str]) -> str:
        words = [
            *random.sample(self._shared, SHARED[0]),
            *random.sample(theme, OF_THEME[0]),
            *random.sample(topic, OF_TOPIC[0]),
            *random.sample(self._words, OWN),
        ]
        random.shuffle(words)
        return " ".join(words).capitalize() + "."
