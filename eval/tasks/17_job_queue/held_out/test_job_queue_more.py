import pytest

from job_queue import JobQueue, QueueEmpty


def test_new_queue_is_empty_whatever_came_before():
    for number in range(3):
        queue = JobQueue(f"owner {number}")
        assert len(queue) == 0
        assert queue.waiting() == []
        queue.add("left behind", priority=number)
        assert queue.waiting() == ["left behind"]


def test_queues_without_jobs_are_filled_in_turn():
    first, second = JobQueue("ada"), JobQueue("bob")
    first.add("write", 2)
    second.add("read", 1)
    first.add("sleep", 9)
    assert second.take_all() == ["read"]
    assert first.take_all() == ["write", "sleep"]
    with pytest.raises(QueueEmpty):
        second.take()


def test_two_queues_made_of_one_list():
    jobs = [(4, "wash"), (2, "cook"), (3, "shop")]
    first, second = JobQueue("ada", jobs), JobQueue("bob", jobs)
    assert first.take_all() == ["cook", "shop", "wash"]
    second.add("rest", 1)
    assert second.waiting() == ["rest", "cook", "shop", "wash"]
    assert len(first) == 0


def test_list_is_left_alone_by_every_method():
    jobs = [(9, "c"), (1, "a"), (5, "b"), (0, "z")]
    queue = JobQueue("ada", jobs)
    assert jobs == [(9, "c"), (1, "a"), (5, "b"), (0, "z")]
    queue.add("d", 3)
    queue.waiting()
    queue.take_all()
    assert jobs == [(9, "c"), (1, "a"), (5, "b"), (0, "z")]


def test_empty_list_is_left_alone_too():
    jobs = []
    queue = JobQueue("ada", jobs)
    queue.add("write")
    assert jobs == []
    assert JobQueue("bob", jobs).waiting() == []


def test_later_changes_of_the_list_do_not_reach_the_queue():
    jobs = [(2, "b")]
    queue = JobQueue("ada", jobs)
    jobs.append((1, "a"))
    assert queue.take_all() == ["b"]
    empty = []
    queue = JobQueue("bob", empty)
    empty.append((1, "a"))
    assert len(queue) == 0


@pytest.mark.parametrize("order", [(1, 2, 3, 4, 5), (5, 4, 3, 2, 1), (3, 5, 1, 4, 2)])
def test_urgent_jobs_first_whatever_the_order(order):
    queue = JobQueue("ada", [(number, f"job {number}") for number in order])
    queue.add("job 0", priority=0)
    assert queue.waiting() == queue.take_all() == [f"job {number}" for number in range(6)]


def test_usual_priority_is_five():
    queue = JobQueue("ada", [(6, "later"), (4, "sooner")])
    queue.add("usual")
    assert queue.take_all() == ["sooner", "usual", "later"]


def test_refused_job_is_not_added():
    queue = JobQueue("ada")
    with pytest.raises(ValueError):
        queue.add("")
    assert len(queue) == 0
