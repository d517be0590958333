"""`memforest merge`: another user's memory, of this directory or another one, into that of a user here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memforest.cli.call import Call, command, read_pairs
from memforest.cli.ingest import budget_options
from memforest.cli.screen import Screen, clean, columns, counted

if TYPE_CHECKING:
    from memforest.read.receipts import MergeResult


MOST_NAMES = 12
"""Names that are listed of those that both memories know."""


@command()
@click.argument("from_user", metavar="FROM")
@click.option(
    "--from-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where FROM's memory is, if not in this directory.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing; say what would be done.")
@click.option(
    "--same-person/--two-people",
    default=None,
    help="Whether FROM and USER are one person; asked for where both have the same display name.",
)
@click.option(
    "--same",
    multiple=True,
    metavar="THERE=HERE",
    callback=read_pairs,
    help="Somebody or something has another name here; may be repeated.",
)
@click.option(
    "--apart",
    multiple=True,
    metavar="NAME",
    help="NAME there is somebody else than NAME here; may be repeated.",
)
@click.option("--embedder", metavar="NAME", help="auto, bge, minilm or none, for a memory that has none yet.")
@budget_options
def merge(
    call: Call,
    from_user: str,
    from_dir: Path | None,
    dry_run: bool,
    same_person: bool | None,
    same: dict[str, Any],
    apart: tuple[str, ...],
    embedder: str | None,
    **bounds: int | None,
) -> None:
    """Merge the memory of one user into that of another.

    That of the user FROM goes into that of --user; nothing is extracted again, and FROM's own stays as it is. What is
    there already is found and left, so merging again brings only what is new.
    People and things of one name become one; a dry run names them.
    """
    with call.forest(embedder=embedder) as forest:
        budget = forest.config.ingest_budget.narrowed(**bounds)
        how: dict[str, Any] = {"dry_run": dry_run, "same_person": same_person, "budget": budget}
        into = call.user
        if into is None:
            raise click.UsageError("into whose memory? Give --user")
        call.settled_user = into
        how |= {"same": {key: str(name) for key, name in same.items()}, "apart": list(apart)}
        done = forest.user(into).merge(from_user, directory=from_dir, **how)
        call.warn(done.warnings)
        call.show({"merged": {into: done}}, lambda screen: _draw(screen, into, done))


def _draw(screen: Screen, user: str, one: MergeResult) -> None:
    would = "would be " if one.dry_run else ""
    screen.line(
        f"{clean(one.user_id, 40)} into {clean(user, 40)}: {counted(one.sessions_added, 'session')} {would}added, "
        f"{one.sessions_grown} {would}grown, {one.sessions_same} known already",
        "bold",
    )
    table = columns("dim", "")
    table.add_row("  turns", f"{one.turns_added} {would}added")
    table.add_row("  facts", f"{one.facts_inserted} {would}added, {one.facts_merged} {would}merged")
    if not one.dry_run:
        table.add_row("  trees", f"{one.trees_copied} taken over, {one.trees_merged} grown")
    for there, here in one.renamed.items():
        table.add_row("  session", f"{clean(there)} is called {clean(here)} here")
    for there, here in one.people.items():
        table.add_row("  name", f"{clean(there)} is called {clean(here)} here")
    for what, names in (("people", one.participants_joined), ("things", one.entities_joined)):
        if names:
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            table.add_row(
                f"  {what}", f"of one name, and one now: {clean(', '.join(names[:MOST_NAMES]), 400)}{more}"
            )
    screen.put(table)
