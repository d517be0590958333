"""`memforest completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from memforest.cli.call import Call, pass_call, shared_options


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@shared_options
@pass_call
def completion(call: Call, shell: str) -> None:
    """Print what a shell reads to complete commands and options.

    bash: `eval "$(memforest completion bash)"` in ~/.bashrc; zsh: the same with zsh in ~/.zshrc, after
    compinit; fish: `memforest completion fish > ~/.config/fish/completions/memforest.fish`.
    """
    made = get_completion_class(shell)
    assert made is not None  # of the three choices
    source = made(click.Group(), {}, "memforest", "_MEMFOREST_COMPLETE")
    text = source.source_template % source.source_vars()
    if call.as_json:
        call.envelope("ok", {"shell": shell, "script": text})
    else:
        click.echo(text)
