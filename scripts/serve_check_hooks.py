"""What schemathesis is told for `make serve-check`: every other request is about a user who is there.

Loaded by schemathesis (``SCHEMATHESIS_HOOKS``), in its own environment.
"""

from __future__ import annotations

from typing import Any

import schemathesis

KNOWN = ("ana", "bob")
KEPT = ("delete_user", "delete_session", "delete")
"""What would leave nothing to ask is done to users who are not there, or have just been made."""


@schemathesis.hook  # type: ignore[untyped-decorator, unused-ignore]  # it is in another environment
def map_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Put a user who is there in the place of every other one."""
    operation = context.operation.definition.raw.get("operationId")
    if path_parameters and "user_id" in path_parameters and operation not in KEPT:
        given = str(path_parameters["user_id"])
        if len(given) % 2:
            path_parameters["user_id"] = KNOWN[len(given) // 2 % 2]
    return path_parameters
