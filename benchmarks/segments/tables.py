"""The printed tables of `segtree_sweep.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from segments.build import SHARE
from segments.cells import ADMISSIBLE, ALPHAS, HORIZONS, LINKS, POLICIES, SCORERS, Table, name_of, tree_cells
from segments.choose import held_out
from segments.ranked import MEASURES

__all__ = [
    "print_added",
    "print_best",
    "print_beyond",
    "print_choice",
    "print_grid",
    "print_levels",
    "print_orders",
    "print_trees",
]

SHOWN = ("R@10", "below", "said")
"""What the cells of the grid have."""
DEFAULT = "fused, bounded, top-down 0.10, expand"
"""The way of `SegTreeSettings()` and `Ranking()`."""


def _signed(cell: Mapping[str, Any]) -> str:
    (low, high), wide = cell["questions"], cell["conversations"]
    return f"{cell['mean']:+.1f} [{low:+.1f}, {high:+.1f}] ({wide[0]:+.1f}, {wide[1]:+.1f})"


def _plain(cell: Mapping[str, Any]) -> str:
    (low, high), wide = cell["questions"], cell["conversations"]
    return f"{cell['mean']:.1f} [{low:.1f}, {high:.1f}] ({wide[0]:.1f}, {wide[1]:.1f})"


def print_rows(table: Table, names: Sequence[str], title: str) -> None:
    """Print all measures of some ways to rank."""
    print(f"\n{title}")
    heads = [one.replace("below", "b").replace("said", "s").replace("tokens", "tok") for one in MEASURES]
    print(f"{'':46}" + "".join(f"{one:>7}" for one in heads))
    for name in names:
        print(f"{name:46}" + "".join(f"{table.mean(name, one):7.1f}" for one in MEASURES))


def print_grid(table: Table) -> None:
    """Print the grid: alpha x H x policy x admissible x scorer, `R@10 / below / said` a cell, %."""
    print("\nthe grid (Figures 6, 13), %: R@10 / below / said; H 0 is the collapsed tree")
    for scorer in SCORERS:
        for admissible in ADMISSIBLE:
            none = name_of((scorer, admissible, "top-down", 0.10, 0))
            print(f"\n{scorer}, {admissible}: H 0 {_three(table, none)}")
            for policy in POLICIES:
                if policy == "bottom-up" and admissible == "leaves":
                    print("  bottom-up: as H 0, since nothing is below a leaf")
                    continue
                print(f"  {policy:10}" + "".join(f"{f'alpha {alpha:.2f}':>20}" for alpha in ALPHAS))
                for horizon in HORIZONS:
                    cells = [name_of((scorer, admissible, policy, alpha, horizon)) for alpha in ALPHAS]
                    print(f"  H {horizon:<8}" + "".join(f"{_three(table, name):>20}" for name in cells))


def _three(table: Table, name: str) -> str:
    return " / ".join(f"{table.mean(name, one):.1f}" for one in SHOWN)


def print_levels(table: Table) -> None:
    """Print of which levels the first ten nodes are, by policy and alpha."""
    print("\nlevels of the first 10 nodes, %, H 2 (Figures 7, 14): leaves, 1, 2, 3, 4, above")
    for scorer in SCORERS:
        for admissible in ADMISSIBLE[1:]:
            _levels(
                table,
                f"{scorer}, {admissible}",
                name_of((scorer, admissible, "top-down", 0.10, 0)),
                "collapsed",
            )
            for policy in POLICIES:
                for alpha in ALPHAS:
                    name = name_of((scorer, admissible, policy, alpha, 2))
                    _levels(table, f"{scorer}, {admissible}", name, f"{policy} {alpha:.2f}")


def _levels(table: Table, where: str, name: str, what: str) -> None:
    print(f"  {where:18}{what:18}" + "".join(f"{100 * share:7.1f}" for share in table.levels(name)))


def print_added(table: Table) -> None:
    """Print what the tree adds to its own leaves, and the other indexes beside it."""
    alone = "fused, leaves, collapsed (H 0)"
    paper = "cosine, leaves, collapsed (H 0)"
    names = [name for name in table.names() if "0.10 H2" in name or " H" not in name or "collapsed" in name]
    print_rows(table, names, "single ways, % (b below, s said; tok: tokens of the first 10 pieces)")
    print("\nwhat the tree adds to its own leaves (leaves alone, nothing propagated), paired, points")
    for base in (alone, paper):
        scorer = base.partition(",")[0]
        for name in names:
            if name.startswith(scorer) and name != base:
                print(
                    f"  {name:44}"
                    + "".join(f"  {one} {_signed(table.gap(name, base, one))}" for one in SHOWN)
                )
    print("\nother indexes, minus the fused leaves alone")
    for name in ("memforest", "flat", "memforest + segtree"):
        print(f"  {name:44}" + "".join(f"  {one} {_signed(table.gap(name, alone, one))}" for one in SHOWN))
    print(f"  memforest + segtree minus memforest  {_each_gap(table, 'memforest + segtree', 'memforest')}")


def _each_gap(table: Table, name: str, other: str) -> str:
    return "  ".join(f"{one} {_signed(table.gap(name, other, one))}" for one in SHOWN)


def print_choice(table: Table) -> None:
    """Print what is chosen with a conversation held out, among all ways of a scorer, and what that is worth; nothing of a single conversation."""
    if len(set(table.conversation.tolist())) < 2:
        return
    print("\nchosen on the other conversations (one held out), minus the leaves alone, points")
    for measure in ("said", "R@10", "below"):
        for scorer in (*SCORERS, ""):
            base = f"{scorer or 'fused'}, leaves, collapsed (H 0)"
            found = [one for one in table.names() if one.startswith(scorer or SCORERS) and one != base]
            chosen = held_out(table, [base, *found], base, measure)
            print(f"  by {measure}, {scorer or 'either'}: {_signed(chosen.gap)}")
            for name in dict.fromkeys(chosen.picked):
                print(
                    f"      {chosen.picked.count(name)} x {name}: all conversations {_plain(table.cell(name, measure))}"
                )


def print_best(table: Table) -> None:
    """Print the default, the paper's, the collapsed trees and the best ways with their intervals."""
    print("\nwith 95 % intervals over questions (over conversations), %; best: of all, with nothing held out")
    named = {
        "default": DEFAULT,
        "leaves alone": "fused, leaves, collapsed (H 0)",
        "collapsed": "fused, bounded, collapsed (H 0)",
        "paper, top-down": "cosine, all, top-down 0.10 H2",
        "paper, bottom-up": "cosine, all, bottom-up 0.10 H2",
        "paper, collapsed": "cosine, all, collapsed (H 0)",
    }
    for measure in SHOWN:
        ways = [name for name in table.names() if name.startswith(SCORERS)]
        named[f"best by {measure}"] = max(ways, key=lambda name: table.mean(name, measure))
    for what, name in named.items():
        cells = "  ".join(f"{one} {_plain(table.cell(name, one))}" for one in SHOWN)
        print(f"  {what:17}{name:42}{cells}")


