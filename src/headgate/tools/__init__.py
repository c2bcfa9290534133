"""What a model may call. Tools plan changes; the runtime carries them out."""

from headgate.tools.base import Args, Outcome, Tool, ToolContext, Watch, cap, describe_invalid, tool
from headgate.tools.commands import run_tests, shell, shell_in
from headgate.tools.control import (
    STATUS_TOOL,
    Sentences,
    plan_tasks,
    render_plan,
    stage_done_tool,
    status_tool,
    task_status,
    think,
    with_choices,
)
from headgate.tools.editing import edit_file, require_text
from headgate.tools.files import (
    count_lines,
    describe_odd,
    excerpt,
    excerpt_size,
    find_files,
    lines_of,
    listing,
    ls,
    read_file,
    read_files,
    share_room,
    write_file,
)
from headgate.tools.patching import apply_patch
from headgate.tools.ports import NOT_IN_A_STAGE
from headgate.tools.schemas import parameters_of, slim_schema
from headgate.tools.searching import search
