"""Configurations from presets, files, the environment and arguments."""

from __future__ import annotations

import re
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memforest import Budget, ChatEndpoint, Config, EmbeddingEndpoint, Ranking, load_default_config
from memforest.config import Explore
from memforest.errors import ConfigError
from memforest.trees.attached import make_index

FULL = """
timezone = "Europe/Madrid"
top_k = 7
mode = "emb+planner"
trace = "calls.jsonl"
chat_steps = ["extract", "summarise"]

[chat]
model = "big"
base_url = "http://127.0.0.1:8000/v1"
api_key_env = "MY_KEY"
temperature = "none"
timeout_s = 30
extra_body = { top_k = 20 }

[chat.steps.summarise]
model = "small"
temperature = 0.2

[embeddings]
model = "embed"
base_url = "http://127.0.0.1:8001/v1"
batch = 16

[ranking]
lexical = 1

[ingest_budget]
max_calls = 100
"""


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """A function that writes a settings file and returns its path."""

    def write(text: str, name: str = "memforest.toml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def load(name: str | None = None, **given: Any) -> Any:
    """Return the configuration, of which nobody here knows whether its models are endpoints."""
    return load_default_config(name, **given)


def test_without_settings_everything_is_local() -> None:
    """No endpoint is configured; a key in the environment alone changes nothing."""
    env = {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": "http://h/v1", "MEMFOREST_CHAT_API_KEY": "sk-x"}
    assert load(environ={}) == load(environ=env) == Config()
    assert load("default", environ={}).chat is None


@pytest.mark.parametrize(
    ("name", "model", "port"),
    [
        ("default_30b", "Qwen3-30B-A3B-Instruct-2507-FP8", 8001),
        ("default_4b", "Qwen3-4B-Instruct-2507", 8004),
    ],
)
def test_the_papers_settings_are_presets(
    name: str, model: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are those of the reference configuration, and loading one contacts nothing."""
    monkeypatch.setattr(socket, "socket", None)
    monkeypatch.setattr(socket, "getaddrinfo", None)
    config = load(name, environ={})
    assert config.chunk_turns == 2
    assert config.index_settings == {"memforest": {"session_k": 3, "entity_k": 8, "scene_k": 10}}
    assert (config.top_k, config.summary_words, config.mode) == (10, 200, "llm+planner")
    chat, embedder = config.chat, config.embedder
    assert (chat.model, chat.base_url) == (model, f"http://127.0.0.1:{port}/v1")
    assert (chat.temperature, chat.max_in_flight, chat.api_key) == (0.0, 512, None)
    assert chat.extra_body == {"top_p": 0.8, "top_k": 20}
    assert (embedder.model, embedder.dimensions) == ("Qwen3-Embedding-0.6B", 1024)
    assert embedder.base_url == "http://127.0.0.1:8002/v1"


def test_the_temperatures_of_timem_are_a_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warm where it writes, plans and answers, cooler where it sifts, and 0 elsewhere; a file's own model takes its place."""
    monkeypatch.setattr(socket, "socket", None)
    chat = load("timem_paper", environ={}).chat
    warmth = {
        step: chat.for_step(step).temperature for step in ("summarise", "plan", "sift", "answer", "extract")
    }
    assert warmth == {"summarise": 0.7, "plan": 0.7, "sift": 0.3, "answer": 0.7, "extract": 0.0}
    assert {chat.for_step(step).model for step in warmth} == {"gpt-4o-mini-2024-07-18"}
    own = load(
        "timem_paper",
        environ={"MEMFOREST_CHAT_MODEL": "mine", "MEMFOREST_CHAT_BASE_URL": "http://127.0.0.1:9/v1"},
    )
    assert own.chat.for_step("sift") == replace(own.chat, temperature=0.3, max_reply_tokens=1024, steps={})
    assert (own.chat.model, own.chat.base_url) == ("mine", "http://127.0.0.1:9/v1")
    assert all(
        load(environ={}, chat=ChatEndpoint("m")).chat.for_step(step).temperature == 0 for step in warmth
    )


def test_the_form_of_timem_is_in_its_preset() -> None:
    """Every window told by the model, after the last memories of its level, and leaves scored as in the paper."""
    config = load("timem_paper", environ={})
    own = make_index("timem", config.index_settings["timem"]).settings
    assert list(config.indexes) == ["timem"]
    assert (own.history_of, own.pass_through, own.dates) == ("memories", False, "kept")
    assert (own.recall.leaves, own.recall.order, own.recall.weight) == ("paper", "level", 0.9)
    assert (own.recall.prune, own.recall.show) == ("own", "texts")


def test_the_form_of_hmem_is_in_its_preset() -> None:
    """Literal likenesses of texts, and what entities lead to ranked by cosines."""
    config = load("hmem_paper", environ={})
    own = make_index("hmem", config.index_settings["hmem"]).settings
    assert list(config.indexes) == ["hmem"]
    assert (own.schedule, own.compare) == ("paper", "text")
    assert own.explore == Explore(similarity_of="cosine", reach="graph", entity=0, known=0)
    assert (own.explore.similarity, own.explore.time, own.explore.robustness) == (0.7, 0.15, 0.15)
    assert config.chat.model == "gpt-4.1-mini"


def test_an_unknown_preset_is_refused() -> None:
    """The message lists those that there are."""
    with pytest.raises(ConfigError):
        load("default_8b")


def test_a_file_sets_everything_that_it_can_hold(write: Any) -> None:
    """Fields, endpoints with their steps, weights and budgets; a key is taken from the variable that it names."""
    config = load(file=write(FULL), environ={"MY_KEY": "sk-mine\n"})
    assert config == Config(
        timezone="Europe/Madrid",
        top_k=7,
        mode="emb+planner",
        trace="calls.jsonl",
        chat_steps=["extract", "summarise"],
        chat=ChatEndpoint(
            "big",
            "http://127.0.0.1:8000/v1",
            "sk-mine",
            temperature=None,
            timeout_s=30,
            extra_body={"top_k": 20},
            steps={"summarise": {"model": "small", "temperature": 0.2}},
        ),
        embedder=EmbeddingEndpoint("embed", "http://127.0.0.1:8001/v1", batch=16),
        ranking=Ranking(lexical=1),
        ingest_budget=Budget(max_calls=100),
    )


def test_nothing_is_expanded(write: Any) -> None:
    """A text that looks like a variable is that text."""
    path = write('[chat]\nmodel = "${MODEL}"\nbase_url = "http://h/v1"\napi_key = "${KEY}"')
    config = load(file=path, environ={"MODEL": "m", "KEY": "k"})
    assert (config.chat.model, config.chat.api_key) == ("${MODEL}", "${KEY}")


def test_the_environment_names_a_file_and_models(write: Any) -> None:
    """MEMFOREST_CONFIG is read when no file is given; the other variables stand over it."""
    env = {
        "MEMFOREST_CONFIG": str(write('top_k = 4\nmode = "emb"\n[chat]\nmodel = "file"\ntimeout_s = 9\n')),
        "MEMFOREST_MODE": "llm",
        "MEMFOREST_TRACE": "here.jsonl",
        "MEMFOREST_CHAT_MODEL": "env",
        "MEMFOREST_CHAT_BASE_URL": "http://h/v1",
        "MEMFOREST_CHAT_API_KEY": "sk-env",
        "MEMFOREST_EMBEDDING_MODEL": "vec",
        "MEMFOREST_EMBEDDING_BASE_URL": "http://v/v1",
        "MEMFOREST_EMBEDDING_API_KEY": "sk-vec",
    }
    config = load(environ=env)
    assert (config.top_k, config.mode, config.trace) == (4, "llm", "here.jsonl")
    assert config.chat == ChatEndpoint("env", "http://h/v1", "sk-env", timeout_s=9)
    assert config.embedder == EmbeddingEndpoint("vec", "http://v/v1", "sk-vec")
    other = load(file=write("top_k = 5", "other.toml"), environ=env, mode="emb", chat=None)
    assert (other.top_k, other.mode, other.chat) == (5, "emb", None)


def test_a_file_stands_over_a_preset(write: Any) -> None:
    """Setting by setting in a section; the rest of the preset stays."""
    path = write('[chat]\nbase_url = "http://gpu:9000/v1"\n[embeddings]\nbatch = 8\n')
    config = load("default_4b", file=path, environ={})
    assert config.chat.base_url == "http://gpu:9000/v1"
    assert config.chat.model == "Qwen3-4B-Instruct-2507"
    assert (config.embedder.batch, config.embedder.dimensions) == (8, 1024)


@pytest.mark.parametrize("key", ['api_key = "sk-file"', 'api_key_env = "FILE_KEY"'])
def test_a_key_stays_with_its_address(write: Any, key: str) -> None:
    """Another address from the environment gets neither the key nor the headers of the file's."""
    path = write(f'[chat]\nmodel = "m"\nbase_url = "http://a/v1"\nheaders = {{ h = "v" }}\n{key}\n')
    env = {"FILE_KEY": "sk-file"}
    assert load(file=path, environ=env).chat.api_key == "sk-file"
    moved = load(file=path, environ={**env, "MEMFOREST_CHAT_BASE_URL": "http://b/v1"}).chat
    assert (moved.base_url, moved.api_key, dict(moved.headers)) == ("http://b/v1", None, {})
    keyed = load(file=path, environ={**env, "MEMFOREST_CHAT_API_KEY": "sk-env"}).chat
    assert (keyed.base_url, keyed.api_key) == ("http://a/v1", "sk-env")


def test_one_embedder_stands_over_another(write: Any) -> None:
    """A local embedder in the environment stands over an endpoint in the file, and the other way round."""
    remote, local = write('[embeddings]\nmodel = "m"'), write('embedder = "minilm"', "local.toml")
    assert load(file=remote, environ={"MEMFOREST_EMBEDDER": "none"}).embedder == "none"
    assert load(file=remote, environ={}, embedder="none").embedder == "none"
    env = {"MEMFOREST_EMBEDDING_MODEL": "vec"}
    assert load(file=local, environ=env).embedder == EmbeddingEndpoint("vec")
    with pytest.raises(ConfigError):
        load(environ={**env, "MEMFOREST_EMBEDDER": "none"})


@pytest.mark.parametrize("section", ["CHAT", "EMBEDDING"])
def test_an_address_without_a_model_is_refused(section: str) -> None:
    """The variable that is missing is named."""
    with pytest.raises(ConfigError, match=f"MEMFOREST_{section}_MODEL"):
        load(environ={f"MEMFOREST_{section}_BASE_URL": "http://h/v1"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("top = 3", "setting top;"),
        ("top_k = 'many'", "top_k should be a valid integer, not 'many'"),
        ("top_k = true", "top_k"),
        ("top_k = 0", "top_k should be greater than or equal to 1, not 0"),
        ("timezone = 1", "timezone should be a valid string, not 1"),
        ("timezone = 'Mars/Phobos'", "Mars"),
        ("mode = 'fast'", "mode should be 'emb', .*not 'fast'"),
        ("clock = 'now'", "clock is an object"),
        ("embedder = 3", "embedder should be a valid string, not 3"),
        ("chat = 'gpt'", "chat should be a valid dictionary, not 'gpt'"),
        ("chat_steps = 'extract'", "chat_steps"),
        ("[chat]\nbase_url = 'http://h/v1'", r"chat\.model"),
        ("[chat]\nmodel = 'm'\nmodels = 'n'", r"chat\.models"),
        (
            "[chat]\nmodel = 'm'\ntemperature = 'hot'",
            r"chat\.temperature .*a valid number or \"none\", not 'hot'",
        ),
        ("[chat]\nmodel = 'm'\nstructured = 'xml'", r"chat\.structured.*'schema'"),
        ("[chat]\nmodel = 'm'\ntimeout_s = -1", r"chat\.timeout_s .*greater than 0, not -1"),
        ("[chat]\nmodel = 'm'\nheaders = { a = 1 }", r"chat\.headers"),
        ("[chat]\nmodel = 'm'\napi_key = 'a'\napi_key_env = 'B'", "api_key and api_key_env"),
        ("[chat]\nmodel = 'm'\napi_key_env = 'NOT_THERE'", "NOT_THERE"),
        ("[chat]\nmodel = 'm'\n[chat.steps.judge]\nmodels = 'n'", r"chat\.steps\.judge\.models"),
        ("[chat]\nmodel = 'm'\n[chat.steps.judge]\ntimeout_s = 'long'", r"chat\.steps\.judge\.timeout_s"),
        ("[chat]\nmodel = 'm'\n[chat.steps.judge]\nmax_retries = 1", r"\[chat\].*max_retries"),
        ("[chat]\nmodel = 'm'\n[chat.steps.think]\nmodel = 'n'", r"\[chat\].*'think'"),
        ("[chat]\nmodel = 'm'\n[chat.steps]\njudge = 'n'", r"chat\.steps"),
        ("[embeddings]\nmodel = 'm'\nbatch = 1.5", r"embeddings\.batch"),
        ("embedder = 'none'\n[embeddings]\nmodel = 'm'", r"embedder and \[embeddings\]"),
        ("[ranking]\nlexical = 'much'", r"ranking\.lexical"),
        ("[ranking]\nspeed = 1", r"ranking\.speed"),
        ("[query_budget]\nmax_calls = -1", r"query_budget\.max_calls .*, not -1"),
        ("[chat\n", "not TOML.*line 1"),
    ],
)
def test_a_wrong_file_is_refused_by_name(write: Any, text: str, said: str) -> None:
    """Unknown settings, values of the wrong kind or out of range: the message names the file and the setting."""
    with pytest.raises(ConfigError, match=said) as error:
        load(file=write(text), environ={})
    assert "memforest.toml" in str(error.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Missing, a folder, or no text: one line with the file's name."""
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    for path in (tmp_path / "missing.toml", tmp_path, binary):
        with pytest.raises(ConfigError, match=path.name):
            load(file=path, environ={})
    with pytest.raises(ConfigError, match="missing"):
        load(environ={"MEMFOREST_CONFIG": str(tmp_path / "missing.toml")})


def test_a_key_in_a_file_is_not_shown(write: Any) -> None:
    """Not even when it is of the wrong kind, or cannot be sent."""
    for wrong in ("api_key = 123456", "api_key = 'has space 123456'", "headers = { a = 123456 }"):
        with pytest.raises(ConfigError) as error:
            load(file=write(f"[chat]\nmodel = 'm'\n{wrong}\n"), environ={})
        assert "123456" not in str(error.value)


def test_an_unknown_argument_is_refused() -> None:
    """Arguments are fields of `Config`; a value out of range says so."""
    with pytest.raises(ConfigError):
        load(tops=3)
    with pytest.raises(ConfigError):
        load(environ={}, top_k=0)


@pytest.mark.parametrize("page", ["configuration.md"])
def test_files_in_the_docs_are_settings(page: str, write: Any) -> None:
    """Every TOML block of the documents loads as it stands."""
    text = (Path(__file__).resolve().parents[1] / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        config = load(file=write(block), environ={"MY_OPENAI_KEY": "k", "LITELLM_KEY": "k"})
        assert config.chat.model
