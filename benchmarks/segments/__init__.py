"""What `segtree_sweep.py` is made of: memories and their variants, rankings on the same trees, measures and a control."""
