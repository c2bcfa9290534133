"""What is wrong in a flow file: each mistake in one sentence, with its line and what was probably meant."""

from pathlib import Path

import pytest

from headgate.config import load_flow
from headgate.engine import FLOW_NAMES
from headgate.errors import ConfigError

MISTAKES = """
description: nothing
>> line 1: "stages" is missing
stages: []
>> line 1: "stages" must not be empty
stages: all
>> line 1: "stages" must be a list
- 5
>> line 2: "stages[0]" must be a mapping
stages: [a]
checks: [verfy]
>> line 2: unknown key "verfy": did you mean "verify"?
stages: [a]
checks: {verify: 3}
>> line 2: "checks.verify" must be true or false.
stages: [a]
replan:
  id: r
  checks: [plan_writtn]
>> line 4: unknown key "plan_writtn": did you mean "plan_written"?
- id: a
fix: b
>> line 3: unknown stage "b"
- {id: a, stages: [{id: b}]}
fix: a
>> line 3: "a" is a group: `fix` must name a stage with a prompt
- id: a
  budget:
    turn: 3
>> line 4: unknown key "turn": did you mean "turns"?
- id: a
  budget: {turns: 0}
>> line 3: "stages[0].budget.turns" must be greater
- id: a
  require_fles_read: 1
>> line 3: unknown key "require_fles_read": did you mean "require_files_read"?
- id: a
  stage_retries: -1
>> line 3: "stages[0].stage_retries" must be greater
- id: a
  tools: {block: [read]}
  tools_allow: 5
>> line 4: "stages[0].tools_allow" must be a list
- id: a
  tools_allow:
  - read
  - edit_fil
>> line 5: unknown tool or category "edit_fil": did you mean "edit_file"?
- id: a
  tools:
    allow: [read]
    block: [edit_fil]
>> line 5: unknown tool or category "edit_fil": did you mean "edit_file"?
- id: a
- id: a
>> line 3: there are two stages with the id "a"
- {id: g, stages: [{id: a}, {id: a}]}
>> line 2: there are two stages with the id "a".
- {id: plan}
- {id: step, foreach: plan}
- {id: step-two}
>> line 4: "step-two" could be the id of a plan step
- {id: a, kind: planner}
- {id: b, kind: planner}
>> line 1: a flow has one planner: "a" and "b" would share what they execute
- id: a
  tools: {allow: [read, execute]}
>> line 3: execute needs a stage of the kind planner
- {id: a, foreach: recipe}
>> line 2: foreach: recipe belongs in a stage of the kind planner
- id: implement
- id: b
  needs:
  - implment
>> line 5: unknown stage "implment": did you mean "implement"?
- {id: g, stages: [{id: a, needs: [b]}]}
>> line 2: unknown stage "b": known are a.
- id: a
  needs: [b]
- id: b
  needs: [a]
>> line 3: `needs` has a cycle: a -> b -> a
- {id: a, needs: [a]}
>> line 2: `needs` has a cycle: a -> a
- {id: a, view: {transcript: wrok}}
- {id: work}
>> line 2: unknown stage "wrok": did you mean "work"?
- {id: plan}
- id: b
  foreach: plan
  prompt: Do {item.descr} {x}.
>> line 5: unknown placeholder "{item.descr}": did you mean "{item.description}"?
- id: a
  foreach: plan
>> line 3: nothing writes the plan: put a stage before this one
- id: a
  tools: {allow: [read]}
  checks: [plan_written]
>> line 4: plan_written needs the tool plan_tasks, which the stage does not have
- id: a
  tools: {block: [read]}
  checks: {files_read: 2}
>> line 4: files_read needs a tool that reads, and the stage has none
- id: a
  checks: {files_read: -1}
>> line 3: "stages[0].checks.files_read" must be greater than or equal to 0.
- id: a
  checks: [code_changed]
  require_files_read: many
>> line 4: "stages[0].require_files_read" must be a whole number.
- id: g
  stages:
  - id: a
    checks: {filesread: false}
>> line 5: unknown key "filesread": did you mean "files_read"?
- {id: a, checks: [verify]}
>> line 2: verify belongs in the flow's own checks, not in a stage's

- {id: a, kind: tlak}
>> line 2: unknown kind "tlak": did you mean "talk"?
- {id: a, kind: verify, verify: {strit: true}}
>> line 2: unknown key "strit": did you mean "strict"?
- {id: a, kind: verify, verify: {strict: 3}}
>> line 2: "stages[0].verify.strict" must be true or false.
- {id: a, verify: {strict: true}}
>> line 2: unknown key "verify"
- {id: a, kind: verify, prompt: Go.}
>> line 2: prompt has no effect in a stage of the kind verify: leave it out.
- {id: a, kind: review, review: {checks: [diff_scop]}}
>> line 2: unknown check of the diff "diff_scop": did you mean "diff_scope"?
- {id: a, kind: review, review: {checks: [code_changed]}}
>> line 2: unknown check of the diff "code_changed": known are diff_scope
- {id: a, kind: review, review: {checks: []}}
>> line 2: "stages[0].review.checks" must not be empty.
- {id: a, kind: driven}
>> line 2: driven stages belong in a stage of the kind drive
- {id: a, kind: drive}
>> line 2: a group needs at least one stage
- {id: a, kind: drive, max_parallel: 2, stages: [{id: b}]}
>> line 2: max_parallel has no effect in a stage of the kind drive
- {id: plan}
- {id: a, kind: drive, stages: [{id: b, foreach: plan}]}
>> line 3: foreach has no effect in "a", whose model starts the stages
- {id: a, join: any}
>> line 2: join needs `stages`: only a group can have it.
- {id: a, repeat: {until: a.passed}}
>> line 2: repeat needs `stages`: only a group can have it.
- {id: g, prompt: Go., stages: [{id: a}]}
>> line 2: prompt has no effect in a group: leave it out.
- {id: g, input_docs: [{path: context.md}], stages: [{id: a}]}
>> line 2: input_docs has no effect in a group: leave it out.
- {id: g, stages: []}
>> line 2: a group needs at least one stage.
- {id: a, stages: [{id: b, stages: [{id: c, stages: [{id: d, stages: [{id: e, stages: [{id: f, stages:
    [{id: g, stages: [{id: h, stages: [{id: i}]}]}]}]}]}]}]}]}
>> line 3: stages are nested more than 8 deep
- {id: g, repeat: {until: done}, stages: [{id: a}]}
>> line 2: "stages[0].repeat.until" must name a stage of the group, such as `verify.passed`
- {id: g, repeat: {until: b.passed}, stages: [{id: a}]}
>> line 2: unknown stage "b": known are a.
- {id: g, repeat: {until: a.passed}, stages: [{id: a}, {id: v, kind: verify}]}
>> line 2: the group repeats until "a" passes and would ignore "v": name that one.
- {id: g, repeat: {until: a.passed}, stages: [{id: a, required: false}]}
>> line 2: "a" is not required, so the group would never repeat: name another stage.
- {id: g, repeat: {until: a.passed, replan_every: 2}, stages: [{id: a}]}
>> line 2: replan_every needs a stage with `when: replan` in the group.
- {id: g, repeat: {until: a.passed, no_progress: 2}, stages: [{id: a}]}
>> line 2: no_progress has no effect unless the group waits for a verification: leave it out
- {id: p}
- {id: g, repeat: {until: v.passed}, stages: [{id: s, foreach: plan}, {id: v, kind: verify}]}
>> line 3: no stage of the group could fix a failure: add one without foreach.

- {id: a, when: sometimes}
>> line 2: "stages[0].when" must be again, replan, or a stage and how it ended
- {id: a, when: again}
>> line 2: when: again has a meaning only in a group with `repeat`.
- id: a
- {id: b, when: no_suspects}
>> line 3: when needs a check that runs first: add `begin: verify` to the flow
- {id: g, stages: [{id: b, when: suspects}]}
begin: verify
>> line 2: when: suspects cannot be in a group: give it to the group
- {id: a, when: b.passed}
- {id: c}
>> line 2: unknown stage "b": known are c.
- {id: a, when: b.passed}
- {id: b, when: a.passed}
>> line 2: `when` has a cycle: a -> b -> a.
- id: look
- {id: b, when: results.lok.x == 1}
>> line 3: unknown stage "lok": did you mean "look"?
- {id: a, when: results.a.x == 1}
- {id: c}
>> line 2: unknown stage "a": known are c
- {id: a, when: results.b.x}
- {id: b, when: results.a.x}
>> line 2: `when` has a cycle: a -> b -> a
- {id: a, when: results.c.x}
- {id: b, needs: [a], stages: [{id: c}]}
>> line 2: `when` has a cycle: a -> b -> a
- {id: a, when: variables.x == 1}
>> line 2: unknown variable "x"
- id: a
- {id: b, when: a.failed}
>> line 3: "b" can never run: the flow fails if "a" fails: make that `required: false`
- {id: a, required: false}
- {id: b, when: a.failed, needs: [a]}
>> line 3: "b" can never run: it needs "a" and runs only if that failed
- id: a
- {id: b, when: a.skipped, needs: [a], on_skip: skip}
>> line 3: "b" can never run: it is skipped with "a" and runs only if that was skipped

- id: a
  candidates: {ask: line}
>> line 3: candidates needs a check that runs first: add `begin: verify` to the flow
- id: a
  candidates: {ask: lines}
begin: verify
>> line 3: "stages[0].candidates.ask" must be
- id: a
  candidates: {suspect: 2}
begin: verify
>> line 3: unknown key "suspect": did you mean "suspects"?
- id: a
  prompt: Mend {functon}.
  candidates: {ask: function}
begin: verify
>> line 3: unknown placeholder "{functon}": did you mean "{function}"?
- {id: work}
- {id: a, candidates: {ask: line}}
begin: verify
fix: a
>> line 5: "a" has candidates: `fix` must name a stage without candidates
- {id: a, candidates: {ask: line}}
begin: verify
checks: [diff_scope, verify]
>> line 4: diff_scope needs a stage without candidates, and there is none: leave it out
"""


