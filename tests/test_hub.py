"""Hugging Face folders, and a round trip to a local server that speaks the Hub's protocol."""

import base64
import json
import os
import subprocess
import sys
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import pytest
import torch
from small_run import RECIPE
from torch import nn

import equilibria
from equilibria import Budget, EquilibriumModel
from equilibria.cli import main
from equilibria.io.hub import from_pretrained, save_pretrained
from equilibria.nets import ConvNet
from equilibria.tasks import PrefixSum
from equilibria.training import train


@pytest.fixture
def run(tmp_path):
    return train(replace(RECIPE, optim=replace(RECIPE.optim, steps=10)), tmp_path / "run")


def test_a_trained_net_comes_back_with_its_card(run, tmp_path, capsys):
    model = run.model()
    save_pretrained(model, tmp_path / "hub")
    again = from_pretrained(tmp_path / "hub")
    x = PrefixSum().sample(3, 16, torch.Generator().manual_seed(0)).x
    assert torch.equal(again(x, budget=Budget(9)).prediction, model(x, budget=Budget(9)).prediction)
    assert again.solver == model.solver
    card = (tmp_path / "hub" / "README.md").read_text()
    front = card.split("---")[1]
    assert "library_name: equilibria" in front
    (measured,) = run.summary["measurements"]
    assert (
        f"| 6 | 4 | 40 | {measured['score']:.5g} | {measured['constant']:.5g} | {measured['alignment']:.4f} |" in card
    )
    assert run.recipe.id in card
    assert "ConvNet(width=8" in card
    recipe = json.loads(card.split("```json\n")[1].split("```")[0])
    assert recipe == run.recipe.data()
    assert main(["evaluate", str(tmp_path / "hub"), "--check"]) == 0  # the folder is a run again
    assert main(["evaluate", str(tmp_path / "hub"), "--json"]) == 0
    capsys.readouterr()


def test_numbers_are_not_claimed_for_other_weights(run, tmp_path):
    model = run.model()
    with torch.no_grad():
        next(model.parameters()).add_(1)
    save_pretrained(model, tmp_path / "hub")
    assert "No measurements are recorded" in (tmp_path / "hub" / "README.md").read_text()
    assert not (tmp_path / "hub" / "summary.json").exists()


def test_nor_are_they_left_over_from_earlier_ones(run, tmp_path):
    model = run.model()
    save_pretrained(model, tmp_path / "hub")
    with torch.no_grad():
        next(model.parameters()).add_(1)
    save_pretrained(model, tmp_path / "hub")
    assert "No measurements are recorded" in (tmp_path / "hub" / "README.md").read_text()
    assert from_pretrained(tmp_path / "hub").record is None
    equilibria.save(model, run.folder)  # other weights than those of the run's measurements
    assert equilibria.load(run.folder).record is None
    (tmp_path / "hub" / "README.md").write_text("my own words")
    save_pretrained(model, tmp_path / "hub")
    assert (tmp_path / "hub" / "README.md").read_text() == "my own words"


def test_models_of_ones_own_parts_and_untrained_nets(tmp_path):
    own = EquilibriumModel(nn.Linear(3, 4), lambda z, u: torch.tanh(u - z), nn.Linear(4, 2))
    save_pretrained(own, tmp_path / "own")
    with pytest.raises(ValueError, match="load\\(folder, into=model\\)"):
        from_pretrained(tmp_path / "own")
    other = EquilibriumModel(nn.Linear(3, 4), lambda z, u: torch.tanh(u - z), nn.Linear(4, 2))
    from_pretrained(tmp_path / "own", into=other)
    assert torch.equal(other.encoder.weight, own.encoder.weight)
    save_pretrained(ConvNet(8).build(PrefixSum()), tmp_path / "untrained")
    assert "# PrefixSum" in (tmp_path / "untrained" / "README.md").read_text()


class Hub(BaseHTTPRequestHandler):
    """The part of the Hub that uploads and downloads of small files need."""

    files: ClassVar[dict[str, bytes]]  # of the one repository, someone/net

    def do_POST(self):
        lines = self.rfile.read(int(self.headers["Content-Length"])).decode().splitlines()
        if self.path == "/api/repos/create":
            self.answer({"url": self.url(), "name": "someone/net"})
        elif self.path.endswith("/preupload/main"):
            names = [file["path"] for file in json.loads(lines[0])["files"]]
            self.answer({"files": [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]})
        elif self.path.endswith("/commit/main"):
            for entry in map(json.loads, lines):
                if entry["key"] == "file":
                    self.files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            self.answer({"commitUrl": f"{self.url()}/commit/{'1' * 40}", "commitOid": "1" * 40})
        else:
            self.answer({"valid": True})  # the card is checked before a commit

    def do_GET(self):
        if self.path.startswith("/api/models/someone/net/tree/"):
            sizes = {name: len(content) for name, content in self.files.items()}
            self.answer([{"type": "file", "path": name, "size": n, "oid": "2" * 40} for name, n in sizes.items()])
        elif self.path.startswith("/api/models/someone/net"):
            siblings = [{"rfilename": name} for name in self.files]
            self.answer({"id": "someone/net", "sha": "1" * 40, "siblings": siblings, "private": False, "tags": []})
        else:
            self.answer(self.files.get(self.path.rsplit("/", 1)[1]))

    def do_HEAD(self):
        self.do_GET()

    def url(self):
        return f"http://{self.headers['Host']}/someone/net"

    def answer(self, content):
        content = content if content is None or isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Length", str(len(content or b"")))
        self.send_header("X-Repo-Commit", "1" * 40)
        self.send_header("ETag", f'"{hash(content)}"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content or b"")

    def log_message(self, format, *args):  # noqa: A002
        pass


THERE_AND_BACK = """
import sys
import torch
import equilibria
from equilibria.io.hub import from_pretrained, push_to_hub
model = equilibria.load(sys.argv[1])
print(push_to_hub(model, "someone/net", token="hf_none"))
again = from_pretrained("someone/net")
assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
assert again.record == model.record
"""


def test_to_the_hub_and_back(run, tmp_path):
    class Mine(Hub):
        files: ClassVar[dict[str, bytes]] = {}

    with ThreadingHTTPServer(("127.0.0.1", 0), Mine) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        there = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": str(tmp_path / "cache")}
        command = [sys.executable, "-c", THERE_AND_BACK, str(run.folder)]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ | there)
        server.shutdown()
    assert finished.returncode == 0, finished.stderr[-3000:]
    files = {"config.json", "manifest.json", "model.safetensors", "recipe.json", "summary.json"}
    assert set(Mine.files) == {"README.md", *files}
    assert "/commit/1" in finished.stdout
