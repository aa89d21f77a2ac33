"""Signals that end a command: none is lost, and one that is noted lets the work in progress end."""

import os
import signal
import time
import weakref

import pytest

from evogt_study.workers.signals import handle_signals


class Closing:
    """An object during whose finalisation a signal comes: Python prints the exception, and goes on."""

    number = signal.SIGTERM

    def __del__(self):
        signal.raise_signal(self.number)


class ClosingByCtrlC(Closing):
    number = signal.SIGINT


class Watched:
    """An object with a finaliser, during which the process is terminated."""

    def __init__(self):
        weakref.finalize(self, signal.raise_signal, signal.SIGTERM)


def forgotten(kind):
    with handle_signals():
        kind()
        time.sleep(10)


def noted(done):
    with handle_signals(waits=True) as check_end:
        check_end()
        os.kill(os.getpid(), signal.SIGTERM)
        done.append(True)
        check_end()


def out_of_time():
    with handle_signals("0.01", waits=True) as check_end:
        time.sleep(0.1)
        check_end()


def terminated_twice():
    with handle_signals(waits=True):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)


@pytest.mark.parametrize(("kind", "reason"), [(Closing, "terminated"), (ClosingByCtrlC, "^$"), (Watched, "terminated")])
def test_a_signal_that_comes_where_python_ignores_what_is_raised_is_not_lost(kind, reason):
    with pytest.raises(KeyboardInterrupt, match=reason):
        forgotten(kind)


def test_a_signal_that_is_noted_ends_the_body_where_it_asks_and_a_second_one_at_once():
    done = []
    with pytest.raises(KeyboardInterrupt, match="terminated"):
        noted(done)
    assert done
    with pytest.raises(KeyboardInterrupt, match=r"stopped at the time limit of 0\.01 s"):
        out_of_time()
    with pytest.raises(KeyboardInterrupt, match="terminated"):
        terminated_twice()
