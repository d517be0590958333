"""The graph of a memory: which names mean one entity, what relates entities, and the ways between them."""
