"""What consolidating by the calendar asks of a model: calls by level, and how many of them wait for one another.

    python benchmarks/timem_ledger.py FILE [--index] [--latency-ms 50] [--in-flight 8 64]

Every conversation of a LoCoMo file becomes a calendar tree: segments, sessions, days, weeks, months (TiMem,
arXiv 2601.02845). The first table is worked out by arithmetic (`calendar_tree.counts`), for the released scheduler and for
what the index ``timem`` can be told to do. Of all of LoCoMo the paper's Table 5 has 2,871 calls for the segments and 3,717
in all, +29.5 %.

- *L1* to *L5*: calls by level; *above L1*: what the tree adds to its segments, in calls and in percent.
- *chain*: calls that wait for one another in a backfill, of the conversation with the longest such chain. *a session*: the
  same among what is made because one session came last, of the session with the longest.

With ``--index`` the same conversations go through the index with a double in the place of a chat model, which counts by
prompt and takes a fixed time: *grown* session by session as they were said, then what is left open; and *added* to a memory
that has all sessions, with so many calls in flight. A second `advance` must call nothing. The exit code is 1 if anything is
not as counted by arithmetic. Chains are those of the arithmetic, as the double cannot see what a call waits for. *wall* is the time
of a backfill, the work of the package and the double included (*cpu*), and *ratio* that over max(chain, calls / in flight) x
latency, which is *least*; conversations come one after the other.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from calendar_tree.counts import LEVELS, RELEASED, Ledger, Talk, Ways, ledger, talk_of
from calendar_tree.double import Counting
from calendar_tree.through import Made, backfilled, grown
from locomo.conversations import Conversation, read_conversations

__all__ = ["THROUGH", "WAYS", "counted", "main", "single_children", "summed"]

WAYS: Mapping[str, Ways] = {
    "released": RELEASED,
    "weeks in months": replace(RELEASED, weeks="in-month"),
    "weeks in months, pass-through": replace(RELEASED, weeks="in-month", pass_through=True),
    "all turns": Ways(),
    "all turns, pass-through": Ways(pass_through=True),
    "all turns, history of children": Ways(history_of="children"),
    "all turns, history of children, pass-through": Ways(history_of="children", pass_through=True),
    **{f"segments of {n} exchanges, pass-through": Ways(segment=n, pass_through=True) for n in (2, 4, 8)},
}
"""Name of a row -> how the tree is made."""

THROUGH: Mapping[str, Ways] = {
    name: WAYS[name]
    for name in (
        "weeks in months",
        "all turns",
        "all turns, history of children",
        "all turns, history of children, pass-through",
    )
}
"""Those that go through the index."""


def counted(talks: Sequence[Sequence[Talk]], ways: Ways) -> Ledger:
    """Return what conversations cost together; chains are those of the conversation with the longest."""
    return summed([ledger(talk, ways) for talk in talks])


def summed(found: Sequence[Ledger]) -> Ledger:
    """Return the sums of calls and memories, and the longest chains."""
    return Ledger(
        calls=tuple(sum(one.calls[at] for one in found) for at in range(LEVELS)),
        memories=tuple(sum(one.memories[at] for one in found) for at in range(LEVELS)),
        chain=max((one.chain for one in found), default=0),
        session_chain=max((one.session_chain for one in found), default=0),
    )


def single_children(talks: Sequence[Sequence[Talk]], ways: Ways) -> tuple[int, int]:
    """Return how many days, weeks and months have one child, and how many there are."""
    kept, passed = counted(talks, ways), counted(talks, replace(ways, pass_through=True))
    return sum(kept.calls[2:]) - sum(passed.calls[2:]), sum(kept.memories[2:])


def row(name: str, found: Ledger) -> str:
    """Return a line of the table."""
    above = found.total - found.calls[0]
    share = above / found.calls[0] if found.calls[0] else 0.0
    calls = " ".join(f"{one:>6,}" for one in found.calls)
    return f"{name:<66} {calls} {found.total:>7,} {above:>8,} {share:>+7.1%} {found.chain:>6} {found.session_chain:>9}"


HEAD = f"{'':<66} {'L1':>6} {'L2':>6} {'L3':>6} {'L4':>6} {'L5':>6} {'all':>7} {'above L1':>8} {'':>7} {'chain':>6} {'a session':>9}"


def print_counts(talks: Sequence[Sequence[Talk]]) -> None:
    """Print the table that is worked out by arithmetic."""
    sessions = [one for talk in talks for one in talk]
    odd = sum(one.turns % 2 for one in sessions)
    single, windows = single_children(talks, WAYS["weeks in months"])
    print(
        f"{len(talks)} conversations, {len(sessions)} sessions, {sum(one.turns for one in sessions):,} turns; "
        f"{odd} sessions have an odd last turn; {single} of {windows} days, weeks and months have one child"
    )
    print(HEAD)
    for name, ways in WAYS.items():
        print(row(name, counted(talks, ways)))


def print_through(conversations: Sequence[Conversation], latency_s: float, in_flight: Sequence[int]) -> bool:
    """Print what the index asks for, and return whether it is as counted."""
    columns = f"{'wall s':>8} {'cpu s':>7} {'least s':>8} {'ratio':>6}"
    print(f"\nthrough the index, {1000 * latency_s:g} ms a call\n{HEAD} {columns}")
    good = True
    for name, ways in THROUGH.items():
        wanted = [counted([talk_of(one)], ways) for one in conversations]
        made = [grown(one, ways, Counting()) for one in conversations]
        good &= _print_made(f"{name}, grown", made, wanted, "")
        for many in in_flight:
            made = [backfilled(one, ways, Counting(latency_s, many)) for one in conversations]
            measured = _measured(made, wanted, latency_s, many)
            good &= _print_made(f"{name}, added, {many} in flight", made, wanted, measured)
    return good


def _print_made(title: str, made: Sequence[Made], wanted: Sequence[Ledger], measured: str) -> bool:
    """Print a row, and return whether every conversation has cost what was counted."""
    same = all(
        one.calls == own.calls and not (one.others or one.again)
        for one, own in zip(made, wanted, strict=True)
    )
    found = summed([own._replace(calls=one.calls) for one, own in zip(made, wanted, strict=True)])
    print(f"{row(title, found)}{measured}  {'as counted' if same else 'NOT as counted'}", flush=True)
    return same


def _measured(made: Sequence[Made], wanted: Sequence[Ledger], latency_s: float, in_flight: int) -> str:
    wall, cpu = (sum(one.wall_s for one in made), sum(one.cpu_s for one in made))
    least = latency_s * sum(max(one.chain, one.total / in_flight) for one in wanted)
    return f" {wall:>8.2f} {cpu:>7.2f} {least:>8.2f} {wall / least if least else float('nan'):>6.2f}"


def main(arguments: Sequence[str]) -> int:
    """Print the tables; the exit code says whether the index does what was counted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="a LoCoMo file")
    parser.add_argument(
        "--index", action="store_true", help="also let the index make the trees, with a double"
    )
    parser.add_argument("--latency-ms", type=float, default=50.0, help="what a call takes")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[8, 64], help="calls at once")
    options = parser.parse_args(arguments)
    print(f"command: python benchmarks/timem_ledger.py {shlex.join([options.file.name, *arguments[1:]])}")
    conversations = read_conversations(options.file)
    print_counts([talk_of(one) for one in conversations])
    if options.index and not print_through(conversations, options.latency_ms / 1000, options.in_flight):
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
