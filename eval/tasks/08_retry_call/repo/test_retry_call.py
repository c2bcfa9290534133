import pytest

from retry_call import Temporary, call_with_retries, delay_after


class Flaky:
    """Fails the given number of times, then returns "done"."""

    def __init__(self, failures):
        self.failures = failures
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.calls <= self.failures:
            raise Temporary(f"failure {self.calls}")
        return "done"


def test_delays_double_up_to_the_most():
    assert [delay_after(n) for n in range(1, 7)] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]


def test_success_at_once_does_not_sleep():
    slept = []
    assert call_with_retries(Flaky(0), 3, slept.append) == "done"
    assert slept == []


def test_success_after_two_failures():
    slept = []
    assert call_with_retries(Flaky(2), 3, slept.append) == "done"
    assert slept == [0.5, 1.0]


def test_last_failure_is_passed_on():
    slept = []
    with pytest.raises(Temporary, match="failure 3"):
        call_with_retries(Flaky(5), 3, slept.append)
    assert slept == [0.5, 1.0]


def test_single_attempt():
    action = Flaky(1)
    with pytest.raises(Temporary, match="failure 1"):
        call_with_retries(action, 1, lambda seconds: None)
    assert action.calls == 1


def test_other_exceptions_are_not_retried():
    calls = []

    def broken():
        calls.append(1)
        raise KeyError("no")

    with pytest.raises(KeyError):
        call_with_retries(broken, 3, lambda seconds: None)
    assert len(calls) == 1
