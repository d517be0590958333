"""LoCoMo files as the benchmarks of single parts read them, by the readers of `memforest.evaluation`."""
