"""Sweeps on a real Ray cluster, one of whose nodes is really killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from small_run import RECIPE

from equilibria.cli import main
from equilibria.training import Optim, grid, train
from equilibria.training.ray_executor import NoCluster, run_on_ray

# Ray's workers give way to everything else on a machine, and would starve beside other tests.
NOT_NICE = os.environ | {"RAY_worker_niceness": "0"}
# In a process of its own: Ray's threads and warnings are none of the other tests' business.
TWO_NODES = """
import sys, threading, time
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from equilibria.training import Recipe, grid, sweep
from equilibria.training.ray_executor import run_on_ray

base, out = Recipe.load(sys.argv[1]), Path(sys.argv[2])
small = {"num_cpus": 1, "object_store_memory": 100_000_000}
cluster = Cluster(initialize_head=True, head_node_args=small | {"num_cpus": 0, "include_dashboard": False})
nodes = [cluster.add_node(**small) for _ in range(2)]
recipes = grid(base, {"seed": [0, 1, 2, 3]})

def kill_when_two_are_running():
    def running():
        return [path for path in out.glob("*/state-*") if not (path.parent / "summary.json").exists()]

    while len({path.parent for path in running()}) < 2:  # one on each node, saved in mid-run
        time.sleep(0.02)
    here = ray.get_runtime_context().get_node_id()  # this process hangs on one of the nodes: not that one
    cluster.remove_node(next(node for node in nodes if node.node_id != here), allow_graceful=False)
    print("killed", flush=True)

threading.Thread(target=kill_when_two_are_running, daemon=True).start()
there = {"address": cluster.address, "options": {"save_every": 0.5}}
seen = set()

def note(entries):
    seen.update(entry.recipe.seed for entry in entries if entry.state == "running" and entry.loss and entry.score)

entries = sweep(recipes, out, execute=lambda jobs: run_on_ray(jobs, **there), on_progress=note)
print("reported", sorted(seen), flush=True)
print([entry.state for entry in entries], flush=True)
cluster.shutdown()
"""


def test_a_node_that_dies_costs_nothing_but_time(tmp_path):
    base = replace(RECIPE, optim=Optim(steps=600, batch=8))
    (tmp_path / "recipe.json").write_text(base.to_json())
    command = [sys.executable, "-c", TWO_NODES, str(tmp_path / "recipe.json"), str(tmp_path / "runs")]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=240, env=NOT_NICE)
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert "killed" in finished.stdout
    assert str(["finished"] * 4) in finished.stdout
    assert "reported [0, 1, 2, 3]" in finished.stdout, "steps and scores, while they ran"
    for recipe in grid(base, {"seed": [0, 1, 2, 3]}):
        alone = train(recipe, tmp_path / "alone" / recipe.id)
        there = tmp_path / "runs" / recipe.id / "model.safetensors"
        assert there.read_bytes() == (alone.folder / "model.safetensors").read_bytes()


def test_the_command_starts_a_cluster_of_its_own_and_reports_failures(tmp_path):
    short = replace(RECIPE, optim=Optim(steps=5, batch=4))
    bad = short.override({"net": "dense"})
    (tmp_path / "list.json").write_text(json.dumps([short.data(), bad.data()]))
    command = [sys.executable, "-m", "equilibria", "sweep", "list.json", "--on", "ray", "--json"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=tmp_path, env=NOT_NICE)
    rows = json.loads(finished.stdout)
    assert [row["state"] for row in rows] == ["finished", "failed"], finished.stderr
    assert "DenseNet needs inputs of layout vector" in rows[1]["reason"]
    assert finished.returncode == 1


def test_a_reproduction_trains_its_nets_there(tmp_path):
    command = [sys.executable, "-m", "equilibria", "reproduce", "trajectories", "--scale", "smoke", "--on", "ray"]
    there = subprocess.run(
        [*command, "--out", str(tmp_path), "--json"], capture_output=True, text=True, timeout=240, env=NOT_NICE
    )
    assert there.returncode == 0, there.stderr[-3000:]
    outcome = json.loads(there.stdout)
    assert len(outcome["trained"]) == 3
    assert outcome["finished"]["trajectories"]
    assert not outcome["failed"]


def test_a_cluster_that_cannot_be_reached_is_reported_within_seconds(capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begin = time.monotonic()
    with pytest.raises(NoCluster, match=rf"no Ray cluster at 127.0.0.1:{port}: tried to connect"):
        list(run_on_ray([], address=f"127.0.0.1:{port}"))
    assert time.monotonic() - begin < 10
    with pytest.raises(NoCluster, match="cannot read the address 'somewhere'"):
        list(run_on_ray([], address="somewhere"))
    assert main(["sweep", "edge_copy/fast", "--address", "127.0.0.1:1"]) == 2
    assert "add --on ray" in capsys.readouterr().err


@pytest.mark.parametrize("mode", ["disabled", "token"])
def test_a_port_that_is_no_cluster_is_reported_within_seconds(tmp_path, mode):
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        there = ["--on", "ray", "--address", f"127.0.0.1:{server.server_port}"]
        command = [sys.executable, "-m", "equilibria", "sweep", "edge_copy/fast", *there]
        begin = time.monotonic()
        alone = os.environ | {"HOME": str(tmp_path), "RAY_AUTH_MODE": mode}  # without anybody's token
        finished = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, env=alone)
        server.shutdown()
    assert time.monotonic() - begin < 30  # Python and torch start in this time too, on a busy machine
    assert "joining a Ray cluster there failed" in finished.stderr
    assert finished.returncode == 1


def test_ctrl_c_saves_and_the_same_command_resumes(tmp_path):
    """SIGINT to the command alone: its tasks are asked to save, and end."""
    (tmp_path / "recipe.json").write_text(replace(RECIPE, optim=Optim(steps=30_000, batch=8)).to_json())
    command = [sys.executable, "-m", "equilibria", "sweep", "recipe.json", "--on", "ray"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=NOT_NICE) as process:
        patience = time.monotonic() + 120
        while not list(tmp_path.glob("runs/*/metrics.jsonl")) and time.monotonic() < patience:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    (state,) = tmp_path.glob("runs/*/state-*.safetensors")
    assert int(state.name.split("-")[1]) > 0


def test_resources_that_no_node_has_are_reported(tmp_path):
    command = [sys.executable, "-m", "equilibria", "sweep", "edge_copy/fast", "--on", "ray", "--gpus", "7"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=NOT_NICE)
    assert finished.returncode == 1
    assert "no node of the cluster has 1 CPUs and 7 GPUs" in finished.stderr
