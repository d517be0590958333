"""A LangChain retriever over a user's memory: pip install memforest "langchain-core>=1.7,<2"."""

import tempfile

from memforest import Config, MemForest
from memforest.integrations.langchain import MemForestRetriever
from memforest.testing import FrozenClock

clock = FrozenClock("2023-01-09T09:00:00+00:00")
with tempfile.TemporaryDirectory() as folder, MemForest(folder, Config(clock=clock)) as forest:
    forest.user("bob").add("I live in Porto.")
    clock.advance(days=150)
    forest.user("bob").add("I moved to Lisbon.")
    retriever = MemForestRetriever(forest=forest, user="bob", k=3)
    now = retriever.invoke("Where does bob live?")
    print("Now:", now[0].page_content, now[0].metadata["start"])
    then = retriever.invoke("Where does bob live?", as_of="2023-02-01")
    print("Before:", then[0].page_content, then[0].metadata["start"], "to", then[0].metadata["end"])
