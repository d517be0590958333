"""Parts of `scale.py`: what the segtree index costs as a memory grows."""
