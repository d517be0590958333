"""`python -m memforest`: the command, for where its script is not on the path."""

from __future__ import annotations

from memforest.cli import main

main()
