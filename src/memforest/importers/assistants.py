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
    dated,
    in_given_order,
    in_time_order,
    session_of,
    tool_call,
    tool_result,
)
from memforest.importers.files import FileReader, FileSession, kind_of
from memforest.importers.messages import text_of, turns_of
from memforest.settings import CAPTION, ID, SPEAKER, TEXT, TIME_KEYS

_THINKING = frozenset({"thoughts", "reasoning_recap"})
_HIDDEN_MARKS = ("is_visually_hidden_from_conversation", "is_user_system_message")
_HIDDEN_KINDS = frozenset({"user_editable_context", "model_editable_context"})


def _conversation(
    conversation: Mapping[str, Any],
    drafts: Sequence[DraftTurn],
    reading: FileReader,
    where: str,
    keys: tuple[str, str, str],
) -> Iterator[FileSession]:
    """Yield a conversation as a session; `keys` are those of its id, its time and its title."""
    if not drafts:
        reading.skips.leave_out("conversation without messages")
        return
    name, time, title = (conversation.get(key) for key in keys)
    yield session_of(
        str(name or conversation.get("id") or f"{reading.name}-{where}"),
        in_given_order(drafts, reading),
        timestamp=time if isinstance(time, (int, float, str)) and time else None,
        metadata={"title": title} if isinstance(title, str) and title.strip() else {},
        where=where,
    )


def _branch(last: str, parents: Mapping[str, str]) -> dict[str, None]:
    """Return the ids of the messages from the last one of a branch to its first, each of which names its parent."""
    path: dict[str, None] = {}
    while last in parents and last not in path:
        path[last] = None
        last = parents[last]
    return path


def read_chatgpt(reading: FileReader) -> Iterator[FileSession]:
    """Yield a session for each conversation."""
    for where, conversation in reading.objects():
        mapping = conversation.get("mapping")
        if isinstance(mapping, Mapping):
            drafts = list(_chatgpt_drafts(conversation, mapping, reading, where))
            keys = ("conversation_id", "create_time", "title")
            yield from _conversation(conversation, drafts, reading, where, keys)
        else:
            reading.skips.fail(where, "the conversation has no 'mapping' of messages")


def _chatgpt_drafts(
    conversation: Mapping[str, Any], mapping: Mapping[str, Any], reading: FileReader, where: str
) -> Iterator[DraftTurn]:
    """Yield the messages from the root to the current node, or to the last one if none is current."""
    nodes = {name: node for name, node in mapping.items() if isinstance(node, Mapping)}
    last = str(conversation.get("current_node"))
    last = last if last in mapping else next(reversed([*mapping]), "")
    branch = _branch(last, {name: str(node.get("parent")) for name, node in nodes.items()})
    for name in reversed(branch):
        message, at = nodes[name].get("message"), _place(where, f"node {name!r}")
        if isinstance(message, Mapping) and isinstance(message.get("content"), Mapping):
            yield from _chatgpt_draft(message, name, reading, at)
        elif message is not None:
            reading.skips.fail(at, "the message is no object with a 'content'")
    others = [name for name, node in nodes.items() if name not in branch and node.get("message")]
    reading.skips.leave_out("message of another branch", len(others))


def _chatgpt_draft(
    message: Mapping[str, Any], node: str, reading: FileReader, where: str
) -> Iterator[DraftTurn]:
    content, author, metadata = (_object(message.get(key)) for key in ("content", "author", "metadata"))
    role, kind, tool = author.get("role"), content.get("content_type"), message.get("recipient")
    if role == "system" or kind in _HIDDEN_KINDS or any(metadata.get(mark) for mark in _HIDDEN_MARKS):
        reading.skips.leave_out("system or hidden message")
        return
    if kind in _THINKING:
        reading.skips.leave_out("reasoning of the model")
        return
    parts = content.get("parts")
    said = parts if isinstance(parts, list) else content.get("text") or content.get("result")
    if not (text := text_of(said, reading.skips)):
        reading.skips.leave_out("message without text")
    elif role not in ("user", "assistant", "tool"):
        reading.skips.fail(where, f"the author's role is {str(role)[:40]!r}, which is not known")
    else:
        turn: dict[str, Any] = {"role": role, "content": text}
        if role == "assistant" and tool not in (None, "all"):
            turn = tool_call(tool, text)
        elif role == "tool":
            turn = tool_result(author.get("name"), text)
        turn["id"] = str(message.get("id") or node)
        yield from dated(reading, where, message.get("create_time"), turn)


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _place(where: str, part: str) -> str:
    return f"{where}, {part}" if where else part


