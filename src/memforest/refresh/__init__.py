"""Bringing summaries and vectors of nodes up to date."""
