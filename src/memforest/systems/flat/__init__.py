"""The baseline without trees."""
