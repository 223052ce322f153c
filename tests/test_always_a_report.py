"""A diagnosis ends with a report, whatever fails and however slow the model is; and it can be read."""

import io
import json
import math
import time

import pytest
import torch
from looped import CONTRACTION, QUICK, Looped, N, inputs
from problems import rng
from rich.console import Console
from torch import Tensor

from equilibria.diagnostics import diagnose, from_function, risk_coverage
from equilibria.diagnostics.restarts import derangements

COLUMNS = 80


def printed(diagnosis, width: int = COLUMNS) -> str:
    content = io.StringIO()
    Console(file=content, width=width, color_system=None).print(diagnosis)
    return content.getvalue()


class TestFailingParts:
    def test_a_part_that_fails_is_a_note(self):
        """Restarts from large noise fail; everything else is measured."""

        def fragile(z: Tensor, x: Tensor) -> Tensor:
            if float(z.abs().max()) > 12:
                raise IndexError("out of the table\nand more")
            return 0.5 * z + x

        found = diagnose(Looped(fragile), inputs(), **QUICK)
        assert [row.start for row in found.alignment] == ["swapped", "noise x 1"]
        assert found.verdict.path_independent is True
        assert any(
            note == "Restarts from noise x 10 was not measured: IndexError: out of the table" for note in found.notes
        )

    def test_backward_passes_that_fail(self):
        class NoBackward(torch.autograd.Function):
            @staticmethod
            def forward(ctx, z):
                return 0.5 * z

            @staticmethod
            def backward(ctx, *_):
                raise NotImplementedError("no backward")

        model = Looped(lambda z, x: NoBackward.apply(z) + x)
        found = diagnose(model, inputs(), **{**QUICK, "attacks": True})
        assert (found.contraction, found.start_influence, found.attacked) == (None, None, None)
        assert sum("no backward" in note for note in found.notes) == 3
        assert found.verdict.behaviour == "settles"
        printed(found)

    def test_no_restarts_at_all(self):
        """Only the usual start works."""

        def picky(z: Tensor, x: Tensor) -> Tensor:
            if not bool(((z[:, -1] - z[:, -1].round()).abs() < 1e-6).all()):
                raise ValueError("unknown state")
            return torch.cat((0.5 * z[:, :-1] + x, z[:, -1:]), 1)

        model = from_function(picky, init=lambda x: torch.zeros(len(x), N + 1), readout=lambda z: z[:, :-1])
        noisy = Looped(picky)
        noisy.init, noisy.readout = model.init, model.readout
        found = diagnose(noisy, inputs(), **QUICK)
        assert [row.start for row in found.alignment] == ["swapped"]
        assert "unknown state" in " ".join(found.notes)
        json.loads(found.to_json())


class TestTime:
    def slow(self, seconds: float):
        """A contraction whose every step takes this long, whatever the machine does meanwhile."""

        def step(z: Tensor, x: Tensor) -> Tensor:
            time.sleep(seconds)
            return 0.9 * z + x

        return Looped(step)

    def test_it_ends_in_time_and_says_what_was_cut(self):
        """All measurements would take 320 * 30 steps of 5 ms each: 48 s."""
        begin = time.perf_counter()
        found = diagnose(self.slow(0.005), inputs(), seconds=2.0)
        assert time.perf_counter() - begin < 8
        assert found.attacked is None
        assert any("Cut, because time was short" in note and "attack" in note for note in found.notes)
        assert len(printed(found)) > 0

    def test_even_if_a_single_solve_takes_too_long(self):
        begin = time.perf_counter()
        found = diagnose(self.slow(0.05), inputs(), trained_steps=16, seconds=1.5)
        assert time.perf_counter() - begin < 10
        assert found.steps < 200
        assert any("To end in time" in note for note in found.notes)

    def test_with_enough_time_nothing_is_cut(self):
        generous, unlimited = (diagnose(CONTRACTION, inputs(), seconds=s, budget=30) for s in (3600.0, math.inf))
        assert generous.data() | {"seconds": 0} == unlimited.data() | {"seconds": 0}
        assert not any("time" in note for note in generous.notes)

    def test_a_score_that_needs_the_whole_batch(self):
        """Fewer examples are diagnosed, and the score still gets all of them."""
        x = inputs(64)
        seen = set()

        def score(prediction: Tensor, targets: Tensor) -> Tensor:
            seen.add((len(prediction), len(targets)))
            return (prediction.argmax(1) == targets).float()

        found = diagnose(self.slow(0.02), x, x.argmax(1), score=score, seconds=1.0, trained_steps=20)
        assert found.examples < 64
        assert seen == {(64, 64)}
        assert found.score == 1.0

    @pytest.mark.parametrize("seconds", [0, -1.0, math.nan])
    def test_no_time(self, seconds):
        with pytest.raises(ValueError, match="seconds must be > 0"):
            diagnose(CONTRACTION, inputs(), seconds=seconds)


