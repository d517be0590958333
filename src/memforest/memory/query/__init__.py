"""The read path of one memory: from a question to evidence and an answer."""
