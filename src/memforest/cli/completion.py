"""`memforest completion`."""

from __future__ import annotations

import click

from memforest.cli.call import Call, pass_call, shared_options
from memforest.cli.completing import script


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@shared_options
@pass_call
def completion(call: Call, shell: str) -> None:
    """Print what a shell reads to complete commands, options and names.

    bash: `eval "$(memforest completion bash)"` in ~/.bashrc; zsh: the same with zsh in ~/.zshrc, after
    compinit; fish: `memforest completion fish > ~/.config/fish/completions/memforest.fish`.
    """
    text = script(shell)
    if call.as_json:
        call.envelope("ok", {"shell": shell, "script": text})
    else:
        click.echo(text)
