#!/usr/bin/env python3
"""Try dmlvk on CPython for Windows, under wine, with this machine's Vulkan driver: what works, and with which bits.

    scripts/try_windows.py                     the checkout, and Kompute built for it: some minutes the first time
    scripts/try_windows.py --wheels dist       the wheels of scripts/build_wheels.py, installed by Windows' pip
    scripts/try_windows.py --operators gemm    the bits of such operators only; repeatable

After its checks Windows' Python runs ``dmlvk conformance`` with few values of each case: promises and bits.
Needs wine and an X server without a screen, which wine's Vulkan asks for (Debian: apt install wine wine64 xvfb), and
without --wheels Zig, from PyPI. Python 3.12 with NumPy 1.26: wine 8 lacks functions of C
that NumPy 2 imports.

Exit status: 0 all checks pass and promises are kept, 1 not so, 2 wrong usage, 3 wine or Xvfb is not here.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import build_kompute
from scripts.build_kompute import default_cache
from scripts.build_wheels import WheelError
from scripts.cross import glslang
from scripts.cross.targets import TARGETS, CrossBuildError
from scripts.cross.windows_checks import CHECKS, Check
from scripts.cross.windows_python import embeddable

ROOT = Path(__file__).resolve().parent.parent

MINOR = 12

NUMPY = "numpy==1.26.4"

PACKAGES = (NUMPY, "pip>=24", "click>=8.1", "rich>=13", "pillow>=9.1", "colorama", "onnx>=1.17,<1.19", "protobuf<6")

CONFORMANCE = ("--patterns", "1024", "--attribute-sets", "1", "--jobs", "1")  # Few values of each case

_CONFORMS = """
import sys
from dmlvk.cli import main
sys.argv = ["dmlvk", %s]
main()
"""

_SECONDS = 1800


class NoWindowsError(Exception):
    """A program that is needed is not installed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheels", metavar="DIR", type=Path, help="install these, not the checkout")
    parser.add_argument("--operators", metavar="GLOB", action="append", default=[], help="bits of these only")
    options = parser.parse_args(arguments)
    try:
        for program in ("wine", "Xvfb"):
            if shutil.which(program) is None:
                raise NoWindowsError(f"{program} is not here (apt install wine wine64 xvfb)")
        python = prepared(options.wheels)
        with display() as number:
            wine = Wine(python, number)
            with wine.desktop():
                if options.wheels is not None:
                    installed(wine, options.wheels)
                return tried(wine, options)
    except NoWindowsError as error:
        print(f"try_windows.py: not tried: {error}", file=sys.stderr)
        return 3
    except (CrossBuildError, WheelError, OSError, subprocess.SubprocessError) as error:
        print(f"try_windows.py: {error}", file=sys.stderr)
        return 1


