"""Seeded conversations of any length, with a vocabulary that grows as a person's does."""
