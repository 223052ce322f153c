"""Models as Hugging Face folders: the files of `equilibria.save` and a model card. Needs the extra `hub`.

The folder of a model from a finished run also contains its recipe and its measurements, so `equilibria evaluate FOLDER`
works on a downloaded model.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

try:
    from huggingface_hub import ModelCard, ModelCardData, ModelHubMixin, snapshot_download
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the Hub needs huggingface_hub: pip install 'equilibria[hub]'") from error

from equilibria.io.describe import needs
from equilibria.io.files import digest, json_bytes, read_regular, write_atomically
from equilibria.io.folders import KINDS, load, model_files, pack
from equilibria.io.manifest import CONFIG, COVERED, MANIFEST, RECIPE, SUMMARY, WEIGHTS, replace_files
from equilibria.io.pages import render
from equilibria.model import EquilibriumModel

PAPER = "arXiv:2211.09961"
CARD = "README.md"
MODEL_FILES = (WEIGHTS, CONFIG, RECIPE, SUMMARY)  # that are downloaded
MARK = "<!-- written by equilibria -->"


def save_pretrained(model: EquilibriumModel, folder: str | Path, **options: Any) -> str | None:
    """Write a Hugging Face folder: weights, configuration and model card. Takes the options of huggingface_hub.

    An existing model in the folder is replaced at once. A model card that you have written stays.
    """
    folder = Path(folder)
    own = read_regular(folder / CARD) if (folder / CARD).is_file() else b""
    with TemporaryDirectory() as scratch:  # huggingface_hub removes an existing config.json before it writes
        made = Path(scratch) / (folder.name or "model")
        made.mkdir()
        if own and MARK.encode() not in own:
            (made / CARD).write_bytes(own)
        address = _HubFolder(model).save_pretrained(made, **options)
        files = {path.name: path.read_bytes() for path in made.iterdir()}
    card = files.pop(CARD)
    if card != own:
        (folder / CARD).unlink(missing_ok=True)  # our card of earlier weights
    replace_files(
        folder,
        {name: content for name, content in files.items() if name in COVERED},
        remove=[name for name in (RECIPE, SUMMARY) if name not in files],
    )
    if card != own:
        write_atomically(folder / CARD, card)
    return address


def push_to_hub(model: EquilibriumModel, repo_id: str, **options: Any) -> str:
    """Upload a model to the Hugging Face Hub, with its model card, and return its address."""
    return _HubFolder(model).push_to_hub(repo_id, **options)


def from_pretrained(
    name_or_folder: str | Path, *, into: EquilibriumModel | None = None, **options: Any
) -> EquilibriumModel:
    """Load a model from a folder or from the Hub, in eval mode. For `into`, see `equilibria.load`.

    Takes the options of `huggingface_hub.snapshot_download`.
    """
    folder = str(name_or_folder)
    if not Path(folder).is_dir():
        folder = snapshot_download(folder, allow_patterns=[*MODEL_FILES, MANIFEST], **options)
    return load(folder, into=into)


class _HubFolder(ModelHubMixin):
    """Connects a model to huggingface_hub's mixin, which writes and uploads it."""

    def __init__(self, model: EquilibriumModel) -> None:
        self.model = model

    def _save_pretrained(self, save_directory: Path) -> None:
        record = {RECIPE: self._record().get("recipe"), SUMMARY: self._record().get("summary")}
        files = model_files(self.model) | {name: json_bytes(content) for name, content in record.items() if content}
        replace_files(save_directory, files)

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
        needs=needs([net, task, model.solver, model.gradient], KINDS),
        summary=summary,
        recipe=json.dumps(recipe, indent=1) if recipe and summary else None,
    )
