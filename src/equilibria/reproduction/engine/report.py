"""All that was reproduced at one scale, on one page that needs nothing else.

It is made of what is in the store: rows, claims, figures and the summaries of the runs.
"""

import base64
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from equilibria.diagnostics.doctor.page import Html, document, table
from equilibria.io.files import DamagedFile
from equilibria.reproduction.departures import departures_section
from equilibria.reproduction.engine.accounts import cost_section, link, minutes, provenance_section
from equilibria.reproduction.engine.claims import LEVEL, STRONG, Claim, Verdict
from equilibria.reproduction.engine.costs import Net, cost, nets_behind
from equilibria.reproduction.engine.figure import Figure, Planned, TableFigure
from equilibria.reproduction.engine.store import Block, Store, add_net_columns, write_if_new
from equilibria.reproduction.scales import Scale

PAPER = "Path Independent Equilibrium Models Can Better Exploit Test-Time Computation"
TITLE = f"{PAPER}: a reproduction"
STYLE = """
h1 { line-height: 1.25; } h2 { border-top: 1px solid var(--line); padding-top: 1.2rem; font-size: 1.2rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; } td, th { vertical-align: top; font-size: .92rem; }
th { color: var(--soft); font-weight: 500; } td { min-width: 3rem; overflow-wrap: anywhere; }
.claims td:first-child { min-width: 14rem; } .claims td:nth-child(2) { min-width: 6rem; }
.claims td:nth-child(3) { min-width: 12rem; }
#compared td:first-child, #compared td:nth-child(3) { min-width: 5rem; } #compared td:nth-child(2) { min-width: 12rem; }
#compared td:nth-child(4) { min-width: 12rem; }
figure { padding: .5rem; } figure img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
b { white-space: nowrap; } b.holds { color: #1c7c3c; } b.fails { color: #b3261e; } b.open { color: #8a5a00; }
.cells td { overflow-wrap: normal; }
.where { color: var(--soft); } .note { border-left: 3px solid var(--line); padding-left: .8rem; }
.where, details, nav, summary { font-size: .92rem; } nav li { margin: .15rem 0; } code { font-size: .88em; }
@media (prefers-color-scheme: dark) {
  b.holds { color: #6fce8c; } b.fails { color: #ff8f87; } b.open { color: #e8b84a; } a { color: #8ab4ff; } }
@media (max-width: 40rem) { body { margin: 1rem auto; font-size: 15px; } td, th { padding-right: .5rem; }
  .claims thead { display: none; } .claims tr, .claims td { display: block; border: 0; padding: 0; }
  .claims tr { border-bottom: 1px solid var(--line); padding: .5rem 0; } .paper::before { content: "paper: "; }
  .claims td:empty { display: none; } .claims td:first-child { font-weight: 500; } }
@media print { body { max-width: none; font-size: 10pt; } nav { display: none; } section { break-inside: auto; }
  figure, tr { break-inside: avoid; } table { display: table; width: 100%; } a { color: inherit; } }
"""
WORDS = {Verdict.HOLDS: "holds", Verdict.FAILS: "fails", Verdict.OPEN: "open"}  # classes of the style
MEANINGS = {
    Verdict.HOLDS: "the whole interval is on the side that the paper says",
    Verdict.FAILS: "the whole interval is on the other side",
    Verdict.OPEN: "the interval has both sides in it, or there are too few nets for one",
}


@dataclass(frozen=True)
class _Finished:
    """A study and what the store has of it."""

    study: Figure
    claims: list[Claim]
    blocks: list[Block]
    nets: list[Net]
    picture: str  # an image, or a table
    stale: int  # measurements that the study, as it is now, would make anew


def write_report(folder: str | Path, scale: Scale, studies: Iterable[Figure]) -> Path:
    """Write `folder`/<scale>/report.html from what is there; nothing is trained or measured."""
    store = Store(Path(folder) / scale.name)
    path = store.folder / "report.html"
    write_if_new(path, report(store, scale, list(studies)).encode())
    return path


def report(store: Store, scale: Scale, studies: Sequence[Figure]) -> str:
    """The page."""
    found = {study.name: _read(store, study, scale) for study in studies}
    done = [one for one in found.values() if one]
    missing = [study for study in studies if not found[study.name]]
    parts = [
        f"<h1>{escape(TITLE)}</h1>",
        _abstract(done, missing, scale),
        _contents(done),
        _compared(done),
        _exceptions(done),
        departures_section(scale),
        *(_section(store, one) for one in done),
        cost_section({one.study.name: (one.nets, one.blocks) for one in done}),
        provenance_section(store, [net for one in done for net in one.nets]),
        _again(scale),
    ]
    return document(TITLE, parts, STYLE)


