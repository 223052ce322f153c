"""The accounts of a report: what everything cost, and with what it was made."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from equilibria.diagnostics.doctor.page import Html, table
from equilibria.reproduction.engine.costs import Cost, Net, by_task, cost
from equilibria.reproduction.engine.store import Block, Store
from equilibria.reproduction.measures.profile import SEED

UNKNOWN = "not recorded"


def cost_section(studies: Mapping[str, tuple[Sequence[Net], Sequence[Block]]]) -> str:
    """In all, by study and by task."""
    nets = [net for behind, _ in studies.values() for net in behind]
    blocks = [block for _, measured in studies.values() for block in measured]
    whole, tasks = cost(nets, blocks), by_task(nets, blocks)
    rows = [(link(f"#{name}", name), *_cells(cost(*behind))) for name, behind in studies.items()]
    rows.append((Html("<b>all, shared nets once</b>"), *_cells(whole)))
    headings = ("study", "nets", "training", "measurements", "measuring", "cell evaluations")
    return (
        f"<section id='cost'><h2>What it cost</h2><p>{escape(_dominating(whole, tasks))}</p>{table(headings, rows)}"
        "<p>By task:</p>"
        + table(("task", *headings[1:]), [(task, *_cells(one)) for task, one in tasks.items()])
        + "<p class='where'>Core-minutes: seconds of training times threads (training_seconds and threads in the "
        "summary.json of every net), which are those of a clock, so that other work on the machine counts, and CPU "
        "seconds of measuring, on one core each (seconds in rows.json). Cell evaluations are those of training, "
        "counted per example.</p></section>"
    )


def _dominating(whole: Cost, tasks: dict[str, Cost]) -> str:
    if not whole.total:
        return "Nothing that could be measured."
    task, most = next(iter(tasks.items()))
    return (
        f"{minutes(whole.total)} core-minutes in all, {minutes(whole.training)} of training and "
        f"{minutes(whole.measuring)} of measuring; {whole.evaluations:,} evaluations of cells in training. What "
        f"dominates: {task}, with {most.total / whole.total:.0%} ({minutes(most.training)} of training its "
        f"{most.nets} nets, {minutes(most.measuring)} of measuring them)."
    )


def provenance_section(store: Store, nets: Sequence[Net]) -> str:
    """Seeds, versions, machines."""
    nets = list({net.id: net for net in nets}.values())
    seeds = sorted({net.figure_net.recipe.seed for net in nets})
    machines = [net.summary.get("machine", {}) for net in nets]
    facts = [
        ("seeds of the trainings", ", ".join(map(str, seeds))),
        ("seed of the measured instances", str(SEED)),
        ("torch that trained the nets", _counted(net.summary.get("torch", UNKNOWN) for net in nets)),
        ("threads of a training", _counted(net.summary.get("threads", UNKNOWN) for net in nets)),
        ("device", _counted(machine.get("device", UNKNOWN) for machine in machines)),
        ("precision", _counted(machine.get("precision", UNKNOWN) for machine in machines)),
    ]
    environments = store.environments
    for i, one in enumerate(environments, start=1):
        which = f" ({i})" if len(environments) > 1 else ""
        facts += [(f"{name}{which}", str(value)) for name, value in one.items()]
    return (
        "<section id='provenance'><h2>Nets, seeds, versions, machine</h2><p>Every block of rows.json names its net "
        "(the id of its recipe), the SHA-256 of the weights that it was measured from, and the settings of its "
        "measure. The folder of a net holds its recipe, its metrics, its weights and its summary. What the "
        "summaries of the nets and environment.json tell:</p>"
        f"{table(('what', 'value'), facts)}</section>"
    )


def link(target: str, text: str) -> Html:
    """A part of the page, or a file beside it."""
    return Html(f'<a href="{escape(target, quote=True)}">{escape(text)}</a>')


def _cells(one: Cost) -> tuple[str, ...]:
    return (
        str(one.nets),
        minutes(one.training),
        str(one.measurements),
        minutes(one.measuring),
        f"{one.evaluations:,}",
    )


def minutes(seconds: float) -> str:
    """For people; of few, with a decimal."""
    number = seconds / 60
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}"


def _counted(things: Iterable[Any]) -> str:
    counts = Counter(map(str, things)).most_common()
    return counts[0][0] if len(counts) == 1 else ", ".join(f"{thing} ({count} nets)" for thing, count in counts)
