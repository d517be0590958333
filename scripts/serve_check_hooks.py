"""What schemathesis is told for `make serve-check`: every other request that is to succeed is about a user who is there.

Loaded by schemathesis (``SCHEMATHESIS_HOOKS``), in its own environment.
"""

from __future__ import annotations

from typing import Any

import schemathesis

KNOWN = ("ana", "bob")
KEPT = ("delete_user", "delete_session", "delete", "use_after_free")
"""What would leave nothing to ask is done to users who are not there, or have just been made."""


@schemathesis.hook  # type: ignore[untyped-decorator, unused-ignore]  # it is in another environment
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Put a user who is there in the place of every other one; what is meant to be wrong stays wrong."""
    operation = case.operation.definition.raw.get("operationId")
    meta: Any = getattr(case, "meta", None)
    if meta is None or meta.phase.name.name not in ("COVERAGE", "FUZZING"):
        return
    if meta.generation.mode.is_negative or operation in KEPT:
        return
    given = (case.path_parameters or {}).get("user_id")
    if isinstance(given, str) and len(given) % 2:
        case.path_parameters["user_id"] = KNOWN[len(given) // 2 % 2]
