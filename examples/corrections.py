"""Correct a memory, take the correction back, end a value, and delete for good."""

from memforest import MemForest

with MemForest("memory") as forest:
    bob = forest.user("Bob")
    bob.add("I live in Davis.", timestamp="2023-05-08", session_id="spring")
    bob.add("My sister Eva is a nurse.", timestamp="2023-05-09", session_id="spring")
    bob.add("My PIN is 4711.", timestamp="2023-05-10", session_id="slip")

    # It was never right: another statement in its place, which can be undone.
    home = bob.search("Where does Bob live?").evidence[0]
    done = bob.update(home.fact_id, "Bob lives in Portland.")
    print("corrected:", bob.search("Where does Bob live?").evidence[0].text)
    bob.undo(done.key)
    print("undone:   ", bob.search("Where does Bob live?").evidence[0].text)

    # It was right until now: the old value keeps its time.
    bob.remember(
        "Bob lives in Oslo.", attribute="residence", value="Oslo", since="2024-06-01", replaces=home.fact_id
    )
    for line in bob.timeline("Bob", attribute="residence"):
        print("timeline: ", line.value, "until", line.end and line.end.date())

    # It must not be shown: hidden, and still on disk.
    sister = bob.search("What does Eva do?").evidence[0]
    bob.forget(sister.fact_id)
    print("forgotten:", [fact.text for fact in bob.list(verdict="forgotten")])

    # It must go: erased from every byte, with a check.
    receipt = bob.delete(session_id="slip")
    print("deleted:  ", receipt.gone["turns"], "turn;", "clean:", bob.verify(deleted=["4711"]).ok)
