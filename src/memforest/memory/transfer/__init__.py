"""Taking a memory out into one file of JSON Lines, and in from it."""
