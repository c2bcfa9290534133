"""The interactive mode on a pseudo-terminal: tasks, follow-ups, steering, Ctrl-C, questions, quitting."""

import json
import signal
import stat
import subprocess
from pathlib import Path

import pytest
from command import environment, headgate, on_terminal
from processes import is_idle, states
from prompt_terminal import ALT_ENTER, CONTINUES, CTRL_C, CTRL_D, ENDED, PromptTerminal, prompt_terminal

GATED = """
- calls: [{shell: {command: "touch started; while [ ! -e go ]; do sleep 0.02; done"}}]
- calls: [{write_file: {path: new.txt, content: "hello\\n"}}]
- text: Wrote new.txt.
"""
"""A task that begins (`started`), goes on when the file `go` is there, and then writes."""


def test_a_task_and_a_follow_up(repo: Path) -> None:
    with prompt_terminal(repo) as terminal:
        terminal.send("Write new.txt")
        terminal.wait_for("> Write new.txt", "Task t1 started", "Changed: new.txt.", ENDED)
        terminal.send("/diff")
        terminal.wait_for("+hello")
        terminal.send("Now do it again")
        terminal.wait_for("Task t2 started", "follow-up of t1", "No file was changed.")
        terminal.wait(lambda: terminal.text.count(ENDED) == 2)
        terminal.send("/new")
        terminal.wait_for("starts a new conversation")
        terminal.send("Once more")
        terminal.wait(lambda: terminal.text.count(ENDED) == 3)
        terminal.send("/cost")
        terminal.wait_for("This session, 3 tasks: ", "The last task, t3:", "Used: ")
        terminal.send("/tasks")
        terminal.wait_for("t1  SUCCESS  now  Write new.txt")
        terminal.type(CTRL_D)
        assert terminal.wait_for_end() == 0
    assert terminal.text.count("; follow-up of") == 1


def test_undo_takes_back_a_task_and_keeps_what_overlaps(repo: Path) -> None:
    with prompt_terminal(repo) as terminal:
        terminal.send("/undo")
        terminal.wait_for("This repository has no tasks yet")
        terminal.send("Write new.txt")
        terminal.wait_for("Changed: new.txt.", "/undo undoes them.", ENDED)
        (repo / "new.txt").write_text("mine\n")
        terminal.send("/undo")
        terminal.wait_for("Nothing was changed: the changes of task t1 no longer fit")
        assert (repo / "new.txt").read_text() == "mine\n"
        (repo / "new.txt").write_text("hello\n")
        terminal.send("/undo t1")
        terminal.wait_for("Task t1 was undone: new.txt.")
        terminal.wait_for_prompt()
        terminal.send("/undo")
        terminal.wait_for("nothing to undo")
    assert not (repo / "new.txt").exists()


def test_a_line_steers_the_task_that_runs(repo: Path) -> None:
    (repo / "script.yaml").write_text(GATED)
    with prompt_terminal(repo) as terminal:
        terminal.send("Write new.txt")
        terminal.wait((repo / "started").exists)
        terminal.send("Please use tabs, and ünïcödé 日本")
        terminal.wait_for("Task t1 reads it before its next turn.")
        (repo / "go").touch()
        terminal.wait_for("You: Please use tabs, and ünïcödé 日本", ENDED)
    assert states(repo) == {"t1": "SUCCESS"}


def test_ctrl_c_cancels_the_task_and_not_the_program(repo: Path) -> None:
    (repo / "script.yaml").write_text(GATED)
    with prompt_terminal(repo) as terminal:
        terminal.send("Write new.txt")
        terminal.wait((repo / "started").exists)
        terminal.type("half a line")
        terminal.wait(lambda: terminal.prompt == "> half a line")
        terminal.type(CTRL_C)
        terminal.wait_for("Cancelling task t1", CONTINUES)
        terminal.wait(lambda: terminal.prompt == "> half a line")
        terminal.type(CTRL_C)
        terminal.wait_for_prompt()
        terminal.type(CTRL_C)
        terminal.wait_for("Ctrl-D or /quit quits.")
        (repo / "go").touch()
        terminal.send("Again")
        terminal.wait_for("Task t2 started", ENDED)
    assert states(repo) == {"t1": "CANCELLED", "t2": "SUCCESS"}


