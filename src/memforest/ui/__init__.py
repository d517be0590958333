"""The inspector: pages on which a person looks into a memory. Needs ``memforest[server]``."""
