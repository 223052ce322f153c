"""What a report says about how a reproduction differs from the paper."""

from dataclasses import replace

from equilibria.nets import DenseNet
from equilibria.studies import SCALES
from equilibria.studies.departures import ALWAYS, departures_section
from equilibria.training.recipe import Optim


def rows_of(scale):
    return departures_section(scale).count("<tr>") - 1  # one is the heading


def test_the_papers_own_scale_differs_in_nothing_but_what_no_recipe_tells():
    assert rows_of(SCALES["paper"]) == len(ALWAYS)


def test_every_change_of_a_recipe_is_a_row():
    paper = SCALES["paper"]
    narrow = replace(paper, digits=replace(paper.digits, net=DenseNet(width=7)))
    assert rows_of(narrow) == len(ALWAYS) + 1
    assert "<td>digits: net, width</td><td>512</td><td>7</td>" in departures_section(narrow)
    brief = replace(paper, edges=replace(paper.edges, optim=Optim(steps=9, batch=4, lr=1.0, schedule="steps")))
    assert "<td>30,000 x 128</td><td>9 x 4</td>" in departures_section(brief)
    assert rows_of(replace(paper, trial=paper.trial._replace(others=3))) == len(ALWAYS) + 1


def test_a_schedule_without_drops_is_not_asked_for_them():
    page = departures_section(SCALES["laptop"])
    assert "<td>mazes: training, schedule</td><td>steps</td><td>cosine</td>" in page
    assert "<td>mazes: training, drop</td><td>0.1</td><td>none</td>" in page
    assert "<td>fresh ones each time</td>" in page
