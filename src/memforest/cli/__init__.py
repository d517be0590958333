"""The command line, `memforest`: thin front end of the public surface; see docs/cli.md.

    app         the root command, its options, exit codes   call     one run: options, user, where output goes
    ingest      ingest, resume
    asking      search, ask
    listing     users, sessions                             screen   terminal output of untrusted text
    over_time   facts, timeline, changes, diff              wire     values -> JSON
    inspecting  tree, stats, verify                         jobs     due work in words
    doctor      doctor                                      demo     demo

Importing this loads neither the models nor numpy, so that ``memforest --help`` answers at once; a command's
module is imported when the command is used.
"""

from memforest.cli.app import main

__all__ = ["main"]