def test_a_second_ctrl_c_kills_a_command_that_does_not_want_to_end(repo: Path) -> None:
    stubborn = "trap '' TERM INT; touch started; while :; do sleep 0.05; done"
    (repo / "script.yaml").write_text(f"- calls: [{{shell: {{command: {json.dumps(stubborn)}}}}}]\n")
    with prompt_terminal(repo) as terminal:
        terminal.send("Hang")
        terminal.wait((repo / "started").exists)
        terminal.type(CTRL_C)
        terminal.wait_for("Cancelling task t1")
        terminal.type(CTRL_C)
        terminal.wait_for(CONTINUES)
        terminal.send("/help")
        terminal.wait_for("/quit")
    assert states(repo) == {"t1": "CANCELLED"}


def test_the_signal_does_what_the_key_does(repo: Path) -> None:
    (repo / "script.yaml").write_text(GATED)
    with prompt_terminal(repo) as terminal:
        terminal.send("Write new.txt")
        terminal.wait((repo / "started").exists)
        terminal.signal(signal.SIGINT)
        terminal.wait_for("Cancelling task t1", CONTINUES)
        terminal.signal(signal.SIGTERM)
        assert terminal.wait_for_end() == 0


def test_a_task_can_be_left_to_a_worker(repo: Path) -> None:
    (repo / "script.yaml").write_text(GATED)
    with prompt_terminal(repo) as terminal:
        terminal.send("Write new.txt")
        terminal.wait((repo / "started").exists)
        terminal.type(CTRL_D)
        terminal.wait_for("Task t1 is running. [c] cancel it")
        terminal.send("")
        terminal.wait_for_prompt()
        terminal.send("/quit")
        terminal.wait(lambda: terminal.text.count("Task t1 is running. [c] cancel it") == 2)
        terminal.send("b")
        terminal.wait_for("headgate watch t1 follows it")
        assert terminal.wait_for_end() == 0
    watched = headgate(repo, "watch", "t1")
    assert (watched.returncode, states(repo)) == (0, {"t1": "SUCCESS"})
    assert "resumed where it was interrupted" in watched.stdout


def test_quitting_can_cancel_the_task(repo: Path) -> None:
    (repo / "script.yaml").write_text(GATED)
    with prompt_terminal(repo) as terminal:
        terminal.send("Write new.txt")
        terminal.wait((repo / "started").exists)
        terminal.type(CTRL_D)
        terminal.wait_for("Task t1 is running.")
        terminal.send("c")
        assert terminal.wait_for_end() == 0
    assert (states(repo), is_idle(repo)) == ({"t1": "CANCELLED"}, True)


@pytest.mark.parametrize("told", [True, False])
def test_a_closed_terminal_is_no_cancellation(repo: Path, told: bool) -> None:
    (repo / "script.yaml").write_text(GATED)
    with prompt_terminal(repo) as terminal:
        terminal.send("Write new.txt")
        terminal.wait((repo / "started").exists)
        if told:
            terminal.signal(signal.SIGHUP)
        terminal.hang_up()
        (repo / "go").touch()
        assert terminal.wait_for_end() == 0
    assert states(repo) == {"t1": "SUCCESS"}


def test_a_graceful_stop(repo: Path) -> None:
    gated = GATED.splitlines(keepends=True)[1]
    (repo / "script.yaml").write_text(f"{gated}- calls: [{{stage_done: {{summary: I stopped here.}}}}]\n")
    with prompt_terminal(repo) as terminal:
        terminal.send("Write new.txt")
        terminal.wait((repo / "started").exists)
        terminal.send("/stop")
        terminal.wait_for("was asked to conclude")
        (repo / "go").touch()
        terminal.wait_for("Asked to conclude")
        terminal.wait(lambda: states(repo)["t1"] != "RUNNING")
    assert states(repo) == {"t1": "SUCCESS"}


