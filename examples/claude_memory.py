"""Claude's memory tool over a user's memory: pip install memforest "anthropic>=2.12,<3"."""

import tempfile

from memforest import Config, MemForest
from memforest.integrations.claude import MemForestMemoryTool
from memforest.testing import FrozenClock

# What Claude would ask the tool: client.beta.messages.run_tools(tools=[tool], ...) does these calls.
clock = FrozenClock("2023-01-09T09:00:00+00:00")
with tempfile.TemporaryDirectory() as folder, MemForest(folder, Config(clock=clock)) as forest:
    tool = MemForestMemoryTool(forest, user="bob")
    print(tool.call({"command": "create", "path": "/memories/home.md", "file_text": "I live in Porto."}))
    clock.advance(days=150)
    print(tool.call({"command": "create", "path": "/memories/move.md", "file_text": "I moved to Lisbon."}))
    print("Now:", forest.query("bob", "Where does bob live?").evidence[0].text)
    print("Before:", forest.query("bob", "Where does bob live?", as_of="2023-02-01").evidence[0].text)
    print(tool.call({"command": "view", "path": "/memories/_timeline/bob.md"}))
