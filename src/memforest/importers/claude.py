"""Claude's data export: ``conversations.json``, each conversation a list of messages with typed parts.

``memories.json`` beside it has what Claude keeps in mind of the account, as a text in Markdown: ``conversations_memory``, and
``project_memories`` by the uuid of a project. Nobody said it, so its speaker is "claude", and its metadata say what it is.

Shape: objects with ``uuid``, ``name``, ``created_at`` and ``chat_messages`` (``uuid``, ``sender``, ``created_at``, ``text``,
``content``, ``attachments``, ``files``, and in newer exports ``parent_message_uuid``: then only the last branch is read).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memforest.importers.drafts import Draft, in_given_order, session_of, tool_call, tool_result
from memforest.importers.parts import FileSession
from memforest.importers.reading import Reading
from memforest.importers.sample import Sample
from memforest.limits import TIME_KEYS

_MEMORY = "conversations_memory"
_HEADING = re.compile(r"\*\*([^*\n]+)\*\*:?|#{1,6} ([^\n]+)")
_ROLES = {"human": "user", "user": "user", "assistant": "assistant"}


def recognises(sample: Sample) -> bool:
    """Return whether it is conversations with chat messages, or memories."""
    return any(isinstance(one.get("chat_messages"), list) or _MEMORY in one for one in sample.objects)


def read(reading: Reading) -> Iterator[FileSession]:
    """Yield a session for each conversation, and for each memory."""
    for where, conversation in reading.objects():
        if _MEMORY in conversation:
            yield from _memories(conversation, reading, where)
            continue
        messages = conversation.get("chat_messages")
        if not isinstance(messages, list):
            reading.skips.fail(where, "the conversation has no 'chat_messages'")
            continue
        drafts: list[Draft] = []
        branch = _branch(conversation, messages)
        for number, message in enumerate(messages):
            at = f"{where}, message {number}" if where else f"message {number}"
            if not isinstance(message, Mapping):
                reading.skips.fail(at, "the message is no object")
            elif branch is not None and message.get("uuid") not in branch:
                reading.skips.leave_out("message of another branch")
            else:
                drafts += _drafts(message, reading, at)
        if not drafts:
            reading.skips.leave_out("conversation without messages")
            continue
        yield session_of(
            str(conversation.get("uuid") or f"{reading.name}-{where}"),
            in_given_order(drafts, reading),
            timestamp=_text_of(conversation, "created_at"),
            metadata={"title": title} if (title := _text_of(conversation, "name")) else {},
            where=where,
        )


def _memories(account: Mapping[str, Any], reading: Reading, where: str) -> Iterator[FileSession]:
    """Yield what is kept in mind of an account, and of each of its projects.

    Its time is its own, or in an archive that of the file; the session is of that day, so that a later export adds to it.
    """
    time = next((account[key] for key in TIME_KEYS if account.get(key) is not None), reading.source.modified)
    said = None if time is None else reading.unmistakable(time, where)
    day = "" if said is None else str(said[0].astimezone(reading.options.zone).date())
    projects, files = account.get("project_memories"), account.get("memory_files")
    reading.skips.leave_out("file of Claude's memory", len(files) if isinstance(files, list) else 0)
    of_projects = projects if isinstance(projects, Mapping) else {}
    for project, text in ((None, account[_MEMORY]), *of_projects.items()):
        about = {} if project is None else {"project": project}
        if turns := _paragraphs(text, about) if isinstance(text, str) else ():
            of = str(project or account.get("account_uuid") or "")
            name = "/".join(one for one in ("memory", of, day) if one)
            yield FileSession(name, turns, said and said[1], {"source": "claude"}, where)


def _paragraphs(text: str, about: Mapping[str, str]) -> tuple[dict[str, Any], ...]:
    """Return the paragraphs of a memory as turns, each with the heading that it stands under."""
    turns: list[dict[str, Any]] = []
    for part in re.split(r"\n\s*\n", text.strip()):
        if heading := _HEADING.fullmatch(part.strip()):
            about = {**about, "section": (heading[1] or heading[2]).strip(": ")}
        elif part.strip():
            turns.append(
                {"speaker": "claude", "content": part.strip(), "kind": "memory that Claude made", **about}
            )
    return tuple(turns)


def _branch(conversation: Mapping[str, Any], messages: Sequence[Any]) -> set[str] | None:
    """Return the ids of the messages up to the current one; None where no message tells what it follows."""
    known = {
        one["uuid"]: one for one in messages if isinstance(one, Mapping) and isinstance(one.get("uuid"), str)
    }
    if not any(one.get("parent_message_uuid") in known for one in known.values()):
        return None
    at = conversation.get("current_leaf_message_uuid")
    if at not in known:
        times = {uuid: str(one.get("created_at")) for uuid, one in known.items()}
        dated = [uuid for uuid, time in times.items() if time[:1].isdecimal()]
        at = max(dated, key=times.__getitem__, default=next(reversed(known)))
    path: set[str] = set()
    while isinstance(at, str) and at in known and at not in path:
        path.add(at)
        at = known[at].get("parent_message_uuid")
    return path


def _drafts(message: Mapping[str, Any], reading: Reading, where: str) -> list[Draft]:
    """Return the turns of a message: its words, what its tools did, and the text of what was attached."""
    role = _ROLES.get(str(message.get("sender")))
    if role is None:
        reading.skips.fail(where, f"the sender is {str(message.get('sender'))[:40]!r}, which is not known")
        return []
    stamp = _text_of(message, "created_at")
    said = None if stamp is None else reading.read_time(stamp, where)
    if stamp is not None and said is None:
        return []
    turns = _attached(message, reading)
    turns += _spoken(message, role, reading)
    if not turns:
        reading.skips.leave_out("message without text (files)" if message.get("files") else "empty message")
    elif message.get("files"):
        reading.skips.leave_out("image, sound or file")
    drafts = []
    names = iter(range(len(turns)))
    main = next((n for n, turn in enumerate(turns) if turn["role"] == role), 0)
    for number in names:
        turn = turns[number]
        if uuid := _text_of(message, "uuid"):
            turn = {"id": uuid if number == main else f"{uuid}/{number}", **turn}
        drafts.append(Draft(where, turn if stamp is None else {**turn, "timestamp": stamp}, said))
    return drafts


def _spoken(message: Mapping[str, Any], role: str, reading: Reading) -> list[dict[str, Any]]:
    parts = message.get("content")
    if not isinstance(parts, list) or not parts:
        parts = [{"type": "text", "text": message.get("text")}]
    turns: list[dict[str, Any]] = []
    for part in parts:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "tool_use":
            turns.append(tool_call(part.get("name"), part.get("input")))
        elif kind == "tool_result":
            if result := _result(part.get("content")):
                turns.append(tool_result(part.get("name"), result))
        elif kind == "thinking":
            reading.skips.leave_out("reasoning of the model")
        elif kind == "text" and (text := _text_of(part, "text")):
            if turns and turns[-1]["role"] == role:
                turns[-1]["content"] += f"\n{text}"
            else:
                turns.append({"role": role, "content": text})
        elif kind != "text":
            reading.skips.leave_out("image, sound or file")
    return turns


def _attached(message: Mapping[str, Any], reading: Reading) -> list[dict[str, Any]]:
    """Return the texts of attachments, pasted ones too: given to the assistant, and nobody's words in the chat."""
    found = []
    attachments = message.get("attachments")
    for one in attachments if isinstance(attachments, list) else []:
        text = _text_of(one, "extracted_content") if isinstance(one, Mapping) else None
        if text:
            found.append(tool_result(_text_of(one, "file_name") or "attachment", text))
        else:
            reading.skips.leave_out("image, sound or file")
    return found


def _result(content: object) -> str:
    if isinstance(content, str):
        return content.strip()
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "\n".join(text for text in texts if isinstance(text, str) and text.strip())
    return ""


def _text_of(value: Mapping[str, Any], key: str) -> str | None:
    found = value.get(key)
    return found if isinstance(found, str) and found.strip() else None
