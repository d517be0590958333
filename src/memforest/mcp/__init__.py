"""The Model Context Protocol: memory as tools, resources and prompts. Needs ``memforest[mcp]``."""
