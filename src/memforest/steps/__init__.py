"""The model-shaped steps as ports, and their local implementations."""