def test_a_long_paste_is_one_task(repo: Path) -> None:
    text = "\n".join(f"Error {number} in röw {number}" for number in range(1, 201))
    with prompt_terminal(repo) as terminal:
        terminal.type("Fix this: ")
        terminal.paste(f"{text}\n")
        terminal.wait(lambda: terminal.prompt == "> Fix this: [pasted 200 lines]")
        terminal.send("")
        terminal.wait_for(ENDED)
    assert "Error 17 in" not in terminal.text
    (shown,) = [json.loads(headgate(repo, "show", "t1", "--json").stdout)]
    assert shown["text"] == f"Fix this:\n{text}"


def test_a_pasted_log_is_attached(repo: Path) -> None:
    """Its headings bind nothing, and it may be longer than a task's text."""
    log = "Boundaries: **\n@crt.py\n" + "src/main.c:3:5: error: expected ';'\n" * 5_000
    with prompt_terminal(repo) as terminal:
        terminal.type("Fix ")
        terminal.paste(log)
        terminal.wait(lambda: terminal.prompt == "> Fix [pasted 5002 lines]")
        terminal.send("")
        terminal.wait_for("[pasted 5002 lines] is the output of a program and is attached.", ENDED)
        terminal.send("/show")
        terminal.wait_for("t1  SUCCESS  Fix [pasted 5002 lines]", "Attached: 5,002 lines.")
        terminal.wait_for_prompt()
        terminal.type("\x1b[A\x1b[A")
        terminal.wait(lambda: terminal.prompt == "> Fix [pasted 5002 lines]")
    assert "is not attached" not in terminal.text
    assert (repo / "new.txt").exists()


def test_lines_that_go_on(repo: Path) -> None:
    with prompt_terminal(repo) as terminal:
        terminal.send("Say\\")
        terminal.send("```")
        terminal.send("code")
        terminal.type("```")
        terminal.type(ALT_ENTER)
        terminal.send("//done")
        terminal.wait_for(ENDED)
    assert json.loads(headgate(repo, "show", "t1", "--json").stdout)["text"] == "Say\n```\ncode\n```\n//done"


def test_a_narrow_window_and_a_resize(repo: Path) -> None:
    (repo / "script.yaml").write_text(GATED)
    with prompt_terminal(repo) as terminal:
        terminal.send("Write new.txt, and take care that nothing else is changed")
        terminal.wait((repo / "started").exists)
        terminal.wait(lambda: any("WORK turn" in line for line in terminal.lines))
        terminal.resize(40, 20)
        terminal.signal(signal.SIGWINCH)
        terminal.type("abc")
        terminal.wait(
            lambda: terminal.prompt == "> abc" and sum("WORK turn" in x for x in terminal.lines) == 1
        )
        terminal.type("\x15")
        (repo / "go").touch()
        terminal.wait_for(ENDED)
        terminal.send("/help")
        terminal.wait_for("/quit")
        terminal.wait_for_prompt()
        assert max(map(len, terminal.lines)) <= 40


def test_a_question_is_asked_in_the_prompt(repo: Path) -> None:
    environment(repo)
    user = repo.parent / "config" / "headgate" / "config.yaml"
    user.write_text("sandbox: off\napprovals: commands\n")
    (repo / "script.yaml").write_text(
        "- calls: [{shell: {command: 'echo one >> ran'}}]\n"
        "- calls: [{shell: {command: 'echo two >> ran'}}]\n"
        "- calls: [{shell: {command: 'echo three >> ran'}}]\n"
        "- text: Done.\n"
    )
    with prompt_terminal(repo) as terminal:
        terminal.send("Run them")
        terminal.wait_for("The model wants to run:", "echo one >> ran", "Allow it?")
        terminal.type("perhaps")
        terminal.wait(lambda: terminal.prompt == "? perhaps")
        terminal.send("")
        terminal.wait(lambda: terminal.prompt == "?")
        assert not (repo / "ran").exists()
        terminal.send("n")
        terminal.wait_for("echo two >> ran")
        terminal.wait(lambda: terminal.prompt == "?")
        terminal.send("t")
        terminal.wait_for(ENDED)
    assert (repo / "ran").read_text() == "two\nthree\n"


