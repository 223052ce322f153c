"""Kill processes at every disk operation, flip bits, and send nonsense; count what is lost, unequal or unnoticed.

`python benchmarks/torture.py --json benchmarks/torture.json` takes about a quarter of an hour. `--short` takes some
seconds, leaves the explorer out, and is what the tests run. Load goes to 127.0.0.1 only.

A "disk operation" is opening a file for writing, truncating, renaming or removing one, creating or removing a folder
(Python's audit events, before they happen), or an fsync. At an fsync, half of what was written since the last one is
cut off first, as if the process had died inside that write. Every trial is a process of its own, which sends SIGKILL
to itself.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from harness import Line, arguments, report

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from small_figure import SMOKE, Small

import equilibria
from equilibria.io.files import DamagedFile
from equilibria.io.hub import from_pretrained, save_pretrained
from equilibria.nets import ConvNet, DenseNet
from equilibria.reproduction import reproduce
from equilibria.reproduction.engine import run as engine
from equilibria.tasks import MatrixInversion, PrefixSum
from equilibria.training import Evaluation, Mixed, Optim, Recipe, Run, Uniform, train
from equilibria.training.pool import JobEnd, attempt

RECIPE = Recipe(
    name="torture",
    task=PrefixSum(train_difficulties=(6, 8)),
    net=ConvNet(8),
    start=Mixed(),
    depth=Uniform(2, 4),
    optim=Optim(steps=8, batch=4, lr=1e-2, averaging=0.9),
    evaluation=Evaluation(at=((6, 4),), every=3, examples=12, finally_at=((6, 4, 40, 12),)),
    select="best",
)
WRITES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
NOT_KILLED = 99
JSON_FILES = ("config.json", "recipe.json", "summary.json", "manifest.json")


def killed_at(number: int, folder: Path, action: Callable[[], object]) -> bool:
    """Run `action` in a process that dies at its `number`-th disk operation in `folder`; False if it has fewer."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        count, inside, fsync, synced = [0], str(folder), os.fsync, dict[int, int]()

        def operation(cut: int | None = None) -> None:
            count[0] += 1
            if count[0] == number:
                if cut is not None:
                    found = os.fstat(cut)
                    before = synced.get(found.st_ino, 0)
                    os.ftruncate(cut, before + (found.st_size - before) // 2)
                os.kill(os.getpid(), signal.SIGKILL)

        def audit(event: str, values: tuple) -> None:
            writes = event in WRITES or (event == "open" and values[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            if writes and count[0] < number and _is_inside(values[0], inside):
                operation()

        def cut_fsync(file: int) -> None:
            if not os.path.isdir(f"/proc/self/fd/{file}") and count[0] < number:
                operation(cut=file)
            fsync(file)
            synced[os.fstat(file).st_ino] = os.fstat(file).st_size

        os.fsync = cut_fsync
        sys.addaudithook(audit)
        try:
            action()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(NOT_KILLED)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (-signal.SIGKILL, NOT_KILLED), f"the process ended with {code}"
    return code == -signal.SIGKILL


def _is_inside(value: object, folder: str) -> bool:
    return isinstance(value, (str, bytes, os.PathLike)) and str(os.fsdecode(value)).startswith(folder)


def every_kill(
    name: str,
    prepare: Callable[[Path], object],
    action: Callable[[Path], object],
    check: Callable[[Path], list[str]],
    *,
    every: int = 1,
) -> Iterator[Line]:
    """Kill `action` at each of its disk operations; `check` returns what is wrong afterwards."""
    kills, wrong, number = 0, list[str](), 1
    while True:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "folder"
            prepare(folder)
            if not killed_at(number, folder, lambda folder=folder: action(folder)):
                break
            kills += 1
            wrong += [f"{name}, operation {number}: {sentence}" for sentence in check(folder)]
        number += every
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    yield Line(f"{name}: kills", kills)
    yield Line(f"{name}: lost, unequal or not loadable", len(wrong))


def attempted(check: Callable[[], list[str]]) -> list[str]:
    """What `check` finds wrong, or the error that it raises."""
    try:
        return check()
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def result_of(run: Run) -> tuple[Any, ...]:
    """Everything that must be equal, whatever happened during training."""
    losses = [(line["step"], line["loss"]) for line in run.metrics() if "loss" in line]
    summary = {name: value for name, value in run.summary.items() if not name.endswith("_seconds")}
    return (run.folder / "model.safetensors").read_bytes(), losses, summary, sorted(os.listdir(run.folder))


def train_kills(steps: int, every: int) -> Iterator[Line]:
    recipe = replace(RECIPE, optim=replace(RECIPE.optim, steps=steps))
    with tempfile.TemporaryDirectory() as scratch:
        whole = result_of(train(recipe, Path(scratch) / "run", save_every=0.0))

    def check(folder: Path) -> list[str]:
        return [] if result_of(train(recipe, folder, save_every=0.0)) == whole else ["unequal"]

    def action(folder: Path) -> None:
        train(recipe, folder, save_every=0.0)

    yield from every_kill("train", lambda _: None, action, lambda folder: attempted(lambda: check(folder)), every=every)


def same_weights(one: equilibria.EquilibriumModel, other: equilibria.EquilibriumModel) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def save_kills(every: int) -> Iterator[Line]:
    """Replace one model by another."""
    old, new = (DenseNet(8).build(MatrixInversion(side=2), seed=seed) for seed in (0, 1))
    old.budget, new.budget = equilibria.Budget(3), equilibria.Budget(7)

    def check(folder: Path) -> list[str]:
        found = equilibria.load(folder)
        whole = [same_weights(found, one) and found.budget == one.budget for one in (old, new)]
        equilibria.save(new, folder)
        left = sorted(os.listdir(folder)) != ["config.json", "manifest.json", "model.safetensors"]
        return ["neither the old model nor the new one"] * (not any(whole)) + ["files are left over"] * left

    def prepare(folder: Path) -> None:
        equilibria.save(old, folder)

    def action(folder: Path) -> None:
        equilibria.save(new, folder)

    yield from every_kill("save", prepare, action, lambda folder: attempted(lambda: check(folder)), every=every)


def save_pretrained_kills(every: int) -> Iterator[Line]:
    """Replace a trained net, with its record and card, by another one, and by one without a record."""
    with tempfile.TemporaryDirectory() as scratch:
        recipes = [replace(RECIPE, seed=seed, optim=replace(RECIPE.optim, steps=1)) for seed in (0, 1)]
        nets = [train(recipe, Path(scratch) / str(recipe.seed)).model() for recipe in recipes]
        nets.append(ConvNet(8).build(PrefixSum(), seed=9))

        def check(folder: Path, old: Any, new: Any) -> list[str]:
            found = from_pretrained(folder)
            whole = [same_weights(found, one) and found.record == one.record for one in (old, new)]
            save_pretrained(new, folder)
            hidden = [name for name in os.listdir(folder) if name.startswith(".")]
            return ["neither the old net nor the new one"] * (not any(whole)) + [f"left: {hidden}"] * bool(hidden)

        for old, new, name in ((nets[0], nets[1], ""), (nets[1], nets[2], ", without a record")):
            yield from every_kill(
                f"save_pretrained{name}",
                lambda folder, old=old: save_pretrained(old, folder),
                lambda folder, new=new: save_pretrained(new, folder),
                lambda folder, old=old, new=new: attempted(lambda: check(folder, old, new)),
                every=every,
            )


def inline(jobs: Any) -> Iterator[tuple[int, JobEnd]]:
    """Train in this process."""
    for number, (recipe, folder) in enumerate(jobs):
        yield number, attempt(lambda recipe=recipe, folder=folder: train(recipe, folder).summary)


def inline_jobs(do: Callable[..., Any], jobs: Any, **_: Any) -> Iterator[tuple[int, JobEnd]]:
    """Measure in this process."""
    for number, job in enumerate(jobs):
        yield number, attempt(lambda job=job: do(lambda event: None, *job))


def reproduce_kills(every: int) -> Iterator[Line]:
    """Train, measure, draw and judge in one process, so that all disk operations are its own."""
    figure = Small(measures=Small.measures[1:])
    small = replace(RECIPE, optim=replace(RECIPE.optim, steps=1))
    scale = replace(SMOKE, strings=small) if "strings" in SMOKE.__dataclass_fields__ else SMOKE
    engine.run_jobs = inline_jobs
    figure = _WithoutClaims(measures=figure.measures)

    def once(folder: Path) -> None:
        result = reproduce([figure], scale, folder, execute=inline)
        assert not result.failed, result.failed

    def files(folder: Path) -> dict[str, bytes]:
        kept = [path for path in sorted(folder.rglob("*")) if path.suffix in (".svg", ".safetensors")]
        return {str(path.relative_to(folder)): path.read_bytes() for path in kept}

    with tempfile.TemporaryDirectory() as scratch:
        once(Path(scratch) / "folder")
        whole = files(Path(scratch) / "folder")

    def check(folder: Path) -> list[str]:
        once(folder)
        hidden = [str(path) for path in folder.rglob(".*") if path.name != ".lock"]
        return ["unequal"] * (files(folder) != whole) + [f"left: {hidden}"] * bool(hidden)

    def counted(folder: Path) -> list[str]:
        return attempted(lambda: check(folder))

    yield from every_kill("reproduce", lambda _: None, once, counted, every=every)


class _WithoutClaims(Small):
    """`Small` with the measure that takes no time."""

    def draw(self, rows: Any) -> Any:
        from equilibria.reproduction.engine.drawing import figure

        drawn, axes = figure()
        axes[0, 0].plot([row["weights"] for row in rows])
        return drawn

    def claims(self, rows: Any) -> list:
        return []


def flips(every: int) -> Iterator[Line]:
    """Flip single bits of every file of a run, and read what `evaluate --check` reads."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = train(replace(RECIPE, optim=replace(RECIPE.optim, steps=1)), Path(scratch) / "run").folder

        def read() -> None:
            run = Run(folder)
            _ = run.recipe, run.summary, run.metrics(), run.model()

        for name in (*JSON_FILES, "model.safetensors", "metrics.jsonl"):
            path, flipped, noticed, odd = folder / name, 0, 0, 0
            content = path.read_bytes()
            step = every if name in JSON_FILES else max(1, 8 * len(content) // (2000 // every))
            for bit in range(0, 8 * len(content), step):
                damaged = bytearray(content)
                damaged[bit // 8] ^= 1 << bit % 8
                path.write_bytes(damaged)
                flipped += 1
                try:
                    read()
                except DamagedFile:
                    noticed += 1
                except Exception as error:
                    print(f"{name}, bit {bit}: {type(error).__name__}: {error}", file=sys.stderr)
                    odd += 1
            path.write_bytes(content)
            yield Line(f"flips of {name}: bits", flipped)
            yield Line(f"flips of {name}: noticed", 100 * noticed / flipped, "%")
            yield Line(f"flips of {name}: other errors", odd)


def lines(*, short: bool) -> Iterator[Line]:
    torch.set_num_threads(1)  # a process with more threads must not fork
    yield from train_kills(1 if short else 8, every=3 if short else 1)
    yield from save_kills(every=1)
    yield from save_pretrained_kills(every=3 if short else 1)
    yield from reproduce_kills(every=21 if short else 1)
    yield from flips(every=53 if short else 1)
    if not short:
        import torture_explorer
        import torture_fuzz

        yield from torture_fuzz.lines()
        yield from torture_explorer.lines()


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--short", action="store_true", help="a sample that takes some seconds")
    chosen = parser.parse_args()
    report(lines(short=chosen.short), chosen.json)