def print_beyond(table: Table) -> None:
    """Print what goes beyond the paper, minus the same way without it, and what comes of choosing either with one held out."""
    print(
        "\nbeyond the paper: minus the same way without it; chosen: by said, with one conversation held out"
    )
    for scorer in SCORERS:
        down = f"{scorer}, bounded, top-down 0.10 H2"
        plain = f"{scorer}, bounded, collapsed (H 0)"
        pairs = [
            (f"{scorer}, {admissible}, by-question", down.replace("bounded", admissible))
            for admissible in ADMISSIBLE
        ]
        pairs += [(f"{scorer}, bounded, none, links {weight}", plain) for weight in LINKS]
        pairs += [(f"{scorer}, bounded, top-down, links {weight}", down) for weight in LINKS]
        pairs += [(f"{scorer}, bounded, none, expand", plain)]
        pairs += [(f"{scorer}, bounded, top-down 0.10, expand", down)]
        for name, base in pairs:
            print(f"  {name:44}  {_each_gap(table, name, base)}")
            if len(set(table.conversation.tolist())) > 1:
                chosen = held_out(table, [base, name], base, "said")
                print(f"      chosen {chosen.picked.count(name)} times: {_signed(chosen.gap)}")


def print_trees(table: Table, trees: Sequence[str]) -> None:
    """Print trees that are made otherwise, and their differences from the default."""
    for way in tree_cells():
        print_rows(table, [f"{tree}: {way}" for tree in trees], f"trees made otherwise, %: {way}")
        for tree in trees[1:]:
            print(f"  {tree:20} minus default: {_each_gap(table, f'{tree}: {way}', f'default: {way}')}")


def print_orders(table: Table, seeds: Sequence[int]) -> None:
    """Print what a tree loses when exchanges have traded places before it is made (Table 3), and how much more than the control."""
    print(f"\n{SHARE:.0%} of the exchanges traded places before building, without extraction (Table 3)")
    orders = ("in order", *(f"swapped {seed}" for seed in seeds))
    for way in tree_cells():
        names = {
            tree: {order: f"{tree}, {order}: {way}" for order in orders} for tree in ("segments", "clusters")
        }
        print_rows(table, [name for tree in names.values() for name in tree.values()], way)
        print("  swapped minus in order")
        for order in orders[1:]:
            for tree, by_order in names.items():
                print(f"    {tree}, {order}: {_each_gap(table, by_order[order], by_order['in order'])}")
        for one in SHOWN:
            fall = {
                tree: sum(table.column(name, one) for order, name in by_order.items() if order != "in order")
                / len(seeds)
                - table.column(by_order["in order"], one)
                for tree, by_order in names.items()
            }
            more = table.spread(fall["segments"] - fall["clusters"])
            print(f"    segments minus clusters, mean of the seeds, {one}: {_signed(more)}")
        print(
            f"  segments minus clusters, in order: {_each_gap(table, names['segments']['in order'], names['clusters']['in order'])}"
        )
