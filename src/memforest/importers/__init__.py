"""Reading the chat files of other programs: what was said, by whom and when, with a name for all that could not be read.

    chat_file    a file or archive, its format, its sessions      formats     the formats, and entering another
    parts        sessions, what was skipped, options              reading     one pass over a file
    source       files, zip archives and their bounds             sample      the beginning of a file, to tell its format
    text_stream  bytes -> text and lines                          json_stream JSON of any size, value by value
    drafts       messages -> sessions in time order, by day       day_order   whether the day or the month comes first
    protocol     messages of chat protocols -> turns              one module for each format, see docs/importing.md

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
