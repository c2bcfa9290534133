"""How many tokens a request asks for: the least of what the stage, the person and the window allow."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from test_loop import TASK, make_job, work

from headgate.core import Agent, AgentOptions, Message, Recipe, Reply, Request, Usage
from headgate.features.recipes.feature import Execution, expand_recipe
from headgate.log import Store
from headgate.models import ScriptedModel
from headgate.run import Job, run_flow
from headgate.run.asking import LEAST_REPLY, limit_reply, reply_in_time
from jobs import other_job

WINDOW = 4_096


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "headgate.db")
    opened.add_task(lambda task_id: TASK, 0.0)
    yield opened
    opened.close()


def job_with(store: Store, *replies: Reply, person: int | None = None, window: int | None = None) -> Job:
    job = make_job(store, work(), {None: ScriptedModel(list(replies))}, window)
    settings = job.models.settings[None].model_copy(update={"max_tokens": person})
    return other_job(job, model_settings={None: settings})


def ask(chars: int, asked: int | None = None) -> Request:
    return Request([Message("user", "x" * chars)], max_tokens=asked)


@pytest.mark.parametrize(
    ("asked", "person", "window", "chars", "sent"),
    [
        (None, None, None, 100, None),
        (None, None, WINDOW, 100, None),  # the server decides
        (2_500, None, None, 100, 2_500),
        (2_500, 1_000, None, 100, 1_000),
        (500, 1_000, None, 100, 500),
        (None, 1_000, None, 100, 1_000),
        (2_500, None, WINDOW, 100, 2_500),
        (4_000, None, WINDOW, 3_492, WINDOW - 1_150),  # it may be more than was reckoned
        (None, 4_000, WINDOW, 6_992, WINDOW - 2_300),
        (2_500, 600, WINDOW, 6_992, 600),
        (2_500, None, WINDOW, 100_000, LEAST_REPLY),  # there, the conversation is cut
    ],
)
def test_the_least_limit_is_sent(
    store: Store, asked: int | None, person: int | None, window: int | None, chars: int, sent: int | None
) -> None:
    job = job_with(store, person=person, window=window)
    assert limit_reply(job, None, ask(chars, asked)).max_tokens == sent


async def test_what_is_left_is_reckoned_as_the_server_counts(store: Store) -> None:
    job = job_with(store, Reply(Message("assistant", "Yes."), Usage(3_000, 1)), window=WINDOW)
    # By the usual guess of 3.5 characters a token, it would be 2,000 tokens, and with a margin 1,796 left.
    await reply_in_time(job, None, ask(6_992, 2_500))
    model = job.models.clients[None]
    assert isinstance(model, ScriptedModel)
    assert model.requests[0].max_tokens == 1_796
    assert limit_reply(job, None, ask(6_992, 2_500)).max_tokens == 647


async def test_every_request_of_a_stage_keeps_to_it(store: Store) -> None:
    """A stage's own limit is larger than what a person allows."""
    stage = {"agent": Agent(options=AgentOptions(max_tokens=9_000))}
    model = ScriptedModel([Reply(Message("assistant", "Seen.")), Reply(Message("assistant", "Seen."))])
    job = make_job(store, work(**stage), {None: model})
    settings = job.models.settings[None].model_copy(update={"max_tokens": 700})
    await run_flow(other_job(job, model_settings={None: settings}))
    assert [request.max_tokens for request in model.requests] == [700, 700]


@pytest.mark.parametrize(("own", "sent"), [(None, 500), (300, 300), (2_500, 500)])
def test_a_step_gets_no_more_than_its_recipe_shares_out(own: int | None, sent: int) -> None:
    agent = {} if own is None else {"agent": {"options": {"max_tokens": own}}}
    recipe = Recipe.model_validate(
        {"name": "fix", "description": "Fixes.", "stages": [{"id": "edit", "prompt": "Edit.", **agent}]}
    )
    (step,) = expand_recipe(recipe, Execution(1, "fix", ("It works.",))).stages
    assert step.agent is not None
    assert step.agent.options.max_tokens == sent
