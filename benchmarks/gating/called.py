"""How often a chat model is called, by a double that answers by local rules."""

from __future__ import annotations

import tempfile
from typing import Any

from tests.doubles import CountingChat, local_reply

from gating.rows import Row, counted
from gating.spent import SEED, config
from memforest import MemForest
from synthetic.chat import Chat

__all__ = ["rows"]

USER = "ana"
SESSIONS, QUESTIONS = 12, 20


def rows() -> list[Row]:
    """Return calls and characters of prompts, a turn that is written and a question that is answered."""
    read: list[int] = []

    def reply(request: Any) -> str:
        read.append(sum(len(message.content) for message in request.messages))
        return local_reply(request)

    chat, double, turns = Chat(SEED), CountingChat(reply), 0
    with (
        tempfile.TemporaryDirectory(prefix="gates-calls-") as folder,
        MemForest(folder, config(chat=double)) as forest,
    ):
        for number in range(SESSIONS):
            name, told = chat.session(number)
            forest.ingest_session(USER, name, told)
            turns += len(told)
        forest.flush()
        calls, characters = double.calls.total(), sum(read)
        user = forest.user(USER)
        for question in chat.questions(QUESTIONS):
            user.search(question)
        searching = double.calls.total() - calls
        for question in chat.questions(QUESTIONS):
            user.ask(question)
        asking = double.calls.total() - calls - searching
    return [
        counted("a turn, session by session, with summaries: calls", "calls", calls / turns),
        counted("a turn, likewise: characters of prompts", "characters", characters / turns),
        counted("a search: calls", "calls", searching / QUESTIONS),
        counted("an answer (ask): calls", "calls", asking / QUESTIONS),
    ]
