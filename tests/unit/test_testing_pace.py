"""The test endpoint's pace, faults and shapes, each held against a small model of its own."""

from __future__ import annotations

import base64
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doubles import Fault, Latency, RateLimit, Schedule
from tests.doubles.faults import Attempt, pick_fault, spoiled
from tests.doubles.pace import PrefixCache
from tests.doubles.wire import (
    Refusal,
    chat_body,
    cut_to_tokens,
    embedding_body,
    json_reply,
    prompt_text,
    refusal_reply,
)
from tests.table import each

from memforest.errors import ConfigError
from memforest.text import count_tokens


@each("part", ["base_s", "prompt_token_s", "completion_token_s"])
@each("wrong", [-0.001, math.nan, math.inf])
def test_no_part_of_a_latency_is_below_nothing(part: str, wrong: float) -> None:
    """The message names the part; nothing at all is a latency."""
    with pytest.raises(ConfigError, match=f"{part}={wrong!r}"):
        Latency(**{part: wrong})
    assert Latency().seconds(10_000, 10_000) == 0


def test_tokens_that_were_kept_take_no_time() -> None:
    """A fixed part, one for each prompt token that is read, one for each token of the reply."""
    latency = Latency(1.0, 0.25, 8.0)
    assert latency.prompt_s(8) == 3.0
    assert latency.prompt_s(8, 6) == 1.5
    assert latency.seconds(8) == 3.0
    assert latency.seconds(8, 2, 6) == 17.5


@each(("per_s", "burst"), [(0, 1), (-1, 1), (math.nan, 1), (math.inf, 1), (1, 0), (1, -1)])
def test_an_impossible_rate_is_refused(per_s: float, burst: int) -> None:
    """Some calls a second, and at least one at once."""
    with pytest.raises(ConfigError):
        RateLimit(per_s, burst)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 3000), max_size=40), st.integers(1, 20), st.integers(1, 5))
def test_calls_are_let_in_like_drops_from_a_bucket(waits_ms: list[int], per_s: int, burst: int) -> None:
    """What is let in, and how long the others are to wait, is what exact arithmetic on a bucket of calls gives."""
    limit, left, now, last = RateLimit(per_s, burst), Fraction(burst), Fraction(0), Fraction(0)
    for wait in waits_ms:
        now += Fraction(wait, 1000)
        left = min(Fraction(burst), left + (now - last) * per_s)
        last = now
        told = limit.wait_s(float(now))
        if left >= 1:
            left -= 1
            assert told == 0
        elif left < 1 - Fraction(1, 10**8):
            assert told == pytest.approx(float((1 - left) / per_s))
            assert 0 < told <= 1 / per_s


@pytest.mark.parametrize("burst", [1, 3])
def test_who_comes_back_when_told_is_let_in(burst: int) -> None:
    """Not a moment before; a long pause saves no more than a burst."""
    limit = RateLimit(per_s=4, burst=burst)
    assert [limit.wait_s(0.0) for _ in range(burst + 1)] == [0.0] * burst + [0.25]
    assert limit.wait_s(0.125) == pytest.approx(0.125)
    assert limit.wait_s(0.25) == 0
    assert [limit.wait_s(1000.0) for _ in range(burst + 1)] == [0.0] * burst + [0.25]


PIECE, BLOCK = 512, 128
PARTS = st.lists(st.sampled_from("abc"), max_size=4).map(
    lambda letters: "".join(one * 300 for one in letters)
)


