"""What a release holds: an archive that builds the same wheel, a wheel that runs by itself, and files that agree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

import memforest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "memforest"


def built(source: Path, kind: str, into: Path) -> Path:
    """Build the ``sdist`` or ``wheel`` of a source tree as `python -m build` does, with what is installed."""
    pytest.importorskip("hatchling", reason="hatchling, of the extra [dev], is not installed")
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(into)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (made,) = into.glob("*.tar.gz" if kind == "sdist" else "*.whl")
    return made


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, unpacked."""
    folder = tmp_path_factory.mktemp("archive")
    packed = built(ROOT, "sdist", folder)
    subprocess.run([sys.executable, "-m", "tarfile", "-e", str(packed), str(folder)], check=True)
    return folder / f"memforest-{memforest.__version__}"


@pytest.fixture(scope="module")
def wheel(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that the source archive builds."""
    return built(archive, "wheel", tmp_path_factory.mktemp("wheel"))


def test_the_archive_is_enough_to_test_and_document(archive: Path) -> None:
    """It has the package with all its data, the tests, the pages and what they link to; and nothing that git ignores."""
    names = {path.relative_to(archive).as_posix() for path in archive.rglob("*") if path.is_file()}
    for folder in ("src", "tests", "tests_long", "benchmarks", "scripts", "docs"):
        ours = {path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc"}
        assert {path.relative_to(ROOT).as_posix() for path in ours} - names == set()
    assert {path.name for path in ROOT.glob("*.md")} | {
        "CITATION.cff",
        "LICENSE",
        "NOTICE",
        "Makefile",
    } <= names
    assert [name for name in names if re.search(r"\.pyc$|\.db$|(^|/)\.(venv|docs-site|gates)", name)] == []


def test_the_wheel_holds_the_data(wheel: Path) -> None:
    """It has every module and data file, the type marker and the licences, and no tests."""
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    ours = {
        f"memforest/{path.relative_to(PACKAGE).as_posix()}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert "memforest/py.typed" in ours
    assert ours - names == set()
    assert {name.split("/")[0] for name in names} == {
        "memforest",
        f"memforest-{memforest.__version__}.dist-info",
    }
    licences = {Path(name).name for name in names if "/licenses/" in name}
    assert licences == {"LICENSE", "NOTICE", "LICENSE.bert-vocab", "LICENSE.htmx"}


def test_the_metadata_is_valid(wheel: Path) -> None:
    """The core metadata pass the checks of `packaging`; each Python that CI knows is a classifier."""
    with zipfile.ZipFile(wheel) as packed:
        text = packed.read(f"memforest-{memforest.__version__}.dist-info/METADATA")
    metadata = Metadata.from_email(text, validate=True)
    assert metadata.license_expression == "Apache-2.0"
    assert metadata.description_content_type == "text/markdown"
    assert str(metadata.requires_python) == ">=3.10"
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 14)} <= set(
        metadata.classifiers or ()
    )
    assert metadata.description == (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_wheel_runs_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """Installed alone, `import memforest` needs no dependency; the command finds the dependencies of this environment."""
    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    scripts = home / ("Scripts" if os.name == "nt" else "bin")
    python = str(scripts / "python")
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-deps",
        "--no-index",
        str(wheel),
    ]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if "No module named pip" in done.stderr:
        pytest.skip("there is no pip here that could install the wheel")
    assert done.returncode == 0, done.stderr
    alone = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MEMFOREST"))
    }

    def said(*command: str) -> str:
        return subprocess.run(
            command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=True
        ).stdout

    script = "import memforest; print(memforest.__version__, memforest.__file__)"
    version, _, where = said(python, "-c", script).strip().partition(" ")
    assert version == memforest.__version__
    assert Path(where).is_relative_to(home)
    packages = Path(where).parents[1]
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    assert memforest.__version__ in said(str(scripts / "memforest"), "--version")
    assert Path(said(python, "-c", script).strip().partition(" ")[2]).is_relative_to(home)


def test_the_citation_names_this_version() -> None:
    """CITATION.cff has the version, the licence and the title of the package."""
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    fields = dict(re.findall(r"^(\w[\w-]*): *(.*)$", text, re.MULTILINE))
    assert fields["cff-version"] == "1.2.0"
    assert (fields["title"], fields["version"], fields["license"]) == (
        "memforest",
        memforest.__version__,
        "Apache-2.0",
    )


def test_the_notice_names_files_that_are_there() -> None:
    """Every path of NOTICE leads somewhere, and every package of weights has the version that is pinned."""
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    paths = re.findall(r"src/memforest/[\w./-]+\w", notice)
    assert len(paths) >= 4
    assert [path for path in paths if not (ROOT / path).exists()] == []
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name, version in re.findall(r"^  ([a-z0-9-]+) (\d[\d.]+) \(", notice, re.MULTILINE):
        assert f"{name}=={version}" in project
