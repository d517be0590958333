"""Chats with assistants: exports, transcripts of coding agents, sessions of frameworks, and memories of Claude and mem0.

A `Layout` says where a program has who speaks, what was said, and when: `LAYOUTS` has one for each, by the name of its format. The
shapes are those that the programs write, as far as they say: Codex (https://github.com/openai/codex, ``protocol.rs``), Gemini CLI
(https://github.com/google-gemini/gemini-cli, ``chatRecordingService.ts``), Qwen Code (https://github.com/QwenLM/qwen-code), Goose
(https://github.com/block/goose), Cline (https://github.com/cline/cline), pydantic-ai (https://ai.pydantic.dev/message-history), Google's
ADK (https://google.github.io/adk-docs/sessions), the AI SDK (https://ai-sdk.dev, ``UIMessage``), LibreChat (https://www.librechat.ai) and
Open WebUI (https://openwebui.com). Nobody describes those of Claude Code, Copilot, Cursor and Kimi, which are known by their files.

In a tree (ChatGPT, Claude, LibreChat, Open WebUI) an edited question or a reply made anew begins another branch; only the
current one is what was said. Agents branch for other reasons, too: of theirs, what followed a question that was asked anew is left out.

ChatGPT: ``conversations.json`` has objects with ``title``, ``create_time``, ``current_node`` and ``mapping`` (node id ->
``message``, ``parent``, ``children``).

Claude: ``conversations.json`` has objects with ``uuid``, ``name``, ``created_at`` and ``chat_messages`` (``uuid``, ``sender``,
``created_at``, ``text``, ``content``, ``attachments``, ``files``, and in newer exports ``parent_message_uuid``).
``memories.json`` beside it has what Claude keeps in mind of the account, as a text in Markdown:
``conversations_memory``, and ``project_memories`` by the uuid of a project. Nobody said it, so its speaker is "claude", and its
metadata say what it is.

mem0: what ``get_all`` returns, a list, or an object with ``results`` (or ``memories``), of objects with ``id``, ``memory``,
``created_at``, ``updated_at``, ``metadata``, ``user_id``, ``agent_id``, ``run_id``. Its model made these sentences, and nobody said
them, so their speaker is "mem0", and their metadata say what they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from memforest.importers.drafts import (
    NOWHERE,
    DraftTurn,
    at,
    dated,
    in_given_order,
    in_time_order,
    is_marked,
    session_of,
    together,
)
from memforest.importers.files import FileReader, FileSession, Skips, kind_of
from memforest.importers.messages import HIDDEN, drafts_of, text_of, typed
from memforest.settings import CAPTION, ID, SPEAKER, TEXT, TIME_KEYS

_Object = Mapping[str, Any]
_Record = tuple[str, _Object]
"""A place, and what stands there."""
_OTHER_BRANCH = "message of another branch"
_NOTE = "note of the program"
_TAKEN_BACK = "taken back"
"""Marks a record that a later one took back."""
_NODE = "node of a tree"
"""Where a message that was kept under its id has that id."""
_NOBODY = "nobody"
"""Who speaks at the root of a tree, which has no message."""
_SPOKEN_BY = {name: role for role, names in (
    ("user", "user human request True user.message queued_command"),
    ("assistant", "assistant ai gpt model gemini bing chatgpt bard response False assistant.message content.part reasoning "
                  "tool.execution_start tool.execution_complete tool.call tool.result function_call function_call_output "
                  "custom_tool_call custom_tool_call_output local_shell_call web_search_call"),
    ("tool", "tool function observation function_response"), (HIDDEN, "system developer system.message"),
    (_NOTE, "info error warning"), (_NOBODY, _NOBODY),
) for name in names.split()}  # fmt: skip
"""What programs call who speaks, or an event -> the role, or as what it is left out; a tool's parts are told by `typed`."""
_NOTES = re.compile(
    r"<(command-\w+|local-command-\w+|bash-\w+|system[-_]\w+|environment_\w+|user_(?:instructions|info|rules|shell_command)|INSTRUCTIONS|"
    r"permissions instructions|skill|turn_aborted|task-notification|subagent_notification|state_snapshot|timestamp|attached_files|"
    r"open_and_recently_viewed_files|image_files|terminal_selection|turn-context)\b"
)
"""How begins what agents write into the words of the user: commands and their echoes, files that are open, reminders."""
_HEADS = re.compile(
    r"# AGENTS\.md instructions for [^\n]*|# Context from my IDE setup:.*?## My request for Codex:|"
    r"Caveat: The messages below were generated.*|\[Request interrupted by user[^\]\n]*\]$",
    re.DOTALL,
)
"""What else may stand in front of these words, or in their place."""
_MARKUP = re.compile(r"</?(?:user_query|task|feedback|user_message)>")
"""What agents put around the words of the user."""
_DETAILS = re.compile(r'<(details) type="(?:reasoning|tool_calls|code_interpreter)"')
"""How Open WebUI begins reasoning and calls of tools in a text of the assistant."""
_SENT = re.compile(r"<timestamp>\w+, ([^<>()]+?)(?: \((UTC[^<>()]*)\))?</timestamp>")
"""When Cursor says that a message was sent: "Friday, May 1, 2026, 3:30 PM (UTC+5:30)"."""
_RESULT = re.compile(r"\[(\w+)(?: for [^\n]*)?\] Result:\s*")
"""How Cline begins the result of a tool in a message of the user."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a program has what a message needs, as paths, see `at`.

    Args:
        inside: where an object has the messages of a session, as a list or by their ids; without it, or where the first record is
            a message, the records of a file are one session.
        session: where the session has its id: in that object, or in the first record if that is no message.
        each: whether every record names its session instead.
        is_headed: whether in JSON Lines the first record tells of the session, and messages follow.
        role: where a record says who speaks, see `_SPOKEN_BY`.
        content: where it has texts and parts; several paths with a space between.
        hidden: marks of a message that is not shown, with a space between; after ``!`` stands what is none.
        parent: where a message names the one in front of it, in a tree.
        current: where a session names its last message.
        began: where a session has the time of messages without one.
        notes: role -> what the program wrote into its words.
        replay: makes messages of the records of a log.
    """

    inside: str = ""
    session: str = "id"
    each: bool = False
    is_headed: bool = False
    role: str = "role"
    content: str = "content"
    id: str = "id"
    time: str = "|".join(TIME_KEYS)
    hidden: str = ""
    parent: str = ""
    current: str = NOWHERE
    began: str = NOWHERE
    title: str = "title"
    notes: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    replay: Callable[[Sequence[_Record]], Sequence[_Record]] = list

    def read(self, reading: FileReader) -> Iterator[FileSession]:
        """Yield the sessions of a file."""
        records = reading.objects()
        if (first := next(records, None)) is None:
            return
        records = chain([first], records)
        is_log = self.is_headed and reading.shape == "lines"
        if self.inside and not is_log and at(first[1], self.role) is None:
            for where, value in records:
                yield from self.conversation(value, reading, where)
        elif self.each:
            for group in together(reading.again().objects(), records, self._named):
                yield from self._session(group[0][1], group, reading)
        else:
            about = {} if str(at(first[1], self.role)) in _SPOKEN_BY else first[1]
            yield from self._session(about, list(records), reading)

    def _named(self, record: _Record) -> str:
        return str(at(record[1], self.session))

    def conversation(self, value: _Object, reading: FileReader, where: str) -> Iterator[FileSession]:
        """Yield the session that an object is."""
        held = at(value, self.inside)
        if isinstance(held, Mapping):
            held = [{_NODE: name, **one} for name, one in held.items() if isinstance(one, Mapping)]
        if isinstance(held, list):
            yield from self._session(value, list(_flat(held, where, reading.skips)), reading, where)
        else:
            reading.skips.fail(where, f"the conversation has no {self.inside.replace('|', ' or ')!r}")

    def _session(
        self, about: _Object, records: Sequence[_Record], reading: FileReader, where: str = ""
    ) -> Iterator[FileSession]:
        current = self._current(about, self.replay(records), reading.skips)
        made = ((place, self.message(record, place, reading.skips)) for place, record in current)
        drafts = list(drafts_of(((place, one) for place, one in made if one), reading))
        name, time, title = (at(about, path) for path in (self.session, self.began, self.title))
        if not drafts:
            reading.skips.leave_out("conversation without messages", not self.each or name is not None)
            return
        yield session_of(
            str(name or (f"{reading.name}-{where}" if where else reading.name)),
            in_given_order(drafts, reading),
            timestamp=time
            if isinstance(time, (int, float, str)) and time
            else drafts[0].turn.get("timestamp"),
            metadata={"title": title} if isinstance(title, str) and title.strip() else {},
            where=where,
        )

    def _current(self, about: _Object, records: Sequence[_Record], skips: Skips) -> Sequence[_Record]:
        """Return the records of the current branch, in its order; those of others are counted.

        Of an agent's log only what follows a question that was asked anew is another branch: calls of tools branch, too.
        """
        names = [str(at(one, f"{_NODE}|{self.id}")) for _, one in records]
        named = {name: one for name, one in zip(names, records, strict=True) if name != "None"}
        parents = {name: str(at(one, self.parent)) for name, (_, one) in named.items() if self.parent}
        if parents.keys().isdisjoint(parents.values()):
            return records
        if self.each:
            told = ((name, self.message(one, "", Skips()) or {}) for name, (_, one) in named.items())
            said = [
                name for name, one in told if (one.get("role"), at(one, "content.type")) == ("user", "text")
            ]
            asked = {name: parents[name] for name in said if parents[name] in parents}
            latest = {parent: name for name, parent in asked.items()}
            others: set[str] = set()
            for name, parent in parents.items():
                if parent in others or latest.get(asked.get(name, ""), name) != name:
                    others.add(name)
            kept = [one for name, one in zip(names, records, strict=True) if name not in others]
        else:
            times = {name: str(at(named[name][1], self.time)) for name in reversed(named)}
            timed = [name for name, time in times.items() if time[:1].isdecimal()]
            last = str(at(about, self.current))
            last = last if last in named else max(timed, key=times.__getitem__, default=next(iter(times)))
            kept = [named[name] for name in reversed(_branch(last, parents))]
        spoken = [
            sum(at(one, self.role) not in (None, _NOBODY) for _, one in them) for them in (records, kept)
        ]
        skips.leave_out(_OTHER_BRANCH, spoken[0] - spoken[1])
        return kept

    def message(self, record: Mapping[str, Any], where: str, skips: Skips) -> Mapping[str, Any] | None:
        """Return a record as a message of typed parts; None if it is none, which is counted, or named if a role is unknown."""
        spoken = at(record, self.role)
        role = _SPOKEN_BY.get(str(spoken), _NOTE)
        held = chain.from_iterable(_list(at(record, path)) for path in self.content.split())
        content = list(chain.from_iterable(map(typed, held)))
        if spoken == "function_call" and at(content, "type") == "text":
            role = "tool"  # ShareGPT, where it is a text
        if role == _NOTE and content and self.inside and spoken is not None and str(spoken) not in _SPOKEN_BY:
            skips.fail(where, f"the role is {str(spoken)[:40]!r}, which is not known")
        elif record.get(_TAKEN_BACK) or role in (HIDDEN, _NOTE) or is_marked(record, self.hidden):
            skips.leave_out(_OTHER_BRANCH if record.get(_TAKEN_BACK) else _NOTE if role == _NOTE else HIDDEN)
        elif content and all(one.get("type") == "reasoning" for one in content):
            skips.leave_out("reasoning of the model")
        elif not content:
            skips.leave_out("message without text", role != _NOBODY)
        elif parts := list(_without(self.notes.get(role), content, skips)):
            time, name = at(record, self.time), at(record, self.id)
            if time is None and (sent := _SENT.search(str(at(content, "text")))):
                time = " ".join(filter(None, sent.groups()))
            more = {"id": str(name)} if isinstance(name, (str, int)) else {}
            return {"role": role, "content": parts, "timestamp": time, **more}
        return None


