"""A run as one HTML file: self-contained, without a script, every text escaped; tables, two figures, what failed, and the set-up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from memforest.evaluation.measures import TOKENS_AT
from memforest.evaluation.retrieval import Results
from memforest.evaluation.tables import Table, answer_tables, percent, read_csv, retrieval_tables
from memforest.times import html_paragraph, html_table, html_text

__all__ = ["write_page"]

MOST_FAILED = 40
"""Questions that are shown with what was found in the place of their answer."""
_STYLE = """body{font:15px/1.45 system-ui,sans-serif;max-width:1200px;margin:2em auto;padding:0 1em;color:#1b1b1b}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px;margin:.5em 0}td,th{padding:.25em .7em;text-align:right;
border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left;white-space:pre}section{overflow-x:auto}p.note{color:#555;font-size:13px}
details{margin:.4em 0}li.gold{font-weight:600}svg{max-width:100%;height:auto}code{font-size:13px}"""
_COLOURS = ("#1b6ca8", "#c2410c", "#15803d", "#7e22ce", "#b91c1c", "#0f766e", "#a16207", "#334155",
    "#be185d", "#4d7c0f", "#1d4ed8", "#78716c",)  # fmt: skip


def write_page(results: Results, file: Path) -> None:
    """Write the page of a run; of what is not measured there is no section."""
    about = results.about
    title = f"memforest eval: {about['bench']}"
    tables = retrieval_tables(results)
    graded = results.folder / "questions.csv"
    if graded.is_file() and (rows := read_csv(graded)):
        tables = [*answer_tables(rows), *tables]
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>{html_text(title)}</title>",
        f"<style>{_STYLE}</style><h1>{html_text(title)}</h1>",
        html_paragraph(f"{len(results.questions)} questions about {len({q['case'] for q in results.questions.values()})} memories, "
        f"memforest {about['version']} ({about['code']}), seed {about['seed']}, {about['machine']}."),
        *map(_section, tables),
        _figure("Recall of the turns that answer, by tokens of context", "tokens", _by_tokens(results)),
        _figure("Recall at 10 by median time of a question", "ms", _by_time(results)), _failed(results),
        _setup(results),]  # fmt: skip
    file.write_text("\n".join(parts), encoding="utf-8")


def _section(table: Table) -> str:
    note = f"<p class=note>{html_text(table.note)}</p>" if table.note else ""
    return (
        f"<section><h2>{html_text(table.title)}</h2>{html_table(table.columns, table.rows)}{note}</section>"
    )


_Line = Mapping[str, Sequence[tuple[float, float]]]


def _by_tokens(results: Results) -> _Line:
    return {
        name: [(float(n), value) for n in TOKENS_AT if not math.isnan(value := results.mean(name, f"R@{n}t").value)]
        for name, asked in results.records.items() if asked
    }  # fmt: skip


def _by_time(results: Results) -> _Line:
    return {
        name: [(max(results.percentile(name, "ms", 50), 0.1), value)]
        for name, asked in results.records.items() if asked and not math.isnan(value := results.mean(name, "R@10").value)
    }  # fmt: skip


def _figure(title: str, unit: str, lines: _Line) -> str:
    """Return a figure: x on a logarithmic scale, y from 0 to 100%; one line or point for each system."""
    xs = [x for points in lines.values() for x, _ in points]
    if not xs:
        return ""
    low, high = math.log(min(xs)), math.log(max(xs))

    def place(x: float, y: float) -> tuple[float, float]:
        return 60 + 620 * (math.log(x) - low) / (high - low or 1), 20 + 300 * (1 - y)

    drawn = [f"<line x1=60 x2=680 y1={y} y2={y} stroke='#ddd'/><text x=52 y={y + 4} text-anchor=end>{100 - (y - 20) // 3}</text>"
             for y in range(20, 321, 60)]  # fmt: skip
    for x in sorted(set(xs)) if len(set(xs)) <= 6 else (min(xs), math.sqrt(min(xs) * max(xs)), max(xs)):
        drawn.append(f"<text x={place(x, 0)[0]:.0f} y=340 text-anchor=middle>{x:.4g} {unit}</text>")
    for number, (name, points) in enumerate(lines.items()):
        colour, at = _COLOURS[number % len(_COLOURS)], [place(*point) for point in points]
        drawn.append(
            f"<polyline fill=none stroke='{colour}' stroke-width=2 points='{' '.join(f'{x:.1f},{y:.1f}' for x, y in at)}'/>"
        )
        drawn += [f"<circle cx={x:.1f} cy={y:.1f} r=4 fill='{colour}'/>" for x, y in at]
        drawn.append(f"<text x=700 y={30 + 18 * number} fill='{colour}'>{html_text(name)}</text>")
    size = max(360, 40 + 18 * len(lines))
    return (f"<section><h2>{html_text(title)}, %</h2><svg viewBox='0 0 1000 {size}' role=img aria-label='{html_text(title)}' "
            f"font-size=13>{''.join(drawn)}</svg></section>")  # fmt: skip


def _failed(results: Results) -> str:
    """Return the questions whose turns the first system did not find among the first ten, with what it found."""
    name = next((one for one, asked in results.records.items() if asked), "")
    bad = [one for one in results.records.get(name, {}).values() if one["measures"].get("R@10", 1.0) < 1]
    shown = []
    for one in sorted(bad, key=lambda one: (one["measures"]["R@10"], one["qid"]))[:MOST_FAILED]:
        asked = results.questions[one["qid"]]
        gold = {key for key, _ in asked["gold"]}
        found = "".join(f"<li{' class=gold' if gold & set(turns) else ''}>{html_text(text)}</li>"
            for text, turns in one["pieces"])  # fmt: skip
        wanted = "".join(f"<li>{html_text(line)}</li>" for _, line in asked["gold"])
        head = f"{asked['question']} ({asked['type']}, R@10 {percent(one['measures']['R@10'])})"
        shown.append(f"<details><summary>{html_text(head)}</summary><p>Answer: {html_text(asked['answer']) or '-'}</p>"
                     f"<p>Told by</p><ul>{wanted}</ul><p>Found</p><ol>{found}</ol></details>")  # fmt: skip
    if not shown:
        return ""
    return f"<section><h2>Not found in the first ten by {html_text(name)}: {len(bad)} questions, the worst {len(shown)}</h2>{''.join(shown)}</section>"


def _setup(results: Results) -> str:
    about = results.about
    rows = [("systems", ", ".join(about["systems"])), *((key, about[key]) for key in ("bench", "types", "share", "most", "top_k", "depth", "seed",
            "version", "code", "machine", "configuration")), *about["files"].items(), *about["versions"].items()]  # fmt: skip
    return f"<section><h2>Set-up</h2>{html_table(('what', 'value'), [(key, str(value)) for key, value in rows])}</section>"
