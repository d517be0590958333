"""The temporal trees: the kernel, the indexes that grow them (memforest, segtree, timem, hmem, flat), and their summaries."""