def test_cancelling_while_a_question_waits(repo: Path) -> None:
    environment(repo)
    user = repo.parent / "config" / "headgate" / "config.yaml"
    user.write_text("sandbox: off\napprovals: commands\n")
    (repo / "script.yaml").write_text("- calls: [{shell: {command: 'touch ran'}}]\n- text: Done.\n")
    with prompt_terminal(repo) as terminal:
        terminal.send("Run it")
        terminal.wait_for("Allow it?")
        terminal.type(CTRL_C)
        terminal.wait_for(CONTINUES)
        terminal.wait_for_prompt()
    assert not (repo / "ran").exists()


def test_commands_of_the_repository_are_shown_first(repo: Path) -> None:
    folder = repo / ".headgate" / "commands"
    folder.mkdir(parents=True)
    (folder / "greet.md").write_text("---\ndescription: Greet someone.\n---\nGreet $1 from $ARGUMENTS.\n")
    (folder / "show.md").write_text("Not this.\n")
    with prompt_terminal(repo) as terminal:
        terminal.wait_for(".headgate/commands/show.md is left out: /show is built in.")
        terminal.send("/greet Ada Byron")
        terminal.wait_for(
            ".headgate/commands/greet.md says:", "  Greet Ada from Ada Byron.", "Send this text"
        )
        terminal.send("n")
        terminal.wait_for("It was not sent.")
        terminal.send("/greet Ada")
        terminal.wait(lambda: terminal.prompt == "?")
        terminal.send("y")
        terminal.wait_for("Task t1 started", ENDED)
        terminal.send("/greet Bob")
        terminal.wait_for("Task t2 started")
        terminal.wait(lambda: terminal.text.count(ENDED) == 2)
    assert terminal.text.count("greet.md says:") == 2
    assert json.loads(headgate(repo, "show", "t2", "--json").stdout)["text"] == "Greet Bob from Bob."


def test_a_proposal_is_applied(repo: Path) -> None:
    (repo / "script.yaml").write_text(
        "- calls: [{write_file: {path: new.txt, content: 'hello'}}]\n- text: Wrote it.\n"
    )
    with prompt_terminal(repo) as terminal:
        terminal.send("/propose Write new.txt")
        terminal.wait_for("A proposal: nothing was written or verified.", "/apply writes and verifies it")
        assert not (repo / "new.txt").exists()
        terminal.send("/apply")
        terminal.wait_for(ENDED)
        assert (repo / "new.txt").read_text() == "hello"


def test_what_is_wrong_is_one_line_and_the_prompt_stays(repo: Path) -> None:
    with prompt_terminal(repo) as terminal:
        terminal.send("/shwo")
        terminal.wait_for("There is no command /shwo: did you mean /show?")
        terminal.send("/model frobnicate")
        terminal.wait_for("frobnicate")
        terminal.send("/flow nowhere")
        terminal.wait_for("nowhere")
        terminal.send("/verify")
        terminal.wait_for("No verification steps are configured")
        terminal.send("/show t99")
        terminal.wait_for("This repository has no tasks yet")
        (repo / "agent.yaml").write_text("modle: x\n")
        terminal.send("Do it")
        terminal.wait_for('did you mean "model"?')
        terminal.wait_for_prompt()
    assert "Traceback" not in terminal.text


def test_a_model_can_not_steer_the_terminal(repo: Path) -> None:
    evil = "\\e[2J\\e]0;evil\\a\\x9b31m done"
    (repo / "script.yaml").write_text(f'- calls: [{{shell: {{command: "true \\e[2J"}}}}]\n- text: "{evil}"\n')
    with prompt_terminal(repo) as terminal:
        terminal.send("/ask What is it?")
        terminal.wait(lambda: states(repo).get("t1") not in (None, "RUNNING", "QUEUED"))
        terminal.send("/show")
        terminal.wait_for("t1  ")
        terminal.wait_for_prompt()
    assert b"\x1b]0;evil" not in terminal.raw
    assert b"\x1b[2J" not in terminal.raw


