"""The model-shaped steps done by a chat model."""
