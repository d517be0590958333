"""Facades for clients of other memories: below ``/compat``, outside of the OpenAPI description; see docs/compat.md."""

from fastapi import APIRouter

from memforest.rest.compat import mem0, mem0_changing, mem0_entities, mem0_unmapped, openai

__all__ = ["ROUTERS"]

ROUTERS: tuple[APIRouter, ...] = (
    mem0.router,
    mem0_changing.router,
    mem0_entities.router,
    mem0_unmapped.router,
    openai.router,
)
"""In this order: `mem0_unmapped` answers what those before it do not."""
