"""Tasks that come after an ended one: another try at it, or a follow-up. What holds for it holds for them."""

from headgate.core import SETTLED_STATES, Constraints, Options, TaskState, parse_task_text
from headgate.errors import ConfigError
from headgate.first_use import dataclass
from headgate.log import Store

RETRIED_STATES: frozenset[TaskState] = frozenset({"STUCK", "INFRA_ERROR", "CANCELLED"})


@dataclass(frozen=True, slots=True)
class Successor:
    """What a task that comes after another one is submitted with."""

    text: str
    constraints: Constraints
    options: Options
    added: str = ""
    notice: str = ""
    """What the person who submits it should know."""


def retry_of(
    store: Store, task_id: str, constraints: Constraints, options: Options, further: str
) -> Successor:
    """Another try at a task. What is given now is added, and an option that is given now replaces its own."""
    row = store.task(task_id)
    if row is None or row.state not in RETRIED_STATES:
        raise ConfigError(f"Task {task_id} is {row.state if row else 'gone'}: there is nothing to retry.")
    task, given = row.task, options.model_dump(exclude_defaults=True)
    both = task.options.model_copy(update={**given, "resumes": task.id})
    words = parse_task_text(further)
    added = "\n".join(filter(None, (task.added, words.request)))
    return Successor(task.text, task.constraints + words.constraints + constraints, both, added)


def follow_up(store: Store, text: str, constraints: Constraints, options: Options) -> Successor:
    """A task that follows the one that its options name. The constraints of that one are carried over."""
    row = store.task(options.follows)
    if row is None:
        raise ConfigError(f'There is no task "{options.follows}" to follow.')
    name = row.task.id
    if row.state not in SETTLED_STATES:
        raise ConfigError(
            f"Task {name} has not ended ({row.state}): say it to that task, or wait for its end to follow it."
        )
    earlier, options = row.task.constraints, options.model_copy(update={"follows": name})
    kept = "; ".join(" ".join(part.split()) for part in earlier.render().split("\n\n") if part)
    notice = f"The constraints of task {name} hold for this one, too: {kept}." if kept else ""
    return Successor(text, earlier + constraints, options, notice=notice)
