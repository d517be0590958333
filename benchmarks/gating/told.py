"""Whether a memory dates what it is told, and says what was so at a time."""

from __future__ import annotations

import tempfile
from pathlib import Path

from dated_sentences import outcomes
from dates.rows import HALVES, read_rows
from gating.rows import Row, of_questions
from kept import KeptVectors
from memforest.models import MINILM, open_embedder
from temporal.phrasing import SETS
from temporal_state import QUESTIONS, WORLDS, measure
from temporal_state import SEED as WORLD_SEED

__all__ = ["dates", "timelines"]

_HALF = {"before": "sentences that were consulted", "after": "sentences nobody consulted"}


def dates() -> list[Row]:
    """Return how many of the dated sentences are dated right, and wrong."""
    found: list[Row] = []
    for half in HALVES:
        with tempfile.TemporaryDirectory(prefix="gates-dates-") as folder:
            made = outcomes(read_rows(half), Path(folder))
        found.append(of_questions(f"{_HALF[half]}: dated right", [float(one == "right") for one in made]))
        wrong = [float(one == "wrong") for one in made]
        found.append(of_questions(f"{_HALF[half]}: dated wrong", wrong, "less"))
    return found


def timelines(work: Path) -> list[Row]:
    """Return how often the first evidence says what was so, in the generated worlds of each set of wordings."""
    embedder = KeptVectors(open_embedder(MINILM.model_id), work / f"timelines-{MINILM.model_id}.npz")
    found = []
    for which in SETS:
        run = measure(
            which, (WORLDS, QUESTIONS), WORLD_SEED, ("memforest",), {"embedder": embedder, "reranker": None}
        )
        hits = [answered.hit for answered in run.answers["memforest"]]
        found.append(of_questions(f"{which}: the first evidence is right", hits))
    embedder.save()
    return found
