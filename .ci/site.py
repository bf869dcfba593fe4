"""How does docs/ become a site? Pages are built from the code, and files that pages link to come along."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests import docs  # noqa: E402 -- found from here on

PAGES = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")


def on_files(files: Files, config) -> Files:
    """Add the pages that are built, those of the top level, and the examples as they are."""
    for path, text in docs.built().items():
        files.append(File.generated(config, path, content=text))
    for path in (
        *(ROOT / page for page in PAGES),
        *sorted((ROOT / "examples").iterdir()),
        ROOT / ".pre-commit-hooks.yaml",
    ):
        if path.is_file():
            name = path.relative_to(ROOT).as_posix().lstrip(".")
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page, **_) -> str:
    """Links out of docs/ lead to where those files are on the site; folders of code are named without a link."""
    markdown = docs.completed(page.file.src_uri, markdown)
    markdown = markdown.replace("](../../examples", "](../examples").replace(
        "](../examples", "](" + up(page) + "examples"
    )
    markdown = re.sub(r"\]\((?:\.\./)+(CONTRIBUTING|SECURITY|CHANGELOG)\.md", rf"]({up(page)}\1.md", markdown)
    markdown = re.sub(r"\]\((?:\.\./)+\.pre-commit-hooks\.yaml", f"]({up(page)}pre-commit-hooks.yaml", markdown)
    if page.file.src_uri in PAGES:
        markdown = markdown.replace("](docs/", "](")
    return re.sub(
        r"\[([^\]]+)\]\((?:\.\./)*(?:examples/?|checks/?|tests/[\w./]*|LICENSE|README[\w.-]*|reports/README\.md)\)",
        r"\1",
        markdown,
    )


def up(page) -> str:
    """From a page to the top of the site."""
    return "../" * page.file.src_uri.count("/")