def _read(store: Store, study: Figure, scale: Scale) -> _Finished | None:
    """None if it is not finished, or if its files are damaged."""
    try:
        claims, blocks = store.claims(study), store.blocks(study)
    except DamagedFile:
        return None
    if not claims:
        return None
    nets = nets_behind(store, study, scale)
    trained = {net.id for net in nets}
    plan = [step for step in study.plan(scale) if step.net.id in trained]
    stale = len({block.key for block in blocks} ^ store.keys(plan).keys())
    picture = _table(study, plan, blocks) if isinstance(study, TableFigure) and not stale else _image(store, study)
    return _Finished(study, claims, blocks, nets, picture, stale)


def _table(study: TableFigure, plan: Sequence[Planned], blocks: Sequence[Block]) -> str:
    """As text, which a small screen can show."""
    rows = add_net_columns(plan, blocks)
    return f"<div class='cells'>{table(*study.cells(rows))}</div>"


def _image(store: Store, study: Figure) -> str:
    """The smaller of both files of a figure, inside the page."""
    found = [(store.path(study, f"figure.{suffix}"), kind) for suffix, kind in (("svg", "svg+xml"), ("png", "png"))]
    contents = [(path.read_bytes(), kind) for path, kind in found if path.is_file()]
    if not contents:
        return "<p>(no figure)</p>"
    content, kind = min(contents, key=lambda one: len(one[0]))
    data = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
    label = escape(f"{study.place}: {study.title}", quote=True)
    return f'<figure><img src="{data}" alt="{label}"></figure>'


def _abstract(done: Sequence[_Finished], missing: Sequence[Figure], scale: Scale) -> str:
    judged = [claim for one in done for claim in one.claims]
    claims, ours = ([claim for claim in judged if claim.of_the_paper is paper] for paper in (True, False))
    counts = Counter(claim.verdict for claim in claims)
    whole = cost([net for one in done for net in one.nets], [block for one in done for block in one.blocks])
    verdicts = ", ".join(f"{_verdict(verdict)}: {counts[verdict]}" for verdict in Verdict)
    absent = ", ".join(f"{study.name} ({study.place})" for study in missing)
    return "\n".join(
        [
            "<section id='abstract'><p>This report reproduces the figures and tables of "
            f"<i>{escape(PAPER)}</i> (Anil et al., NeurIPS 2022) from scratch, at the scale "
            f"<code>{escape(scale.name)}</code>: {escape(scale.summary)}. "
            f"{whole.nets} nets were trained and {whole.measurements} measurements made of them, in "
            f"{minutes(whole.total)} core-minutes.</p>",
            f"<p>Claims of the paper in {len(done)} of {len(done) + len(missing)} studies: {len(claims)}. {verdicts}. "
            f"{len(ours)} more are judged besides, and say that they are not the paper's.</p>",
            f"<p>Not reproduced at this scale yet: {escape(absent)}.</p>" if absent else "",
            "<p>A claim is a statement of the paper with a number by which it can be wrong here. Numbers come with an "
            f"interval ({LEVEL:.0%}: percentile bootstrap over nets or examples; Wilson's for shares of examples). "
            + " ".join(f"{_verdict(verdict)}: {text}." for verdict, text in MEANINGS.items())
            + "</p>",
            "<p>Where the paper says in words what it sees, the bound that is <i>wanted</i> is this report's: a rank "
            f"correlation above {STRONG:g} is called strong, and one above 0 is all that is asked where the paper says "
            "no more than that two things go together. Most configurations were trained with one seed, so an interval "
            "over nets is about configurations, and does not tell how another seed would have come out; of few nets "
            "such intervals are narrow. What was changed after seeing results is said in the notes.</p></section>",
        ]
    )


def _contents(done: Sequence[_Finished]) -> str:
    studies = []
    for one in done:
        counts = Counter(claim.verdict for claim in one.claims)
        told = ", ".join(f"{_verdict(verdict)}: {counts[verdict]}" for verdict in Verdict if counts[verdict])
        name = escape(f"{one.study.place}: {one.study.title}")
        studies.append(f'<li><a href="#{one.study.name}">{name}</a> ({told})</li>')
    others = (
        ("compared", "The paper's numbers and ours"),
        ("exceptions", "What does not hold, and what cannot be told"),
        ("departures", "What is done differently from the paper"),
        ("cost", "What it cost"),
        ("provenance", "Nets, seeds, versions, machine"),
        ("again", "Do it again"),
    )
    links = [f'<li><a href="#{id_}">{title}</a></li>' for id_, title in others]
    return f"<nav><h2>Contents</h2><ul>{''.join([*links[:3], *studies, *links[3:]])}</ul></nav>"


