"""The keys of skills, worktrees and research in `agent.yaml`."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from headgate.core import Settings


def _inside(folder: str) -> str:
    if folder.startswith(("/", "~")) or not folder.strip("/.") or ".." in folder.split("/"):
        raise ValueError("must be a folder in the repository: a relative path without `..`")
    return folder.strip("/").removeprefix("./")


RepositoryFolder = Annotated[str, AfterValidator(_inside)]


class SkillSettings(Settings):
    """Where the skills of a repository are: folders with a SKILL.md each."""

    folder: RepositoryFolder = "skills"
    """Where `make_skill` writes; in a monorepo, in the package."""
    folders: tuple[RepositoryFolder, ...] = (".agents/skills", ".claude/skills")
    """Where else `load_skill` finds skills."""

    def places(self, package: str | None) -> tuple[str, ...]:
        """Every folder, the one for new skills first. In a monorepo, the package's come first."""
        names = (self.folder, *self.folders)
        inside = [f"{package}/{name}" for name in names] if package else []
        return tuple(dict.fromkeys([*inside, *names]))


class WorktreeSettings(Settings):
    """What tasks find in a worktree of their own, besides what is committed."""

    link: tuple[RepositoryFolder, ...] = (".venv", "venv", "node_modules", "vendor/bundle")
    """Folders of the repository that git ignores, linked from your own tree. Commands in a sandbox can only
    read them."""


class ResearchSettings(Settings):
    """How `research` searches the web and reads pages. A repository's file may only take away."""

    backend: Literal["off", "searxng", "ddgs"] = "off"
    """What searches: a SearXNG server, the package `ddgs` (`pip install '.[research]'`),
    or nothing."""
    url: str | None = None
    """The address of the SearXNG server, such as `http://localhost:8080`. It may be a private one."""
    results: int = Field(5, ge=1, le=20)
    """How many results of a search count."""
    pages: int = Field(3, ge=0, le=10)
    """How many of these are read; of the others, the search engine's excerpt is shown."""
    page_chars: int = Field(4_000, ge=200, le=100_000)
    """The most text of one page that the model gets, in characters."""
    page_kb: int = Field(2_048, ge=1, le=16_384)
    """Kilobytes of a page that are read, after unpacking; the rest is left out."""
    timeout: float = Field(20, gt=0, le=300, allow_inf_nan=False)
    """Seconds for a search, and for each page with all its redirects."""
    allow_private: bool = False
    """Read pages on this machine and in private networks as well."""
