"""Examples of use, which nothing of the package imports."""
