import pytest

from retry_call import Temporary, call_with_retries

DELAYS = [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


class Scripted:
    """Returns or raises one thing of a list after another, and notes calls and sleeps."""

    def __init__(self, *results):
        self.results = list(results)
        self.events = []

    def __call__(self):
        self.events.append("call")
        result = self.results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result

    def sleep(self, seconds):
        self.events.append(seconds)


def failures(count):
    return [Temporary(f"number {number}") for number in range(count)]


@pytest.mark.parametrize("attempts", [1, 2, 4, 7])
def test_every_attempt_fails(attempts):
    errors = failures(attempts + 2)
    action = Scripted(*errors)
    with pytest.raises(Temporary) as caught:
        call_with_retries(action, attempts, action.sleep)
    assert caught.value is errors[attempts - 1]
    expected = ["call"]
    for delay in DELAYS[: attempts - 1]:
        expected += [delay, "call"]
    assert action.events == expected


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_last_attempt_succeeds(attempts):
    action = Scripted(*failures(attempts - 1), "done")
    assert call_with_retries(action, attempts, action.sleep) == "done"
    assert action.events.count("call") == attempts
    assert action.events[-1] == "call"


@pytest.mark.parametrize("result", [None, 0, "", False])
def test_empty_result_is_a_result(result):
    action = Scripted(*failures(1), result)
    assert call_with_retries(action, 3, action.sleep) == result
    assert action.events == ["call", 0.5, "call"]


def test_other_exception_after_a_temporary_one():
    error = OSError("gone")
    action = Scripted(*failures(1), error, "never")
    with pytest.raises(OSError) as caught:
        call_with_retries(action, 5, action.sleep)
    assert caught.value is error
    assert action.events == ["call", 0.5, "call"]


def test_kinds_of_temporary_failures_are_tried_again():
    class Busy(Temporary):
        pass

    action = Scripted(Busy(), "done")
    assert call_with_retries(action, 2, action.sleep) == "done"


@pytest.mark.parametrize("attempts", [0, -1])
def test_attempts_must_be_positive(attempts):
    action = Scripted("done")
    with pytest.raises(ValueError):
        call_with_retries(action, attempts, action.sleep)
    assert action.events == []
