"""The shipped figures: their claims follow from their rows, and their rows from their nets, whatever the wording."""

import importlib
import json
import pkgutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from equilibria.cli import main
from equilibria.reproduction import FIGURES, SCALES, FigureNet, figures
from equilibria.reproduction.engine.check import check
from equilibria.reproduction.engine.report import render_report
from equilibria.reproduction.engine.store import Store, add_net_columns
from equilibria.reproduction.migrate import ATTACKS, migrate

RESULTS = Path(__file__).parent.parent / "results"
LAPTOP = SCALES["laptop"]
STORE = Store(RESULTS / LAPTOP.name)
SAMPLE = 6  # measurements; `make check-results` makes all of them


def finished() -> list:
    found = [figure for figure in FIGURES.values() if STORE.claims(figure)]
    assert found, f"no finished figure in {STORE.folder}; run `equilibria reproduce --all`"
    return found


def test_a_sample_of_the_rows_is_what_the_nets_give():
    there = {block.key for figure in finished() for block in STORE.blocks(figure)}
    checked = check(finished(), LAPTOP, RESULTS, sample=SAMPLE, workers=1)
    assert checked.passed, checked.wrong
    assert checked.measured == min(SAMPLE, len(there))


def test_the_report_is_that_of_these_figures():
    finished()
    assert (STORE.folder / "report.html").read_text() == render_report(STORE, LAPTOP, [*FIGURES.values()])


def test_every_number_has_a_declared_kind_and_an_error_that_applies_to_it():
    for figure in finished():
        blocks = {(block.net, block.measure): block for block in STORE.blocks(figure)}
        for planned in figure.plan(LAPTOP):
            fields = planned.measure.fields
            used = {field.error or name for name, field in fields.items()}
            for row in blocks[planned.key].rows:
                assert row.keys() <= fields.keys(), (figure.name, row.keys() - fields.keys())
                assert row.get("rounding_error", {}).keys() <= used
                assert all(field.of in row or "examples" not in row for name, field in fields.items() if name in row)


def test_claims_have_ids_of_their_own():
    for figure in finished():
        ids = [claim.id for claim in STORE.claims(figure)]
        assert len(set(ids)) == len(ids)
        assert all(one.replace("_", "").isalnum() for one in ids)


def test_experiments_on_claims_refer_to_claims_that_exist():
    ids = {figure.name: {claim.id for claim in STORE.claims(figure)} for figure in finished()}
    for figure in finished():
        for ablation in figure.ablations:
            assert set(ablation.claims) <= ids[figure.name], figure.name
            shown = [(name, claim) for name, claim in ablation.shown_by if name in ids]
            assert all(claim in ids[name] for name, claim in shown), figure.name
            values = [one.value for name, claim in shown for one in STORE.claims(FIGURES[name]) if one.id == claim]
            assert any(value is not None for value in values), (figure.name, ablation.change)


# Rewording: nothing depends on what is displayed.


def reversed_words(text: str) -> str:
    return text[::-1].replace("{", "(").replace("}", ")")


def drawn_data(figure, rows) -> list:
    """The positions of everything that a figure draws."""
    axes = figure.draw(rows).axes
    lines = [line.get_xydata() for axis in axes for line in axis.lines]
    points = [np.asarray(group.get_offsets()) for axis in axes for group in axis.collections]
    bars = [np.asarray(patch.get_extents().bounds) for axis in axes for patch in axis.patches]
    return [*lines, *points, *bars]


def judged(figure, plan) -> tuple:
    rows = add_net_columns(plan, STORE.blocks(figure))
    claims = [(claim.id, claim.verdict, claim.value, claim.low, claim.high) for claim in figure.claims(rows)]
    points = figure.points(rows)
    return (
        claims,
        [(one["net"], one["x"], one["y"]) for one in points.points] if points else [],
        drawn_data(figure, rows),
    )


