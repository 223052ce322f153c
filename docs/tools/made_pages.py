"""Pages that are made from code and notebooks: examples, notebooks and the API reference. Nothing is imported."""

import ast
import base64
import json
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "equilibria"


class Reference(NamedTuple):
    """A page of the API reference: the public names of some packages, grouped by module."""

    title: str
    packages: tuple[str, ...]  # whose __all__ is documented
    modules: tuple[str, ...] = ("",)  # prefixes of the modules that define the names
    text: str = ""


REFERENCE = {
    "solve": Reference("Solving", ("equilibria",), ("core",), "Fixed points, budgets, stopping conditions."),
    "layer": Reference("Layer and model", ("equilibria",), ("layer", "model")),
    "solvers": Reference("Solvers", ("equilibria.solvers",)),
    "gradients": Reference("Gradients", ("equilibria.gradients",)),
    "diagnostics": Reference("Diagnostics", ("equilibria.diagnostics",)),
    "evaluation": Reference("Evaluation", ("equilibria.evaluation",)),
    "tasks": Reference("Tasks", ("equilibria.tasks",)),
    "nets": Reference("Nets", ("equilibria.nets",)),
    "training": Reference("Training", ("equilibria.training",)),
    "saving": Reference("Saving and sharing", ("equilibria", "equilibria.io.hub"), ("io",)),
    "reproduction": Reference("Reproduction", ("equilibria.reproduction",)),
}


def made_pages() -> dict[str, str]:
    """Path in the site -> Markdown."""
    pages = {f"notebooks/{path.stem}.md": notebook_page(path) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
    pages |= {f"examples/{path.stem}.md": example_page(path) for path in sorted((ROOT / "examples").glob("*.py"))}
    return pages | {f"reference/{name}.md": reference_page(reference) for name, reference in REFERENCE.items()}


def example_page(path: Path) -> str:
    """The docstring of an example as text, and its code."""
    text = path.read_text()
    tree = ast.parse(text)
    said = (ast.get_docstring(tree) or "").split("\n\nRun:")[0]
    code = "\n".join(text.splitlines()[tree.body[0].end_lineno or 0 :]).strip()
    title = path.stem.partition("_")[2].replace("_", " ").capitalize()
    return f"# {title}\n\n{said}\n\n```\npython examples/{path.name}\n```\n\n```python\n{code}\n```\n"


def notebook_page(path: Path) -> str:
    """The cells of a notebook with their recorded outputs."""
    cells = json.loads(path.read_text())["cells"]
    parts = []
    for cell in cells:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        parts += [shown for output in cell["outputs"] if (shown := output_text(output))]
    note = f"*Open the notebook: `jupyter lab notebooks/{path.name}`.*"
    return "\n\n".join([parts[0], note, *parts[1:]]) + "\n"


def output_text(output: dict[str, Any]) -> str:
    """An output of a cell as Markdown: a picture or text."""
    data = output.get("data", {})
    if "image/svg+xml" in data:
        picture = base64.b64encode("".join(data["image/svg+xml"]).encode()).decode()
        return f'<img class="plot" alt="the plot that this cell draws" src="data:image/svg+xml;base64,{picture}">'
    if "image/png" in data:
        picture = "".join(data["image/png"]).replace("\n", "")
        return f'<img class="plot" alt="the plot that this cell draws" src="data:image/png;base64,{picture}">'
    text = "".join(output.get("text") or data.get("text/plain") or ())
    return f"```text\n{text.rstrip()}\n```" if text.strip() else ""


def reference_page(reference: Reference) -> str:
    """The public names of some packages, grouped by the module that defines them."""
    groups: dict[str, list[str]] = {}
    for package in reference.packages:
        for name, module in public_names(package):
            if module.removeprefix("equilibria.").startswith(reference.modules):
                groups.setdefault(module, []).append(f"{package}.{name}")
    parts = [f"# {reference.title}", reference.text]
    for module, names in groups.items():
        parts += [f"## {heading(module)}", ast.get_docstring(tree_of(module)) or ""]
        for name in names:
            parts += [f"::: {name}", fields(module, name.rpartition(".")[2])]
    return "\n\n".join(part for part in parts if part) + "\n"


def fields(module: str, name: str) -> str:
    """The fields of a class with the comments that explain them, which a docstring does not contain."""
    lines = path_of(module).read_text().splitlines()
    found = next((node for node in tree_of(module).body if isinstance(node, ast.ClassDef) and node.name == name), None)
    declared = [node for node in (found.body if found else ()) if isinstance(node, ast.AnnAssign)]
    text = "\n".join(line[4:] for node in declared for line in lines[node.lineno - 1 : node.end_lineno])
    return f"Fields of `{name}`:\n\n```python\n{text}\n```" if "#" in text else ""


def heading(module: str) -> str:
    """The last part of a module's name, as words."""
    return module.rpartition(".")[2].strip("_").replace("_", " ").capitalize()


def public_names(package: str) -> list[tuple[str, str]]:
    """The names of a package's __all__ and the modules that they are imported from, in the order of the imports."""
    body = tree_of("equilibria._public" if package == "equilibria" else package).body
    assigned = [node for node in body if isinstance(node, ast.Assign)]
    exported = next((ast.literal_eval(node.value) for node in assigned if is_all(node)), None)
    if exported is None:  # a module without __all__: its functions and classes
        kinds = (ast.FunctionDef, ast.ClassDef)
        return [(node.name, package) for node in body if isinstance(node, kinds) and not node.name.startswith("_")]
    origin = {
        alias.asname or alias.name: node.module or ""
        for node in body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    modules = list(dict.fromkeys(origin.values()))
    found = [(name, origin.get(name, package)) for name in exported]
    return sorted(found, key=lambda one: (modules.index(one[1]) if one[1] in modules else -1, one[0]))


def is_all(node: ast.Assign) -> bool:
    return getattr(node.targets[0], "id", "") == "__all__"


def path_of(module: str) -> Path:
    path = SOURCE.parent / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def tree_of(module: str) -> ast.Module:
    return ast.parse(path_of(module).read_text())
