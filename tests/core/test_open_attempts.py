"""Several attempts may be open at once: what is known about each is kept by its path."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from headgate.core import Body, Event, Note, ReplyReceived, StageEnded, StageStarted, State, ToolFinished


def attempt(stage: str, reads: int) -> list[Body]:
    """Everything that happens in one attempt: one reply for each read, and the end."""
    bodies: list[Body] = [
        StageStarted(
            stage=stage, title=stage.upper(), attempt=1, reason="next", tools=("read_file",), turns=9
        )
    ]
    for number in range(reads):
        bodies.append(
            ReplyReceived(prompt_tokens=1, completion_tokens=1, cached_tokens=0, finish="stop", calls=())
        )
        bodies.append(
            ToolFinished(
                call=f"{stage}{number}",
                name="read_file",
                ok=True,
                category="read",
                read=(f"{stage}{number}.py",),
            )
        )
    return [*bodies, StageEnded(stage=stage, ending="completed", reason="done", note=Note(summary=stage))]


def folded(events: list[tuple[str, Body]]) -> State:
    state = State()
    for seq, (path, body) in enumerate(events, 1):
        state.apply(Event(seq, "t1", path, 0, 0.0, body))
    return state


@given(st.integers(0, 4), st.integers(0, 4), st.randoms(use_true_random=False))
def test_the_order_of_two_attempts_does_not_matter_to_either(first: int, second: int, random: Random) -> None:
    tracks = {
        "group/one": attempt("one", first),
        "group#2/two": attempt("two", second),
    }
    apart = folded([(path, body) for path, bodies in tracks.items() for body in bodies])
    left = {path: list(bodies) for path, bodies in tracks.items()}
    mixed: list[tuple[str, Body]] = []
    while any(left.values()):
        path = random.choice([path for path, bodies in left.items() if bodies])
        mixed.append((path, left[path].pop(0)))
    together = folded(mixed)
    for path in tracks:
        assert together.nodes[path] == apart.nodes[path]
    assert together.tree.endings == apart.tree.endings
    assert together.accounts == apart.accounts


def test_what_is_open_is_known_by_path() -> None:
    one, two = attempt("one", 2), attempt("two", 1)
    state = folded([("a/one", one[0]), ("b/two", two[0]), ("a/one", one[1]), ("b/two", two[-1])])
    assert [entered.path for entered in state.tree.open_attempts()] == ["a/one"]
    assert (state.nodes["a/one"].counts.turns, state.nodes["b/two"].counts.turns) == (1, 0)
