"""Models as Hugging Face folders: the files of `equilibria.save` and a model card. Needs the extra `hub`.

The folder of a model that was loaded from a finished run also holds its recipe and its measurements, so
`equilibria evaluate FOLDER` works on a downloaded model.
"""

import json
from pathlib import Path
from typing import Any

try:
    from huggingface_hub import ModelCard, ModelCardData, ModelHubMixin, snapshot_download
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("this needs huggingface_hub: pip install 'equilibria[hub]'") from error

from equilibria.io.files import digest, write_atomically
from equilibria.io.folders import CONFIG, RECIPE, SUMMARY, WEIGHTS, load, pack, save
from equilibria.model import EquilibriumModel

PAPER = "arXiv:2211.09961"
MARK = "<!-- written by equilibria -->"


def save_pretrained(model: EquilibriumModel, folder: str | Path, **options: Any) -> str | None:
    """Write a Hugging Face folder: weights, configuration, model card. Options are those of huggingface_hub."""
    return _HubFolder(model).save_pretrained(folder, **options)


def push_to_hub(model: EquilibriumModel, repo_id: str, **options: Any) -> str:
    """Upload such a folder to the Hugging Face Hub and return its address."""
    return _HubFolder(model).push_to_hub(repo_id, **options)


def from_pretrained(
    name_or_folder: str | Path, *, into: EquilibriumModel | None = None, **options: Any
) -> EquilibriumModel:
    """Load a model from a folder or from the Hub, in eval mode; `into` as in `equilibria.load`."""
    options |= {"into": into} if into is not None else {}
    return _HubFolder.from_pretrained(name_or_folder, **options).model


class _HubFolder(ModelHubMixin):
    """A model, as huggingface_hub's mixin saves and loads it."""

    def __init__(self, model: EquilibriumModel) -> None:
        self.model = model

    def _save_pretrained(self, save_directory: Path) -> None:
        card = save_directory / "README.md"
        if card.is_file() and MARK in card.read_text():
            card.unlink()  # ours, and about other weights; one that somebody has written stays
        save(self.model, save_directory)
        record = self._record()
        for name, content in ((RECIPE, record.get("recipe")), (SUMMARY, record.get("summary"))):
            (save_directory / name).unlink(missing_ok=True)
            if content:
                write_atomically(save_directory / name, (json.dumps(content, indent=1) + "\n").encode())

    @classmethod
    def _from_pretrained(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls,
        *,
        model_id: str,
        revision: str | None,
        cache_dir: str | Path | None,
        force_download: bool,
        local_files_only: bool,
        token: str | bool | None,
        into: EquilibriumModel | None = None,
    ) -> "_HubFolder":
        folder = model_id
        if not Path(model_id).is_dir():
            folder = snapshot_download(
                model_id,
                revision=revision,
                cache_dir=cache_dir,
                force_download=force_download,
                local_files_only=local_files_only,
                token=token,
                allow_patterns=[WEIGHTS, CONFIG, RECIPE, SUMMARY],
            )
        return cls(load(folder, into=into))

    def generate_model_card(self, *_: Any, **__: Any) -> ModelCard:
        data = ModelCardData(library_name="equilibria", tags=["equilibrium-model", "test-time-compute", PAPER])
        return ModelCard(f"---\n{data.to_yaml()}\n---\n\n{MARK}\n{_card(self.model, self._record())}")

    def _record(self) -> dict[str, Any]:
        """Where the model comes from, as long as it still has those weights."""
        record = self.model.record or {}
        same = record and digest(pack(self.model.state_dict())) == record["summary"]["weights"]
        return record if same else {}


def _card(model: EquilibriumModel, record: dict[str, Any]) -> str:
    recipe, summary = record.get("recipe"), record.get("summary")
    net, task = model.blueprint or (None, None)
    size = sum(parameter.numel() for parameter in model.parameters())
    title = recipe["name"] if recipe and recipe["name"] else type(task).__name__ if task else "An equilibrium model"
    lines = [f"# {title}", ""]
    lines += [f"An equilibrium model with {size:,} parameters: its answer is the state that its cell settles on, so it"]
    lines += ["can be given more steps for harder inputs.", ""]
    if task:
        lines += [f"- **Task**: `{task}`; difficulty: {task.difficulties}", f"- **Net**: `{net}`"]
    lines += [f"- **Solver**: `{model.solver}`, **budget** unless told otherwise: `{model.budget}`", ""]
    lines += ["```python", "from equilibria import Budget", "from equilibria.io.hub import from_pretrained", ""]
    into = "" if task else ", into=model"  # a model of one's own parts has to be built first
    lines += [f'model = from_pretrained("..."{into})']
    lines += ["prediction = model(x, budget=Budget(200, tol=1e-4)).prediction", "```", ""]
    if not (recipe and summary):
        return "\n".join([*lines, "No measurements are recorded for these weights.", ""])
    better = "" if task is None else f" ({'more' if task.higher_is_better else 'less'} is better)"
    lines += ["## Measured", "", f"| difficulty | steps | examples | score{better} | constant answer | AA |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    for one in summary["measurements"]:
        alignment = "" if one["alignment"] is None else f"{one['alignment']:.4f}"
        lines += [
            f"| {one['difficulty']} | {one['steps']} | {one['examples']} | {_shown(one['score'])} | "
            f"{_shown(one['constant'])} | {alignment} |"
        ]
    lines += ["", "AA, the asymptotic alignment score, is 1 if the state does not depend on where the solve begins."]
    lines += ["", "## Recipe", ""]
    lines += [f"Run {summary['id']}, {summary['training_seconds']:.0f} s of training, torch {summary['torch']}.", ""]
    return "\n".join([*lines, "```json", json.dumps(recipe, indent=1), "```", ""])


def _shown(number: float | None) -> str:
    return "not finite" if number is None else f"{number:.5g}"