def reword(monkeypatch) -> None:
    """Change every label, title and recipe name."""
    monkeypatch.setattr(FigureNet, "label", property(lambda net: reversed_words(net.id)))
    for info in pkgutil.iter_modules(figures.__path__):
        module = importlib.import_module(f"{figures.__name__}.{info.name}")
        if hasattr(module, "in_plain_words"):
            monkeypatch.setattr(module, "in_plain_words", reversed_words)
        for name in {"LABELS", "SHOWN", "NETS", "NAMES", "KERNELS", "GRADES", "MEASURED"} & vars(module).keys():
            words = {key: reversed_words(value) for key, value in getattr(module, name).items()}
            monkeypatch.setattr(module, name, words)
    for figure in FIGURES.values():
        for name in ("title", "setup"):
            monkeypatch.setattr(type(figure), name, reversed_words(getattr(figure, name)))


def renamed(plan) -> list:
    return [
        planned._replace(net=replace(planned.net, recipe=replace(planned.net.recipe, name=f"net {i}")))
        for i, planned in enumerate(plan)
    ]


@pytest.fixture(scope="module")
def as_shipped():
    return {figure.name: judged(figure, figure.plan(LAPTOP)) for figure in finished()}


@pytest.mark.parametrize("name", [figure.name for figure in finished()])
def test_rewording_changes_no_verdict_and_no_drawing(name, as_shipped, monkeypatch):
    reword(monkeypatch)
    figure = FIGURES[name]
    claims, points, data = judged(figure, renamed(figure.plan(LAPTOP)))
    assert (claims, points) == as_shipped[name][:2]
    assert len(data) == len(as_shipped[name][2])
    for now, before in zip(data, as_shipped[name][2], strict=True):
        np.testing.assert_array_equal(now, before)


def test_rewording_breaks_no_check(monkeypatch):
    """With other statements in claims.json as well."""
    reword(monkeypatch)
    recorded, names = Store.claims, {"statement": "other words", "remark": "", "measured": "", "paper": ""}
    monkeypatch.setattr(Store, "claims", lambda *about: [replace(claim, **names) for claim in recorded(*about)])
    checked = check(finished(), LAPTOP, RESULTS, sample=1, workers=1)
    assert checked.passed, checked.wrong


# Results of the former format.


def as_format_1(data: dict) -> dict:
    """What rows.json was, with the former names of settings and columns."""
    for block in data["measured"]:
        settings, attack = block["settings"], block["settings"]["measure"] in ATTACKS
        former = {"guesses": "restarts", "restarts": "others"} if attack else {"restarts": "others"}
        block["settings"] = {former.get(name, name): value for name, value in settings.items()}
        block["measure"] = "former"
        for row in block["rows"]:
            row["redrawn"], row["lost"] = row.pop("rounding_error"), row.pop("undefined")
    return {"study": data["figure"], "measured": data["measured"]}


@pytest.fixture
def former(tmp_path):
    """The metrics of Appendix A in the former format."""
    folder = tmp_path / "laptop" / "metrics"
    folder.mkdir(parents=True)
    rows, claims = (json.loads((STORE.folder / "metrics" / name).read_text()) for name in ("rows.json", "claims.json"))
    (folder / "rows.json").write_text(json.dumps(as_format_1(rows)))
    old = [{"statement": "s", "verdict": "cannot tell", "measured": "m", "remark": "r"} for _ in claims["claims"]]
    (folder / "claims.json").write_text(json.dumps(old))
    return folder


def test_migrated_results_are_the_shipped_ones(former):
    with pytest.raises(ValueError, match="run `equilibria reproduce --migrate` once"):
        Store(former.parent).blocks(FIGURES["metrics"])
    assert set(migrate(former.parent)) == {former / "rows.json", former / "claims.json"}
    for name in ("rows.json", "claims.json"):
        now, shipped = (json.loads((folder / name).read_text()) for folder in (former, STORE.folder / "metrics"))
        assert now == shipped
    assert migrate(former.parent) == []


def test_the_command_migrates_the_scale(former, capsys):
    command = ["reproduce", "--migrate", "--out", str(former.parent.parent)]
    assert main(command) == 0
    assert "2 files rewritten" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_formats_of_the_future_are_refused_and_nothing_is_written(former):
    rows = (former / "rows.json").read_text()
    (former / "claims.json").write_text(json.dumps({"format": 3}))
    with pytest.raises(ValueError, match="has format 3"):
        migrate(former.parent)
    assert (former / "rows.json").read_text() == rows
