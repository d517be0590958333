"""Trains what is added to the layers of the local cross-encoder, so that it tells answers from what only seems to answer.

    python scripts/train_pairs.py [--check]

`data/pairs` has messages with questions that they answer and questions that they only seem to, by many hands; of the kinds of things
of `data/reading` statements of how a thing stands, or stands since, answer its questions, and what only touches it or is
somebody else's does not. The model is read as it comes, and its int8 weights stay: what is fitted are a low-rank addition to
each linear layer of its layers `LOW` to `HIGH` (LoRA, Hu et al., arXiv 2106.09685), and their biases and norms. `memforest.models.onnx`
puts them into the graph. `scripts/train_ranking.py` fits the head that reads the last of these layers, and is to be run behind this.

Two cores need some 40 minutes. With ``--check`` the hands of every third file are held out, nothing is written, and what is printed is
the AUC of their pairs before and after. torch and onnx are needed, which no extra of the package brings.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
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
from memforest.search.relevance import is_read
from train_ranking import PAIRS, Pairs, fit_head, head_path
from train_reading import DATA, auc, tomllib

LOW, HIGH, RANK = 4, 8, 6
EPOCHS, BATCH, RATE, RATE_LOW_RANK, WARM_UP, DROPOUT, SEED = 3, 32, 1e-3, 2e-3, 0.06, 0.1, 0
MAX_TOKENS, WIDTH, HEADS, STARTING = 128, 384, 12, 12_000
ANSWERING, SEEMING = ("holds", "changes", "still"), ("near", "near", "other")
CHANGES = ("begins", "replaces", "ends", "corrects")
HALF = torch.bfloat16


class Pair(NamedTuple):
    """A question and a text as the model reads them, whether the text answers, and the file they are of."""

    ids: Sequence[int]
    types: Sequence[int]
    answers: bool
    file: str


def read_pairs() -> Iterator[tuple[str, str, bool, str]]:
    """Yield question, text, whether it answers, and the name of the file."""
    for path in sorted(PAIRS.glob("*.toml")):
        for one in tomllib.loads(path.read_text(encoding="utf-8"))["said"]:
            text = pair_text(("someone", one["before"]), one["speaker"], one["text"])
            for answers in (True, False):
                for question in one["answered" if answers else "unanswered"]:
                    yield question, text, answers, path.stem
    pick = np.random.default_rng(SEED)
    for path in sorted(DATA.glob("*.toml")):
        for table in tomllib.loads(path.read_text(encoding="utf-8")).values():
            said = {**table, "changes": [text for one in CHANGES for text in table.get(one, [])]}
            for answers, stances in ((True, ANSWERING), (False, SEEMING)):
                for stance in stances:
                    if said.get("asks") and said.get(stance):
                        question, text = pick.choice(said["asks"]), pick.choice(said[stance])
                        if is_read(text):
                            yield str(question), pair_text(("", ""), "user", str(text)), answers, path.stem


class Model(torch.nn.Module):
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
        for node in graph.node:
            if node.op_type == "MatMulInteger" and "/layer." in node.name:
                name = node.name.strip("/").removesuffix("/MatMul_quant").replace("/", ".")
                weight = whole(node.input[1].removesuffix("_quantized"))
                self.linear[name] = weight.T.contiguous().to(HALF)
                if self._is_fitted(name):
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
        """Return what is fitted, by the names of `memforest.models.onnx.Tuned`."""
        found = {name: one for name, one in self.bias.items() if one.requires_grad}
        found |= {f"{name}/bias:in": one for name, one in self.low.items()}
        found |= {f"{name}/bias:out": one for name, one in self.high.items()}
        return {
            name.replace("/", "."): one.detach().numpy().astype(np.float16) for name, one in found.items()
        }


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

    def auc(self, rows: NDArray[np.int64]) -> float:
        """Return the share of pairs of an answer and none in which the answer has the higher logit."""
        self.model.eval()
        with torch.no_grad():
            each = [
                (some, self.model.head(self.read(some))[:, 0].numpy()) for some in self.batches(rows, 128)
            ]
        told, logits = (np.concatenate(part) for part in zip(*each, strict=True))
        right = self.answers[told] == 1
        return auc(logits[right], logits[~right])


def begin(reader: Reader, rows: NDArray[np.int64]) -> None:
    """Fit the head alone to some pairs."""
    reader.model.eval()
    with torch.no_grad():
        read = [(some, reader.read(some).numpy()) for some in reader.batches(rows, 128)]
    taken, states = (np.concatenate(part) for part in zip(*read, strict=True))
    made = fit_head(Pairs(states.astype(np.float64), reader.answers[taken].astype(np.float64)))
    with torch.no_grad():
        reader.model.head.weight[:] = torch.from_numpy(made[:-1])
        reader.model.head.bias[:] = float(made[-1])


def train(reader: Reader, rows: NDArray[np.int64]) -> None:
    """Fit the head and the layers to some pairs: logistic loss, Adam, a rate that falls to none."""
    pick, model = np.random.default_rng(SEED), reader.model
    small = [*model.head.parameters(), *(one for one in model.bias.values() if one.requires_grad)]
    low_rank = [*model.low.values(), *model.high.values()]
    groups: list[dict[str, Any]] = [
        {"params": small, "lr": RATE, "weight_decay": 0.0},
        {"params": low_rank, "lr": RATE_LOW_RANK, "weight_decay": 0.01},
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


def main() -> int:
    """Print what is told of pairs that were held out, or write the weights."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="hold out every third file, and write nothing")
    given = parser.parse_args()
    torch.manual_seed(SEED)
    tokens = WordPiece()
    pairs = [
        Pair(*tokens.encode_pair(question, text, max_tokens=MAX_TOKENS), answers, file)
        for question, text, answers, file in dict.fromkeys(read_pairs())
    ]
    files = sorted({one.file for one in pairs})
    out = np.array([given.check and files.index(one.file) % 3 == 0 for one in pairs])
    rows = np.flatnonzero(~out)
    print(f"{len(pairs)} pairs of {len(files)} files, {len(rows)} are fitted", flush=True)
    reader = Reader(Model(), pairs)
    begin(reader, np.random.default_rng(SEED).permutation(rows)[:STARTING])
    if given.check:
        print(f"before: AUC {reader.auc(np.flatnonzero(out)):.3f}", flush=True)
    train(reader, rows)
    if given.check:
        print(f"after: AUC {reader.auc(np.flatnonzero(out)):.3f}")
        return 0
    head = reader.model.head
    bias_last = np.r_[head.weight.detach().numpy()[0], head.bias.detach().numpy()].astype(np.float16)
    np.savez_compressed(head_path(MS_MARCO), head=bias_last, **reader.model.tuned())
    return 0


if __name__ == "__main__":
    sys.exit(main())
