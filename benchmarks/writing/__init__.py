"""The write path against an HTTP double: cost models, what could not be faster, the systems, and the tables."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # for the doubles of the tests
