"""A view that is rebuilt from what is new alone is the one that is built from the whole conversation."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core import Message, Note, StageEnded, ToolCall, ViewPolicy, build_view, size_of
from headgate.run.transcript import Transcript

POLICIES = [
    ViewPolicy(),
    ViewPolicy(strip_thinking=False),
    ViewPolicy(truncate_chars=5, truncate_keep_last=1),
    ViewPolicy(history="tail", max_messages=6),
]
ENDED = StageEnded(stage="s", ending="completed", reason="done", note=Note())
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("user"), st.text("xy", max_size=9)),
        st.tuples(st.just("call"), st.text("xy", max_size=9)),
        st.tuples(st.just("open call"), st.text("xy", max_size=9)),
        st.tuples(st.just("text"), st.text("xy", max_size=9)),
        st.tuples(st.just("lost result"), st.text("xy", max_size=9)),
        st.tuples(st.just("summary"), st.integers(1, 8)),
        st.tuples(st.just("reminder"), st.text("xy", max_size=9)),
        st.tuples(st.just("cut"), st.integers(400, 900)),
        st.tuples(st.just("rebuild"), st.integers(0, 3)),
        st.tuples(st.just("rebuild"), st.just(0)),
    ),
    max_size=40,
)


def take(transcript: Transcript, number: int, step: str, value: object) -> None:
    said = str(value)
    calls = (ToolCall(f"c{number}", "look", said),)
    match step:
        case "user":
            transcript.begin_stage(f"s{number}", f"s{number}")
            transcript.add(Message("user", said))
        case "call":
            transcript.add(Message("assistant", said, calls, reasoning="thought"))
            transcript.add(Message("tool", said * 3, call_id=f"c{number}"))
        case "open call":
            transcript.add(Message("assistant", said, calls))
        case "text":
            transcript.add(Message("assistant", said, reasoning="thought"))
        case "lost result":
            transcript.add(Message("tool", said, call_id="nobody"))
        case "reminder":
            transcript.add_reminder(Message("user", said))
        case "summary" if isinstance(value, int):
            place = list(transcript.spans)[value % len(transcript.spans)] if transcript.spans else ""
            transcript.end_stage(place, ENDED)
            if (span := transcript.spans.get(place)) and span.ended and transcript.has_said(span):
                start, _ = transcript.said_in(span)
                transcript.replace(place, start, span.end, "summary")
                transcript.rebuild(POLICIES[0])
        case "cut" if isinstance(value, int):
            transcript.rebuild(POLICIES[0], value)


@given(STEPS)
@settings(deadline=None)
def test_what_is_new_is_enough(steps: list[tuple[str, object]]) -> None:
    transcript = Transcript()
    transcript.add(Message("system", "Be brief."))
    transcript.add(Message("user", "The task."))
    for number, (step, value) in enumerate(steps):
        if step != "rebuild":
            take(transcript, number, step, value)
            continue
        assert isinstance(value, int)
        policy = POLICIES[value]
        transcript.rebuild(policy)
        if policy.history == "full":
            assert transcript.view == build_view(transcript.messages, policy)
        assert transcript.view_chars == size_of(transcript.view)
        fresh = Transcript()
        for message in transcript.messages:
            fresh.add(message)
        fresh.rebuild(policy)
        assert transcript.due_cut(POLICIES[2]) == fresh.due_cut(POLICIES[2])
