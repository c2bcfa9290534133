"""A flow in this process, without a repository: with files only if it has a folder for them."""

from contextlib import AsyncExitStack
from pathlib import Path

from headgate.core import Decision, Task, TaskResumed
from headgate.engine import ALL_CHECKS, FEATURES, KINDS
from headgate.errors import ConfigError
from headgate.features.compaction.feature import ON_REQUEST
from headgate.library.checkpoints import named_after
from headgate.library.flow import CompiledFlow
from headgate.library.lines import Head, SavedFlow
from headgate.library.log import FileLines, FlowLog, Lines
from headgate.library.request import RunRequest, open_models
from headgate.library.restoring import Source, describe_flow, log_lines
from headgate.library.surroundings import FolderTree, NoFiles, NoTree
from headgate.log import Bus, Report
from headgate.run import Clock, Job, Models, Parts, People, Pinned, Place, restore
from headgate.run import run_flow as run_job
from headgate.tools import (
    ToolContext,
    edit_file,
    find_files,
    ls,
    read_file,
    read_files,
    search,
    think,
    write_file,
)
from headgate.tree import DiskWorkspace, Workspace

_FILE_TOOLS = (ls, read_file, read_files, find_files, search, write_file, edit_file)


class ProcessWork:
    """The work of a run without a repository."""

    report: Report | None = None

    def __init__(
        self,
        compiled: CompiledFlow,
        request: RunRequest,
        bus: Bus,
        session_id: str,
        source: Source | None,
    ) -> None:
        """ConfigError if the log, the files or what it goes on from cannot be used."""
        self._compiled, self._request, self._bus = compiled, request, bus
        self._folder = _folder_of(request, source)
        text = source.head.input if source else request.input or compiled.flow.name
        self._task = Task(id=session_id, text=text, goal=text)
        where = str(self._folder) if self._folder else ""
        self._head = describe_flow(compiled, session_id, text, workspace=where)
        self._past: SavedFlow | None = source.load() if source else None
        lines, first = self._open_lines(source)
        keeps = request.saves or isinstance(lines, FileLines)
        self.history = FlowLog(
            bus, self._task, request.now, lines, self._past, first=first, keeps_contents=keeps
        )
        self.job: Job | None = None
        tree = self.history.state.tree
        self.ended_before = {stage for ended in tree.endings.values() for stage in ended}

    def head(self) -> Head:
        """What checkpoints begin with."""
        return self._head

    def _open_lines(self, source: Source | None) -> tuple[Lines, int]:
        """Where the log is, with what happened before; and where its first event is."""
        request, own = self._request, source.path if source and source.head.is_log else None
        path = named_after(request.log, self._task.id) if request.log is not None else own
        if path is None:
            lines = Lines()
            if source and request.saves:
                lines.append(source.lines())
            return lines, 0
        if source and own and (path == own or path.resolve() == own.resolve()):
            return FileLines(path, known=source.size, length=source.length), source.first
        begin, first = log_lines(self._head.of_log(), source)
        file = FileLines(path)
        file.append(begin)
        return file, first

    async def run(self) -> Decision:
        """Carries the flow out."""
        try:
            return await self._run()
        finally:
            await self.history.close()

    async def _run(self) -> Decision:
        compiled, request = self._compiled, self._request
        async with AsyncExitStack() as stack:
            models, settings = await open_models(stack, compiled.flow, request)
            workspace: Workspace = DiskWorkspace(self._folder, ()) if self._folder else NoFiles()
            given = [think, *(_FILE_TOOLS if self._folder else ())]
            self.job = job = Job(
                task=self._task,
                flow=compiled.flow,
                parts=Parts(
                    KINDS,
                    {**{tool.name: tool for tool in given}, **compiled.tools},
                    ALL_CHECKS,
                    stage_tools=compiled.stage_tools,
                    code=compiled.code,
                    features=(*FEATURES, ON_REQUEST),
                ),
                log=self.history,
                models=Models(models, settings),
                place=Place(
                    ToolContext(workspace=workspace, save_output=lambda text: "not kept"),
                    verifier=None,
                    tree=FolderTree(self._folder) if self._folder else NoTree(),
                    redact=lambda text: text,
                ),
                people=People(self._bus.pulse),
                clock=Clock(request.now, request.sleep),
                pinned=Pinned(limits=request.limits, agents_md=False, system_prompt="system_plain"),
            )
            if self._past is not None:
                await self._go_on(job, self._past)
            return await run_job(job)

    async def _go_on(self, job: Job, past: SavedFlow) -> None:
        """Takes up what an earlier run did. After this, nothing but the log has its events."""
        try:
            restore(job, past.events, past.contents)
        except ValueError:
            raise ConfigError(
                "The checkpoint does not have what was said in the flow: start the flow again."
            ) from None
        self._past = None
        job.log.record("", 0, TaskResumed())
        await job.log.commit()


def _folder_of(request: RunRequest, source: Source | None) -> Path | None:
    """The folder that the file tools work in. ConfigError if it is not the one of the checkpoint."""
    given = Path(request.workspace).resolve() if request.workspace is not None else None
    if source is None:
        if given is not None and not given.is_dir():
            raise ConfigError(f"The workspace {given} is not a folder: create it first.")
        return given
    kept = Path(source.head.workspace) if source.head.workspace else None
    if given is not None and given != kept:
        had = f"worked in the folder {kept}" if kept else "had no files"
        raise ConfigError(f"The flow of this checkpoint {had}: leave `workspace` out.")
    if kept is not None and not kept.is_dir():
        raise ConfigError(
            f"The flow of this checkpoint needs the files in {kept}, and there is no such folder:"
            " put it back, or start the flow again."
        )
    return kept
