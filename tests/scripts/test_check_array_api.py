"""What scripts/check_array_api.py makes of the array API suite's results and of the documentation's table."""

from __future__ import annotations

from scripts.check_array_api import PAGE, expected_failures, judged, matches

_PAGE = """
| tests | why |
|---|---|
| `test_a.py::test_x[*complex*]` `test_a.py::test_y` | no complex numbers |
"""


def test_every_row_of_the_documentation_has_a_reason() -> None:
    expected = expected_failures(PAGE.read_text("utf-8"))
    assert len(expected) > 15
    assert all(reason.strip() for reason in expected.values()), expected


def test_only_the_star_of_a_pattern_has_a_meaning() -> None:
    assert matches("test_a.py::test_x[a complex case]", "test_a.py::test_x[*complex*]")
    assert not matches("test_a.py::test_xa", "test_a.py::test_x[a]")


def test_what_fails_and_is_not_named_is_told() -> None:
    outcomes = {
        "test_a.py::test_x[complex]": "failed",
        "test_a.py::test_x[real]": "failed",
        "test_a.py::test_y": "passed",
        "test_a.py::test_z": "passed",
    }
    wrong, idle, known = judged(outcomes, expected_failures(_PAGE))
    assert wrong == ["test_a.py::test_x[real]"]
    assert idle == ["test_a.py::test_y"]
    assert known == ["test_a.py::test_x[complex]"]
