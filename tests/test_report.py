"""The page that a reproduction writes: whole, on its own, and open about what differs from the paper."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

from small_figure import SMOKE, Small, blocks

from equilibria.nets import DenseNet
from equilibria.reproduction import FIGURES, SCALES, TableFigure, reproduce
from equilibria.reproduction.departures import ALWAYS, departures
from equilibria.reproduction.engine.figure import Ablation, TableContent
from equilibria.reproduction.engine.report import write_report
from equilibria.training.recipe import Optim


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.links, self.ids, self.words = [], [], set(), ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.links += [found[name] for name in ("href", "src") if name in found]
        self.ids.add(found.get("id"))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += f" {data}"


def test_the_report_is_whole_and_on_its_own(made):
    text = (made / "smoke" / "report.html").read_text()
    page = Page(text)
    assert not page.open
    assert not re.search(r"https?:|url\(|@import|<script", text)
    for link in page.links:
        if link.startswith("#"):
            assert link[1:] in page.ids
        elif not link.startswith("data:image/"):
            assert (made / "smoke" / link).exists(), link
    assert sum(link.startswith("data:image/") for link in page.links) == 1
    words = " ".join(page.words.split())
    for claim in json.loads((made / "smoke" / "small" / "claims.json").read_text())["claims"]:
        for part in ("statement", "verdict", "measured", "paper", "remark"):
            assert claim[part] in words
    for fact in (
        "A <small> figure",
        "Three nets & two measures.",
        f"The 1 of {len(FIGURES) + 1} figures and tables that are finished test 2 claims of the paper",
        "solver, depth 32",
        "numpy",
    ):
        assert fact in words
    assert {step.net.id for step in Small().plan(SMOKE)} <= set(re.findall(r"\b[0-9a-f]{12}\b", words))


class Explained(Small):
    ablations = (
        Ablation(("above_one", "below_one"), "The other side of one.", (("small", "below_one"),)),
        Ablation(("above_one",), "An experiment that was not made.", (("another", "claim"),)),
        Ablation(("below_one",), "An experiment about a claim that holds.", (("small", "above_one"),)),
    )


def test_experiments_on_claims_that_do_not_hold_are_listed(copy, monkeypatch):
    monkeypatch.setitem(FIGURES, "small", Explained())
    path = copy / "smoke" / "small" / "claims.json"
    document = json.loads(path.read_text())
    for claim, verdict in zip(document["claims"], ("holds", "does not hold"), strict=True):
        claim["verdict"] = verdict
    path.write_text(json.dumps(document))
    text = write_report(copy, SMOKE, FIGURES.values()).read_text()
    section = text[text.index('<section id="ablations"') : text.index('<section id="departures"')]
    words = " ".join(Page(section).words.split())
    assert "AA is above one (" in words
    assert "The other side of one. Figure 0 : AA is below one & can be <measured> (" in words
    assert "not made" not in words
    assert "An experiment about" not in words


class SmallTable(TableFigure, Small):
    def cells(self, rows):
        return TableContent(
            ["net", "weights"], [[row["label"], f"<{row['weights']}>"] for row in rows if "weights" in row]
        )


def test_a_table_is_text_in_the_report_and_a_picture_beside_it(copy, monkeypatch):
    figure = SmallTable()
    reproduce([figure], SMOKE, copy)
    monkeypatch.setitem(FIGURES, "small", figure)
    text = write_report(copy, SMOKE, FIGURES.values()).read_text()
    weights = blocks(copy)[1]["rows"][0]["weights"]
    assert f"<td>unroll, depth 32, group norm, rate 0.001</td><td>&lt;{weights}&gt;</td>" in text
    assert "data:image/" not in text
    assert (copy / "smoke" / "small" / "figure.png").stat().st_size > 1000


def test_a_note_about_a_figure_is_in_the_report_and_stays(copy):
    (copy / "smoke" / "small" / "note.txt").write_text("It is too\nshort: 2 < 3.\n\nNothing else helps.\n")
    reproduce([Small()], SMOKE, copy)
    text = write_report(copy, SMOKE, FIGURES.values()).read_text()
    assert '<p class="note">It is too short: 2 &lt; 3.</p>' in text
    assert '<p class="note">Nothing else helps.</p>' in text


def test_the_papers_own_scale_differs_only_in_what_no_recipe_shows():
    assert departures(SCALES["paper"]) == [*ALWAYS]


def test_every_change_of_a_recipe_is_listed():
    paper = SCALES["paper"]

    def added(scale):
        return departures(scale)[: -len(ALWAYS)]

    assert added(replace(paper, digits=replace(paper.digits, net=DenseNet(width=7)))) == [
        ("digits: net, width", "512", "7")
    ]
    brief = replace(paper, edges=replace(paper.edges, optim=Optim(steps=9, batch=4, lr=1.0, schedule="steps")))
    assert ("graphs: updates x batch size", "30,000 x 128", "9 x 4") in added(brief)
    assert len(added(replace(paper, trial=paper.trial._replace(restarts=3)))) == 1
    (rate,) = added(replace(paper, implicit_rate=0.5))
    assert rate == ("mazes: learning rate of these updates", "0.001", "0.5")
    (depths,) = added(replace(paper, penalty_factors=paper.penalty_factors._replace(depths=(6,))))
    assert depths == ("prefix sums with a penalty: depths", "6, 32", "6")


def test_a_schedule_without_drops_has_none():
    found = departures(SCALES["laptop"])
    assert ("mazes: training, schedule", "steps", "cosine") in found
    assert ("mazes: training, drop", "0.1", "none") in found
    assert "new examples for every update" in {one.here for one in found}
