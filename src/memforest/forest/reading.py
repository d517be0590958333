"""The verbs of one user's memory that list what was said: sessions, turns; and that look up one fact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from memforest.forest.options import check_text, read_count
from memforest.forest.pool import MemoryPool
from memforest.forest.spanned import spanned
from memforest.limits import MAX_PAGE
from memforest.memory.cursors import Listing
from memforest.memory.inspect import fact_views, session_views
from memforest.memory.inspect.paged import SessionPage, TurnPage
from memforest.memory.inspect.stored import FactView

T = TypeVar("T")


class ReadsMemory:
    """The verbs of a handle on one user's memory that list what was said."""

    _pool: MemoryPool
    user_id: str

    async def _view(self, view: Callable[..., T], *args: Any, nothing: T | None = None, **how: Any) -> T:
        return await self._pool.read(
            self.user_id, lambda memory: memory.view(view, *args, **how), nothing=nothing
        )

    @spanned()
    async def sessions(self, *, limit: int | None = None, cursor: str | None = None) -> SessionPage:
        """Return the stored sessions in time order, all of them or a page.

        No session is on two pages or on none while others come and go. One that gains or loses its first turns may move.

        Args:
            limit: most sessions on the page, 1 to 1000; None for all.
            cursor: `SessionPage.next_cursor` of the page before.

        Raises:
            InputError: if `limit` is out of range, or the cursor is none of this listing.
        """
        read_count("limit", limit, None, 1, MAX_PAGE)
        listing = Listing.of("sessions", self.user_id)
        return await self._view(session_views.session_page, listing, limit=limit, cursor=cursor)

    @spanned()
    async def turns(
        self, session_id: str, *, limit: int | None = None, cursor: str | None = None
    ) -> TurnPage:
        """Return the turns of a session, in order, as they were said, all of them or a page.

        Args:
            session_id: which session.
            limit: most turns on the page, 1 to 1000; None for all.
            cursor: `TurnPage.next_cursor` of the page before.

        Raises:
            InputError: if `limit` is out of range, or the cursor is none of this listing.
            NotFoundError: if there is no such session.
        """
        check_text("turns", "session_id", session_id, optional=False)
        read_count("limit", limit, None, 1, MAX_PAGE)
        listing = Listing.of("turns", self.user_id, session_id)
        return await self._view(session_views.turn_page, session_id, listing, limit=limit, cursor=cursor)

    @spanned()
    async def get(self, fact_id: str) -> FactView:
        """Return one fact.

        Raises:
            NotFoundError: if there is none with that id.
        """
        check_text("get", "fact_id", fact_id, optional=False)
        return await self._view(fact_views.one_fact, fact_id)
