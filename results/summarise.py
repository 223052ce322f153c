"""Write README.md of this folder from the summaries of the runs in it; with --check, fail if it is not up to date."""

import json
import statistics
import sys
from pathlib import Path

from equilibria.reproduction import STUDIES
from equilibria.reproduction.engine.store import Store

HERE = Path(__file__).parent
HEAD = """# Trained nets and what they can do

Every folder is a run: its recipe, its metrics, its weights, and what was measured. `equilibria evaluate FOLDER --check`
measures again; `make check-results` does that for all. This page is made by `python results/summarise.py`.
"""
CLAIMS = """
# The paper's claims, with nets for a laptop

From `laptop`, made by `equilibria reproduce --all`; its `report.html` has the figures, the settings and the nets behind
each number. Every interval is one of 95 %.

| in the paper | claim | paper | here | verdict |
| --- | --- | --- | --- | --- |
"""


def table(recipe: str, runs: list[dict]) -> str:
    seeds = [run["seed"] for run in runs]
    cost = ", ".join(f"{run['summary']['training_seconds'] / 60:.1f}" for run in runs)
    threads = {run["summary"]["threads"] for run in runs}
    names = " | ".join(f"seed {seed}" for seed in seeds)
    lines = [
        f"\n## {recipe}\n",
        f"{runs[0]['summary']['parameters']} parameters; trained in {cost} minutes on {max(threads)} thread(s).\n",
        f"| difficulty | steps | examples | {names} | median | constant | AA |",
        "| --- " * (len(seeds) + 6) + "|",
    ]
    for points in zip(*(run["summary"]["measurements"] for run in runs), strict=True):
        first, scores = points[0], [point["score"] for point in points]
        aligned = " ".join("-" if point["alignment"] is None else f"{point['alignment']:.3f}" for point in points)
        cells = [first["difficulty"], first["steps"], first["examples"], *map(shown, scores)]
        cells += [shown(statistics.median(scores)), shown(first["constant"]), aligned]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def shown(score: float) -> str:
    return f"{score:.4f}" if score >= 0.01 or score == 0 else f"{score:.2g}"


def page() -> str:
    recipes: dict[str, list[dict]] = {}
    for path in sorted(HERE.glob("*/*/seed-*/summary.json")):
        recipe = json.loads((path.parent / "recipe.json").read_text())
        summary = json.loads(path.read_text())
        recipes.setdefault(recipe["name"], []).append({"seed": recipe["seed"], "summary": summary})
    return HEAD + "".join(table(name, runs) for name, runs in recipes.items()) + claims()


def claims() -> str:
    store = Store(HERE / "laptop")
    rows = [
        (study.figure, claim.statement, claim.paper, claim.measured, f"{claim.verdict}. {claim.remark}".strip(" ."))
        for study in STUDIES.values()
        for claim in store.claims(study)
    ]
    return CLAIMS + "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    readme = HERE / "README.md"
    if "--check" in sys.argv:
        sys.exit(0 if readme.read_text() == page() else f"{readme} is not up to date; run python results/summarise.py")
    readme.write_text(page())
