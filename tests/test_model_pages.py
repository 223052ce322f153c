"""The pages on other people's models: a diagnosis takes as few lines as promised, and every adapter has a page."""

import ast
from pathlib import Path

import pytest
from page_blocks import BLOCK

import equilibria.diagnostics

FOLDER = Path(__file__).parent.parent / "docs" / "models"
PAGES = sorted(FOLDER.glob("*.md"))
MOST_LINES = {  # besides imports and the model and data themselves
    "deep_thinking": 1,
    "recurrent": 1,
    "torchdeq": 1,
    "huginn": 1,
    "trm": 3,
    "hrm": 3,
    "eqr": 3,
    "transformers": 4,
    "energy": 4,
    "your_own": 4,
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_diagnosis_takes_few_lines(page):
    diagnoses = [block for block in BLOCK.findall(page.read_text()) if "diagnose(" in block]
    assert diagnoses
    for block in diagnoses:
        lines = [
            line
            for statement in ast.parse(block).body
            if not isinstance(statement, (ast.Import, ast.ImportFrom))
            for line in range(statement.lineno, (statement.end_lineno or 0) + 1)
        ]
        if page.stem == "your_own" and block is not diagnoses[0]:
            continue  # it also makes its data
        assert len(lines) <= MOST_LINES[page.stem], block


def test_every_adapter_has_a_page():
    text = "".join(page.read_text() for page in PAGES)
    adapters = [name for name in equilibria.diagnostics.__all__ if name.startswith("from_") and name != "from_module"]
    assert len(adapters) == 10
    assert not [name for name in adapters if f"{name}(" not in text]
    assert {page.stem for page in PAGES} == set(MOST_LINES)
