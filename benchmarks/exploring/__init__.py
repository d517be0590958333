"""What the benchmarks of the index hmem share: ways to ask, what came of taking questions apart, missed turns, and what is shown."""
