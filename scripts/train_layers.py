"""Trains what is added to the layers of the local cross-encoder, so that it tells answers from what only seems to answer.

`data/pairs` has messages with questions that they answer and questions that they only seem to, by many hands. Beside these go
the pieces that a memory finds for the questions of conversations (`train_ranking.py`). The files `FITTED` and two thirds of the conversations
are fitted to; the other files say how well it reads what other hands wrote, and `train_ranking.py` fits to what it says of the other conversations.

The model is read as it comes, and its int8 weights stay: what is fitted are a low-rank addition to each linear layer of its layers `LOW`
to `HIGH` (LoRA, Hu et al., arXiv 2106.09685), their biases and norms, and a head over the last of them. `memforest.models.onnx` puts them into
the graph. Two cores need a quarter of an hour. torch and onnx are needed, which no extra of the package brings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch.nn import functional

from memforest.models import MS_MARCO
from memforest.models.onnx import WordPiece
from memforest.read.rerank import pair_text
from train_reading import ROOT, auc, tomllib  # type: ignore[import-not-found]

FITTED = tuple(
    f"{name}.toml"
    for name in ("changes", "clubs", "crowds", "families", "groups", "neighbours", "teams", "work")
)
LEFT_OUT = 3
"""Of so many conversations one is left out."""
LOW, HIGH, RANK = 4, 8, 8
EPOCHS, BATCH, RATE, WARM_UP, DROPOUT, SEED = 2, 32, 1e-3, 0.06, 0.05, 0
STARTING, HEAD_RIDGE = 12_000, 300.0
"""Pairs that the head is fitted to before the layers are, and its ridge."""
MAX_TOKENS, WIDTH, HEADS = 128, 384, 12
PAIRS = ROOT / "data" / "pairs"
HALF = torch.bfloat16


Piece = tuple[str, str, str]
"""A question, a text, and the conversation they are of."""


class Pair(NamedTuple):
    """A question and a text as the model reads them; whether the text answers, or how a thing stands by it, or None where that is not taught."""

    ids: Sequence[int]
    types: Sequence[int]
    answers: bool | None = None
    stands: int | None = None


def read_pairs() -> Iterator[tuple[str, str, str, bool]]:
    """Yield question, text, the file (no conversation is called so), and whether the text answers."""
    for path in sorted(PAIRS.glob("*.toml")):
        for one in tomllib.loads(path.read_text(encoding="utf-8"))["said"]:
            text = pair_text(("someone", one["before"]), one["speaker"], one["text"])
            for answers in (True, False):
                for question in one["answered" if answers else "unanswered"]:
                    yield question, text, path.name, answers


class Model(torch.nn.Module):  # type: ignore[misc]
    """The layers of the cross-encoder up to `HIGH`, their weights as the file has them, with what is fitted beside them."""

    def __init__(self) -> None:
        super().__init__()
        graph = onnx.load_from_string(MS_MARCO.read()).graph
        held = {one.name: numpy_helper.to_array(one) for one in graph.initializer}

        def whole(name: str) -> torch.Tensor:
            scale, zero = held[f"{name}_scale"], held[f"{name}_zero_point"].astype(np.float32)
            return torch.tensor((held[f"{name}_quantized"].astype(np.float32) - zero) * scale)

        self.words, self.places, self.types = (
            whole(f"bert.embeddings.{one}_embeddings.weight") for one in ("word", "position", "token_type")
        )
        self.linear: dict[str, torch.Tensor] = {}
        self.bias, self.low, self.high = (torch.nn.ParameterDict() for _ in range(3))
        for name, numbers in held.items():
            if numbers.ndim == 1 and numbers.dtype == np.float32 and name.startswith("bert."):
                self.bias[name.replace(".", "/")] = torch.nn.Parameter(torch.tensor(numbers))
                self.bias[name.replace(".", "/")].requires_grad_(self._is_fitted(name))
        self.reads: dict[str, str] = {}
        quantized: dict[str, str] = {}
        for node in graph.node:
            if node.op_type == "DynamicQuantizeLinear":
                quantized[node.output[0]] = node.input[0]
            if node.op_type == "MatMulInteger" and "/layer." in node.name:
                name = node.name.strip("/").removesuffix("/MatMul_quant").replace("/", ".")
                weight = whole(node.input[1].removesuffix("_quantized"))
                self.linear[name] = weight.T.contiguous().to(HALF)
                if self._is_fitted(name):
                    self.reads[name.replace(".", "/")] = quantized[node.input[0]]
                    rows, columns = weight.shape
                    self.low[name.replace(".", "/")] = torch.nn.Parameter(torch.randn(rows, RANK) / rows**0.5)
                    self.high[name.replace(".", "/")] = torch.nn.Parameter(torch.zeros(RANK, columns))
        self.head = torch.nn.Linear(3 * WIDTH, 1)

    @staticmethod
    def _is_fitted(name: str) -> bool:
        return ".layer." in name and LOW <= int(name.split(".")[3]) < HIGH

    def first(self, ids: torch.Tensor, types: torch.Tensor, padded: torch.Tensor) -> torch.Tensor:
        """Return the states below the layers that are fitted, shape (n, tokens, `WIDTH`)."""
        states = self.words[ids] + self.places[: ids.shape[1]] + self.types[types]
        return self.layers(self._normed(states, "bert.embeddings.LayerNorm"), padded, range(LOW))

    def layers(self, states: torch.Tensor, padded: torch.Tensor, layers: range) -> torch.Tensor:
        """Return the states behind some layers (Devlin et al., arXiv 1810.04805)."""
        mask = torch.zeros(padded.shape, dtype=HALF).masked_fill(padded, -1e4)[:, None, None, :]
        for layer in layers:
            at = f"bert.encoder.layer.{layer}"
            query, key, value = (
                self._added(states, f"{at}.attention.self.{one}").unflatten(-1, (HEADS, -1)).transpose(1, 2)
                for one in ("query", "key", "value")
            )
            seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
            seen = self._added(seen.transpose(1, 2).flatten(2), f"{at}.attention.output.dense")
            states = self._normed(states + self._dropped(seen), f"{at}.attention.output.LayerNorm")
            wide = functional.gelu(self._added(states, f"{at}.intermediate.dense"))
            states = self._normed(
                states + self._dropped(self._added(wide, f"{at}.output.dense")), f"{at}.output.LayerNorm"
            )
        return states

    def _dropped(self, states: torch.Tensor) -> torch.Tensor:
        return functional.dropout(states, DROPOUT, self.training)

    def _normed(self, states: torch.Tensor, name: str) -> torch.Tensor:
        weight, bias = (self.bias[f"{name}.{one}".replace(".", "/")] for one in ("weight", "bias"))
        return functional.layer_norm(states.float(), (WIDTH,), weight, bias, 1e-12).to(HALF)

    def _added(self, states: torch.Tensor, name: str) -> torch.Tensor:
        key = name.replace(".", "/")
        made = functional.linear(states, self.linear[name], self.bias[f"{key}/bias"].to(HALF))
        if key in self.low:
            made = made + states @ self.low[key].to(HALF) @ self.high[key].to(HALF)
        return made

    def tuned(self) -> dict[str, NDArray[np.float16]]:
        """Return what is fitted, by the names of `memforest.models.onnx.Tuned`, and the head, its bias last."""
        found = {name: one for name, one in self.bias.items() if one.requires_grad}
        found |= {f"{name}/bias:in:{self.reads[name]}": one for name, one in self.low.items()}
        found |= {f"{name}/bias:out:{self.reads[name]}": one for name, one in self.high.items()}
        found["head"] = torch.cat([self.head.weight[0], self.head.bias])
        made = {}
        for name, one in found.items():
            layer, *rest = name.split(":")
            made[":".join([layer.replace("/", "."), *rest])] = one.detach().numpy().astype(np.float16)
        return made


class Reader:
    """Pairs with the states below the layers that are fitted, so that these are computed once."""

    def __init__(self, model: Model, pairs: Sequence[Pair]) -> None:
        self.model, self.pairs = model, pairs
        self.sizes = np.array([len(one.ids) for one in pairs])
        self.answers = np.array([float(one.answers) for one in pairs], dtype=np.float32)
        self.ends = np.cumsum(self.sizes)
        self.below = torch.zeros(int(self.ends[-1]), WIDTH, dtype=HALF)
        with torch.no_grad():
            for rows in self.batches(np.arange(len(pairs)), 64):
                ids, types, padded = self._padded(rows)
                for row, states in zip(rows, model.first(ids, types, padded), strict=True):
                    self._of(row)[:] = states[: self.sizes[row]]

    def _of(self, row: int) -> torch.Tensor:
        return self.below[self.ends[row] - self.sizes[row] : self.ends[row]]

    def _padded(self, rows: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        shape = (len(rows), int(self.sizes[rows].max()))
        ids, types = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.int64)
        padded = torch.ones(shape, dtype=torch.bool)
        for place, row in enumerate(rows):
            size = self.sizes[row]
            ids[place, :size], types[place, :size] = map(torch.tensor, self.pairs[row][:2])
            padded[place, :size] = False
        return ids, types, padded

    def batches(self, rows: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
        """Return rows in groups of about one length."""
        ordered = rows[np.argsort(self.sizes[rows], kind="stable")]
        return [ordered[at : at + size] for at in range(0, len(ordered), size)]

    def read(self, rows: NDArray[np.int64]) -> torch.Tensor:
        """Return what the head reads (`OnnxCrossEncoder.states`), shape (n, 3 `WIDTH`)."""
        _, types, padded = self._padded(rows)
        states = torch.zeros(*padded.shape, WIDTH, dtype=HALF)
        for place, row in enumerate(rows):
            states[place, : self.sizes[row]] = self._of(row)
        states = self.model.layers(states, padded, range(LOW, HIGH)).float()
        parts = [(types == one) & ~padded for one in (0, 1)]
        means = [(states * part[..., None]).sum(1) / part.sum(1, keepdim=True).clamp(min=1) for part in parts]
        return torch.cat([states[:, 0], *means], 1)

    def logits(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what the head says of some pairs, shape (n,)."""
        self.model.eval()
        found = np.zeros(len(self.pairs))
        with torch.no_grad():
            for some in self.batches(rows, 128):
                found[some] = self.model.head(self.read(some))[:, 0].numpy()
        made: NDArray[np.float64] = found[rows]
        return made


