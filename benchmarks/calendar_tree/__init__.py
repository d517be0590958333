"""What the benchmarks of trees by calendar windows (index `timem`) share."""
