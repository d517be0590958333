"""The parts of `gates.py`: what a row is, and what measures each group of rows."""
