"""Deleting what was said, with everything that was made of it."""