def _branch(last: str, parents: Mapping[str, str]) -> dict[str, None]:
    """Return the ids of the messages from the last one of a branch to its first, each of which names its parent."""
    path: dict[str, None] = {}
    while last in parents and last not in path:
        path[last] = None
        last = parents[last]
    return path


def _flat(messages: Sequence[Any], where: str, skips: Skips) -> Iterator[_Record]:
    """Yield messages with their places, and those below each."""
    for number, one in enumerate(messages):
        place = _place(where, f"message {number}")
        if isinstance(one, Mapping):
            yield (_place(where, f"node {one[_NODE]!r}") if _NODE in one else place), one
            below = [each for each in _list(one.get("children")) if isinstance(each, Mapping)]
            yield from _flat(below, place, skips)
        else:
            skips.fail(place, "the message is no object")


def _place(where: str, part: str) -> str:
    return f"{where}, {part}" if where else part


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _without(
    notes: re.Pattern[str] | None, content: Sequence[Mapping[str, Any]], skips: Skips
) -> Iterator[Mapping[str, Any]]:
    """Yield parts without what the program wrote into their texts; what follows the head of a tool's result is that result."""
    tool = ""
    for part in content:
        text = part.get("text")
        if notes is None or not isinstance(text, str):
            yield part
            continue
        said = _unnoted(text, notes).strip()
        if notes is _NOTES:
            said = said.removeprefix((_HEADS.match(said) or [""])[0])
        skips.leave_out(_NOTE, said != text.strip())
        text = _MARKUP.sub("", said).strip() if notes is _NOTES else said
        if notes is _NOTES and (found := _RESULT.match(text)):
            tool, text = found[1], text[found.end() :]
        if text and tool:
            yield {"type": "tool_result", "name": tool, "content": text}
            tool = ""
        elif text:
            yield {"type": "text", "text": text}


