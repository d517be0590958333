"""The index hmem: memories by the calendar and by likeness, beside a graph of entities (H-Mem, arXiv 2605.15701)."""
