"""Trains what is added to the layers of the local cross-encoder, so that it tells answers from what only seems to answer, and how things stand.

`data/pairs` has messages with questions that they answer and questions that they only seem to, by many hands. Beside these go
the pieces that a memory finds for the questions of conversations (`train_ranking.py`). For how what is asked about stands by a text (`STANDS`), the kinds
of `data/reading` are asked for, and their statements told, by the user or by somebody with a name. The files `HELD` and a third of the
conversations are fitted to by nothing: they say how well it reads what other hands wrote, and `train_ranking.py` fits to what it says of those
conversations.

The model is read as it comes, and its int8 weights stay: what is fitted are a low-rank addition to each linear layer of its layers `LOW`
to `HIGH` (LoRA, Hu et al., arXiv 2106.09685), their biases and norms, and heads over the last of them. `memforest.models.onnx` puts them into
the graph. Two fits are averaged (model soups, Wortsman et al., arXiv 2203.05482): one to the files `EIGHT` and the conversations, which keeps what it
knows of long ones, and one to everything. Of its two passes the first is over all pairs, the second over a part of those of files, and twice over those
of conversations. The head of `STANDS` is fitted again to the averaged layers. A third pass at half of the rate is over who said what: two turns of two people,
and messages of the other files told to somebody with a name, or reacted to (`swapped_pairs`), beside a part of everything, and its fit is averaged with the
one before it (Wortsman et al., arXiv 2109.01903): alone it told less of long conversations. Two cores need an hour and a half. torch and onnx are needed, which no extra of the package
brings.
"""

from __future__ import annotations

import random
import re
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
from memforest.ports import STANDS
from memforest.read.rerank import pair_text
from train_reading import NAMES, ROOT, auc, tomllib  # type: ignore[import-not-found]

EIGHT = tuple(
    f"{name}.toml"
    for name in ("changes", "clubs", "crowds", "families", "groups", "neighbours", "teams", "work")
)
HELD = ("everyday.toml", "students.toml", "wards.toml", "daily.toml", "village.toml", "replies_clubs.toml")
LEFT_OUT = 3
"""Of so many conversations one is left out."""
LOW, HIGH, RANK = 4, 8, 8
BATCH, RATE, WARM_UP, DROPOUT, SEED = 32, 1e-3, 0.06, 0.05, 0
SECOND = {"answers": 18_000, "stands": 12_000}
"""Pairs of files of the second pass."""
STANDS_COUNT = 0.5
"""What the loss of how things stand counts beside that of answers."""
STARTING, HEAD_RIDGE = 12_000, 300.0
"""Pairs that the head is fitted to before the layers are, and its ridge."""
MAX_TOKENS, WIDTH, HEADS = 128, 384, 12
PAIRS, KINDS = ROOT / "data" / "pairs", ROOT / "data" / "reading"
TELLS = {
    **{
        "holds": "stands",
        "still": "stands",
        "corrects": "changes",
        "begins": "changes",
        "replaces": "changes",
    },
    **{
        "ends": "ends",
        "past": "past",
        "planned": "planned",
        "denied": "denied",
        "near": "nothing",
        "other": "nothing",
    },
}
"""How what a kind is about stands by a statement of each stance."""
DRAWN = {"holds": 2, "begins": 2, "ends": 2, "near": 3}
"""Statements of a kind that are drawn of each stance; one of every other."""
OTHERS, BESIDE, REPLIES = 3, 0.15, 0.15
"""Statements of other kinds; and how often a statement stands behind another sentence, or before one, and replies to a message."""
SWAPPED, THIRD = 2_600, {"answers": 9_000, "stands": 5_000, "talks": 10_000}
"""Messages of which is asked who said what, and pairs of the third pass beside these."""
THIRD_RATE, THIRD_SHARE = 0.5, 0.35
"""The rate of the third pass, as a share, and the share of its fit in the mean with the one before."""
GREETINGS = (
    "Hey {0}, ",
    "Hi {0}! ",
    "{0}, ",
    "Thanks, {0}! ",
    "Yeah, {0}, ",
    "Oh wow, {0}! ",
    "Good to hear, {0}. ",
    "",
)
REACTIONS = (
    *(
        "That sounds great, {0}!",
        "So happy for you, {0}.",
        "Oh no, I hope you are okay.",
        "Wow, congrats {0}!",
    ),
    *(
        "I love that, {0}.",
        "That must have been hard.",
        "You always find the time for such things.",
        "Good for you!",
    ),
    *(
        "Really? Tell me more, {0}.",
        "I am sure it will work out, {0}.",
        "Same here, {0}, honestly.",
        "How did it go in the end?",
    ),
)
FOREIGN = ("chinese", "french", "german", "spanish")
"""The model reads English."""
HALF = torch.bfloat16


