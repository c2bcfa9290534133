"""What is typed in the interactive mode and is no task: words that leave, commands, lines for the shell."""

import json
import os
import shutil
from pathlib import Path

import pytest
from command import environment, headgate
from loopback import listing
from processes import states
from prompt_terminal import CTRL_C, ENDED, PromptTerminal, prompt_terminal

from headgate.process import NoSandbox, find_bubblewrap

needs_sandbox = pytest.mark.skipif(
    isinstance(find_bubblewrap(os.environ.get("PATH")), NoSandbox), reason="bubblewrap does not work here"
)


def set_user_config(repo: Path, text: str) -> None:
    environment(repo)
    (repo.parent / "config" / "headgate" / "config.yaml").write_text(text)


@pytest.mark.parametrize("word", ["exit", "Quit", "q", "/exit", "/q"])
def test_words_that_leave(repo: Path, word: str) -> None:
    with prompt_terminal(repo) as terminal:
        terminal.send(word)
        assert terminal.wait_for_end() == 0
    assert not (repo / "new.txt").exists()
    assert json.loads(headgate(repo, "tasks", "--json").stdout) == []


def test_lines_that_were_meant_as_commands_start_no_task(repo: Path) -> None:
    with prompt_terminal(repo) as terminal:
        terminal.send("headgate")
        terminal.wait_for("You are in Headgate already: type what to do, or /help.")
        terminal.wait_for_prompt()
        terminal.send("headgate show t1")
        terminal.wait_for("Here, the command is /show.")
        terminal.wait(lambda: terminal.prompt == "> /show t1")
        terminal.type("\x15undo\r")
        terminal.wait_for('"undo" alone is not a task.')
        terminal.wait(lambda: terminal.prompt == "> /undo")
        terminal.type("\x15")
        terminal.send("/compact")
        terminal.wait_for("Nothing to compact")
        terminal.send("/doctor")
        terminal.wait_for("headgate doctor, in a shell, does it.")
        assert json.loads(headgate(repo, "tasks", "--json").stdout) == []
        terminal.send('headgate run "Write new.txt"')
        terminal.wait(lambda: terminal.prompt == "> Write new.txt")
        terminal.send("")
        terminal.wait_for(ENDED)
    assert "/cost" not in terminal.text
    assert states(repo) == {"t1": "SUCCESS"}


def test_clear_empties_the_window_and_ends_the_conversation(repo: Path) -> None:
    with prompt_terminal(repo) as terminal:
        terminal.send("Write new.txt")
        terminal.wait_for(ENDED)
        terminal.wait_for_prompt()
        terminal.send("/clear")
        terminal.wait(lambda: "SUCCESS" not in "\n".join(terminal.lines))
        terminal.wait_for("The next task starts a new conversation.")
        terminal.send("Once more")
        terminal.wait_for("Task t2 started", "No file was changed.", ENDED)
    assert "follow-up of" not in terminal.text


def test_a_conversation_that_was_ended_while_a_task_ran(repo: Path) -> None:
    gate = "touch started; while [ ! -e go ]; do sleep 0.02; done"
    (repo / "script.yaml").write_text(f'- calls: [{{shell: {{command: "{gate}"}}}}]\n- text: Done.\n')
    with prompt_terminal(repo) as terminal:
        terminal.send("Wait for it")
        terminal.wait((repo / "started").exists)
        terminal.send("/new")
        terminal.wait_for("The next task starts a new conversation.")
        (repo / "go").touch()
        terminal.wait_for(ENDED)
        terminal.send("Once more")
        terminal.wait_for("Task t2 started")
        terminal.wait(lambda: states(repo).get("t2") not in (None, "QUEUED", "RUNNING"))
    assert "follow-up of" not in terminal.text


def test_commands_of_the_shell_run_after_one_question_and_can_be_attached(repo: Path) -> None:
    with prompt_terminal(repo) as terminal:
        terminal.send("!echo one >> ran")
        terminal.wait_for("run without a sandbox", "Run echo one >> ran, and later ones of this session?")
        terminal.send("n")
        terminal.wait_for("It was not run.")
        assert not (repo / "ran").exists()
        terminal.send("/attach")
        terminal.wait_for("There is no output to attach")
        terminal.send("!echo one >> ran")
        terminal.wait(lambda: terminal.prompt == "?")
        terminal.send("y")
        terminal.wait_for("Exit code 0.")
        terminal.wait_for_prompt()
        terminal.send("!printf 'a\\033[2Jb\\n'; grep --color=always one ran; exit 3")
        terminal.wait_for("\nab\none\nExit code 3. /attach adds the output to the next task.")
        terminal.send("/attach")
        terminal.wait_for("The next task gets this output, 4 lines.", "4 lines attached")
        terminal.send("Explain the output")
        terminal.wait_for(ENDED)
        terminal.send("/show")
        terminal.wait_for("Attached: 4 lines.")
        terminal.wait(lambda: "lines attached" not in "\n".join(terminal.lines[-3:]))
        terminal.send("!!important is not honoured")
        terminal.wait_for("Task t2 started")
        terminal.wait(lambda: terminal.text.count(ENDED) == 2)
    assert b"\x1b[2Jb" not in terminal.raw
    assert (repo / "ran").read_text() == "one\n"
    told = headgate(repo, "show", "t2", "--json").stdout
    assert json.loads(told)["text"] == "!important is not honoured"


