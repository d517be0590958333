"""The parts of `gates.py`: what a row is, and what measures each group of rows."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # for the doubles of the tests