REPLIES_TOLD = ("replies_friends.toml", "replies_home.toml", "replies_work.toml")
"""Files of who said what in two turns."""
SWAPS = "who said what"
"""Stands for a file: pairs that are made of those of all files."""

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
            text = pair_text((one.get("other", "someone"), one["before"]), one["speaker"], one["text"])
            for answers in (True, False):
                for question in one["answered" if answers else "unanswered"]:
                    yield question, text, path.name, answers


def swapped_pairs() -> Iterator[tuple[str, str, bool]]:
    """Yield question, text and whether the text answers, of messages that are told to somebody with a name, or reacted to.

    What somebody tells answers what is asked of them, and not what is asked of whom they tell it; a reaction to it answers neither.
    """
    pick, chat, told = random.Random(SEED), [], []
    for path in sorted(KINDS.glob("*.toml")):
        if path.stem not in FOREIGN:
            tables = tomllib.loads(path.read_text(encoding="utf-8")).values()
            chat += [text for table in tables if isinstance(table, dict) for text in table.get("near", [])]
    for path in sorted(PAIRS.glob("*.toml")):
        if path.name not in HELD:
            told += tomllib.loads(path.read_text(encoding="utf-8"))["said"]
    names = sorted(
        {one["speaker"] for one in told if one["speaker"][:1].isupper() and " " not in one["speaker"]}
    )
    for one in pick.sample(told, len(told))[: 2 * SWAPPED]:
        name = one["speaker"]
        own = re.compile(rf"\b{re.escape(name)}\b")
        asks = [question for question in one["answered"] if own.search(question)]
        if name not in names or not asks or own.search(one["text"]):
            continue
        other = pick.choice([each for each in names if each != name])
        right = pick.choice(asks)
        wrong = own.sub(other, right)
        text = pick.choice(GREETINGS).format(other) + one["text"]
        back = pick.choice(REACTIONS).format(name) if pick.random() < 0.6 else pick.choice(chat)
        yield right, pair_text((other, pick.choice(chat)), name, text), True
        yield (
            wrong,
            pair_text((other, pick.choice(chat)) if pick.random() < 0.5 else ("", ""), name, text),
            False,
        )
        yield right, pair_text((name, one["text"]), other, back), False
        yield wrong, pair_text((name, one["text"]), other, back), False


_OF_ME = re.compile(r"\b(i|my|me|we|our|us|you|your|yours|mine|i'm|i've)\b", re.IGNORECASE)
_OF_US = re.compile(r"\b(we|our|us)\b", re.IGNORECASE)
_TURNED = tuple(
    (re.compile(rf"\b({words})\b", re.IGNORECASE), named, own)
    for words, named, own in (
        ("do (?:you|i)", "does {0}", "do I"),
        ("are you|am i", "is {0}", "am I"),
        ("have (?:you|i)", "has {0}", "have I"),
        ("were you|was i", "was {0}", "was I"),
        ("you're|i'm", "{0} is", "I'm"),
        ("you've|i've", "{0} has", "I've"),
        ("your|my", "{0}'s", "my"),
        ("yours|mine", "{0}'s", "mine"),
        ("you|i", "{0}", "I"),
        ("me", "{0}", "me"),
    )
)
"""How a question of somebody is asked with their name, and by themselves."""


def asked_of(question: str, name: str) -> str:
    """Return a question that is asked of somebody as it is asked about them; by themselves without a name."""
    for pattern, named, own in _TURNED:
        question = pattern.sub(named.format(name) if name else own, question)
    return question


