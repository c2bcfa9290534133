"""What is written to the user's own tree as a whole keeps its nine kinds in the log and for scripts."""

import pytest

from headgate.core import Event, Rewrite, RewriteFinished, RewriteRefused, RewriteStarted, read_body


@pytest.mark.parametrize(
    ("kind", "fields", "body"),
    [
        (
            "apply_started",
            {"baseline": "b", "changes": []},
            RewriteStarted(purpose="apply", baseline="b", changes=()),
        ),
        ("apply_finished", {"tree": "t"}, RewriteFinished(purpose="apply", tree="t")),
        ("apply_refused", {"conflicts": ["a: x"]}, RewriteRefused(purpose="apply", conflicts=("a: x",))),
        (
            "merge_started",
            {"before": "b", "after": "a", "changes": []},
            RewriteStarted(purpose="merge", before="b", after="a", changes=()),
        ),
        ("merge_finished", {}, RewriteFinished(purpose="merge")),
        ("merge_refused", {"reason": "no"}, RewriteRefused(purpose="merge", reason="no")),
        (
            "undo_started",
            {"changes": [], "kept": ["k"]},
            RewriteStarted(purpose="undo", changes=(), kept=("k",)),
        ),
        ("undo_finished", {}, RewriteFinished(purpose="undo")),
        ("undo_refused", {"reason": "no"}, RewriteRefused(purpose="undo", reason="no")),
    ],
)
def test_the_log_and_scripts_know_each_by_its_purpose(
    kind: str, fields: dict[str, object], body: Rewrite
) -> None:
    assert read_body(kind, fields) == body
    assert Event(1, "t1", "", 0, 0.0, body).as_json()["kind"] == kind
