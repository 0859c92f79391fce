"""Damaged folders of language models are one error of dmlvk's each, soon and in little memory."""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dmlvk as dml
from dmlvk.language import Conversation, LanguageModel
from tests.effort import IS_QUICK
from tests.language.damage import damage_folder
from tests.language.small_llama import write_folder

DAMAGED = 200
"""Folders of the long mode."""

_EACH = 50


def try_damaged(first: int, directory: Path) -> None:
    """Talks to so many damaged folders; an error that is none of dmlvk's, or one that takes long, ends it."""
    import resource  # which Windows has not

    work = directory / f"work{first}"
    with dml.Device() as device:
        with LanguageModel(directory / "folder", device) as model:
            assert list(Conversation(model).reply("ab", most=3))
        there = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (there + 2 * 2**30, there + 2 * 2**30))
        for seed in range(first, first + _EACH):
            shutil.copytree(directory / "folder", work)
            damage_folder(work, random.Random(seed))
            print(seed, end=" ", flush=True)
            start = time.thread_time()
            with contextlib.suppress(dml.DmlError), LanguageModel(work, device) as model:
                list(Conversation(model).reply("ab", most=3))
            assert time.thread_time() - start < 10, f"seed {seed} took long"
            shutil.rmtree(work)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits a process's memory and says what it has")
@pytest.mark.parametrize("first", range(0, DAMAGED, _EACH)[: 1 if IS_QUICK else None])
def test_damaged_folders_are_one_error_each(tmp_path: Path, first: int) -> None:
    write_folder(tmp_path)
    call = f"try_damaged({first}, Path({str(tmp_path)!r}))"
    code = f"from pathlib import Path; from tests.language.test_damaged_folders import try_damaged; {call}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, f"seed {done.stdout.split()[-1:]}: {done.stderr[-3000:]}"