def _compared(done: Sequence[_Finished]) -> str:
    rows = [
        (link(f"#{one.study.name}", one.study.place), claim.statement, _paper(claim), claim.measured, _judged(claim))
        for one in done
        for claim in one.claims
        if any(letter.isdigit() for letter in claim.paper)
    ]
    made = table(("where", "what", "paper", "equilibria", "verdict"), rows) if rows else "<p>None so far.</p>"
    text = "<p>Every claim beside which a published number can be put.</p>"
    return f"<section id='compared' class='claims'><h2>The paper's numbers and ours</h2>{text}{made}</section>"


def _exceptions(done: Sequence[_Finished]) -> str:
    items = [
        f"<li>{link(f'#{one.study.name}', one.study.place)}: {escape(claim.statement)}: {_verdict(claim.verdict)} "
        f"({escape(claim.measured)}). {escape(claim.note)}</li>"
        for verdict in (Verdict.FAILS, Verdict.OPEN)
        for one in done
        for claim in one.claims
        if claim.verdict == verdict
    ]
    body = f"<ul>{''.join(items)}</ul>" if items else "<p>Nothing: every claim holds.</p>"
    return f"<section id='exceptions'><h2>What does not hold, and what cannot be told</h2>{body}</section>"


def _section(store: Store, one: _Finished) -> str:
    study, name = one.study, escape(one.study.name)
    places = [("rows.json", "every number"), ("claims.json", "the claims"), ("figure.svg", "the figure")]
    links = ", ".join(f"{text} in {link(f'{study.name}/{file}', f'{study.name}/{file}')}" for file, text in places)
    stale = (
        f"<p><b class='open'>{one.stale} of its measurements are not those that the study would make now.</b> "
        f"<code>equilibria reproduce {name}</code> brings it up to date.</p>"
    )
    claims = [(claim.statement, _paper(claim), claim.measured, _judged(claim)) for claim in one.claims]
    return "\n".join(
        [
            f'<section id="{name}"><h2>{escape(study.place)}: {escape(study.title)}</h2>',
            f"<p>{escape(study.setting)}</p>",
            one.picture,
            f"<div class='claims'>{table(('claim', 'paper', 'measured', 'verdict'), claims)}</div>",
            *(f"<p class='note'>{escape(paragraph)}</p>" for paragraph in store.note(study)),
            f"<p class='where'>{links}.</p>",
            stale if one.stale else "",
            f"<details><summary>The nets behind it: {len(one.nets)}</summary>{_nets(store, one.nets)}</details>",
            f"<details><summary>How they were measured</summary>{_measures(one.blocks)}</details></section>",
        ]
    )


def _nets(store: Store, nets: Sequence[Net]) -> Html:
    rows = [
        (
            net.figure_net.label,
            net.figure_net.category,
            link(_relative(store, net), net.id),
            f"{net.summary['training_seconds']:.0f}",
            f"{net.summary['cell_evaluations']:,}",
            f"{net.summary['parameters']:,}",
            str(net.figure_net.recipe.seed),
        )
        for net in nets
    ]
    return table(("net", "category", "recipe and folder", "training s", "cell evaluations", "parameters", "seed"), rows)


def _measures(blocks: Sequence[Block]) -> Html:
    groups: dict[str, list[Block]] = {}
    for block in blocks:
        groups.setdefault(block.measure, []).append(block)
    rows = []
    for id_, group in groups.items():
        settings = {name: value for name, value in group[0].settings.items() if name != "measure"}
        words = ", ".join(f"{name} {_short(value)}" for name, value in settings.items())
        seconds = f"{sum(block.seconds for block in group):.0f}"
        rows.append((group[0].settings["measure"], id_, words, str(len(group)), seconds))
    return table(("measure", "id in rows.json", "settings", "nets", "seconds"), rows)


def _again(scale: Scale) -> str:
    lines = (
        (f"equilibria reproduce --all --scale {scale.name}", "trains what is missing, measures, draws, judges"),
        (f"equilibria reproduce --all --scale {scale.name} --check", "measures again from these weights, and compares"),
    )
    rows = [(Html(f"<code>{command}</code>"), what) for command, what in lines]
    return f"<section id='again'><h2>Do it again</h2>{table(('command', 'what it does'), rows)}</section>"


def _verdict(verdict: Verdict) -> Html:
    return Html(f"<b class='{WORDS[verdict]}'>{verdict}</b>")


def _paper(claim: Claim) -> Html:
    return Html(f"<span class='paper'>{escape(claim.paper)}</span>" if claim.paper else "")


def _judged(claim: Claim) -> Html:
    return Html(f"{_verdict(claim.verdict)}{'. ' if claim.note else ''}{escape(claim.note)}")


def _relative(store: Store, net: Net) -> str:
    return Path(os.path.relpath(net.run.folder, store.folder)).as_posix() + "/"


def _short(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
