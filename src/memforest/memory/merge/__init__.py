"""Merging another memory into one: its turns, statements and trees are copied by rows, and nothing is extracted again."""
