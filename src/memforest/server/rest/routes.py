"""The routes below ``/v1``, a module for each noun; each has a `router`.

Facades for clients of other memories: below ``/compat``, outside of the OpenAPI description; see docs/compat.md.
"""

from __future__ import annotations

from fastapi import APIRouter

from memforest.server.rest import job_routes, mem0, mem0_changing, memory_routes, openai, user_routes

ROUTERS: tuple[APIRouter, ...] = (
    user_routes.user_routes,
    memory_routes.session_routes,
    memory_routes.messages,
    memory_routes.asking_routes,
    memory_routes.fact_routes,
    memory_routes.timeline,
    user_routes.trees,
    memory_routes.entity_routes,
    memory_routes.profiles,
    memory_routes.changes,
    user_routes.upkeep,
    user_routes.indexes,
    job_routes.job_routes,
    user_routes.transfer_routes,
)


COMPAT_ROUTERS: tuple[APIRouter, ...] = (
    mem0.router,
    mem0_changing.router,
    mem0_changing.router,
    mem0_changing.router,
    openai.router,
)
"""In this order: `mem0_unmapped` answers what those before it do not."""
