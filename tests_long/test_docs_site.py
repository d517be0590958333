"""The site of the pages (`make docs-site`), its files for language models, and the picture of the demo."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from scripts import demo_picture, docs_site, llms

import memforest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
CONFIG = (ROOT / "zensical.toml").read_text(encoding="utf-8")


def nav(config: str) -> list[str]:
    """Return all pages of a configuration, in order."""
    found = tomllib.loads(config)["project"]["nav"]
    tops = [page for page in found if isinstance(page, str)]
    return tops + [page for pages in llms.groups(config).values() for page in pages]


def test_no_page_is_twice_in_the_menu() -> None:
    """Each page has one place."""
    pages = nav(CONFIG)
    assert len(pages) == len(set(pages)) > 40


def test_the_menu_has_what_is_there_and_nothing_else() -> None:
    """Pages that are not there go, with groups that would be empty; unnamed ones come last, and are told."""
    config, more = docs_site.planned(CONFIG, ["index.md", "cli.md", "new.md", "research/ranking.md"])
    assert more == ["new.md"]
    assert nav(config) == ["index.md", "cli.md", "research/ranking.md", "new.md"]
    assert list(llms.groups(config)) == ["Reference", "Research", "More"]
    everything, none = docs_site.planned(CONFIG, nav(CONFIG))
    assert (everything, none) == (CONFIG, [])


@pytest.mark.parametrize(
    ("source", "link", "expected"),
    [
        ("docs/time.md", "[a](storage.md#files)", "[a](storage.md#files)"),
        ("docs/time.md", "[a](../CONTRIBUTING.md)", "[a](CONTRIBUTING.md)"),
        ("docs/guide/start.md", "[a](../time.md#x)", "[a](../time.md#x)"),
        ("docs/guide/start.md", "[a](../../README.md)", "[a](../index.md)"),
        ("docs/guide/start.md", "![a](../pictures/a.png)", "![a](../pictures/a.png)"),
        ("docs/guide/start.md", "[`a`](../../src/memforest/text.py) b", "`a` b"),
        ("SECURITY.md", "[a](docs/security.md)", "[a](security.md)"),
        ("SECURITY.md", "[a](https://example.org/x.md)", "[a](https://example.org/x.md)"),
        ("docs/time.md", "[a](#here)", "[a](#here)"),
        ("docs/time.md", "`x[a](../y)`", "`x[a](../y)`"),
        ("docs/time.md", "```python\nx[a](../y)\n```", "```python\nx[a](../y)\n```"),
    ],
)
def test_links_lead_where_the_page_went(source: str, link: str, expected: str) -> None:
    """Pages of docs/ and of the root are in one folder; a link to code becomes its text, and code stays as it is."""
    assert docs_site.relinked(link, source) == expected


@pytest.mark.parametrize(
    ("html", "asks"),
    [
        ('<script src="https://a.example/x.js">', True),
        ('<img alt="a" src=//a.example/x.png>', True),
        ('<link rel="stylesheet" href="https://a.example/x.css">', True),
        ("a { background: url('http://a.example/x.png') }", True),
        ('<a href="https://a.example/">', False),
        ('<link rel="canonical" href="https://a.example/">', False),
        ('<script src="assets/x.js">', False),
    ],
)
def test_what_asks_another_host_is_found(html: str, asks: bool) -> None:
    """Scripts, pictures and styles of another host are found; a link that somebody follows is none."""
    assert bool(docs_site._ASKED.search(html)) is asks


def test_the_page_of_classes_has_every_export() -> None:
    """Each public name is there; a blocking class shows no members, as its twin has them."""
    page = docs_site.classes(memforest.__all__)
    assert re.findall(r"^::: memforest\.(\w+)$", page, re.MULTILINE) == memforest.__all__
    assert re.findall(r"(\w+)\n    options:\n      members: false", page) == ["MemForest", "UserMemory"]


def test_a_page_is_told_in_a_sentence() -> None:
    """The title and the first sentence of the text, without comments, tables and code in front of it, links or marks."""
    page = "# Time\n\n<!-- a: b -->\n\n```sh\nx\n```\n\n| a |\n|---|\n\nRead [this](x.md) of\n`a.b`. And more.\n\nMore.\n"
    assert llms.about(page) == ("Time", "Read this of `a.b`.")
    assert llms.about("# A\n\nIt is so, e.g. here. memforest too.\n") == ("A", "It is so, e.g. here.")
    assert llms.about("") == ("", "")


def test_files_for_language_models(tmp_path: Path) -> None:
    """One lists every page of every group with a link; the other has the README and the pages of three groups in order."""
    pages = {
        "guide/start.md": "# Start\n\nGo.\n",
        "cli.md": "# CLI\n\nType.\n",
        "research/ranking.md": "# R\n\nMeasured.\n",
    }
    for name, text in pages.items():
        (tmp_path / "pages" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pages" / name).write_text(text, encoding="utf-8")
    (tmp_path / "zensical.toml").write_text(docs_site.planned(CONFIG, list(pages))[0], encoding="utf-8")
    llms.write(tmp_path, tmp_path)
    listed = (tmp_path / "llms.txt").read_text(encoding="utf-8")
    assert listed.startswith("# memforest\n\n> Long-term memory")
    assert re.findall(r"^(?:## |- ).+", listed, re.MULTILINE) == [
        *("## Guides", "- [Start](guide/start.md): Go."),
        *("## Reference", "- [CLI](cli.md): Type."),
        *("## Research", "- [R](research/ranking.md): Measured."),
    ]
    whole = (tmp_path / "llms-full.txt").read_text(encoding="utf-8")
    assert whole.startswith((ROOT / "README.md").read_text(encoding="utf-8"))
    assert whole.endswith(
        "<!-- guide/start.md -->\n\n# Start\n\nGo.\n\n\n<!-- cli.md -->\n\n# CLI\n\nType.\n"
    )


PRINTED = (
    "\n\x1b[1;36m1. A conversation\x1b[0m\nsaid\n\n7. Left out\n\n5. Too\n\n"
    "4. Questions\n\n\x1b[35mWhere does Mateo live now?\x1b[0m\n  <b> & \x1b[32mBilbao\x1b[0m\n"
)


def test_the_picture_shows_chosen_parts() -> None:
    """Paragraphs are whole; one ellipsis stands for all that is left out together."""
    shown = [line.plain for line in demo_picture.chosen(PRINTED)]
    assert shown == [
        *("$ memforest demo", "", "1. A conversation", "said", "", "…", "", "4. Questions"),
        *("", "Where does Mateo live now?", "  <b> & Bilbao"),
    ]


def test_the_picture_keeps_columns_and_colours() -> None:
    """A run of a style begins at its column and is as long as its characters; what XML would read is escaped."""
    picture = ElementTree.fromstring(demo_picture.drawn(demo_picture.chosen(PRINTED)))
    texts = {"".join(one.itertext()): one for one in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert texts["1. A conversation"].get("class") == "b c"
    assert texts["<b> &"].get("x") == f"{demo_picture.EDGE + 2 * demo_picture.WIDE:.1f}"
    assert texts["Bilbao"].get("x") == f"{demo_picture.EDGE + 8 * demo_picture.WIDE:.1f}"
    assert texts["Bilbao"].get("textLength") == f"{6 * demo_picture.WIDE:.1f}"
    assert texts["Bilbao"].get("class") == "g"


def test_the_picture_in_the_repository_stands_alone() -> None:
    """docs/pictures/demo.svg is small, asks nothing of another host, and has both colour schemes."""
    text = demo_picture.PICTURE.read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert len(text.encode()) <= 120_000
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    assert "prefers-color-scheme: dark" in text
    assert re.findall("@font-face|<script", text) == []
    for start in demo_picture.SHOWN:
        assert f">{start}" in text
