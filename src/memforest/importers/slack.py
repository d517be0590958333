"""Slack's export: a zip archive with a folder for each channel, in it a file for each day, beside ``users.json``.

A message has ``type``, ``user``, ``text``, ``ts`` (Unix seconds, also its id in the channel), ``thread_ts`` where it belongs to a
thread, ``subtype`` where it is something else than a person's message, ``edited``, ``files``.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memforest.importers.drafts import Draft, by_day, in_time_order, session_of
from memforest.importers.parts import FileSession
from memforest.importers.reading import Reading
from memforest.importers.sample import Sample

_DAY_FILE = re.compile(r"(?:^|/)(?P<folder>[^/]+)/\d{4}-\d\d-\d\d\.json$")
_ABOUT = ("users.json", "channels.json", "groups.json", "dms.json", "mpims.json", "org_users.json", "integration_logs.json",
          "canvases.json", "file_conversations.json", "huddle_transcripts.json", "lists.json")  # fmt: skip
_SPOKEN = frozenset({None, "me_message", "thread_broadcast", "file_share", "file_comment", "reply_broadcast"})
_LINK = re.compile(r"<(?P<target>[^<>|]+)(?:\|(?P<label>[^<>]*))?>")


def recognises_archive(names: Sequence[str]) -> bool:
    """Return whether the files of an archive are channels of days."""
    return any(_DAY_FILE.search(name) for name in names) and any(is_about(name) for name in names)


def is_about(name: str) -> bool:
    """Return whether a file of the archive is one of those that list users, channels and the like."""
    return name.rsplit("/", 1)[-1] in _ABOUT


def recognises(sample: Sample) -> bool:
    """Return whether it is the messages of a day of one channel."""
    return sample.shape == "array" and any(
        isinstance(one.get("ts"), str) and one.get("type") == "message" for one in sample.objects
    )


def read(reading: Reading) -> Iterator[FileSession]:
    """Yield the sessions of a single file; people keep their ids there, as their names are in another file."""
    yield from _channel([reading], reading.name, {}, reading)


def read_archive(files: Sequence[Reading], whole: Reading) -> Iterator[FileSession]:
    """Yield the sessions of all channels: one a day, and one for each thread.

    The threads of one channel are held until its last day is read, as an answer may come on any later day.
    """
    names: dict[str, str] = {}
    channels: dict[str, list[Reading]] = {}
    for reading in files:
        if reading.source.name.endswith("users.json"):
            names |= _people(reading)
        elif found := _DAY_FILE.search(reading.source.name):
            channels.setdefault(found["folder"], []).append(reading)
    for folder, days in channels.items():
        yield from _channel(days, folder, names, whole)


def _people(reading: Reading) -> dict[str, str]:
    """Return user id -> name as it is shown."""
    reading.shape = "array"
    found = {}
    for _, user in reading.objects():
        profile = user.get("profile")
        profile = profile if isinstance(profile, Mapping) else {}
        told = (
            profile.get("display_name"),
            profile.get("real_name"),
            user.get("real_name"),
            user.get("name"),
        )
        if name := next((one for one in told if isinstance(one, str) and one.strip()), None):
            found[str(user.get("id"))] = name
    return found


def _channel(
    days: Sequence[Reading], channel: str, names: Mapping[str, str], whole: Reading
) -> Iterator[FileSession]:
    threads: dict[str, list[Draft]] = {}
    about = {"channel": channel}

    def of_the_channel() -> Iterator[Draft]:
        for day in days:
            day.shape = "array"
            for where, message in day.objects():
                draft = _draft(message, names, day, where)
                thread = message.get("thread_ts")
                if draft is None:
                    continue
                if day.source.archive is not None:
                    draft = replace(draft, where=f"{day.source.name}, {where}")
                if isinstance(thread, str):
                    threads.setdefault(thread, []).append(draft)
                else:
                    yield draft

    yield from by_day(of_the_channel(), whole, channel, metadata=about)
    for thread, drafts in threads.items():
        yield session_of(
            f"{channel}/{thread}",
            in_time_order(drafts),
            metadata={**about, "thread": thread},
            where=drafts[0].where,
        )


def _draft(
    message: Mapping[str, Any], names: Mapping[str, str], reading: Reading, where: str
) -> Draft | None:
    subtype = message.get("subtype")
    is_bot = subtype == "bot_message" or (bool(message.get("bot_id")) and "user" not in message)
    if subtype not in _SPOKEN and not is_bot:
        reading.skips.leave_out("notice of the app")
        return None
    if message.get("files"):
        reading.skips.leave_out("image, sound or file")
    text = _text(message, names)
    if not text.strip():
        reading.skips.leave_out("message without text")
        return None
    said = reading.read_time(message.get("ts"), where)
    if said is None:
        return None
    turn: dict[str, Any] = {"content": text, "timestamp": message["ts"], "id": message["ts"]}
    if is_bot:
        turn |= {"role": "tool", "speaker": _bot(message)}
    else:
        user = str(message.get("user") or message.get("username") or "unknown")
        profile = message.get("user_profile")
        shown = (
            profile.get("display_name") or profile.get("real_name") if isinstance(profile, Mapping) else None
        )
        turn["speaker"] = names.get(user) or shown or user
    if isinstance(edited := message.get("edited"), Mapping) and edited.get("ts"):
        turn["edited"] = str(edited["ts"])
    return Draft(where, turn, said)


def _bot(message: Mapping[str, Any]) -> str:
    profile = message.get("bot_profile")
    told = (
        message.get("username"),
        profile.get("name") if isinstance(profile, Mapping) else None,
        message.get("bot_id"),
    )
    return next((one for one in told if isinstance(one, str) and one.strip()), "bot")


def _text(message: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return the text with names for ids and links as they are shown; of a bot that only attaches, what it attaches."""
    text = message.get("text")
    if not isinstance(text, str) or not text.strip():
        attached = message.get("attachments")
        found = (
            [one.get("text") or one.get("fallback") for one in attached if isinstance(one, Mapping)]
            if isinstance(attached, list)
            else []
        )
        text = "\n".join(one for one in found if isinstance(one, str))

    def shown(link: re.Match[str]) -> str:
        target, label = link["target"], link["label"]
        if target.startswith("@"):
            return f"@{names.get(target[1:]) or label or target[1:]}"
        if target.startswith(("#", "!")):
            return f"{'#' if target[0] == '#' else '@'}{label or target[1:]}"
        return f"{label} ({target})" if label and label != target else target

    return html.unescape(_LINK.sub(shown, text))
