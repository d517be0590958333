"""Doubles that the tests and benchmarks use besides `memforest.testing`: an HTTP endpoint, and replies by local rules."""

from tests.doubles.answering import ServedCall
from tests.doubles.counting import CountingChat
from tests.doubles.faults import Fault, Schedule
from tests.doubles.pace import Latency, RateLimit
from tests.doubles.replies import local_reply, prompt_of, step_of
from tests.doubles.server import ChatServer
from tests.doubles.wire import Reply

__all__ = [
    "ChatServer",
    "CountingChat",
    "Fault",
    "Latency",
    "RateLimit",
    "Reply",
    "Schedule",
    "ServedCall",
    "local_reply",
    "prompt_of",
    "step_of",
]
