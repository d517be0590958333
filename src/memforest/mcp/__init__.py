"""The Model Context Protocol: memory as tools, resources and prompts. Needs ``memforest[mcp]``."""

from memforest.mcp.http import HttpApp, http_app
from memforest.mcp.server import MemoryServer
from memforest.mcp.stdio import serve_stdio
from memforest.mcp.toolsets import PROFILES, Profile

__all__ = ["PROFILES", "HttpApp", "MemoryServer", "Profile", "http_app", "serve_stdio"]