def _unnoted(text: str, opening: re.Pattern[str]) -> str:
    """Return a text without the elements that begin so, each with all that is in it."""
    ends: dict[str, int] = {}
    kept, behind = [], 0
    for found in opening.finditer(text):
        closing = f"</{found[1]}>"
        if closing not in ends:  # looked for once: a text may open many that it never closes
            ends[closing] = text.rfind(closing)
        if found.start() >= behind and found.end() <= ends[closing]:
            kept.append(text[behind : found.start()])
            behind = text.index(closing, found.end()) + len(closing)
    return "".join([*kept, text[behind:]])


_THINKING = frozenset({"thoughts", "reasoning_recap"})
_HIDDEN_KINDS = frozenset({"user_editable_context", "model_editable_context"})


def _chatgpt_nodes(records: Sequence[_Record]) -> Sequence[_Record]:
    """Return the nodes of ChatGPT's tree with what was said, asked of a tool or given by one as their content."""
    found = []
    for where, node in records:
        role, tool = at(node, "message.author.role"), at(node, "message.recipient")
        kind = str(at(node, "message.content.content_type"))
        said = at(node, "message.content.parts|message.content.text|message.content.result")
        text = text_of(said, Skips())
        if kind in _THINKING:
            said = {"type": "reasoning"}
        elif text and role == "tool":
            said = {"type": "tool_result", "name": at(node, "message.author.name"), "content": said}
            role = "assistant"
        elif text and role == "assistant" and tool not in (None, "all"):
            said = {"type": "tool_use", "name": tool, "input": text}
        role = _NOBODY if node.get("message") is None else role
        found.append((where, {**node, "role": role, "content": said, "hidden": kind in _HIDDEN_KINDS}))
    return found


