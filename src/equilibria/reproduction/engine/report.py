"""One self-contained HTML page with everything that was reproduced at one scale.

The page is made from the store alone: rows, claims, figures and the summaries of the nets.
"""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from equilibria.io.files import DamagedFile
from equilibria.io.pages import render
from equilibria.reproduction.departures import departures
from equilibria.reproduction.engine.accounts import Cost, TrainedNet, cost, cost_by_task, provenance, trained_nets
from equilibria.reproduction.engine.claims import LEVEL, STRONG, Claim, Verdict
from equilibria.reproduction.engine.figure import Ablation, Figure, TableContent, TableFigure
from equilibria.reproduction.engine.store import Block, Store, add_net_columns, write_if_new
from equilibria.reproduction.scales import Scale

PAPER_TITLE = "Path Independent Equilibrium Models Can Better Exploit Test-Time Computation"
MEANINGS = {
    Verdict.HOLDS: "the whole interval is on the paper's side of the bound",
    Verdict.FAILS: "the whole interval is on the other side",
    Verdict.OPEN: "the interval contains the bound, or there are too few nets for an interval",
}

MARKS = {Verdict.HOLDS: "\u2713", Verdict.FAILS: "\u2717", Verdict.OPEN: "?"}  # in the scoreboard


@dataclass(frozen=True)
class _Finished:
    """A figure and what the store has of it."""

    figure: Figure
    claims: list[Claim]
    blocks: list[Block]
    nets: list[TrainedNet]
    note: list[str]  # paragraphs
    image: str | None  # as a data URI
    cells: TableContent | None  # of a figure that is a table
    stale: int  # measurements that are missing or out of date

    @property
    def cost(self) -> Cost:
        return cost(self.nets, self.blocks)


@dataclass(frozen=True)
class _Explained:
    """An ablation, with the claims that it is about and those that show its effect."""

    ablation: Ablation
    figure: Figure
    about: list[Claim]  # that do not hold
    shown_by: list[tuple[Figure, Claim]]


def write_report(folder: str | Path, scale: Scale, figures: Iterable[Figure]) -> Path:
    """Write `folder`/<scale>/report.html from the store, without training or measuring anything."""
    store = Store(Path(folder) / scale.name)
    path = store.folder / "report.html"
    write_if_new(path, render_report(store, scale, list(figures)).encode())
    return path


def render_report(store: Store, scale: Scale, figures: Sequence[Figure]) -> str:
    """Return the report on `figures` as HTML."""
    found = {figure.name: _read(store, figure, scale) for figure in figures}
    done = [one for one in found.values() if one]
    claims = [(one, claim) for one in done for claim in one.claims]
    explained = _explained(done)
    nets = [net for one in done for net in one.nets]
    blocks = [block for one in done for block in one.blocks]
    return render(
        "report.html.j2",
        title=f"{PAPER_TITLE}: a reproduction",
        paper_title=PAPER_TITLE,
        scale=scale,
        done=done,
        missing=[figure for figure in figures if not found[figure.name]],
        claims=[claim for _, claim in claims if claim.of_the_paper],
        own_claims=[claim for _, claim in claims if not claim.of_the_paper],
        compared=[(one, claim) for one, claim in claims if claim.has_published_number],
        exceptions=[
            (one, claim)
            for verdict in (Verdict.FAILS, Verdict.OPEN)
            for one, claim in claims
            if claim.verdict == verdict
        ],
        explained=explained,
        verdicts=list(Verdict),
        meanings=MEANINGS,
        marks=MARKS,
        level=LEVEL,
        strong=STRONG,
        departures=departures(scale),
        cost=cost(nets, blocks),
        tasks=cost_by_task(nets, blocks),
        provenance=provenance(store, nets),
    )


def _explained(done: Sequence[_Finished]) -> list[_Explained]:
    """The ablations of claims that do not hold, with those of their results that are known."""
    claims = {(one.figure.name, claim.id): (one.figure, claim) for one in done for claim in one.claims}
    found = []
    for one in done:
        for ablation in one.figure.ablations:
            about = [claim for claim in one.claims if claim.id in ablation.claims and claim.verdict is Verdict.FAILS]
            shown_by = [claims[key] for key in ablation.shown_by if key in claims]
            if about and shown_by:
                found.append(_Explained(ablation, one.figure, about, shown_by))
    return found


def _read(store: Store, figure: Figure, scale: Scale) -> _Finished | None:
    """None if the figure is not finished, or if its files are damaged."""
    try:
        claims, blocks = store.claims(figure), store.blocks(figure)
    except DamagedFile:
        return None
    if not claims:
        return None
    plan = figure.plan(scale)
    nets = trained_nets(store, plan)
    trained = {net.id for net in nets}
    plan = [planned for planned in plan if planned.net.id in trained]
    stale = len({block.key for block in blocks} ^ store.keys(plan).keys())
    cells = image = None
    if isinstance(figure, TableFigure) and not stale:
        cells = figure.cells(add_net_columns(plan, blocks))
    else:
        image = _image(store, figure)
    return _Finished(figure, claims, blocks, nets, store.note(figure), image, cells, stale)


def _image(store: Store, figure: Figure) -> str | None:
    """The smaller of a figure's two files, as a data URI."""
    paths = [(store.path(figure, f"figure.{suffix}"), kind) for suffix, kind in (("svg", "svg+xml"), ("png", "png"))]
    contents = [(path.read_bytes(), kind) for path, kind in paths if path.is_file()]
    if not contents:
        return None
    content, kind = min(contents, key=lambda one: len(one[0]))
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
