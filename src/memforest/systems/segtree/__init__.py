"""SegTreeMem: an online segment tree over the exchanges of a memory, and relevance that flows along it."""