def _with_attachments(records: Sequence[_Record]) -> Sequence[_Record]:
    """Return messages with the texts of attachments, pasted ones too, as results of tools: nobody said them in the chat."""
    found = []
    for where, one in records:
        parts = [*map(_attached, _list(one.get("attachments")))]
        found.append((where, {**one, "attachments": parts, "content": one.get("content") or one.get("text")}))
    return found


def _attached(one: object) -> Mapping[str, Any]:
    text = at(one, "extracted_content")
    made = {"type": "tool_result", "name": at(one, "file_name") or "attachment", "content": text}
    return made if isinstance(text, str) and text.strip() else {"type": "file"}


def _gemini_log(records: Sequence[_Record]) -> list[_Record]:
    """Return the messages of a log of Gemini CLI: the last line of an id counts, and a rewind takes messages back."""
    found: dict[str, _Record] = {}
    for where, record in records:
        patch = record.get("$set")
        held = patch.get("messages") if isinstance(patch, Mapping) else None
        for number, one in enumerate(held if isinstance(held, list) else [record]):
            if isinstance(one, Mapping) and one.keys().isdisjoint(("sessionId", "$set", "$rewindTo")):
                found[str(one.get("id") or f"{where} {number}")] = where, one
        if (back := str(record.get("$rewindTo"))) in found:
            for name in [*found][[*found].index(back) :]:
                found[name] = found[name][0], {**found[name][1], _TAKEN_BACK: True}
    return list(found.values())


def _codex_log(records: Sequence[_Record]) -> list[_Record]:
    """Return the records of Codex, with those marked that were rolled back."""
    found: list[_Record] = []
    asked: list[int] = []
    for where, record in records:
        turns, text = at(record, "payload.num_turns"), str(at(record, "payload.content.text"))
        if isinstance(turns, int) and 0 < turns <= len(asked):
            begin = asked[-turns]
            found[begin:] = [(place, {**one, _TAKEN_BACK: True}) for place, one in found[begin:]]
            del asked[-turns:]
        elif at(record, "payload.role") == "user" and not text.startswith(("<", "# AGENTS.md")):
            asked.append(len(found))
        found.append((where, record))
    return found


def _kimi_log(records: Sequence[_Record]) -> list[_Record]:
    """Return the records of Kimi, with the pieces of a text together."""
    found: list[_Record] = []
    for where, record in records:
        last = found[-1][1] if found else {}
        steps = [(at(one, "event.stepUuid"), at(one, "event.part.type")) for one in (record, last)]
        if steps[0] == steps[1] and isinstance(at(record, "event.part.text"), str):
            texts = (str(at(one, "event.part.text")) for one in (last, record))
            part = {"type": steps[0][1], "text": "".join(texts)}
            where, record = found.pop()[0], {**last, "event": {**last["event"], "part": part}}
        found.append((where, record))
    return found