def alike(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


@settings(max_examples=60)
@given(st.lists(st.tuples(PARTS, st.sampled_from(["m", "n"])), max_size=6), PARTS)
def test_what_is_kept_of_a_prompt_is_its_longest_known_beginning(
    known: list[tuple[str, str]], asked: str
) -> None:
    """In whole pieces, counted in whole blocks, of the same model alone."""
    cache = PrefixCache()
    for prompt, model in known:
        cache.add(prompt, model=model)
    for model in ("m", "n", "o"):
        longest = max((alike(asked, prompt) for prompt, of in known if of == model), default=0)
        assert cache.cached_tokens(asked, model=model) == longest // PIECE * BLOCK


def test_asking_what_is_kept_keeps_nothing() -> None:
    """A prompt shorter than a piece is never kept; one of exactly a piece is; other letters count more tokens."""
    cache = PrefixCache()
    assert (cache.cached_tokens("x" * 600), cache.cached_tokens("x" * 600)) == (0, 0)
    cache.add("x" * 511)
    assert cache.cached_tokens("x" * 511) == 0
    cache.add("x" * 512)
    assert cache.cached_tokens("x" * 512) == 128
    assert cache.cached_tokens("y" * 512 + "x" * 512) == 0  # only what a prompt begins with
    cache.add("日x" * 256)
    assert cache.cached_tokens("日x" * 256) == 256  # of 320
    cache.add("日" * 512)
    assert cache.cached_tokens("日" * 512) == count_tokens("日" * 512) // 128 * 128 > 128


def attempt(number: int, tries: int = 1, **body: Any) -> Attempt:
    """Return a call as schedules see it."""
    return Attempt(number, tries, body, json.dumps(body).encode())


def of_b(body: Any) -> bool:
    """Return whether a body is of "b"."""
    return bool(body.get("of") == "b")


@each(
    ("schedule", "met"),
    [
        (Schedule.at({1: Fault.empty(), 4: Fault.empty()}), [1, 4]),
        (Schedule.every(1, Fault.empty()), [1, 2, 3, 4, 5, 6]),
        (Schedule.every(4, Fault.empty()), [4]),
        (Schedule.every(2, Fault.empty(), when=of_b), [2, 4, 6]),
        (Schedule.every(3, Fault.empty(), when=of_b), [6]),
        (Schedule.first(0, Fault.empty()), []),
        (Schedule.first(1, Fault.empty()), [1, 2]),
        (Schedule.first(2, Fault.empty(), when=of_b), [2, 4]),
        (Schedule.when(of_b, Fault.empty()), [2, 4, 6]),
        (Schedule.rate(0.0, Fault.empty()), []),
        (Schedule.rate(1.0, Fault.empty()), [1, 2, 3, 4, 5, 6]),
        (Schedule.rate(1.0, Fault.empty(), when=of_b), [2, 4, 6]),
        ([], []),
        ({2: Fault.empty()}, [2]),
    ],
)
def test_a_schedule_says_which_calls_go_wrong(schedule: Any, met: list[int]) -> None:
    """Six calls, by turns with the bodies "a" and "b", so that each body is tried three times."""
    calls = [attempt(n, (n + 1) // 2, of="ab"[(n + 1) % 2]) for n in range(1, 7)]
    assert [one.number for one in calls if pick_fault(schedule, one)] == met


def test_of_several_faults_all_are_drawn() -> None:
    """About equally often, by the request and its try alone; the first schedule with a fault counts."""
    kinds = [Fault.empty(), Fault.truncated(), Fault.kill()]
    rate = Schedule.rate(1.0, kinds, seed=3)
    drawn = [pick_fault(rate, attempt(7, of=n)) for n in range(90)]
    assert all(15 < drawn.count(kind) < 45 for kind in kinds)
    assert drawn == [pick_fault(rate, attempt(8, of=n)) for n in range(90)]
    assert drawn != [pick_fault(rate, attempt(7, 2, of=n)) for n in range(90)]
    assert pick_fault([Schedule.at({}), Schedule.at({7: kinds[1]}), rate], attempt(7)) == kinds[1]


@each(("code", "good"), [(399, False), (400, True), (599, True), (600, False)])
def test_a_status_of_a_fault_is_that_of_an_error(code: int, good: bool) -> None:
    """From 400 to 599."""
    if good:
        assert Fault.status(code, retry_after_s=2).code == code
        return
    with pytest.raises(ConfigError, match=str(code)):
        Fault.status(code)


@pytest.mark.parametrize("share", [-0.01, 1.01, math.nan])
def test_a_share_is_a_part_of_all(share: float) -> None:
    """Between none and all; and of no faults none can be drawn."""
    with pytest.raises(ConfigError):
        Schedule.rate(share, Fault.empty())
    with pytest.raises(ConfigError):
        Schedule.rate(0.5, [])


@each("fault", [None, Fault.timeout(1), Fault.drop(), Fault.status(500)])
def test_faults_of_the_connection_leave_the_text(fault: Fault | None) -> None:
    """It is late, cut off or not sent, but not another one."""
    assert spoiled(fault, "text", "prompt") == ("text", False)


@settings(max_examples=60)
@given(st.text(st.sampled_from("ab ½日🎻\n"), max_size=60), st.integers(0, 30))
def test_a_cut_text_is_the_longest_beginning_that_fits(text: str, most: int) -> None:
    """In estimated tokens: one character more would be too much."""
    cut = cut_to_tokens(text, most)
    assert text.startswith(cut)
    assert count_tokens(cut) <= most
    assert cut == text or count_tokens(text[: len(cut) + 1]) > most


@each(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "invalid_request_error"),
        (403, "permission_error"),
        (404, "invalid_request_error"),
        (408, "timeout_error"),
        (429, "rate_limit_error"),
        (499, "invalid_request_error"),
        (500, "server_error"),
        (503, "server_error"),
    ],
)
def test_errors_have_the_types_of_openai(status: int, kind: str) -> None:
    """By their status; message, code and parameter are handed on."""
    made = refusal_reply(Refusal(status, "no", code="c", param="p"))
    assert made.status == status
    assert json.loads(made.body) == {"error": {"message": "no", "type": kind, "param": "p", "code": "c"}}


@each(("wait_s", "ms", "s"), [(0.0001, "1", "1"), (1.0, "1000", "1"), (1.0001, "1001", "2"), (0.0, "0", "0")])
def test_a_wait_is_rounded_up(wait_s: float, ms: str, s: str) -> None:
    """Who comes back when told must not come too early; without a wait there is no header of it."""
    headers = refusal_reply(Refusal(429, "no", retry_after_s=wait_s), {"x-own": "1"}).headers
    assert headers == {
        "content-type": "application/json",
        "x-own": "1",
        "retry-after-ms": ms,
        "retry-after": s,
    }
    assert "retry-after" not in refusal_reply(Refusal(429, "no")).headers


def test_a_prompt_is_all_messages_in_order() -> None:
    """With their roles; of parts the texts alone, and nothing for what has no text."""
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, "odd", {"text": "b"}]
    body = {
        "messages": [
            {"role": "system", "content": "S"},
            {"role": "user", "content": parts},
            {"content": None},
        ]
    }
    assert prompt_text(body) == "system\nS\nuser\nab\n\n\n"
    assert prompt_text({}) == ""


