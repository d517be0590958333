"""The routes below ``/v1``, a module for each noun; each has a `router`."""

from fastapi import APIRouter

from memforest.rest.routes import asking, entities, facts, jobs, over_time, sessions, transfer, upkeep, users

__all__ = ["ROUTERS"]

ROUTERS: tuple[APIRouter, ...] = (
    users.router,
    sessions.router,
    sessions.messages,
    asking.router,
    facts.router,
    over_time.timeline,
    upkeep.trees,
    entities.router,
    over_time.profiles,
    over_time.changes,
    upkeep.upkeep,
    upkeep.indexes,
    jobs.router,
    transfer.router,
)
