"""Views of what was said: the sessions of a memory, and their turns."""

from __future__ import annotations

from memforest.errors import NotFoundError
from memforest.interval import from_ms
from memforest.memory.cursors import Listing
from memforest.memory.inspect.paged import SessionPage, TurnPage
from memforest.memory.inspect.stored import SessionView, TurnView
from memforest.memory.inspect.views import ViewContext
from memforest.store import paging, sessions
from memforest.store.digests import damaged_turns
from memforest.store.paging import SessionKey
from memforest.store.provenance import session_origins
from memforest.store.turns import MOST
from memforest.text import cut


def session_page(
    context: ViewContext, listing: Listing, *, limit: int | None = None, cursor: str | None = None
) -> SessionPage:
    """Return sessions in time order, ties by id, found by index.

    Args:
        context: the transaction.
        listing: what the cursor has to be of.
        limit: most sessions; None for all.
        cursor: of the page before; None for the first.

    Raises:
        InputError: if the cursor is none of this listing.
    """
    tx, key = context.tx, listing.key(cursor, int, str)
    after = None if key is None else SessionKey(*key)  # type: ignore[arg-type]  # checked
    found = paging.sessions_after(tx, after, MOST if limit is None else limit + 1)
    page = found[:limit]
    rows = [row.row for row in page]
    speakers, failed = paging.participants(tx, rows), paging.failed_cells(tx, rows)
    origins = session_origins(tx, rows)
    views = [
        SessionView(
            session_id=row.session_id,
            status=row.status,
            turns=row.turns,
            start=from_ms(row.start_ms),
            end=from_ms(row.end_ms),
            participants=speakers.get(row.row, ()),
            failed_chunks=failed.get(row.row, 0),
            metadata=row.metadata,
            origin=origins.get(row.row),
        )
        for row in page
    ]
    more = len(page) < len(found)
    following = listing.cursor((page[-1].start_ms, page[-1].session_id)) if more else None
    return SessionPage(tuple(views), paging.count_sessions(tx), following)


def turn_page(
    context: ViewContext,
    session_id: str,
    listing: Listing,
    *,
    limit: int | None = None,
    cursor: str | None = None,
) -> TurnPage:
    """Return turns of a session, in order.

    Args:
        context: the transaction.
        session_id: which session.
        listing: what the cursor has to be of.
        limit: most turns; None for all.
        cursor: of the page before; None for the first.

    Raises:
        InputError: if the cursor is none of this listing.
        NotFoundError: if there is no such session.
    """
    tx, key = context.tx, listing.key(cursor, int)
    session = sessions.find_session(tx, session_id)
    if session is None:
        raise NotFoundError(
            f"there is no session {cut(repr(session_id), 60)}; list the sessions for their ids"
        )
    after = -1 if key is None else int(key[0])
    found = paging.turns_after(tx, session.row, after, MOST if limit is None else limit + 1)
    page = found[:limit]
    damaged = damaged_turns(tx, [row for row, _, _ in page])
    views = [
        TurnView(
            turn.id,
            turn.speaker,
            turn.role,
            turn.text,
            turn.said,
            turn.time_source,
            from_ms(stored_ms),
            turn.metadata,
            row in damaged,
        )
        for row, turn, stored_ms in page
    ]
    following = listing.cursor((page[-1][1].ordinal,)) if len(page) < len(found) else None
    return TurnPage(tuple(views), session.turns, following)
