"""Ask a memory what was so on a day, what had been said by a day, and what it knew on a day."""

from memforest import Config, MemForest
from memforest.testing import FrozenClock

clock = FrozenClock(
    "2024-06-10T00:00:00Z"
)  # stands for the real clock, so that this prints the same each day
with MemForest("memory", Config(clock=clock)) as forest:
    ana = forest.user("Ana")
    ana.add("I live in Davis. I work at Acme.", timestamp="2023-03-10", session_id="2023")
    clock.set("2024-07-10T00:00:00Z")  # what was said in May arrives in July
    ana.add("I moved to Miami last week.", timestamp="2024-05-09", session_id="2024")

    def home(**when: str) -> str | None:
        """Return the first evidence of where Ana lives."""
        found = ana.search("Where does Ana live?", **when)
        return found.evidence[0].text if found else None

    print("now:                      ", home())
    print("so on 1 June 2023:        ", home(as_of="2023-06-01"))
    print("said by 1 April 2024:     ", home(said_by="2024-04-01"))
    print("known on 15 June 2024:    ", home(known_at="2024-06-15"))
    print("what changed in the year: ", *ana.diff("2023-06-01", "2024-06-01"))
    print("what arrived in July:     ", [change.text for change in ana.changes("2024-07-01") if change.text])
