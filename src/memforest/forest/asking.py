"""The verbs of a forest that ask: one question, or many at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memforest.errors import MemForestError
from memforest.forest import requests as calls
from memforest.forest.handle import AsyncUserMemory
from memforest.forest.options import QueryOptions
from memforest.memory.results import AskResult, QueryResult

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AsyncAsking:
    """What `AsyncMemForest` is asked."""

    _max_workers: int

    def user(self, user_id: str) -> AsyncUserMemory:
        """Return a handle on one user's memory."""
        raise NotImplementedError

    async def query(self, /, user_id: str, question: str, **options: Unpack[QueryOptions]) -> QueryResult:
        """Return ranked evidence for a question, best first; the same for the same state and arguments.

        Of a user without a memory it is empty, as what every other verb reads of one; no memory is made.

        Args:
            user_id: whose memory.
            question: in any language.
            **options: as follows, all optional.
            reference_date: what "now" and "last month" in the question are relative to; the clock's time
                when not given.
            as_of: keep what was so at that time; unknown validity counts from when it was said.
            during: keep what overlaps [start, end).
            said_by: what had been said by that time; what was said later is as if it were not there.
            known_at: what this memory held at that time; what was stored later is as if it were not there. `warnings` say how
                much of it has been deleted since.
            filters: search only what was said in turns that have all of this metadata, of their own, of their call of `add` or of
                their session; `warnings` name a key that none has.
            top_k: most evidence returned; `Config.top_k` when not given.
            max_tokens: budget for the texts of all evidence together, estimated.
            index: which of the memory's indexes to search: ``"memforest"``, ``"flat"`` for the baseline without trees,
                ``"facts"`` for facts by cosine alone, or one that was added; the first of `Config.indexes` that the
                memory has when not given. Several names are fused. `warnings` and ``trace["lag"]`` say how far one is
                behind.
            ranking: weights for this question; `Config.ranking` when not given.
            mode: how the recalled trees are browsed: ``"emb"``, ``"emb+planner"``, ``"llm"`` or
                ``"llm+planner"``; `Config.mode` when not given.
            budget: a `Budget` for model calls; `Config.query_budget` when not given. What it does not allow is
                done without a model, and `warnings` say so.
            explain: put into ``trace["explain"]`` the plan, the trees recalled, what filters and time
                order did, and for each evidence the named parts whose sum is its score, and its path.

        Raises:
            InputError: if the question is empty or an argument is out of range.
            ConfigError: if the mode needs a chat model and there is none, or an index is unknown or named twice.
            NotFoundError: if the memory does not have that index.
        """
        return await self.user(user_id).search(question, **options)

    async def query_parallel(
        self, requests: Sequence[Mapping[str, Any]]
    ) -> list[QueryResult | MemForestError]:
        """Answer many queries and return their results in order; a failed one returns its error.

        Args:
            requests: mappings with the arguments of `query`.
        """
        calls.check_requests("query_parallel", requests)
        results: dict[int, QueryResult | MemForestError] = {}

        async def one(i: int) -> None:
            problem = calls.request_problem(requests[i], ("user_id", "question"), None)
            results[i] = (
                await calls.result_or_error(self.query(**requests[i])) if problem is None else problem
            )

        await calls.run_bounded(self._max_workers, (one(i) for i in range(len(requests))))
        return [results[i] for i in range(len(requests))]

    async def ask(self, /, user_id: str, question: str, **options: Unpack[QueryOptions]) -> AskResult:
        """Answer a question from the best evidence, with citations, or abstain.

        Args:
            user_id: whose memory.
            question: in any language.
            **options: as for `query`.

        Raises:
            InputError: if the question is empty or an option is out of range.
            ConfigError: if the mode needs a chat model and there is none.
        """
        return await self.user(user_id).ask(question, **options)
