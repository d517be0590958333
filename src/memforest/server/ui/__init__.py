"""The inspector: pages in a browser that show what a memory holds."""
