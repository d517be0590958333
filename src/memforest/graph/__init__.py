"""The entity graph of a memory: which names are one entity, and how entities are related."""
