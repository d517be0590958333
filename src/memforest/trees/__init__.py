"""The temporal trees: the kernel, the indexes that grow them (memforest, segtree, timem, hmem, flat, facts), and their summaries."""