class Wine:
    """CPython for Windows.

    Args:
        python: the folder of ``python.exe``.
    """

    def __init__(self, python: Path, display: str) -> None:
        self.python = python  # the same folder
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DMLVK_CACHE"))},
            "WINEPREFIX": str(default_cache() / "windows" / "prefix"),
            "WINEDEBUG": "-all",
            "DISPLAY": display,
            "WINEPATH": f"{python};{python / 'Scripts'}",
        }

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs Python with arguments, and further environment variables."""
        return subprocess.run(
            ["wine", str(self.python / "python.exe"), *words],
            cwd=self.python,
            env={**self._environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )

    @contextlib.contextmanager
    def desktop(self) -> Iterator[None]:
        """Keeps a desktop and wine's services meanwhile, and ends all of wine afterwards.

        Wine starts them for whichever program needs them first, and again when nobody has needed them for some seconds.
        They inherit what that program writes to, so one that waits for the output of another would wait for ever.
        """
        program = "import ctypes, sys\nctypes.windll.user32.GetDesktopWindow()\nprint(flush=True)\nsys.stdin.read()"
        words = ["wine", str(self.python / "python.exe"), "-c", program]
        keeper = subprocess.Popen(
            words,
            cwd=self.python,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert keeper.stdout is not None
            keeper.stdout.readline()
            yield
        finally:
            keeper.kill()
            self.end()
            keeper.wait()

    def end(self) -> None:
        """Ends what wine leaves running."""
        subprocess.run(["wineserver", "-k"], env=self._environment, capture_output=True, check=False)


def tried(wine: Wine, options: argparse.Namespace) -> int:
    """Runs all checks, measures promises and bits, and says what was found."""
    names = [word for name in options.operators for word in ("--operators", name)]
    words = [repr(word) for word in ("conformance", *CONFORMANCE, *names)]
    bits = Check("promises are kept, and bits are those of other devices", _CONFORMS % ", ".join(words))
    faults = []
    for check in (*CHECKS, bits):
        begun = time.monotonic()
        if check.needs and wine.run("-c", check.needs).returncode != 0:
            print(f"left out: {check.name}: it needs that this works there: {check.needs}", flush=True)
            continue
        done = wine.run("-c", f"ROOT = {_drive(ROOT)!r}\n{check.program}", **check.environment)
        said = "passed" if done.returncode == 0 else "FAILED"
        print(f"{said}: {check.name} ({time.monotonic() - begun:.1f} s)", flush=True)
        if done.returncode != 0:
            faults.append(check.name)
            print("    " + "\n    ".join((done.stdout + done.stderr).strip().splitlines()[-12:]), flush=True)
    return 1 if faults else 0


def installed(wine: Wine, wheels: Path) -> None:
    """What a user does: pip, which takes those wheels from the folder that fit.

    Raises:
        CrossBuildError: pip does not install them.
    """
    links = [word for folder in (wheels.resolve(), _downloads()) for word in ("--find-links", _drive(folder))]
    words = ["-m", "pip", "install", "--quiet", "--no-index", "--no-cache-dir", "--no-warn-script-location", *links]
    done = wine.run(*words, "dmlvk", "onnx", NUMPY)
    if done.returncode != 0:
        raise CrossBuildError(f"pip for Windows does not install: {(done.stdout + done.stderr).strip()[-2000:]}")


def prepared(wheels: Path | None) -> Path:
    """The folder of a Python that has everything, or pip alone; made anew but for what was downloaded.

    Args:
        wheels: a folder of wheels that pip is to install; ``None`` for the checkout.

    Raises:
        CrossBuildError: something cannot be built or had.
    """
    folder = default_cache() / "windows"
    downloads = sorted(_downloads().glob("*.whl"))
    python = folder / "python"
    shutil.rmtree(python, ignore_errors=True)
    shutil.copytree(embeddable(MINOR, default_cache()), python)
    (python / "_wmi.pyd").unlink(missing_ok=True)  # platform.platform() waits for it for ever in wine 8
    site = python / "Lib" / "site-packages"
    first_line = ""
    if wheels is not None:
        downloads = [path for path in downloads if path.name.startswith("pip-")]
    else:
        first_line = _drive(ROOT) + "\n"
        library = build_kompute.build(TARGETS["win_amd64"])
        assert library is not None
        build_kompute.install(library)  # beside this system's own, which has another name
        if (program := glslang.path_of(TARGETS["win_amd64"])).is_file():
            (python / "Scripts").mkdir()
            shutil.copy(program, python / "Scripts")
    for path in downloads:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(site)
    text = f"python3{MINOR}.zip\n.\n{first_line}import site\n"
    (python / f"python3{MINOR}._pth").write_text(text, encoding="utf-8")
    return python


def _downloads() -> Path:
    """A folder with packages for Windows, known by which they are."""
    digest = hashlib.sha256(repr((MINOR, PACKAGES)).encode()).hexdigest()[:12]
    folder = default_cache() / "windows" / f"wheels-{digest}"
    if folder.is_dir():
        return folder
    partial = folder.with_name(f"{folder.name}.partial")
    options = ["--platform", "win_amd64", "--python-version", f"3.{MINOR}", "--only-binary=:all:", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(partial), *PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CrossBuildError(f"packages for Windows are not to be had: {done.stderr.strip()[-500:]}")
    partial.rename(folder)
    return folder


def _drive(path: Path) -> str:
    """A path as Windows' programs see it under wine."""
    return "Z:" + str(path).replace("/", "\\")


@contextlib.contextmanager
def display() -> Iterator[str]:
    """An X server without a screen, and its name."""
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "640x480x24", "-nolisten", "tcp"],
        pass_fds=(write,),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    try:
        with os.fdopen(read) as numbers:
            number = numbers.readline().strip()
        if not number:
            raise NoWindowsError("Xvfb does not start")
        yield f":{number}"
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    sys.exit(main())
