"""Importers: read the chat files of other programs, and name all that could not be read.

    detect    a file or archive, its format, its sessions; entering another format
    files     files and archives as streams, sessions, and what was skipped
    drafts    the beginning of a file; messages -> sessions in time order
    messages  messages of chat protocols; assistants, chat_apps and tables: one part for each format, see docs/formats.md

A file is read as a stream, twice or more: only the session that is being read is held.
"""

from memforest.importers.detect import ChatFile, Format, add_format, format_names, open_chat, read_sessions
from memforest.importers.files import FileSession, ReadOptions, SkippedPart, Skips

__all__ = [
    "ChatFile",
    "FileSession",
    "Format",
    "ReadOptions",
    "SkippedPart",
    "Skips",
    "add_format",
    "format_names",
    "open_chat",
    "read_sessions",
]