CASES = {
    "right": lambda x: (CONTRACTION, x.argmax(1)),
    "some wrong": lambda x: (CONTRACTION, torch.where(torch.arange(len(x)) < 6, 0, x.argmax(1))),
    "no targets": lambda x: (CONTRACTION, None),
    "diverges": lambda x: (Looped(lambda z, x: 3 * z + x), x.argmax(1)),
    "cycles": lambda x: (Looped(lambda z, x: torch.where(z == x, -x, x)), x.argmax(1)),
    "numbers": lambda x: (Looped(lambda z, x: 0.99 * z + x), x),
}


class TestReading:
    @pytest.mark.parametrize("case", CASES)
    def test_it_fits_80_columns_and_opens_with_four_answers(self, case):
        model, targets = CASES[case](inputs())
        found = diagnose(model, inputs(), targets, **{**QUICK, "attacks": True}, trained_steps=8, name="my/net")
        text = printed(found)
        lines = text.splitlines()
        assert lines[0] == "Diagnosis of my/net"
        assert max(map(len, lines)) <= COLUMNS
        assert "…" not in text
        questions = ("Does it settle?", "Does the start matter?", "Will more steps help?", "Which answers to trust?")
        places = [next(i for i, line in enumerate(lines) if line.startswith(question)) for question in questions]
        assert places == sorted(places)
        assert places[-1] < 15  # at a glance
        for finding in found.findings:
            assert finding.answer
            assert any(character.isdigit() for character in finding.why), finding
        assert "- to -" not in text

    def test_every_term_is_explained(self, tmp_path):
        wrong = torch.where(torch.arange(24) < 6, 0, inputs().argmax(1))
        found = diagnose(CONTRACTION, inputs(), wrong, **QUICK, name="my/net")
        text = printed(found)
        found.save_html(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        for term in ("AA", "centred", "distance", "readout", "residual", "final answer", "AUROC", "misalignment"):
            assert f"\n{term}: " in text
            assert f'">{term}</span>' in page
        assert "<title>Diagnosis of my/net</title>" in page
        for finding in found.findings:
            assert f'href="#{finding.evidence}"' in page
            assert f'id="{finding.evidence}"' in page

    def test_the_name_defaults_to_the_type(self):
        assert diagnose(CONTRACTION, inputs(), **QUICK).name == "Looped"

    def test_trust_names_the_best_uncertainty(self):
        """Wrong exactly where the margin is small."""
        x = inputs()
        top = x.topk(2, 1).values
        unsure = (top[:, 0] - top[:, 1]) < 0.5
        found = diagnose(CONTRACTION, x, torch.where(unsure, (x.argmax(1) + 1) % N, x.argmax(1)), **QUICK)
        assert found.findings[3].answer == "low indecision"
        assert "AUROC 1" in found.findings[3].why


class TestSelfCheck:
    """What the report says, computed again by loops over examples."""

    def model(self):
        W = 1.6 * torch.nn.init.orthogonal_(torch.empty(N, N), generator=rng())
        return Looped(lambda z, x: torch.tanh(z @ W.T + 0.5 * x))

    def limit(self, model, z: Tensor, x: Tensor) -> Tensor:
        for _ in range(64):
            z = model.step(z, x)
        return z

    def test_alignment_and_votes_agree_with_a_direct_computation(self):
        """Of a model that does not settle, so that nothing stops early."""
        model, x = self.model(), inputs(16)
        found = diagnose(model, x, **QUICK).alignment[0]
        usual = self.limit(model, torch.zeros_like(x), x)
        cosines, same = [], []
        for partner in derangements(16, 3, rng()):
            for i in range(16):
                other = self.limit(model, usual[partner[i]][None], x[i][None])[0]
                cosines.append(torch.cosine_similarity(other, usual[i], 0).item())
                same.append(float(other.argmax() == usual[i].argmax()))
        assert 0 < sum(same) < len(same)
        assert found.cosine == pytest.approx(sum(cosines) / len(cosines), abs=1e-3)
        assert found.same_answer == pytest.approx(sum(same) / len(same), abs=1e-6)

    def test_trust_and_selection_agree_with_a_direct_computation(self):
        model, x = self.model(), inputs(16)
        y = torch.randint(0, N, (16,), generator=rng(7))
        y[::2] = self.limit(model, torch.zeros_like(x), x)[::2].argmax(1)
        found = {row.uncertainty: row.auroc for row in diagnose(model, x, y, **QUICK).trust}
        limits = self.limit(model, torch.zeros_like(x), x)
        top = limits.softmax(1).topk(2, 1).values
        indecision = (1 - (top[:, 0] - top[:, 1])).tolist()
        wrong = (limits.argmax(1) != y).tolist()
        pairs = [(indecision[i], indecision[j]) for i in range(16) for j in range(16) if wrong[i] and not wrong[j]]
        assert pairs
        direct = sum((a > b) + 0.5 * (a == b) for a, b in pairs) / len(pairs)
        assert found["indecision"] == pytest.approx(direct, abs=1e-6)
        curve = risk_coverage(torch.tensor(indecision), torch.tensor(wrong).double())
        order = sorted(range(16), key=lambda i: indecision[i])
        for k in (1, 5, 16):
            chosen = sum(wrong[i] for i in order[:k]) / k
            at = int((curve.coverage - k / 16).abs().argmin())
            assert curve.risk[at].item() == pytest.approx(chosen, abs=1e-6)
