"""A study of our own: nets whose AA score misleads, and which other numbers notice it."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from equilibria.reproduction.engine.claims import Claim, Source, Verdict
from equilibria.reproduction.engine.figure import (
    FigureNet,
    Part,
    Place,
    Plan,
    PlannedMeasurement,
    TableContent,
    TableFigure,
)
from equilibria.reproduction.engine.rows import Row, select
from equilibria.reproduction.maze_nets import shown_maze_net
from equilibria.reproduction.measures.agreement import FourAgreements
from equilibria.reproduction.nets import Category, deepest, dense_nets, figure_net, inversion_nets, string_nets
from equilibria.reproduction.scales import Scale

EXAMPLES, RESTARTS, STEPS = 60, 4, 200
HIGH = 0.9  # AA from which a net would be called path independent
LEARNED = 0.8  # of the pixels of mazes; a net that has learned something has more of them right
LOW = 0.5  # centred AA, or agreement of answers, below which restarts disagree


SHOWN = {
    "alignment": "AA",
    "centred": "centred",
    "distance": "distance",
    "same_answer": "same answer",
    "zero": "zero",
    "growth": "growth",
}


class Case(StrEnum):
    """A way in which a high AA misleads, or a control."""

    CONTROL = "control"
    ZERO = "zero_states"
    UNLEARNED = "unlearned"
    GROWTH = "divergence_along_one_direction"
    SHORT_CUT = "short_cut"
    CYCLES = "cycles"


class Story(NamedTuple):
    """What a case is, and what notices it."""

    net: str
    why: str
    noticed_by: str


STORIES = {
    Case.CONTROL: Story("strings, mixed starts, 32 steps", "path independent and right", ""),
    Case.ZERO: Story("matrices, no norm", "every state is zero, and cos(0, 0) counts as 1", "states that are zero"),
    Case.UNLEARNED: Story("mazes, hardly trained", "path independent, and solves no maze", "labels"),
    Case.GROWTH: Story("digits, no norm", "states grow along one direction for ever", "growth, distance, centred AA"),
    Case.SHORT_CUT: Story(
        "strings, mixed starts, 6 steps",
        "group norm lets a net guess from averages over the string; its limits are similar and useless",
        "agreement of answers",
    ),
    Case.CYCLES: Story(
        "mazes, zero start, 24 steps", "answers from the usual start are right, those from others are not", "AA"
    ),
}


class WhatFoolsAA(TableFigure):
    """AA, centred AA, distance and agreement of answers of nets on which they part."""

    name = "what_fools_aa"
    places = (Place(Part.STUDY, 1),)
    title = "What fools AA, and what notices it"
    setup = (
        "A study of our own, with nets of the other figures. Each is iterated from its usual start and from the limits "
        "of other examples, 200 plain steps: AA, AA of states without their mean, the distance between limits relative "
        "to their norm, the share of restarts with the same answer, the share of states that are exactly zero, and the "
        "growth of the norm over the second half of the steps."
    )

    def plan(self, scale: Scale) -> Plan:
        trial, cases = scale.trial, _cases(scale)
        count, restarts = min(EXAMPLES, trial.strings), trial.restarts
        steps = min(STEPS, trial.steps)
        return [
            PlannedMeasurement(net, FourAgreements(difficulty, count, restarts, steps)) for net, difficulty in cases
        ]

    def cells(self, rows: Sequence[Row]) -> TableContent:
        header = (
            "net",
            "what happens",
            "AA",
            "centred",
            "distance",
            "same answer",
            "zero",
            "growth",
            "score",
            "noticed by",
        )
        cells = []
        for case, story in STORIES.items():
            row = _of(rows, case)
            numbers = (
                _number(row[name]) for name in ("alignment", "centred", "distance", "same_answer", "zero", "growth")
            )
            score = f"{_number(row['partial_score'])} (constant {_number(row['constant'])})"
            cells.append((story.net, story.why, *numbers, score, story.noticed_by))
        return TableContent(header, cells)

    def claims(self, rows: Sequence[Row]) -> list[Claim]:
        zero, unlearned, growth, short = (
            _of(rows, case) for case in (Case.ZERO, Case.UNLEARNED, Case.GROWTH, Case.SHORT_CUT)
        )
        return [
            _found("aa_misses_zero_states", "AA is high if all states are zero", zero, zero["zero"] > HIGH, "zero"),
            _found(
                "aa_misses_an_unlearned_net",
                "AA and centred AA are high for a net that has learned nothing",
                unlearned,
                _above(unlearned["centred"], HIGH) and unlearned["partial_score"] < LEARNED,
                "partial_score",
            ),
            _found(
                "aa_misses_divergence_along_one_direction",
                "AA is high if states grow for ever along one direction, and centred AA is low",
                growth,
                _low(growth["centred"]) and _above(growth["growth"], 1 + LOW),
                "centred",
            ),
            _found(
                "nothing_notices_a_short_cut",
                "AA, centred AA and agreement of answers are high if a net takes a short cut to a useless limit",
                short,
                _above(short["centred"], HIGH) and _above(short["same_answer"], LOW),
                "same_answer",
            ),
        ]


def _cases(scale: Scale) -> list[tuple[FigureNet, int | float]]:
    """The nets, by their case, with the difficulty at which each is measured."""
    shallow = min(scale.string_factors.depths)
    short = next(net for net in string_nets(scale, Category.MIXED) if net.depth == shallow)
    zero = next(net for net in inversion_nets(scale) if net.norm == "none")
    digits = [net for net in dense_nets(scale, scale.digits, scale.digit_factors) if net.norm == "none"]
    rates = scale.digit_factors.rates
    growth = next(net for net in digits if net.recipe.optim.lr == rates[min(1, len(rates) - 1)])
    cycles = shown_maze_net(scale, Category.DEEP)
    found = (
        (Case.CONTROL, deepest(scale, Category.MIXED), 64),
        (Case.ZERO, zero, 0.1),
        (Case.UNLEARNED, figure_net(Case.UNLEARNED, scale.unlearned_mazes), 13),
        (Case.GROWTH, growth, 5.0),
        (Case.SHORT_CUT, short, 64),
        (Case.CYCLES, cycles, 13),
    )
    return [(figure_net(case, net.recipe), difficulty) for case, net, difficulty in found]


def _of(rows: Sequence[Row], case: Case) -> Row:
    (row,) = select(rows, category=case)
    return row


def _low(number: float | None) -> bool:
    return number is not None and number < LOW


def _above(number: float | None, bound: float) -> bool:
    return number is not None and number > bound


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def _found(claim_id: str, statement: str, row: Row, noticed: bool, shown: str) -> Claim:
    """One net is an example, so the verdict needs no interval."""
    fooled = _above(row["alignment"], HIGH)
    return Claim(
        claim_id,
        statement,
        Verdict.HOLDS if fooled and noticed else Verdict.FAILS,
        f"AA {_number(row['alignment'])}, {shown.replace('_', ' ')} {_number(row[shown])} in one net, "
        f"{row['examples']} examples; required: AA above {HIGH}",
        value=row["alignment"],
        source=Source.OURS,
        added_late=True,
        remark="An example, not a frequency.",
    )