def logistic(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights, the bias last, with a ridge of `HEAD_RIDGE` on standardised inputs, by Newton's method."""
    mean, spread = x.mean(0), x.std(0) + 1e-6
    z, b = np.c_[(x - mean) / spread, np.ones(len(x))], np.zeros(x.shape[1] + 1)
    ridge = np.r_[np.full(x.shape[1], HEAD_RIDGE), 1e-9]
    for _ in range(8):
        told = 1 / (1 + np.exp(-z @ b))
        bend = (z * (told * (1 - told) + 1e-4)[:, None]).T @ z + np.diag(ridge)
        b -= np.linalg.solve(bend, z.T @ (told - y) + ridge * b)
    weights = b[:-1] / spread
    made: NDArray[np.float64] = np.r_[weights, b[-1] - weights @ mean]
    return made


def begin(reader: Reader, rows: NDArray[np.int64]) -> None:
    """Fit the head alone to some pairs."""
    reader.model.eval()
    with torch.no_grad():
        read = [(some, reader.read(some).numpy()) for some in reader.batches(rows, 128)]
    taken, states = (np.concatenate(part) for part in zip(*read, strict=True))
    made = logistic(states.astype(np.float64), reader.answers[taken].astype(np.float64))
    with torch.no_grad():
        reader.model.head.weight[:] = torch.from_numpy(made[:-1])
        reader.model.head.bias[:] = float(made[-1])


def train(reader: Reader, rows: NDArray[np.int64]) -> None:
    """Fit the head and the layers to some pairs: logistic loss, Adam, a rate that falls to none and is double for the low-rank part."""
    pick, model = np.random.default_rng(SEED), reader.model
    small = [*model.head.parameters(), *(one for one in model.bias.values() if one.requires_grad)]
    low_rank = [*model.low.values(), *model.high.values()]
    groups: list[dict[str, Any]] = [
        {"params": small, "lr": RATE, "weight_decay": 0.0},
        {"params": low_rank, "lr": 2 * RATE, "weight_decay": 0.01},
    ]
    optimizer = torch.optim.AdamW(groups)
    steps = EPOCHS * (len(rows) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / (WARM_UP * steps)) * max(0.0, 1 - step / steps)
    )
    for epoch in range(EPOCHS):
        model.train()
        mixed = pick.permutation(rows)
        batches = [
            one for at in range(0, len(mixed), 2048) for one in reader.batches(mixed[at : at + 2048], BATCH)
        ]
        batches = [one for one in batches if len(one) == BATCH]
        pick.shuffle(batches)
        losses = []
        for batch in batches:
            logits = model.head(reader.read(batch))[:, 0]
            loss = functional.binary_cross_entropy_with_logits(
                logits, torch.from_numpy(reader.answers[batch])
            )
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_([*small, *low_rank], 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            if len(losses) % 200 == 0:
                print(
                    f"epoch {epoch}, {len(losses)} of {len(batches)}: {np.mean(losses[-200:]):.3f}",
                    flush=True,
                )


def fitted(pieces: Mapping[Piece, bool]) -> tuple[dict[str, NDArray[np.float16]], dict[Piece, float]]:
    """Return the layers with their head, and the logits of the pieces of those conversations that were left out of the fit.

    Args:
        pieces: question, text and conversation -> whether the text answers.
    """
    torch.manual_seed(SEED)
    tokens, talks = WordPiece(), sorted({talk for _, _, talk in pieces})
    given = {(question, text, file): answers for question, text, file, answers in read_pairs()} | dict(pieces)
    taken = [file in FITTED or (file in talks and talks.index(file) % LEFT_OUT > 0) for _, _, file in given]
    pairs = [
        Pair(*tokens.encode_pair(question, text, max_tokens=MAX_TOKENS), answers)
        for (question, text, _), answers in given.items()
    ]
    reader, rows = Reader(Model(), pairs), np.flatnonzero(taken)
    print(f"{len(pairs)} pairs, {len(rows)} of them are fitted", flush=True)
    begin(reader, np.random.default_rng(SEED).permutation(rows)[:STARTING])
    of_talk = np.array([file in talks for _, _, file in given])
    held = {"files": ~of_talk & ~np.array(taken), "conversations": of_talk & ~np.array(taken)}
    for when in ("before", "after"):
        if when == "after":
            train(reader, rows)
        for name, rest in held.items():
            told, right = reader.logits(np.flatnonzero(rest)), reader.answers[rest] == 1
            print(f"{when}, other {name}: AUC {auc(told[right], told[~right]):.3f}", flush=True)
    keys = list(given)
    logits = {
        keys[row]: float(one) for row, one in zip(np.flatnonzero(held["conversations"]), told, strict=True)
    }
    return reader.model.tuned(), logits
