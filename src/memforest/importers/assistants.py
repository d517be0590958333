"""Exports of ChatGPT, Claude and mem0.

ChatGPT: ``conversations.json`` has objects with ``title``, ``create_time``, ``current_node`` and ``mapping`` (node id ->
``message``, ``parent``, ``children``). An edited question or a reply made anew begins another branch; only the current one is
what was said.

Claude: ``conversations.json`` has objects with ``uuid``, ``name``, ``created_at`` and ``chat_messages`` (``uuid``, ``sender``,
``created_at``, ``text``, ``content``, ``attachments``, ``files``, and in newer exports ``parent_message_uuid``: then only the
last branch is read). ``memories.json`` beside it has what Claude keeps in mind of the account, as a text in Markdown:
``conversations_memory``, and ``project_memories`` by the uuid of a project. Nobody said it, so its speaker is "claude", and its
metadata say what it is.

mem0: what ``get_all`` returns, a list, or an object with ``results`` (or ``memories``), of objects with ``id``, ``memory``,
``created_at``, ``updated_at``, ``metadata``, ``user_id``, ``agent_id``, ``run_id``. Its model made these sentences, and nobody said
them, so their speaker is "mem0", and their metadata say what they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memforest.importers.drafts import (
    DraftTurn,
    Sample,
    in_given_order,
    in_time_order,
    session_of,
    tool_call,
    tool_result,
)
from memforest.importers.files import FileReader, FileSession, kind_of
from memforest.settings import CAPTION, ID, SPEAKER, TEXT, TIME_KEYS

_THINKING = frozenset({"thoughts", "reasoning_recap"})
_HIDDEN_MARKS = ("is_visually_hidden_from_conversation", "is_user_system_message")
_HIDDEN_KINDS = frozenset({"user_editable_context", "model_editable_context"})


def recognises_chatgpt(sample: Sample) -> bool:
    """Return whether a file holds conversations with a mapping of nodes."""
    return any(
        "current_node" in one
        or "title" in one
        or any(isinstance(node, Mapping) and "parent" in node for node in one["mapping"].values())
        for one in sample.objects
        if isinstance(one.get("mapping"), Mapping)
    )


def read_chatgpt(reading: FileReader) -> Iterator[FileSession]:
    """Yield a session for each conversation."""
    for where, conversation in reading.objects():
        mapping = conversation.get("mapping")
        if not isinstance(mapping, Mapping):
            reading.skips.fail(where, "the conversation has no 'mapping' of messages")
            continue
        drafts = _chatgpt_drafts(conversation, mapping, reading, where)
        if not drafts:
            reading.skips.leave_out("conversation without messages")
            continue
        yield session_of(
            str(conversation.get("conversation_id") or conversation.get("id") or f"{reading.name}-{where}"),
            in_given_order(drafts, reading),
            timestamp=_number(conversation.get("create_time")),
            metadata={"title": conversation["title"]} if isinstance(conversation.get("title"), str) else {},
            where=where,
        )


def _chatgpt_drafts(
    conversation: Mapping[str, Any], mapping: Mapping[str, Any], reading: FileReader, where: str
) -> list[DraftTurn]:
    """Return the messages from the root to the current node, or to the last one if none is current."""
    node_id: Any = conversation.get("current_node")
    if node_id not in mapping:
        node_id = next(reversed(list(mapping)), None)
    path: dict[str, None] = {}
    while isinstance(node_id, str) and node_id not in path and isinstance(mapping.get(node_id), Mapping):
        path[node_id] = None
        node_id = mapping[node_id].get("parent")
    branch = dict.fromkeys(reversed(path))
    drafts = []
    for node_id in branch:
        message = mapping[node_id].get("message")
        if message is None:
            continue
        at = f"{where}, node {node_id!r}" if where else f"node {node_id!r}"
        if not isinstance(message, Mapping) or not isinstance(message.get("content"), Mapping):
            reading.skips.fail(at, "the message is no object with a 'content'")
        elif (draft := _draft(message, node_id, reading, at)) is not None:
            drafts.append(draft)
    others = sum(
        1
        for node_id, node in mapping.items()
        if node_id not in branch and isinstance(node, Mapping) and node.get("message")
    )
    reading.skips.leave_out("message of another branch", others)
    return drafts


def _draft(message: Mapping[str, Any], node_id: str, reading: FileReader, where: str) -> DraftTurn | None:
    content = message["content"]
    author = message.get("author")
    role = author.get("role") if isinstance(author, Mapping) else None
    kind = content.get("content_type")
    metadata = message.get("metadata")
    is_hidden = isinstance(metadata, Mapping) and any(metadata.get(mark) for mark in _HIDDEN_MARKS)
    if role == "system" or kind in _HIDDEN_KINDS or is_hidden:
        reading.skips.leave_out("system or hidden message")
        return None
    if kind in _THINKING:
        reading.skips.leave_out("reasoning of the model")
        return None
    text, others = _text(content)
    if not text.strip():
        reading.skips.leave_out(f"message without text ({others})" if others else "empty message")
        return None
    if others:
        reading.skips.leave_out(others)
    if role not in ("user", "assistant", "tool"):
        reading.skips.fail(where, f"the author's role is {str(role)[:40]!r}, which is not known")
        return None
    recipient = message.get("recipient")
    turn: dict[str, Any]
    if role == "assistant" and recipient not in (None, "all"):
        turn = tool_call(recipient, text)
    elif role == "tool":
        turn = tool_result(author.get("name") if isinstance(author, Mapping) else None, text)
    else:
        turn = {"role": role, "content": text}
    turn["id"] = str(message.get("id") or node_id)
    created = _number(message.get("create_time"))
    said = None if created is None else reading.read_time(created, where)
    if created is not None and said is None:
        return None
    return DraftTurn(where, turn if created is None else {**turn, "timestamp": created}, said)


def _text(content: Mapping[str, Any]) -> tuple[str, str]:
    """Return the text of a message, and the name of its other content, if any."""
    texts, others = [], ""
    parts = content.get("parts")
    for part in parts if isinstance(parts, list) else [content]:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping):
            said = next((part[key] for key in ("text", "result") if isinstance(part.get(key), str)), None)
            if said is not None:
                texts.append(said)
            elif part is not content:
                others = "image, sound or file"
    return "\n".join(text for text in texts if text), others


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


_MEMORY = "conversations_memory"
_HEADING = re.compile(r"\*\*([^*\n]+)\*\*:?|#{1,6} ([^\n]+)")
_ROLES = {"human": "user", "user": "user", "assistant": "assistant"}


def recognises_claude(sample: Sample) -> bool:
    """Return whether a file holds conversations with chat messages, or Claude's memories."""
    return any(isinstance(one.get("chat_messages"), list) or _MEMORY in one for one in sample.objects)


