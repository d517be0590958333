"""What the benchmarks of trees by calendar windows (index `timem`) share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # for the doubles of the tests