@needs_sandbox
def test_commands_of_the_shell_run_in_the_sandbox_of_a_task(repo: Path) -> None:
    set_user_config(repo, "approvals: never\n")
    (repo / ".env").write_text("KEY=abcdefgh\n")
    with prompt_terminal(repo) as terminal:
        terminal.send("!cat .env; touch .git/x; touch made")
        terminal.wait_for("in the sandbox of a task's commands: without network")
        terminal.send("y")
        terminal.wait_for("Exit code 0.")
    assert "abcdefgh" not in terminal.text
    assert (repo / "made").exists()
    assert not (repo / ".git" / "x").exists()


def test_ctrl_c_stops_a_command_of_the_shell(repo: Path) -> None:
    with prompt_terminal(repo) as terminal:
        terminal.send("!touch started; sleep 600")
        terminal.wait(lambda: terminal.prompt == "?")
        terminal.send("y")
        terminal.wait((repo / "started").exists)
        terminal.send("!echo two")
        terminal.wait_for("A task is running")
        terminal.type(CTRL_C)
        terminal.wait_for("Cancelled.")
        terminal.wait_for_prompt()


def test_enter_runs_a_command_that_was_completed(repo: Path) -> None:
    with prompt_terminal(repo) as terminal:
        terminal.type("/co")
        terminal.wait_for("/cost  ")
        terminal.type("\x1b[B")
        terminal.wait(lambda: terminal.prompt == "> /cost")
        terminal.send("")
        terminal.wait_for("Nothing was spent yet.")
        terminal.type("/as")
        terminal.wait_for("/ask  ")
        terminal.type("\x1b[B")
        terminal.wait(lambda: terminal.prompt == "> /ask")
        terminal.send("")
        terminal.wait_for("/ask needs a question about the code")
        terminal.wait(lambda: terminal.prompt == "> /ask")
        terminal.type("\x15Look at @scr")
        terminal.wait_for("@script.yaml")
        terminal.type("\x1b[B")
        terminal.wait(lambda: terminal.prompt == "> Look at @script.yaml")
        terminal.send("")
        terminal.type(" now")
        terminal.wait(lambda: terminal.prompt == "> Look at @script.yaml now")


def test_the_models_of_the_server_can_be_chosen(repo: Path) -> None:
    names = [{"id": "small-4b"}, {"id": "large-30b"}]
    with listing({"/v1/models": {"object": "list", "data": names}}) as address:
        (repo / "agent.yaml").write_text(
            f"model: openai/small-4b\nbase_url: {address}/v1\ntask_flow_mode: flat\n"
            "models: {other: {model: openai/x, base_url: 'http://127.0.0.1:9/v1'}}\n"
        )
        with prompt_terminal(repo) as terminal:
            terminal.wait_for("openai/small-4b   flow flat   branch ")
            terminal.send("/model")
            terminal.wait_for(
                "The model is openai/small-4b.",
                "*  1  default  (openai/small-4b)",
                "   2  other  (openai/x)",
                f"The server at {address}/v1 has:",
                "*  3  openai/small-4b",
                "   4  openai/large-30b",
            )
            terminal.send("/model 4")
            terminal.wait_for(f"The next tasks use openai/large-30b at {address}/v1.")
            terminal.wait_for("openai/large-30b   flow flat")
            terminal.send("/model small-4b")
            terminal.wait_for(f"The next tasks use openai/small-4b at {address}/v1.")
            terminal.send("/model 2")
            terminal.wait_for("The next tasks use openai/x at http://127.0.0.1:9/v1.", "other   flow flat")
            terminal.send("/model")
            terminal.wait_for("The server at http://127.0.0.1:9/v1 did not list its models.")


def test_show_has_the_calls(repo: Path) -> None:
    with prompt_terminal(repo) as terminal:
        terminal.send("Write new.txt")
        terminal.wait_for(ENDED)
        terminal.send("/show")
        terminal.wait_for("write_file new.txt")
        terminal.wait_for_prompt()


def test_what_is_typed_while_it_starts_is_shown_once(repo: Path) -> None:
    """git, which is asked where the repository is, waits until something was typed."""
    real = shutil.which("git")
    folder = repo.parent / "bin"
    folder.mkdir()
    gate = f"touch {repo.parent}/asked; while [ ! -e {repo.parent}/typed ]; do sleep 0.02; done"
    (folder / "git").write_text(f'#!/bin/sh\n{gate}\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    terminal = PromptTerminal(repo, PATH=f"{folder}{os.pathsep}{os.environ['PATH']}")
    try:
        terminal.wait((repo.parent / "asked").exists)
        terminal.type("/tasks\rhalf a line")
        (repo.parent / "typed").touch()
        terminal.wait_for("This repository has no tasks yet")
        terminal.wait(lambda: terminal.prompt == "> half a line")
        assert (terminal.text.count("/tasks"), terminal.text.count("half a line")) == (1, 1)
    finally:
        terminal.close()
