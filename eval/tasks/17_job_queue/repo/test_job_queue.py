import pytest

from job_queue import JobQueue, QueueEmpty


def test_most_urgent_job_first():
    queue = JobQueue("ada", [(5, "read"), (1, "fix"), (3, "test")])
    assert queue.take() == "fix"
    assert queue.waiting() == ["test", "read"]


def test_added_job_takes_its_place():
    queue = JobQueue("ada", [(1, "fix"), (9, "rest")])
    queue.add("plan", priority=4)
    assert queue.take_all() == ["fix", "plan", "rest"]
    assert len(queue) == 0


def test_queues_are_independent():
    first = JobQueue("ada")
    second = JobQueue("bob")
    first.add("write")
    assert len(second) == 0
    assert first.take_all() == ["write"]


def test_callers_list_is_left_alone():
    jobs = [(3, "sweep"), (1, "cook")]
    queue = JobQueue("ada", jobs)
    queue.take()
    assert jobs == [(3, "sweep"), (1, "cook")]


def test_empty_queue():
    with pytest.raises(QueueEmpty, match="no jobs for eve"):
        JobQueue("eve", []).take()


def test_job_needs_a_name():
    with pytest.raises(ValueError):
        JobQueue("ada", []).add("")