def test_lines_are_remembered_but_for_secrets(repo: Path) -> None:
    with prompt_terminal(repo) as terminal:
        terminal.send("/tasks of mine")
        terminal.send("/tasks with api_key=abcdefgh")
        terminal.wait_for_prompt()
        terminal.type(CTRL_D)
        assert terminal.wait_for_end() == 0
    (kept,) = (repo.parent / "state" / "headgate" / "history").iterdir()
    assert kept.read_text().splitlines() == ['"/tasks of mine"']
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    with prompt_terminal(repo) as terminal:
        terminal.type("\x1b[A")
        terminal.wait(lambda: terminal.prompt == "> /tasks of mine")
        terminal.type("\x15\x12mine")
        terminal.wait(lambda: "> /tasks of mine" in terminal.lines)  # while it is being searched for


def test_completion(repo: Path) -> None:
    (repo / "src").mkdir()
    (repo / "src" / "parser.py").write_text("")
    (repo / "src" / "ignored.py").write_text("")
    (repo / "two words.py").write_text("")
    (repo / ".gitignore").write_text("ignored.py\n")
    (repo / ".env").write_text("KEY=abcdefgh\n")
    with prompt_terminal(repo) as terminal:
        terminal.type("/di")
        terminal.wait_for("/diff")
        terminal.type("\t")
        terminal.wait(lambda: terminal.prompt == "> /diff")
        terminal.type("\x15Look at @pars")
        terminal.wait_for("@src/parser.py")
        terminal.type("\t")
        terminal.wait(lambda: terminal.prompt == "> Look at @src/parser.py")
        terminal.type("\x15@wor\t")  # faster than the menu
        terminal.wait(lambda: terminal.prompt == '> @"two words.py"')
        terminal.type("\x15@")
        terminal.wait_for("@script.yaml")
        assert "@.env" not in terminal.text
        assert "ignored.py" not in terminal.text


def test_the_first_start_offers_a_configuration(repo: Path) -> None:
    (repo / "agent.yaml").unlink()
    (repo / "Makefile").write_text("test:\n\tpytest\n")
    (repo / "pyproject.toml").write_text("[project]\nname = 'x'\n[tool.pytest.ini_options]\n")
    terminal = PromptTerminal(repo)
    try:
        terminal.wait_for("This repository has no agent.yaml yet.", "Found Python", "Write agent.yaml")
        terminal.send("y")
        terminal.wait_for("Wrote agent.yaml", "Type a task, or /help.")
        terminal.wait_for("No model is configured")
        terminal.wait_for_prompt()
        assert (repo / "agent.yaml").exists()
    finally:
        terminal.close()


def test_a_server_that_is_down_is_one_sentence(repo: Path) -> None:
    (repo / "agent.yaml").write_text("model: openai/x\nbase_url: http://127.0.0.1:9/v1\n")
    with prompt_terminal(repo) as terminal:
        terminal.wait_for("No model server answers at http://127.0.0.1:9")
        terminal.wait_for_prompt()


@pytest.mark.parametrize("option", [["--repo", "."], ["--model", "x"]])
def test_options_of_a_command_stand_behind_it(repo: Path, option: list[str]) -> None:
    done = headgate(repo, *option, "tasks")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Put {option[0]} after the command: headgate tasks {option[0]} ..." in done.stderr


def test_without_a_terminal_there_is_help(repo: Path) -> None:
    done = headgate(repo)
    assert (done.returncode, done.stderr.startswith("Usage: headgate ")) == (2, True)
    assert "needs a terminal" in headgate(repo, "--model", "x").stderr
    code, shown = on_terminal(repo, typed="", TERM="dumb")
    assert (code, shown.startswith("Usage: headgate ")) == (2, True)


def test_elsewhere_it_is_one_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    code, shown = on_terminal(folder, typed="", TERM="xterm")
    assert (code, "is not in a git repository" in " ".join(shown.split())) == (2, True)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
