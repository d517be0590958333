"""The command line: thin, no logic of memory in it."""
