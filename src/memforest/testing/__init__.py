"""Doubles for tests of code that uses memforest: chat models, an embedder, a clock and an HTTP endpoint."""

from memforest.models.hashing import HashEmbedder
from memforest.testing.answering import ServedCall
from memforest.testing.chat import FunctionChat, ScriptedChat
from memforest.testing.clock import FrozenClock
from memforest.testing.counting import CountingChat
from memforest.testing.faults import Fault, Schedule
from memforest.testing.pace import Latency, RateLimit
from memforest.testing.replies import local_reply, prompt_of, step_of
from memforest.testing.server import ChatServer
from memforest.testing.wire import Reply

__all__ = [
    "ChatServer",
    "CountingChat",
    "Fault",
    "FrozenClock",
    "FunctionChat",
    "HashEmbedder",
    "Latency",
    "RateLimit",
    "Reply",
    "Schedule",
    "ScriptedChat",
    "ServedCall",
    "local_reply",
    "prompt_of",
    "step_of",
]