_AGENT: Mapping[str, re.Pattern[str]] = {"user": _NOTES}
_CLAUDE_CODE = Layout(
    session="sessionId|session_id", each=True, role="attachment.type|type", content="message.content|attachment.prompt", id="uuid",
    parent="parentUuid|logicalParentUuid", notes=_AGENT,
    hidden="isSidechain isMeta isCompactSummary isVisibleInTranscriptOnly isApiErrorMessage attachment.commandMode!prompt",
)  # fmt: skip
LAYOUTS: Mapping[str, Layout] = {
    "chatgpt": Layout("mapping", "conversation_id|id", role="role", id="message.id|id", time="message.create_time", parent="parent",
                      hidden="hidden message.metadata.is_visually_hidden_from_conversation message.metadata.is_user_system_message",
                      current="current_node", began="create_time", replay=_chatgpt_nodes),
    "claude": Layout("chat_messages", "uuid|id", role="sender", content="attachments content files", id="uuid", parent="parent_message_uuid",
                     current="current_leaf_message_uuid", began="created_at", title="name", replay=_with_attachments),
    "claude-code": _CLAUDE_CODE,
    "qwen-code": replace(_CLAUDE_CODE, role="message.role", content="message.parts"),
    "codex": Layout(session="payload.id|payload.session_id|id", role="payload.role|payload.type|role|type",
                    content="payload.content|payload|content|", id=NOWHERE, began="payload.timestamp|timestamp", notes=_AGENT, replay=_codex_log),
    "copilot": Layout(session="data.sessionId", role="type", content="data", hidden="data.parentToolCallId data.source!user", notes=_AGENT),
    "cursor": Layout(content="message.content", notes=_AGENT),
    "gemini-cli": Layout("messages", "sessionId", role="type|role", content="thoughts content toolCalls", title="summary", is_headed=True, notes=_AGENT, replay=_gemini_log),
    "goose": Layout("conversation|messages", hidden="metadata.userVisible!True", title="description", is_headed=True, notes=_AGENT),
    "cline": Layout("messages", "sessionId|taskId|id", notes=_AGENT),
    "kimi": Layout(session="session_id", role="message.role|event.type", content="message.content|event.part|event",
                   hidden="message.origin.kind!user", id=NOWHERE, notes=_AGENT, replay=_kimi_log),
    "pydantic-ai": Layout("messages", role="kind", content="parts", time="timestamp|parts.timestamp"),
    "adk": Layout("events", role="content.role|author", content="content.parts", hidden="partial"),
    "ai-sdk": Layout("messages", content="parts", time=f"{Layout().time}|metadata.createdAt|metadata.created_at|metadata.timestamp"),
    "sharegpt": Layout("conversations", role="from", content="value"),
    "librechat": Layout("messages", "conversationId", role="isCreatedByUser", content="content|text", id="messageId", parent="parentMessageId",
                        hidden="error"),
    "open-webui": Layout("chat.history.messages|chat.messages", parent="parentId", current="chat.history.currentId",
                         title="title|chat.title", notes={"assistant": _DETAILS}),
}  # fmt: skip
"""Name of a format -> its layout."""
_MEMORY = "conversations_memory"
_HEADING = re.compile(r"\*\*([^*\n]+)\*\*:?|#{1,6} ([^\n]+)")


def read_claude(reading: FileReader) -> Iterator[FileSession]:
    """Yield a session for each conversation, and for each memory."""
    for where, conversation in reading.objects():
        if _MEMORY in conversation:
            yield from _claude_memories(conversation, reading, where)
        else:
            yield from LAYOUTS["claude"].conversation(conversation, reading, where)


def _claude_memories(account: Mapping[str, Any], reading: FileReader, where: str) -> Iterator[FileSession]:
    """Yield a session for Claude's memory of an account, and for that of each project.

    Its time is its own, or in an archive that of the file; the session is of that day, so that a later export adds to it.
    """
    time = next((account[key] for key in TIME_KEYS if account.get(key) is not None), reading.source.modified)
    said = None if time is None else reading.read_time(time, where)
    day = "" if said is None else str(said[0].astimezone(reading.options.zone).date())
    reading.skips.leave_out("file of Claude's memory", len(_list(account.get("memory_files"))))
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


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


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
