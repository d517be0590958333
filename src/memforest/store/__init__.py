"""The memory file: its schema, every SQL statement, encryption, and the care of its bytes."""
