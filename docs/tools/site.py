"""Build the documentation site: `make docs`, or python docs/tools/site.py [FOLDER]. It is written to build/site.

The pages in docs/ link to files of the repository as GitHub does, such as `../results/README.md`. This script collects
the sources of the site in build/docs: the pages, those made from code and notebooks, and a copy of every other file
that a page links to. Then it runs Zensical, which fails on any warning.
"""

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from made_pages import ROOT, made_pages

DOCS = ROOT / "docs"
TOKENS = ROOT / "src" / "equilibria" / "io" / "style" / "tokens.css"  # the design that all pages share
PAGES = {  # outside docs/ -> in the site
    "README.md": "index.md",
    "results/README.md": "results.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
LINK = re.compile(r"(?P<before>\]\(|\bsrc=\")(?P<target>[^)\s\"#:]+)(?P<anchor>#[^)\s\"]*)?(?P<after>\)|\")")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


class BrokenLink(Exception):
    """A page links to something that is not a file, or no entry of the navigation leads to a page."""


def collect(target: Path) -> list[str]:
    """Write the sources of the site and return its pages."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DOCS, target, ignore=shutil.ignore_patterns("*.py", "*.md", "tools", "__pycache__"))
    shutil.copy(TOKENS, target / "stylesheets" / TOKENS.name)
    sources = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md"))}
    sources |= {made: ROOT / path for path, made in PAGES.items() if made != "index.md" and (ROOT / path).is_file()}
    texts = {page: (path.read_text(), path) for page, path in sources.items()}
    texts |= {page: (text, ROOT / page) for page, text in made_pages().items()}  # links are relative to the original
    for page, (text, origin) in texts.items():
        (target / page).parent.mkdir(parents=True, exist_ok=True)
        (target / page).write_text(linked(text, page, origin, target))
    return list(texts)


def linked(text: str, page: str, origin: Path, target: Path) -> str:
    """Make links relative to the site, and copy the files that they lead to."""

    def rewritten(found: re.Match[str]) -> str:
        path = Path(os.path.normpath(origin.parent / found["target"]))
        place = site_path(path)
        if path.suffix != ".md" and not place.endswith(".md"):
            if not path.is_file():
                raise BrokenLink(f"{page} links to {found['target']}, which is not a file")
            (target / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target / place)
        address = os.path.relpath(place, os.path.dirname(page))
        return f"{found['before']}{address}{found['anchor'] or ''}{found['after']}"

    parts, code = FENCE.split(text), [*FENCE.findall(text), ""]  # code is not changed
    return "".join(LINK.sub(rewritten, part) + block for part, block in zip(parts, code, strict=True))


def site_path(path: Path) -> str:
    """Where the site has a file of the repository."""
    name = path.relative_to(ROOT).as_posix()
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    if name.startswith(("examples/", "notebooks/")):
        return str(Path(name).with_suffix(".md"))
    return PAGES.get(name, f"files/{name}")


def expand(entries: Sequence[Any], pages: Sequence[str]) -> list[Any]:
    """Replace the patterns of a navigation by the pages that match and are listed nowhere else."""
    listed = set(leaves(entries))

    def replaced(entry: Any) -> Iterator[Any]:
        if isinstance(entry, dict):
            for title, below in entry.items():
                inner = below if isinstance(below, str) else [one for part in below for one in replaced(part)]
                if inner:  # otherwise no page matches
                    yield {title: inner}
        elif "*" in entry:
            found = [page for page in pages if matches(page, entry) and page not in listed]
            listed.update(found)
            yield from found
        else:
            yield entry

    expanded = [one for entry in entries for one in replaced(entry)]
    missing = set(pages) - set(leaves(expanded))
    if missing:
        raise BrokenLink(f"mkdocs.yml does not list {', '.join(sorted(missing))}")
    return expanded


def matches(page: str, pattern: str) -> bool:
    return os.path.dirname(page) == os.path.dirname(pattern) and fnmatch.fnmatch(page, pattern)


def leaves(entry: Any) -> Iterator[str]:
    """The pages and patterns of a navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for below in entry.values() if isinstance(entry, dict) else entry:
            yield from leaves(below)


def main() -> int:
    """Build the site."""
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    try:
        config["nav"] = expand(config["nav"], collect(build / "docs"))
    except BrokenLink as broken:
        sys.exit(str(broken))
    config["plugins"]["mkdocstrings"]["handlers"]["python"]["paths"] = [str(ROOT / "src")]
    (build / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False))
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", "mkdocs.yml"]
    return subprocess.run(command, cwd=build).returncode


if __name__ == "__main__":
    sys.exit(main())
