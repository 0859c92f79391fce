"""Faults of dmlvk's own code are told, once for each kind; and raised where tests run, in other processes, too."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from dmlvk.support import faults


def broken(table: dict[str, int]) -> int:
    """Code with a fault."""
    return table["what nobody put there"]


def report_of_broken(what: str) -> None:
    """What a caller does that has another way to go."""
    try:
        broken({})
    except Exception as error:  # noqa: BLE001 - told
        faults.report(error, what)


def test_a_fault_is_raised_where_tests_run_and_noted_should_something_swallow_it() -> None:
    with pytest.raises(faults.FaultError, match="translating 'first': KeyError") as raised:
        report_of_broken("translating 'first'")
    assert isinstance(raised.value.__cause__, KeyError)
    assert "in broken" in faults.reported[0]
    faults.reported.clear()


def test_a_process_that_a_test_starts_raises_faults() -> None:
    command = [sys.executable, "-c", "from dmlvk.support import faults; faults.report(KeyError('a'), 'trying')"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1 and "FaultError: trying: KeyError" in ended.stderr, ended.stderr


def test_a_users_program_hears_of_each_kind_of_fault_once_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("DMLVK_RAISE_FAULTS")
    monkeypatch.setattr(faults, "_kinds", set())
    with caplog.at_level(logging.WARNING, "dmlvk"):
        report_of_broken("translating 'first'")
        report_of_broken("translating 'second'")
        faults.report(TypeError("of another kind"), "planning")
    first, second = (record.getMessage() for record in caplog.records)
    assert "translating 'first'" in first and 'return table["what nobody put there"]' in first
    assert "while planning" in second and "of another kind" in second


def test_want_of_memory_is_no_fault() -> None:
    for error in (MemoryError(), RecursionError()):
        with pytest.raises(type(error)):
            faults.report(error, "translating")
