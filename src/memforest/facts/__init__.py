"""Canonical facts: what is one fact, whom it names, and what was true when."""
