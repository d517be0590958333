"""REST over a forest: FastAPI, OpenAPI 3.1, problem+json. Needs ``memforest[server]``."""

from memforest.rest.app import create_app

__all__ = ["create_app"]
