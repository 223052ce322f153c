"""Write the numbers of this folder into the pages that quote them; with --check, fail if a page is out of date.

`make numbers` runs it. It replaces the text between `<!-- numbers: NAME -->` and `<!-- end -->` in each page; NAME is
one of PARTS. All numbers come from the summaries of the nets, the claims and the timings in this folder. It also writes
catalogue.json, which `equilibria list` reads.
"""

import argparse
import json
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from minutes import recipe_minutes

from equilibria.cli.catalogue import catalogue
from equilibria.cli.listing import CATALOGUE
from equilibria.reproduction import FIGURES, SCALES, Claim, Figure, Verdict
from equilibria.reproduction.engine.accounts import Cost, cost, cost_by_task, trained_nets
from equilibria.reproduction.engine.store import Store
from equilibria.reproduction.measures.attacked import Stress
from equilibria.training import RECIPES, Run

HERE = Path(__file__).parent
PAGES = (HERE.parent / "README.md", HERE / "README.md", *sorted((HERE.parent / "docs").rglob("*.md")), CATALOGUE)
MARKED = re.compile(r"(?P<begin><!-- numbers: (?P<name>\w+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)
LAPTOP = SCALES["laptop"]
NOTABLE = 0.05  # a difference between the scores of seeds that is shown

# The words of the tables. Numbers never stand here.
DIFFICULTIES = {  # how one is written, and the unit of one or of a range
    "prefix_sum": ("{}", "{} bits"),
    "mazes": ("{0}x{0}", "{}"),
    "blurry_mnist": ("{}", "blur {}"),
    "matrix_inversion": ("{}", "diagonal shift {}"),
    "edge_copy": ("{}", "{} nodes"),
}
ABOUT = {
    "prefix_sum/path_dependent": "a path-dependent control: ",
    "mazes/path_dependent": "a path-dependent control: ",
    "mazes/percolation": "mazes with loops: ",
    "matrix_inversion/dense": "the paper's cell: ",
}
QUOTED = {  # ids of the claims in the table of docs/reproduction.md, by figure
    "trajectories": ("paths_meet_unroll", "paths_stay_apart_no_injection"),
    "ood_mazes": ("tied_nets_generalise", "feedforward_nets_do_not_generalise"),
    "more_iterations": ("high_aa_does_not_get_worse", "low_aa_gets_worse"),
    "interventions": ("mixed_raises_alignment", "mixed_raises_partial_score", "penalty_on_the_trend_line"),
    "stress_test": ("accuracy_under_attack_Mazes_path_independent", "accuracy_under_attack_Mazes_path_dependent"),
    "correlation": ("strings_all", "mazes_tied_and_injected", "implicit_gradients_improve_alignment"),
    "training_convergence": ("unconverged_implicit",),
    "solver_residuals": ("solvers_are_as_accurate",),
}


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |\n" for line in lines)


@cache
def shipped() -> dict[str, list[Run]]:
    """The trained nets beside the scales, by the name of their recipe."""
    runs = [Run(path.parent) for path in sorted(HERE.glob("*/*/seed-*/summary.json"))]
    return {name: [run for run in runs if run.summary["name"] == name] for name in RECIPES if (HERE / name).is_dir()}


@cache
def judged() -> list[tuple[Figure, Claim]]:
    store = Store(HERE / LAPTOP.name)
    return [(figure, claim) for figure in FIGURES.values() for claim in store.claims(figure)]


@cache
def costs() -> tuple[dict[str, Cost], Cost, dict[str, Cost], float]:
    """By figure, in total, by task, and the seconds of measuring attacks."""
    store = Store(HERE / LAPTOP.name)
    nets = {name: trained_nets(store, figure.plan(LAPTOP)) for name, figure in FIGURES.items()}
    blocks = {name: store.blocks(figure) for name, figure in FIGURES.items()}
    every = [net for found in nets.values() for net in found], [block for found in blocks.values() for block in found]
    attacks = cost((), (block for block in every[1] if block.settings["measure"] == Stress.__name__))
    return {name: cost(nets[name], blocks[name]) for name in FIGURES}, cost(*every), cost_by_task(*every), attacks.total


def recipes() -> str:
    """One line per recipe: its size, the time it takes, and what it reaches."""
    rows = []
    for name, runs in shipped().items():
        measured = [one for run in runs for one in run.summary["measurements"]]
        rows.append(
            (
                f"`{name}`",
                f"{runs[0].summary['parameters']:,}",
                span(run.summary["training_seconds"] / 60 for run in runs),
                ABOUT.get(name, "") + "; ".join(ends(list(reached(name, runs)))),
                span((one["alignment"] for one in measured if one["alignment"] is not None), "{:.3f}"),
            )
        )
    return table(("recipe", "parameters", "minutes", "score", "AA"), rows)


def ends(texts: Sequence[str]) -> Sequence[str]:
    """The first and the last, which are the easiest and the hardest."""
    return texts if len(texts) < 3 else (texts[0], texts[-1])


def reached(name: str, runs: Sequence[Run]) -> Iterator[str]:
    """The scores at each difficulty; neighbours with equal scores are merged."""
    task, (value, unit) = RECIPES[name].task, DIFFICULTIES[name.split("/")[0]]
    points = list(zip(*(run.summary["measurements"] for run in runs), strict=True))

    def text(found: Sequence[dict[str, Any]]) -> str:
        scores = [one["score"] for one in found]
        if not task.higher_is_better:
            return f"error {error(statistics.median(scores))} (constant {error(found[0]['constant'])})"
        differ = max(scores) - min(scores) >= NOTABLE
        seeds = f" ({span((100 * score for score in scores), '{:.3g}')})" if differ else ""
        return f"{100 * statistics.median(scores):.3g} %{seeds}"

    texts = {(found[0]["difficulty"], text(found)) for found in points}
    times = Counter(difficulty for difficulty, _ in texts)
    for words, group in groupby(points, key=text):
        same = [found[0] for found in group]
        ends = dict.fromkeys(value.format(one["difficulty"]) for one in (same[0], same[-1]))
        steps = f" in {same[-1]['steps']} steps" if times[same[-1]["difficulty"]] > 1 else ""
        yield f"{words} at {unit.format(' to '.join(ends))}{steps}"


def span(values: Iterable[float], form: str = "{:.1f}") -> str:
    """The range of some values, or the value if all look the same."""
    ordered = sorted(values)
    return " to ".join(dict.fromkeys(form.format(value) for value in (ordered[0], ordered[-1])))


def nets() -> str:
    """Every measurement of every seed."""
    return "\n".join(f"### {name}\n\n{seeds(runs)}" for name, runs in shipped().items())


def seeds(runs: Sequence[Run]) -> str:
    summaries = [run.summary for run in runs]
    minutes = ", ".join(f"{summary['training_seconds'] / 60:.1f}" for summary in summaries)
    threads = max(summary["threads"] for summary in summaries)
    rows = []
    for points in zip(*(summary["measurements"] for summary in summaries), strict=True):
        first, scores = points[0], [point["score"] for point in points]
        aligned = " ".join("-" if point["alignment"] is None else f"{point['alignment']:.3f}" for point in points)
        cells = [digits(score) for score in (*scores, statistics.median(scores), first["constant"])]
        rows.append((first["difficulty"], first["steps"], first["examples"], *cells, aligned))
    names = [f"seed {run.recipe.seed}" for run in runs]
    return (
        f"{summaries[0]['parameters']:,} parameters. Training time in minutes: {minutes} (threads: {threads}).\n\n"
    ) + table(("difficulty", "steps", "examples", *names, "median", "constant", "AA"), rows)


def error(mean: float) -> str:
    return f"{mean:.3g}" if mean >= 0.01 else f"{mean:.1g}"


def digits(score: float) -> str:
    return f"{score:.4f}" if score >= 0.01 or score == 0 else f"{score:.2g}"


def claims() -> str:
    """Every claim."""
    return claim_table((figure, claim, claim.note) for figure, claim in judged())


def quoted() -> str:
    """A selection of the claims."""
    rows = [(figure, claim, "") for figure, claim in judged() if claim.id in QUOTED.get(figure.name, ())]
    missing = {id_ for ids in QUOTED.values() for id_ in ids} - {claim.id for _, claim, _ in rows}
    assert not missing, f"QUOTED names claims that do not exist: {missing}"
    return table(
        ("in the paper", "claim", "measured", "verdict"),
        ((figure.place, claim.statement, estimate(claim), claim.verdict) for figure, claim, _ in rows),
    )


def estimate(claim: Claim) -> str:
    """The number of a claim with its interval."""
    if claim.value is None:
        return ""
    interval = "" if claim.low is None or claim.high is None else f" [{claim.low:.3g}, {claim.high:.3g}]"
    return f"{claim.value:.3g}{interval}"


def claim_table(rows: Iterable[tuple[Figure, Claim, str]]) -> str:
    return table(
        ("in the paper", "claim", "paper", "measured", "verdict"),
        (
            (figure.place, claim.statement, claim.paper, claim.measured, f"{claim.verdict}. {remark}".strip(" ."))
            for figure, claim, remark in rows
        ),
    )


def verdicts() -> str:
    """How many claims hold."""
    paper = [claim for _, claim in judged() if claim.of_the_paper]
    counts = Counter(claim.verdict for claim in paper)
    figures = {figure.name for figure, claim in judged() if claim.of_the_paper}
    return (
        f"Of the paper's {len(paper)} claims in {len(figures)} figures and tables, "
        f"{counts[Verdict.HOLDS]} hold, {counts[Verdict.FAILS]} do not hold and {counts[Verdict.OPEN]} are "
        f"inconclusive. The report also judges {len(judged()) - len(paper)} claims of our own.\n"
    )


def effort() -> str:
    """What the whole reproduction costs."""
    _, total, tasks, attacks = costs()
    task, most = next(iter(tasks.items()))
    return (
        f"The whole reproduction takes about {total.total / 3600:.0f} hours on one core: {total.training / 3600:.0f} "
        f"for training {total.nets} nets and {total.measuring / 3600:.0f} for {total.measurements} measurements. "
        f"`{task}` accounts for {100 * most.total / total.total:.0f} % of the time, attacks for "
        f"{100 * attacks / total.total:.0f} %.\n"
    )


def figures() -> str:
    """One line per figure."""
    by_figure = costs()[0]
    rows = []
    for figure in FIGURES.values():
        counts = Counter(claim.verdict for found, claim in judged() if found is figure)
        one = by_figure[figure.name]
        numbers = (one.nets, f"{one.training / 60:.0f}", f"{one.measuring / 60:.0f}")
        rows.append((f"`{figure.name}`", figure.place, *numbers, *(counts[verdict] for verdict in Verdict)))
    return table(("name", "in the paper", "nets", "training", "measuring", *map(str, Verdict)), rows)


PARTS: dict[str, Callable[[], str]] = {
    part.__name__: part for part in (recipes, nets, claims, quoted, verdicts, effort, figures)
}


def updated(page: Path) -> str:
    """The text of the page with the present numbers."""
    if page.name == CATALOGUE.name:
        return json.dumps(catalogue(recipe_minutes(shipped())), indent=1) + "\n"
    return MARKED.sub(lambda found: found["begin"] + PARTS[found["name"]]() + found["end"], page.read_text())


def main() -> int:
    """Update the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES, help="Defaults to all that there are.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a page is out of date")
    flags = parser.parse_args()
    stale = {page: text for page in flags.pages if (text := updated(page)) != page.read_text()}
    for page, text in stale.items():
        if flags.check:
            print(f"{page} is out of date; run `make numbers`", file=sys.stderr)
        else:
            page.write_text(text)
    return int(flags.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