def read_kinds() -> Iterator[tuple[str, str, str, str]]:
    """Yield question, text, the file, and which of `STANDS` it is."""
    pick = random.Random(SEED)
    for path in sorted(KINDS.glob("*.toml")):
        if path.stem in FOREIGN:
            continue
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        kinds = {name: table for name, table in tables.items() if "asks" in table and "holds" in table}
        chat = [text for table in kinds.values() for text in table.get("near", [])]
        for name, table in kinds.items():
            told = [
                (text, stands)
                for stance, stands in TELLS.items()
                for text in pick.sample(
                    table.get(stance, []), min(DRAWN.get(stance, 1), len(table.get(stance, [])))
                )
            ]
            for other in pick.sample(sorted(kinds.keys() - {name}), min(OTHERS, len(kinds) - 1)):
                texts = kinds[other].get(pick.choice(("holds", "begins", "ends"))) or kinds[other]["holds"]
                told.append((pick.choice(texts), "nothing"))
            asks = [text for text in table["asks"] if _OF_ME.search(text)] or table["asks"]
            for text, stands in told:
                yield *_told(pick, pick.choice(asks), text, chat), path.name, stands
            ask, name = pick.choice(asks), pick.choice(NAMES)
            if not _OF_US.search(ask):  # of whom somebody else tells the same of themselves
                teller = pick.choice(["user", *(one for one in NAMES if one != name)])
                text = pair_text(("", ""), teller, pick.choice(table["holds"]))
                yield asked_of(ask, name), text, path.name, "nothing"


def _told(pick: random.Random, ask: str, text: str, chat: Sequence[str]) -> tuple[str, str]:
    """Return a question about who says a text, and the message that it stands in."""
    name, how = pick.choice(NAMES), pick.random()
    speaker = "user" if how < 0.35 or 0.5 <= how < 0.62 else name
    if how < 0.5:
        question = asked_of(ask, "")
    elif _OF_US.search(ask):
        question = ask
    else:
        question = asked_of(ask, "the user" if speaker == "user" else name)
    where = pick.random()
    if where < BESIDE:
        text = f"{pick.choice(chat)} {text}"
    elif where < 2 * BESIDE:
        text = f"{text} {pick.choice(chat)}"
    before = ("someone", pick.choice(chat)) if pick.random() < REPLIES else ("", "")
    return question, pair_text(before, speaker, text)


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
        self.heads = torch.nn.Linear(3 * WIDTH, 1 + len(STANDS))
        with torch.no_grad():
            self.heads.weight.mul_(0.1)

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
        """Return what is fitted, by the names of `memforest.models.onnx.Tuned`, and the heads, each with its bias last."""
        found = {name: one for name, one in self.bias.items() if one.requires_grad}
        found |= {f"{name}/bias:in:{self.reads[name]}": one for name, one in self.low.items()}
        found |= {f"{name}/bias:out:{self.reads[name]}": one for name, one in self.high.items()}
        found["heads"] = torch.cat([self.heads.weight, self.heads.bias[:, None]], 1)
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
        self.answers = np.array([-1 if one.answers is None else one.answers for one in pairs], dtype=np.int64)
        self.stands = np.array([-1 if one.stands is None else one.stands for one in pairs], dtype=np.int64)
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
        """Return what the heads say of some pairs, shape (n, 1 + 7)."""
        self.model.eval()
        found = np.zeros((len(self.pairs), 1 + len(STANDS)))
        with torch.no_grad():
            for some in self.batches(rows, 128):
                found[some] = self.model.heads(self.read(some)).numpy()
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
    """Fit the head of answers alone to some pairs."""
    reader.model.eval()
    with torch.no_grad():
        read = [(some, reader.read(some).numpy()) for some in reader.batches(rows, 128)]
    taken, states = (np.concatenate(part) for part in zip(*read, strict=True))
    made = logistic(states.astype(np.float64), reader.answers[taken].astype(np.float64))
    with torch.no_grad():
        reader.model.heads.weight[0] = torch.from_numpy(made[:-1])
        reader.model.heads.bias[0] = float(made[-1])