_MEMORY = "conversations_memory"
_HEADING = re.compile(r"\*\*([^*\n]+)\*\*:?|#{1,6} ([^\n]+)")
_ROLES = {"human": "user", "user": "user", "assistant": "assistant"}


def read_claude(reading: FileReader) -> Iterator[FileSession]:
    """Yield a session for each conversation, and for each memory."""
    for where, conversation in reading.objects():
        messages = conversation.get("chat_messages")
        if _MEMORY in conversation:
            yield from _claude_memories(conversation, reading, where)
        elif isinstance(messages, list):
            drafts = list(_claude_drafts(conversation, messages, reading, where))
            yield from _conversation(conversation, drafts, reading, where, ("uuid", "created_at", "name"))
        else:
            reading.skips.fail(where, "the conversation has no 'chat_messages'")


def _claude_memories(account: Mapping[str, Any], reading: FileReader, where: str) -> Iterator[FileSession]:
    """Yield a session for Claude's memory of an account, and for that of each project.

    Its time is its own, or in an archive that of the file; the session is of that day, so that a later export adds to it.
    """
    time = next((account[key] for key in TIME_KEYS if account.get(key) is not None), reading.source.modified)
    said = None if time is None else reading.read_time(time, where)
    day = "" if said is None else str(said[0].astimezone(reading.options.zone).date())
    files = account.get("memory_files")
    reading.skips.leave_out("file of Claude's memory", len(files) if isinstance(files, list) else 0)
    for project, text in ((None, account[_MEMORY]), *_object(account.get("project_memories")).items()):
        about = {} if project is None else {"project": project}
        if turns := _paragraphs(text, about) if isinstance(text, str) else ():
            of = str(project or account.get("account_uuid") or "")
            name = "/".join(one for one in ("memory", of, day) if one)
            yield FileSession(name, turns, said and said[1], {"source": "claude"}, where)


def _paragraphs(text: str, about: Mapping[str, str]) -> tuple[dict[str, Any], ...]:
    """Return the paragraphs of a memory as turns, each with its heading."""
    made = {"speaker": "claude", "kind": "memory that Claude made"}
    turns: list[dict[str, Any]] = []
    for part in re.split(r"\n\s*\n", text.strip()):
        if heading := _HEADING.fullmatch(part.strip()):
            about = {**about, "section": (heading[1] or heading[2]).strip(": ")}
        elif part.strip():
            turns.append({**made, "content": part.strip(), **about})
    return tuple(turns)


def _claude_drafts(
    conversation: Mapping[str, Any], messages: Sequence[Any], reading: FileReader, where: str
) -> Iterator[DraftTurn]:
    """Yield the messages of the branch that is current or has the last message; all of them if none names its parent."""
    known = {one["uuid"]: one for one in map(_object, messages) if isinstance(one.get("uuid"), str)}
    parents = {name: str(one.get("parent_message_uuid")) for name, one in known.items()}
    last = str(conversation.get("current_leaf_message_uuid"))
    if last not in known:
        times = {name: str(one.get("created_at")) for name, one in known.items()}
        timed = [name for name, time in times.items() if time[:1].isdecimal()]
        last = max(timed, key=times.__getitem__, default=next(reversed(known), ""))
    branch = _branch(last, parents) if not known.keys().isdisjoint(parents.values()) else None
    for number, message in enumerate(messages):
        at = _place(where, f"message {number}")
        if not isinstance(message, Mapping):
            reading.skips.fail(at, "the message is no object")
        elif branch is not None and message.get("uuid") not in branch:
            reading.skips.leave_out("message of another branch")
        else:
            yield from _claude_draft(message, reading, at)


