"""Models as Hugging Face folders: the files of `equilibria.save` and a model card. Needs the extra `hub`.

The folder of a model from a finished run also contains its recipe and its measurements, so `equilibria evaluate FOLDER`
works on a downloaded model.
"""

import json
from pathlib import Path
from typing import Any

try:
    from huggingface_hub import ModelCard, ModelCardData, ModelHubMixin, snapshot_download
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the Hub needs huggingface_hub: pip install 'equilibria[hub]'") from error

from equilibria.io.files import digest, write_json
from equilibria.io.folders import CONFIG, RECIPE, SUMMARY, WEIGHTS, load, pack, save
from equilibria.io.pages import render
from equilibria.model import EquilibriumModel

PAPER = "arXiv:2211.09961"
MARK = "<!-- written by equilibria -->"


def save_pretrained(model: EquilibriumModel, folder: str | Path, **options: Any) -> str | None:
    """Write a Hugging Face folder: weights, configuration and model card. Takes the options of huggingface_hub."""
    return _HubFolder(model).save_pretrained(folder, **options)


def push_to_hub(model: EquilibriumModel, repo_id: str, **options: Any) -> str:
    """Upload a model to the Hugging Face Hub, with its model card, and return its address."""
    return _HubFolder(model).push_to_hub(repo_id, **options)


def from_pretrained(
    name_or_folder: str | Path, *, into: EquilibriumModel | None = None, **options: Any
) -> EquilibriumModel:
    """Load a model from a folder or from the Hub, in eval mode. For `into`, see `equilibria.load`."""
    options |= {"into": into} if into is not None else {}
    return _HubFolder.from_pretrained(name_or_folder, **options).model


class _HubFolder(ModelHubMixin):
    """Connects a model to huggingface_hub's mixin, which saves and loads it."""

    def __init__(self, model: EquilibriumModel) -> None:
        self.model = model

    def _save_pretrained(self, save_directory: Path) -> None:
        card = save_directory / "README.md"
        if card.is_file() and MARK in card.read_text():
            card.unlink()  # our card of earlier weights; a card that the user has written stays
        save(self.model, save_directory)
        record = self._record()
        for name, content in ((RECIPE, record.get("recipe")), (SUMMARY, record.get("summary"))):
            (save_directory / name).unlink(missing_ok=True)
            if content:
                write_json(save_directory / name, content)

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
        """The record of the run that the model comes from, if it still has those weights."""
        record = self.model.record or {}
        same = record and digest(pack(self.model.state_dict())) == record["summary"]["weights"]
        return record if same else {}


def _card(model: EquilibriumModel, record: dict[str, Any]) -> str:
    net, task = model.blueprint or (None, None)
    recipe, summary = record.get("recipe"), record.get("summary")
    return render(
        "model_card.md.j2",
        title=(recipe or {}).get("name") or (type(task).__name__ if task else "An equilibrium model"),
        size=sum(parameter.numel() for parameter in model.parameters()),
        model=model,
        net=net,
        task=task,
        summary=summary,
        recipe=json.dumps(recipe, indent=1) if recipe and summary else None,
    )
