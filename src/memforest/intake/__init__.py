"""Ingest jobs: many sessions of many users, received at once and made memory of in the background."""

from memforest.intake.bounds import IntakeBounds
from memforest.intake.intake import Intake
from memforest.intake.views import ENDED, JOB_STATES, JobEvent, JobPage, JobState, JobView, RefusedSession

__all__ = [
    "ENDED",
    "JOB_STATES",
    "Intake",
    "IntakeBounds",
    "JobEvent",
    "JobPage",
    "JobState",
    "JobView",
    "RefusedSession",
]
