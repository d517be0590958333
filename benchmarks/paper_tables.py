"""Tables 6 and 7 of the MemForest paper in evidence recall: families of trees, and ways of retrieval.

Run ``python benchmarks/paper_tables.py FILE`` (``--help`` for options) on a LoCoMo file; no model behind a key is asked.
Every conversation becomes one memory, as in ``locomo_recall.py``, which also says how is counted. The memories are made
once, in the paper's form: the settings that are compared are of reading alone, and what the form adds to a memory (summaries
of chunks, vectors of scenes) the default does not read. Rows:

- ``emb, FAMILIES``: the paper's form (preset ``"memforest_paper"``): only the leaves that embedding browse of the recalled trees
  reached, by how near each is to the question, for each choice of families (Table 6).
- Of all families, with one setting changed: leaves of turns and facts compared by raw or by aligned cosines
  (``mixed``, ``aligned``), and reached leaves ranked by their path (``path``).
- ``flat-10``: ``index="facts"``; ``root-only``: ``evidence="roots"``; ``default``: the package as it comes (Table 7).

The paper measures answers of a 30B model that were judged, over trees that it summarised; this measures which turns come
up, with local extraction, extractive summaries and a small embedder. So it says what the parts of the *form* are worth here,
and nothing of the paper's figures. The rows of Table 7 that need a chat model (emb+planner, llm, llm+planner) are left out.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import locomo_recall
from locomo import memories
from locomo.conversations import Conversation, read_conversations
from locomo_recall import MODELS, SEED, Scored, note
from memforest import Config, MemForest, load_default_config

SHOWN = ("R@5", "R@10", "R@20", "nDCG@10")
FAMILIES = (
    ("session",),
    ("entity",),
    ("scene",),
    ("entity", "scene"),
    ("entity", "session"),
    ("scene", "session"),
    ("session", "entity", "scene"),
)
"""The choices of the paper's Table 6."""
FLAT, DEFAULT = "flat-10", "default"
DEPTH = 200
"""Evidence asked for; the measures look at 20 turns, and every item names at least one that no other need name."""

Row = Mapping[str, Any]


def in_form(config: Config, settings: Row) -> Config:
    """Return a configuration with settings of the index that differ from the package's defaults."""
    return replace(config, index_settings={"memforest": settings})


def form() -> Row:
    """Return the paper's settings of the index."""
    found = load_default_config("memforest_paper", environ={}).index_settings["memforest"]
    assert isinstance(found, Mapping)
    return found


def rows() -> dict[str, Row]:
    """Return the rows: name -> settings of the index that differ from the package's defaults."""
    paper, found = form(), dict[str, Row]()
    for families in FAMILIES:
        name = "all" if len(families) == 3 else "+".join(families)
        found[f"emb, {name}"] = {**paper, "families": list(families)}
    for leaves in ("mixed", "aligned"):
        found[f"emb, all, {leaves}"] = {**paper, "leaves": leaves}
    found["emb, all, path"] = {**paper, "reached_by": "path"}
    found["emb, entity+scene, path"] = {**paper, "reached_by": "path", "families": ["entity", "scene"]}
    found["root-only"] = {**paper, "evidence": "roots"}
    found[FLAT] = {}
    found[DEFAULT] = {}
    return found


def measured(directory: Path, config: Config, conversations: Sequence[Conversation], seed: int) -> Scored:
    """Ask everything of every row, in memories that are made when they are not there."""
    scored = Scored(conversations, seed)
    with MemForest(directory, in_form(config, form())) as forest:
        note("ingesting what is not there yet")
        memories.build(forest, conversations)
    for name, settings in rows().items():
        note(name)
        index = "facts" if name == FLAT else "memforest"
        with MemForest(directory, in_form(config, settings)) as forest:
            scored.add(name, memories.ask_all(forest, conversations, depth=DEPTH, index=index, mode="emb"))
    return scored


def print_table(scored: Scored) -> None:
    """Print every row with its intervals over conversations, and its difference from flat-10 at ten."""
    n = len(scored.category)
    print(f"\nevidence recall, % [95% over conversations], n = {n}; then R@10 minus that of {FLAT}, paired")
    print(f"{'':26}" + "".join(f"{name:>22}" for name in SHOWN) + f"{'minus ' + FLAT:>24}")
    for name in scored.values:
        chunks = scored.overall(name)
        row = "".join(f"{_shown(chunks[one], ''):>22}" for one in SHOWN)
        gap = scored.difference(name, FLAT, ("R@10",))["R@10"]
        print(f"{name:26}{row}{'' if name == FLAT else _shown(gap, '+'):>24}")


def _shown(chunk: Mapping[str, Any], sign: str) -> str:
    low, high = chunk["conversations"]
    return f"{chunk['mean']:{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="a LoCoMo file: a list of samples with conversation and qa")
    parser.add_argument("--embedder", choices=tuple(MODELS), default="minilm")
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="keep memories here, so that a rerun is fast"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of the bootstrap's draws")
    parser.add_argument("--conversations", type=int, metavar="N", help="only the first N of the file")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    conversations = read_conversations(options.file)[: options.conversations]
    config = Config(embedder=options.embedder, reranker=None)
    about = locomo_recall.head(options, conversations, MODELS[options.embedder].model_id)
    for key, value in {**about, "configuration": "as each row says"}.items():
        print(f"{key}: {value}")
    with tempfile.TemporaryDirectory(prefix="paper-tables-") as folder:
        directory = (options.work or Path(folder)) / options.embedder / "paper"
        directory.mkdir(parents=True, exist_ok=True)
        print_table(measured(directory, config, conversations, options.seed))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
