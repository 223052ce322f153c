"""The studies that are shipped: claims that follow from their rows, and rows that follow from their nets."""

from pathlib import Path

from equilibria.reproduction import FIGURES, SCALES
from equilibria.reproduction.engine.check import check
from equilibria.reproduction.engine.report import report
from equilibria.reproduction.engine.store import Store

RESULTS = Path(__file__).parent.parent / "results"
LAPTOP = SCALES["laptop"]
SAMPLE = 6  # measurements; `make check-results` makes all of them


def finished() -> list:
    store = Store(RESULTS / LAPTOP.name)
    found = [study for study in FIGURES.values() if store.claims(study)]
    assert found, f"no finished study in {store.folder}; run `equilibria reproduce --all`"
    return found


def test_a_sample_of_the_rows_is_what_the_nets_give():
    studies, store = finished(), Store(RESULTS / LAPTOP.name)
    there = {block.key for study in studies for block in store.blocks(study)}
    checked = check(studies, LAPTOP, RESULTS, sample=SAMPLE, workers=1)
    assert checked.passed, checked.wrong
    assert checked.measured == min(SAMPLE, len(there))


def test_the_report_is_that_of_these_studies():
    finished()
    store = Store(RESULTS / LAPTOP.name)
    assert (store.folder / "report.html").read_text() == report(store, LAPTOP, [*FIGURES.values()])
