"""`python -m tests.doubles`: the endpoint in a process of its own, until it is interrupted or its input ends.

It prints its address as the first line. Without a terminal it ends with its standard input, so that it does not
outlive the benchmark that started it, and then prints one line of JSON: what it served.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import click
from tests.doubles.pace import Latency, RateLimit
from tests.doubles.server import ChatServer

from memforest.errors import MemForestError


def _numbers(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, ...] | None:
    """Read numbers with commas between them."""
    try:
        return None if value is None else tuple(float(part) for part in value.split(","))
    except ValueError as exc:
        raise click.BadParameter(f"{value!r}: give numbers with commas between them") from exc


@click.command()
@click.option("--port", default=0, help="Where to listen; 0 takes a free port.")
@click.option(
    "--latency",
    callback=_numbers,
    default="0",
    help="Seconds of a reply: fixed, per prompt token, per completion token.",
)
@click.option(
    "--embedding-latency",
    callback=_numbers,
    default="0",
    help="Seconds of embeddings: fixed, per token.",
)
@click.option("--rate-limit", callback=_numbers, help="Calls a second, and calls at once; 429 beyond.")
@click.option("--embedding-dimension", default=64, help="Length of the vectors.")
@click.option(
    "--model", "models", multiple=True, default=("double",), help="A name to list; may be repeated."
)
@click.option("--strict", is_flag=True, help="Answer 404 for other models.")
@click.option("--key", help="The bearer token that is asked for.")
@click.option("--refuse", "refuses", multiple=True, help="A response_format to refuse; may be repeated.")
@click.option("--prefix-cache/--no-prefix-cache", default=True, help="Count cached prompt tokens.")
def main(
    latency: tuple[float, ...],
    embedding_latency: tuple[float, ...],
    rate_limit: tuple[float, ...] | None,
    **settings: Any,
) -> None:
    """Run an OpenAI-compatible endpoint on this machine that answers memforest's steps by local rules."""
    try:
        server = ChatServer(
            latency=Latency(*latency[:3]),
            embedding_latency=Latency(*embedding_latency[:2]),
            rate_limit=None if rate_limit is None else RateLimit(rate_limit[0], int((*rate_limit, 1)[1])),
            keep_bodies=False,
            **settings,
        )
        with server:
            click.echo(server.url)
            sys.stdout.flush()
            _wait()
    except MemForestError as exc:
        raise click.ClickException(str(exc)) from exc
    click.echo(json.dumps(_served(server)))


def _wait() -> None:
    """Return when standard input ends, or on Ctrl-C."""
    try:
        if sys.stdin.isatty():
            while True:
                time.sleep(3600)
        sys.stdin.read()
    except KeyboardInterrupt:
        pass


def _served(server: ChatServer) -> dict[str, float]:
    """Return what a server has done, in numbers."""
    calls = [call for call in server.calls if call.number]
    return {
        "calls": len(calls),
        "most_in_flight": server.most_in_flight,
        "prompt_tokens": sum(call.prompt_tokens for call in calls),
        "completion_tokens": sum(call.completion_tokens for call in calls),
        "cached_tokens": sum(call.cached_tokens for call in calls),
        "processor_s": round(time.process_time(), 3),
    }


if __name__ == "__main__":
    main()