def train(reader: Reader, passes: Sequence[NDArray[np.int64]], rate: float = 1.0) -> None:
    """Fit the heads and the layers to pairs in some passes: Adam, a rate that falls to none and is double for the low-rank part.

    The loss is that of a logistic for answers, and of a softmax for how things stand. `rate` is a share of `RATE`.
    """
    pick, model = np.random.default_rng(SEED), reader.model
    small = [*model.heads.parameters(), *(one for one in model.bias.values() if one.requires_grad)]
    low_rank = [*model.low.values(), *model.high.values()]
    groups: list[dict[str, Any]] = [
        {"params": small, "lr": RATE, "weight_decay": 0.0},
        {"params": low_rank, "lr": 2 * RATE, "weight_decay": 0.01},
    ]
    optimizer = torch.optim.AdamW(groups)
    steps = sum(len(rows) // BATCH for rows in passes)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: rate * min(1.0, (step + 1) / (WARM_UP * steps)) * max(0.0, 1 - step / steps)
    )
    model.train()
    for number, rows in enumerate(passes):
        mixed = pick.permutation(rows)
        batches = [
            one for at in range(0, len(mixed), 2048) for one in reader.batches(mixed[at : at + 2048], BATCH)
        ]
        batches = [one for one in batches if len(one) == BATCH]
        pick.shuffle(batches)
        losses = []
        for batch in batches:
            told = model.heads(reader.read(batch))
            answers, stands = (torch.from_numpy(one[batch]) for one in (reader.answers, reader.stands))
            asked = answers >= 0
            loss = functional.binary_cross_entropy_with_logits(
                told[asked, 0], answers[asked].float(), reduction="sum"
            )
            loss = loss + STANDS_COUNT * functional.cross_entropy(
                told[:, 1:], stands, ignore_index=-1, reduction="sum"
            )
            optimizer.zero_grad()
            (loss / BATCH).backward()
            torch.nn.utils.clip_grad_norm_([*small, *low_rank], 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item() / BATCH)
            if len(losses) % 200 == 0:
                print(
                    f"pass {number}, {len(losses)} of {len(batches)}: {np.mean(losses[-200:]):.3f}",
                    flush=True,
                )


def averaged(models: Sequence[Model]) -> Model:
    """Return the mean of some fits; of each low-rank part the best of its rank."""
    made, share = Model(), 1 / len(models)
    with torch.no_grad():
        for name, one in made.bias.items():
            one[:] = sum(share * each.bias[name] for each in models)
        for name in made.low:
            whole = sum(share * each.low[name] @ each.high[name] for each in models)
            left, size, right = torch.linalg.svd(torch.as_tensor(whole), full_matrices=False)
            made.low[name][:] = left[:, :RANK] * size[:RANK].sqrt()
            made.high[name][:] = size[:RANK].sqrt()[:, None] * right[:RANK]
        made.heads.weight[:] = sum(share * each.heads.weight for each in models)
        made.heads.bias[:] = sum(share * each.heads.bias for each in models)
    return made


def refit_stands(reader: Reader, rows: NDArray[np.int64]) -> None:
    """Fit the head of `STANDS` to pairs: the most likely weights with a ridge of `HEAD_RIDGE` on standardised inputs, by accelerated steps."""
    model = reader.model
    model.eval()
    with torch.no_grad():
        read = [(some, reader.read(some).numpy()) for some in reader.batches(rows, 128)]
    taken, states = (np.concatenate(part) for part in zip(*read, strict=True))
    mean, spread = states.mean(0), states.std(0) + 1e-6
    z = np.c_[(states - mean) / spread, np.ones(len(states))].astype(np.float64)
    right, ridge = np.eye(len(STANDS))[reader.stands[taken]], np.full((z.shape[1], 1), HEAD_RIDGE)
    ridge[-1] = 0
    back = np.linalg.inv(z.T @ z / 4 + np.diag(ridge[:, 0] + 1e-9))  # a bound of the curvature
    now = ahead = np.zeros((z.shape[1], len(STANDS)))
    for step in range(120):
        told = np.exp((sums := z @ ahead) - sums.max(1, keepdims=True))
        gradient = z.T @ (told / told.sum(1, keepdims=True) - right) + ridge * ahead
        before, now = now, ahead - back @ gradient
        ahead = now + step / (step + 3) * (now - before)
    weights = now[:-1] / spread[:, None]
    with torch.no_grad():
        model.heads.weight[1:] = torch.from_numpy(weights.T)
        model.heads.bias[1:] = torch.from_numpy(now[-1] - mean @ weights)


