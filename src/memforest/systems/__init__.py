"""The indexes: ways to find evidence in one persistent state."""
