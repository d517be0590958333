"""The write path against an HTTP double: cost models, what could not be faster, the systems, and the tables."""
