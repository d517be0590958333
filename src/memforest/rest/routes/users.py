"""Users."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from memforest.rest.deps import Forest, Who, needs

__all__ = ["router"]

router = APIRouter(prefix="/v1/users", tags=["users"])


@router.get("", operation_id="list_users", dependencies=[Depends(needs("read"))])
async def list_users(forest: Forest, who: Who) -> list[str]:
    """List who has a memory."""
    users = await forest.list_users()
    return [one for one in users if who.user in (None, one)]