def _claude_draft(message: Mapping[str, Any], reading: FileReader, where: str) -> Iterator[DraftTurn]:
    """Yield the turns of a message: its attachments, its text, and its tool calls and results."""
    role = _ROLES.get(str(message.get("sender")))
    if role is None:
        reading.skips.fail(where, f"the sender is {str(message.get('sender'))[:40]!r}, which is not known")
        return
    content = message.get("content") or str(message.get("text") or "").strip()
    turns: list[Mapping[str, Any]] = [*_attached(message, reading)]
    if content:
        turns += turns_of({"role": role, "content": content}, {}, reading.skips)
    elif not turns:
        reading.skips.leave_out("message without text")
    if message.get("files"):
        reading.skips.leave_out("image, sound or file")
    main = next((n for n, turn in enumerate(turns) if turn["role"] == role), 0)
    if uuid := message.get("uuid"):
        ids = (str(uuid) if number == main else f"{uuid}/{number}" for number in range(len(turns)))
        turns = [{**turn, "id": name} for turn, name in zip(turns, ids, strict=True)]
    yield from dated(reading, where, message.get("created_at"), *turns)


def _attached(message: Mapping[str, Any], reading: FileReader) -> Iterator[dict[str, Any]]:
    """Yield the texts of attachments, pasted ones too, as results of tools: nobody said them in the chat."""
    attachments = message.get("attachments")
    for one in map(_object, attachments if isinstance(attachments, list) else []):
        if text := text_of(one.get("extracted_content"), reading.skips):
            yield tool_result(one.get("file_name") or "attachment", text)
        else:
            reading.skips.leave_out("image, sound or file")


_LISTS = ("results", "memories")
_KEPT = ("agent_id", "app_id", "actor_id", "updated_at", "categories")
_MEANT = frozenset({"role", "kind", *SPEAKER, *TEXT, *TIME_KEYS, *ID, *CAPTION, *_KEPT})
"""Keys that mean something in a turn, so that metadata of these names are kept apart."""


def read_mem0(reading: FileReader) -> Iterator[FileSession]:
    """Yield a session for each run, else one for each day; all memories are held at once, to be sorted."""
    held: dict[tuple[str | None, str], list[DraftTurn]] = {}
    for where, memory in _mem0_memories(reading):
        if not isinstance(memory, Mapping) or not isinstance(memory.get("memory"), str):
            reading.skips.fail(where, f"there is a {kind_of(memory)} without the text of a memory")
            continue
        user, run = memory.get("user_id"), memory.get("run_id")
        for draft in dated(reading, where, memory.get("created_at"), _mem0_turn(memory)):
            day = "" if draft.said is None else f"/{draft.said.astimezone(reading.options.zone).date()}"
            key = (None if user is None else str(user), str(run) if run else f"mem0{day}")
            held.setdefault(key, []).append(draft)
    for (user, name), drafts in held.items():
        yield session_of(name, in_time_order(drafts), metadata={"source": "mem0"}, user=user)


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


def _mem0_turn(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return a memory as a turn; its own metadata and ids are kept."""
    given = _object(memory.get("metadata"))
    turn = {"speaker": "mem0", "content": memory["memory"], "kind": "memory that mem0 made"}
    turn |= {key: one for key, one in given.items() if key not in _MEANT}
    turn |= {key: memory[key] for key in _KEPT if memory.get(key) is not None}
    if meant := {key: one for key, one in given.items() if key in _MEANT}:
        turn["mem0_metadata"] = meant
    if memory.get("id") is not None:
        turn["id"] = str(memory["id"])
    return turn
