"""Evidence recall on LoCoMo files: reading, systems, measures and tables."""
