"""Runs the command line inside this process."""

from __future__ import annotations

import pytest

from dmlvk.cli import main


class Outcome:
    """Exit status and output of one call of :func:`dmlvk.cli.main` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        with pytest.raises(SystemExit) as caught:
            main(list(arguments))
        self.status = caught.value.code
        self.out, self.err = capsys.readouterr()