def read_claude(reading: FileReader) -> Iterator[FileSession]:
    """Yield a session for each conversation, and for each memory."""
    for where, conversation in reading.objects():
        if _MEMORY in conversation:
            yield from _claude_memories(conversation, reading, where)
            continue
        messages = conversation.get("chat_messages")
        if not isinstance(messages, list):
            reading.skips.fail(where, "the conversation has no 'chat_messages'")
            continue
        drafts: list[DraftTurn] = []
        branch = _claude_branch(conversation, messages)
        for number, message in enumerate(messages):
            at = f"{where}, message {number}" if where else f"message {number}"
            if not isinstance(message, Mapping):
                reading.skips.fail(at, "the message is no object")
            elif branch is not None and message.get("uuid") not in branch:
                reading.skips.leave_out("message of another branch")
            else:
                drafts += _claude_drafts(message, reading, at)
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


def _claude_memories(account: Mapping[str, Any], reading: FileReader, where: str) -> Iterator[FileSession]:
    """Yield a session for Claude's memory of an account, and for that of each project.

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
    """Return the paragraphs of a memory as turns, each with its heading."""
    turns: list[dict[str, Any]] = []
    for part in re.split(r"\n\s*\n", text.strip()):
        if heading := _HEADING.fullmatch(part.strip()):
            about = {**about, "section": (heading[1] or heading[2]).strip(": ")}
        elif part.strip():
            turns.append(
                {"speaker": "claude", "content": part.strip(), "kind": "memory that Claude made", **about}
            )
    return tuple(turns)


def _claude_branch(conversation: Mapping[str, Any], messages: Sequence[Any]) -> set[str] | None:
    """Return the ids of the messages on the current branch; None if no message names its parent."""
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


def _claude_drafts(message: Mapping[str, Any], reading: FileReader, where: str) -> list[DraftTurn]:
    """Return the turns of a message: its text, its tool calls and results, and its attachments."""
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
        drafts.append(DraftTurn(where, turn if stamp is None else {**turn, "timestamp": stamp}, said))
    return drafts


def _spoken(message: Mapping[str, Any], role: str, reading: FileReader) -> list[dict[str, Any]]:
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


def _attached(message: Mapping[str, Any], reading: FileReader) -> list[dict[str, Any]]:
    """Return the texts of attachments, pasted ones too, as results of tools: nobody said them in the chat."""
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


_LISTS = ("results", "memories")
_KEPT = ("agent_id", "app_id", "actor_id", "updated_at", "categories")
_MEANT = frozenset({"role", "kind", *SPEAKER, *TEXT, *TIME_KEYS, *ID, *CAPTION, *_KEPT})
"""Keys that mean something in a turn, so that metadata of these names are kept apart."""


def recognises_mem0(sample: Sample) -> bool:
    """Return whether a file holds memories with ids."""
    found = list(sample.objects)
    for key in _LISTS:
        listed = sample.fields.get(key)
        found += [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    return any(isinstance(one.get("memory"), str) and "id" in one for one in found)


def read_mem0(reading: FileReader) -> Iterator[FileSession]:
    """Yield a session for each run, else one for each day; all memories are held at once, to be sorted."""
    held: dict[tuple[str | None, str], list[DraftTurn]] = {}
    for where, memory in _mem0_memories(reading):
        if not isinstance(memory, Mapping) or not isinstance(memory.get("memory"), str):
            reading.skips.fail(where, f"there is a {kind_of(memory)} without the text of a memory")
            continue
        stamp = memory.get("created_at")
        said = None if stamp is None else reading.read_time(stamp, f"{where}.created_at")
        if stamp is not None and said is None:
            continue
        user, run = memory.get("user_id"), memory.get("run_id")
        day = "" if said is None else f"/{said.astimezone(reading.options.zone).date()}"
        key = (None if user is None else str(user), str(run) if run else f"mem0{day}")
        held.setdefault(key, []).append(DraftTurn(where, _turn(memory), said))
    for (user, name), drafts in held.items():
        yield session_of(
            name, in_time_order(drafts), metadata={"source": "mem0"}, where=drafts[0].where, user=user
        )


def _mem0_memories(reading: FileReader) -> Iterator[tuple[str, Any]]:
    if reading.shape != "object":
        yield from reading.records()
        return
    with reading.json() as stream:
        for key in stream.fields():
            if key in _LISTS and stream.peek() == "start_array":
                for number, value in stream.values():
                    yield f"{key}[{number}]", value
            elif key == "relations" and isinstance(relations := stream.value(), list):
                reading.skips.leave_out("relation between entities", len(relations))


def _turn(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return a memory as a turn; its own metadata and ids are kept."""
    given = memory.get("metadata")
    own = {key: one for key, one in given.items() if key not in _MEANT} if isinstance(given, Mapping) else {}
    turn: dict[str, Any] = {
        "speaker": "mem0",
        "content": memory["memory"],
        "kind": "memory that mem0 made",
        **own,
        **{key: memory[key] for key in _KEPT if memory.get(key) is not None},
    }
    if isinstance(given, Mapping) and len(own) < len(given):
        turn["mem0_metadata"] = {key: one for key, one in given.items() if key in _MEANT}
    if memory.get("id") is not None:
        turn["id"] = str(memory["id"])
    if memory.get("created_at") is not None:
        turn["timestamp"] = memory["created_at"]
    return turn
