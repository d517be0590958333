"""The routes below ``/v1``, a module for each noun; each has a `router`."""

from fastapi import APIRouter

from memforest.rest.routes import jobs, users

__all__ = ["ROUTERS"]

ROUTERS: tuple[APIRouter, ...] = (users.router, jobs.router)
