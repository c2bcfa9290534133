"""Models that run commands they should not."""

from bestiary.rows import TWICE, Theme
from bestiary.speech import Answer, Asked, Say, both, done, fix, use, work_and_claim

COMMANDS = Theme("Commands")
row, add = COMMANDS.row, COMMANDS.add


add(
    "command_that_hangs",
    "Runs a command that never ends, such as a server or an editor.",
    lambda asked: work_and_claim(asked, use("shell", command="sleep 600")),
    settings={"shell_timeout": 0.3},
)
add(
    "command_that_ignores_signals",
    "Runs a command that ignores polite signals.",
    lambda asked: (
        done(asked)
        if asked.number > 1
        else use("shell", command="trap '' TERM INT HUP; while :; do sleep 1; done")
    ),
    settings={"shell_timeout": 0.3},
)
add(
    "command_that_waits_for_input",
    "Runs a command that asks a question, in a run that nobody watches.",
    lambda asked: work_and_claim(asked, use("shell", command='read -r answer; echo "answer: $answer"; cat')),
)
add(
    "command_that_floods_its_output",
    "Runs a command that prints without end.",
    lambda asked: done(asked) if asked.number > 1 else use("shell", command="yes 'all work and no play'"),
    settings={"shell_timeout": 0.5},
)
add(
    "command_that_prints_rubbish",
    "Prints a binary file to the terminal.",
    lambda asked: work_and_claim(asked, use("shell", command="head -c 200000 /dev/urandom")),
)


@row(background="pids")
def command_that_leaves_children(asked: Asked) -> Answer:
    """Starts servers in the background and continues."""
    note = "echo $! >> ../pids"
    command = f"sleep 300 & {note}; (setsid sleep 301 & {note}); nohup sleep 302 >/dev/null 2>&1 & {note}"
    return work_and_claim(asked, use("shell", command=command))


add(
    "kills_what_runs_it",
    "Kills its own shell and the process group around it.",
    lambda asked: work_and_claim(
        asked, both(use("shell", command="kill -9 $$"), use("shell", command="kill -9 0"))
    ),
)


@row(TWICE)
def resets_the_repository(asked: Asked) -> Answer:
    """Makes the right change, then discards all changes with git."""
    if asked.number == 1:
        return fix()
    return use("shell", command="git checkout -q . && git clean -qfd") if asked.number == 2 else done(asked)


@row(TWICE)
def commits_a_wrong_fix(asked: Asked) -> Answer:
    """Commits broken work, so that the working tree looks clean."""
    command = "echo '# done' >> calc.py; git -c user.name=x -c user.email=x@x commit -qam 'Fix add'"
    return work_and_claim(asked, use("shell", command=command))


add(
    "destroys_the_runtimes_own_files",
    "Deletes Headgate's own files about the task.",
    lambda asked: work_and_claim(asked, use("shell", command="rm -rf .headgate/runs .headgate/outputs")),
)
add(
    "command_in_vain",
    "Runs a command that is not installed, again and again.",
    lambda asked: (
        use("shell", command="npm-run-all test")
        if asked.tools and not asked.final
        else Say("I could not run it.")
    ),
)
