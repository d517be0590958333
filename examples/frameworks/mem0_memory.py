"""mem0's Memory over a forest, in process: pip install memforest. A program of mem0 changes its import."""

import tempfile

from memforest import Config, MemForest
from memforest.integrations.mem0 import Memory  # instead of: from mem0 import Memory
from memforest.testing import FrozenClock

clock = FrozenClock("2023-01-09T09:00:00+00:00")
with tempfile.TemporaryDirectory() as folder, MemForest(folder, Config(clock=clock)) as forest:
    memory = Memory(forest=forest)
    memory.add([{"role": "user", "content": "I live in Porto."}], user_id="bob")
    clock.advance(days=150)
    memory.add(
        [{"role": "user", "content": "I moved to Lisbon."}], user_id="bob", metadata={"channel": "mail"}
    )
    bob = {"user_id": "bob"}
    now = memory.search("Where does bob live?", filters=bob)["results"][0]
    print("Now:", now["memory"], now["valid_from"], now["metadata"])
    then = memory.search("Where does bob live?", filters=bob, as_of="2023-02-01")["results"][0]
    print("Before:", then["memory"], then["valid_from"], "to", then["valid_to"])
