"""What a setting for a model or a step takes: an object with the port's attributes, an endpoint, a name or a function.

Whether a value will do is told without loading or calling anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

from memforest.endpoint import ChatEndpoint, EmbeddingEndpoint
from memforest.errors import ConfigError
from memforest.ports import ChatModel, Embedder, Reranker
from memforest.settings import with_article

EmbedderSetting: TypeAlias = Embedder | EmbeddingEndpoint | Callable[[list[str]], Any] | str | None
RerankerSetting: TypeAlias = Reranker | Callable[[str, list[str]], Any] | str | None
ChatSetting: TypeAlias = ChatModel | ChatEndpoint | None


@dataclass(frozen=True, slots=True)
class Port:
    """What may stand for a model or a step: an object with some attributes, or one of some types."""

    kind: str
    needs: tuple[str, ...]
    types: tuple[type, ...] = ()
    names: str = ""
    """The names that there are, where a name will do."""
    function: str = ""
    """Of what, where a plain function will do."""

    def fits(self, value: object) -> bool:
        """Return whether an object has the attributes of the port."""
        return not isinstance(value, type) and all(hasattr(value, one) for one in self.needs)

    def check(self, name: str, value: Any) -> None:
        """Refuse what is neither.

        Raises:
            ConfigError: if it is not; it says what to write.
        """
        if value is None or isinstance(value, self.types) or (self.names and isinstance(value, str)):
            return
        if isinstance(value, type):
            raise ConfigError(f"Config({name}=...) takes an object, not a class; write {value.__name__}(...)")
        if self.fits(value) or (self.function and callable(value)):
            return
        takes = [f"a name ({self.names})"] if self.names else []
        takes += [with_article(one.__name__) for one in self.types]
        takes += [f"a function of {self.function}"] if self.function else []
        takes += [f"an object with {' and '.join(self.needs)} (the {self.kind} port)"]
        raise ConfigError(f"Config({name}=...) takes {', '.join(takes)} or None; {_instead(name, value)}")


def is_embedder(value: object) -> TypeGuard[Embedder]:
    """Return whether an object has the attributes of an embedder."""
    return PORTS["embedder"].fits(value)


def is_reranker(value: object) -> TypeGuard[Reranker]:
    """Return whether an object has the attributes of a reranker."""
    return PORTS["reranker"].fits(value)


def _instead(name: str, value: Any) -> str:
    """Say what to write for a model or step; neither a mapping nor a long text is shown, as it may hold a key."""
    shown = isinstance(value, str) and _MODEL_NAME.fullmatch(value) and not value.startswith("sk-")
    model = repr(value) if shown else "'gpt-4o'"
    if name == "chat":
        return f"write Config(chat=ChatEndpoint(model={model}))"
    if name in _STEP_OF:
        steps = f"chat_steps=[{_STEP_OF[name]!r}]"
        return f"a model that does it is given as Config(chat=ChatEndpoint(model={model}), {steps})"
    return f"not {with_article(type(value).__name__)}"


_MODEL_NAME = re.compile(r"[\w.:-]+(/[\w.:-]+)?")
_STEP_OF: Mapping[str, str] = {
    "extractor": "extract",
    "summariser": "summarise",
    "answerer": "answer",
}
PORTS: Mapping[str, Port] = {
    "embedder": Port(
        "Embedder",
        ("model_id", "embed"),
        (EmbeddingEndpoint,),
        names="'auto', 'minilm', 'bge' or 'none'",
        function="texts",
    ),
    "reranker": Port(
        "Reranker", ("model_id", "score"), names="'local' or 'none'", function="a question and texts"
    ),
    "chat": Port("ChatModel", ("model_id", "complete"), (ChatEndpoint,)),
    "extractor": Port("Extractor", ("name", "extract")),
    "summariser": Port("Summariser", ("name", "summarise")),
    "planner": Port("Planner", ("name", "plan")),
    "answerer": Port("Answerer", ("name", "answer")),
}
"""Field of `Config` -> what it takes."""
