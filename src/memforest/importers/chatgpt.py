"""ChatGPT's data export: ``conversations.json``, each conversation a tree of messages.

Shape: objects with ``title``, ``create_time``, ``current_node`` and ``mapping`` (node id -> ``message``, ``parent``,
``children``). An edited question or a reply made anew begins another branch; only the current one is what was said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memforest.importers.drafts import Draft, in_given_order, session_of, tool_call, tool_result
from memforest.importers.parts import FileSession
from memforest.importers.reading import Reading
from memforest.importers.sample import Sample

_THINKING = frozenset({"thoughts", "reasoning_recap"})
_HIDDEN_KINDS = frozenset({"user_editable_context", "model_editable_context"})


def recognises(sample: Sample) -> bool:
    """Return whether it is conversations with a mapping of nodes."""
    return any(isinstance(one.get("mapping"), Mapping) and ("current_node" in one or "title" in one or _nodes(one))
               for one in sample.objects)  # fmt: skip


def _nodes(conversation: Mapping[str, Any]) -> bool:
    return any(isinstance(node, Mapping) and "parent" in node for node in conversation["mapping"].values())


def read(reading: Reading) -> Iterator[FileSession]:
    """Yield a session for each conversation."""
    for where, conversation in reading.objects():
        mapping = conversation.get("mapping")
        if not isinstance(mapping, Mapping):
            reading.skips.fail(where, "the conversation has no 'mapping' of messages")
            continue
        drafts = _drafts(conversation, mapping, reading, where)
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


def _drafts(
    conversation: Mapping[str, Any], mapping: Mapping[str, Any], reading: Reading, where: str
) -> list[Draft]:
    branch = _branch(conversation, mapping)
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


def _branch(conversation: Mapping[str, Any], mapping: Mapping[str, Any]) -> dict[str, None]:
    """Return the ids of the nodes from the root to the current node; where that is missing, to the last one."""
    node_id = conversation.get("current_node")
    if node_id not in mapping:
        node_id = next(reversed(list(mapping)), None)
    path: dict[str, None] = {}
    while isinstance(node_id, str) and node_id not in path and isinstance(mapping.get(node_id), Mapping):
        path[node_id] = None
        node_id = mapping[node_id].get("parent")
    return dict.fromkeys(reversed(path))


def _draft(message: Mapping[str, Any], node_id: str, reading: Reading, where: str) -> Draft | None:
    content = message["content"]
    author = message.get("author")
    role = author.get("role") if isinstance(author, Mapping) else None
    kind = content.get("content_type")
    if role == "system" or kind in _HIDDEN_KINDS or _is_hidden(message):
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
    return Draft(where, turn if created is None else {**turn, "timestamp": created}, said)


def _is_hidden(message: Mapping[str, Any]) -> bool:
    metadata = message.get("metadata")
    marks = ("is_visually_hidden_from_conversation", "is_user_system_message")
    return isinstance(metadata, Mapping) and any(metadata.get(mark) for mark in marks)


def _text(content: Mapping[str, Any]) -> tuple[str, str]:
    """Return the text of a message, and what else it has."""
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
