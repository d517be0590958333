"""The benchmark of dated sentences: its rows, the dates that a memory claims, and their scoring."""