def report(name: str, told: NDArray[np.float64], reader: Reader, rows: NDArray[np.int64]) -> None:
    """Print how well some pairs are told apart: answers from none, what tells how a thing stands from what does not, and a change from none."""
    answers, stands = reader.answers[rows], reader.stands[rows]
    if (answers >= 0).any():
        print(f"{name}: answers AUC {auc(told[answers == 1, 0], told[answers == 0, 0]):.3f}", flush=True)
    if (stands >= 0).any():
        shares = standing_of(told)[:, 1:]
        for what in (("stands", "changes", "ends"), ("changes", "ends")):
            of = [STANDS.index(one) for one in what]
            share, right = shares[:, of].sum(1), np.isin(stands, of)
            print(f"{name}: {' or '.join(what)} AUC {auc(share[right], share[~right]):.3f}", flush=True)


def standing_of(told: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what `OnnxCrossEncoder.read` does of logits, shape (n, 1 + 7): the first, and the shares of the others."""
    odds = np.exp(told[:, 1:] - told[:, 1:].max(1, keepdims=True))
    made: NDArray[np.float64] = np.c_[told[:, 0], odds / odds.sum(1, keepdims=True)]
    return made


def fitted(
    pieces: Mapping[Piece, bool],
) -> tuple[dict[str, NDArray[np.float16]], dict[Piece, list[float]]]:
    """Return the layers with their heads, and what is read of the pieces of those conversations that were left out of the fit.

    Args:
        pieces: question, text and conversation -> whether the text answers.
    """
    torch.manual_seed(SEED)
    tokens, talks = WordPiece(), sorted({talk for _, _, talk in pieces})
    keys: list[Piece] = []
    pairs = []

    def add(key: Piece, answers: bool | None = None, stands: int | None = None) -> None:
        keys.append(key)
        pairs.append(Pair(*tokens.encode_pair(*key[:2], max_tokens=MAX_TOKENS), answers, stands))

    for question, text, file, answers in dict.fromkeys(read_pairs()):
        add((question, text, file), answers)
    for question, text, file, stands in read_kinds():
        add((question, text, file), stands=STANDS.index(stands))
    for key, answers in pieces.items():
        add(key, answers)
    for question, text, answers in swapped_pairs():
        add((question, text, SWAPS), answers)
    files = np.array([file for _, _, file in keys])
    held = {
        "other files": np.isin(files, HELD),
        "other conversations": np.array([one in talks and talks.index(one) % LEFT_OUT == 0 for one in files]),
    }
    reader, rows = Reader(Model(), pairs), np.flatnonzero(~np.any(list(held.values()), axis=0))
    who = rows[np.isin(files[rows], (*REPLIES_TOLD, SWAPS))]
    rows = rows[files[rows] != SWAPS]
    print(f"{len(pairs)} pairs, {len(rows)} of them are fitted", flush=True)
    pick, of_talk = np.random.default_rng(SEED), np.isin(files, talks)
    some = [
        pick.permutation(rows[~of_talk[rows] & (which[rows] >= 0)])[: SECOND[name]]
        for name, which in (("answers", reader.answers), ("stands", reader.stands))
    ]
    first, second = rows[of_talk[rows] | np.isin(files[rows], EIGHT)], np.tile(rows[of_talk[rows]], 2)
    models = []
    for passes in ([first, first], [rows, np.concatenate([*some, second])]):
        reader.model = Model()
        begin(reader, pick.permutation(passes[0][reader.answers[passes[0]] >= 0])[:STARTING])
        train(reader, passes)
        models.append(reader.model)
    reader.model = averaged(models)
    refit_stands(reader, rows[reader.stands[rows] >= 0])
    parts = [
        pick.permutation(rows[which])[: THIRD[name]]
        for name, which in (
            ("answers", ~of_talk[rows] & (reader.answers[rows] >= 0)),
            ("stands", reader.stands[rows] >= 0),
            ("talks", of_talk[rows]),
        )
    ]
    before = [one.detach().clone() for one in reader.model.parameters()]
    train(reader, [np.concatenate([who, *parts])], THIRD_RATE)
    with torch.no_grad():
        for one, was in zip(reader.model.parameters(), before, strict=True):
            one[:] = THIRD_SHARE * one + (1 - THIRD_SHARE) * was
    for name, those in held.items():
        told = reader.logits(np.flatnonzero(those))
        report(name, told, reader, np.flatnonzero(those))
    left = np.flatnonzero(held["other conversations"])
    return reader.model.tuned(), {
        keys[row]: one.tolist() for row, one in zip(left, standing_of(told), strict=True)
    }
