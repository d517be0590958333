"""What ingest jobs may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from memforest.settings import Bound, Count, Settings, Whole

MOST_SESSIONS = 1000


@dataclass(frozen=True, slots=True)
class IntakeBounds(Settings):
    """What ingest jobs may take."""

    most_sessions: Annotated[int, Bound(ge=1, le=MOST_SESSIONS)] = MOST_SESSIONS
    """Most sessions of one job."""
    most_open: Count = 100
    """Most jobs of a tenant that are unfinished at once."""
    most_kept: Whole = 1000
    """Most jobs of a tenant that stay known after their end."""
    keep_days: Annotated[float, Bound(gt=0)] = 7.0
    """How long they do."""
    most_running: Count = 4
    """Most users that are worked on at once."""
    most_of_tenant: Count = 2
    """Most users of one tenant that are worked on at once."""
    most_watchers: Count = 100
    """Most connections of a tenant that follow jobs."""
