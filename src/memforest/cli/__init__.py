"""The command line, `memforest`: a thin front end of the public verbs; see docs/cli.md.

    app         the root command, its options, exit codes      call      one run: options, user, output
    ingest      ingest, resume                                 screen    terminal output of untrusted text
    asking      search, ask                                    entities  entities, relations, path, profile, ...
    listing     users, sessions, facts, timeline, changes, diff
    correcting  update, pin, forget, undo, history, delete
    inspecting  tree, stats, verify                            maintain  rebuild, index, advance
    transfer    export, import, merge, backup, restore, encrypt, ...
    doctor      doctor                                         demo      demo

Importing this loads neither the models nor numpy, so that ``memforest --help`` answers at once; a command's
module is imported when the command is used.
"""

from memforest.cli.app import main

__all__ = ["main"]
