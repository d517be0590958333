"""Parts of `serving.py`: what a server costs beside the library in one's own process."""