def test_replies_are_compact_json_in_ascii() -> None:
    """With their headers, and the part of the body that is to be sent."""
    made = json_reply({"é": [1, None]}, status=201, headers={"x": "y"}, sent_share=0.5)
    assert made.body == b'{"\\u00e9":[1,null]}'
    assert (made.status, made.headers, made.sent_share) == (
        201,
        {"content-type": "application/json", "x": "y"},
        0.5,
    )


def test_vectors_come_as_numbers_or_as_bytes() -> None:
    """Both forms hold the same, in the order of the texts."""
    rows = np.array([[0.5, -1.25], [3.0, 0.0]], dtype=np.float32)
    plain = embedding_body("m", rows, encoding="float", tokens=7)
    packed = embedding_body("m", rows, encoding="base64", tokens=7)
    assert [(one["index"], one["embedding"]) for one in plain["data"]] == [(0, [0.5, -1.25]), (1, [3.0, 0.0])]
    unpacked = [np.frombuffer(base64.b64decode(one["embedding"]), "<f4").tolist() for one in packed["data"]]
    assert unpacked == rows.tolist()
    assert plain["usage"] == packed["usage"] == {"prompt_tokens": 7, "total_tokens": 7}


def test_a_reply_counts_its_tokens_together() -> None:
    """The same call has the same reply to the byte: neither clock nor chance is in it."""
    made = chat_body(3, "m", "hi", "stop", prompt_tokens=5, completion_tokens=2, cached_tokens=4)
    assert (made["id"], made["created"], made["model"]) == ("chatcmpl-3", 0, "m")
    assert made["usage"]["total_tokens"] == 7
    assert made["usage"]["prompt_tokens_details"] == {"cached_tokens": 4}
    assert made == chat_body(3, "m", "hi", "stop", prompt_tokens=5, completion_tokens=2, cached_tokens=4)