def cases() -> list[tuple[str, str]]:
    """Each file with what is said about it."""
    found, lines = [], list[str]()
    for line in MISTAKES.splitlines():
        if line.startswith(">> "):
            found.append(("\n".join(lines).strip() + "\n", line.removeprefix(">> ")))
            lines = []
        else:
            lines.append(line)
    return found


@pytest.mark.parametrize(("text", "said"), cases())
def test_a_mistake_in_a_flow(tmp_path: Path, text: str, said: str) -> None:
    text = f"stages:\n{text}" if text.startswith("-") else text
    (tmp_path / "my.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_flow("my.yaml", tmp_path, FLOW_NAMES)
    assert str(caught.value).startswith(f"my.yaml, {said}")


@pytest.mark.parametrize(
    "option",
    [
        "tools: {allow: [read]}",
        "tools_allow: [read]",
        "view: {transcript: parent}",
        "checks: [files_read]",
        "advance: rules",
        "allow_missing_done: true",
        "retry_hints: false",
        "foreach: plan",
    ],
)
def test_what_a_stage_of_answers_has_no_use_for(tmp_path: Path, option: str) -> None:
    answers = "begin: verify\nstages:\n- {id: work}\n- id: a\n  candidates: {ask: line}\n"
    (tmp_path / "my.yaml").write_text(f"{answers}  {option}\n")
    key = option.partition(":")[0].removesuffix("_allow")
    with pytest.raises(ConfigError) as caught:
        load_flow("my.yaml", tmp_path, FLOW_NAMES)
    assert str(caught.value).endswith(f": {key} has no effect in a stage with candidates: leave it out.")
