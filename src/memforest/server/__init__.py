"""`memforest serve`: REST, MCP and the inspector in one process, and the commands that start them."""
