"""What changes a memory: receiving turns, extracting and committing facts, correcting, deleting, merging, importing."""
