"""One user's memory: turns in, evidence out."""
