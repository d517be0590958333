"""Memory for LangChain: a retriever over one user's memory, whose documents are dated and have their sources."""

from __future__ import annotations

from typing import Any

from memforest import _sync
from memforest.integrations.adapter import Bridge, needs, scores
from memforest.memory.blocking import MemForest
from memforest.memory.forest import AsyncMemForest
from memforest.plain import plain
from memforest.write.turns import check_id

with needs(("langchain-core", "1.7", "2")):
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import ConfigDict, Field, PrivateAttr

__all__ = ["MemForestRetriever"]


class MemForestRetriever(BaseRetriever):
    """Retrieves what a user said: ``retriever.invoke("Where does Bob live?", as_of="2024-05-01")``.

    The text of a document is what was said. Its metadata has `said`, `start` and `end` (ISO 8601, `end` None while it holds),
    `speaker`, `score` (0..1, never rising), `sources`, `fact_id` and `kind`; its `id` is that of the fact, else of the turn.

    Args:
        forest: the memories.
        user: whose memory.
        k: most documents.
        options: of `search`, for every question; those of `invoke` go before them.
        strict: raise errors of the memory; else there is no document then.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    forest: AsyncMemForest | MemForest
    user: str
    k: int = 10
    options: dict[str, Any] = Field(default_factory=dict)
    strict: bool = False
    _bridge: Bridge = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Check the user, and make ready."""
        super().model_post_init(context)
        check_id(self.user, "user")
        self._bridge = Bridge(self.forest, strict=self.strict, recall=self.options)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return _sync.run(self._found(query, **options))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return await self._found(query, **options)

    async def _found(self, query: str, k: int | None = None, **options: Any) -> list[Document]:
        found = await self._bridge.search(self.user, query, **{"top_k": k or self.k, **options})
        evidence = found.evidence if found else ()
        return [_document(one, score) for one, score in zip(evidence, scores(evidence), strict=True)]


_KEPT = ("said", "start", "end", "speaker", "kind", "fact_id")


def _document(one: Any, score: float) -> Document:
    sources = [plain(source) for source in one.sources]
    own = one.fact_id or "/".join(one.place)
    about = {name: plain(getattr(one, name)) for name in _KEPT}
    return Document(id=own, page_content=one.text, metadata={**about, "score": score, "sources": sources})
