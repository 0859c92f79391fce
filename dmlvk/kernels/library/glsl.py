"""Compiles kernels that are put together while a program runs, with the machine's GLSL compiler; keeps them on disk.

The compiler is dmlvk-glslang, which wheels bring and set-up builds, or glslangValidator (Debian's package
glslang-tools, the Vulkan SDK), looked for on the PATH; the environment variable DMLVK_GLSLANG names another. Compiled
kernels are kept by content in the user's cache directory, or where DMLVK_CACHE_DIR says, with a signature by a secret
that lies there, too: a kernel that was compiled once needs no compiler any more, and one that was changed is compiled
anew.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

if sys.platform == "linux":
    import resource

from dmlvk.errors import ShaderCompilationError
from dmlvk.kernels.library import glslang
from dmlvk.kernels.library.keys import touched
from dmlvk.spirv.decorations import PASSES, with_decorations
from dmlvk.support.caches import cache_directory, keep_contents, kept_contents
from dmlvk.support.recent import Recent

FLAGS = ("-V", "--target-env", "vulkan1.1", "-S", "comp", "--nan-clamp")
"""``--nan-clamp`` changes nothing as long as the linter refuses min, max and clamp of floats; it makes them defined
for NaN in a shader that is tried out before it is linted."""

RELEASE_FLAGS = ("-g0",)  # No names and no source text: smaller files, and nothing in them that depends on the machine

INCLUDE_DIRECTORIES = ("include", "patterns", ".")
"""Where ``#include`` looks besides the directory of the including file, below the shader directory."""

_KEPT_IN_MEMORY = 256
_KEPT_ON_DISK_BYTES = 64 * 2**20
_FILE_FORMAT = "3"
_LINE_OF_KERNEL = re.compile(r"kernel\.comp:(\d+)")
_TAKEN_FROM = re.compile(r"// (\S+\.comp)")  # The line of a fused kernel before what was taken from an operator's file

_log = logging.getLogger("dmlvk")
_lock = threading.Lock()


def _renew_lock() -> None:
    """In a process that was forked: another thread of its parent may have it."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)

_in_memory: Recent[str, bytes] = Recent(_KEPT_IN_MEMORY)
_refused: Recent[str, tuple[type[ShaderCompilationError], str]] = Recent(_KEPT_IN_MEMORY)


def source_directory() -> Path | None:
    """The GLSL sources: inside an installed package, or beside it in a checkout."""
    package = Path(__file__).parents[2]
    for directory in (package / "shaders", package.parent / "shaders"):
        if (directory / "include").is_dir():
            return directory
    return None


def _touched_sources() -> str:
    directory = source_directory()
    return "" if directory is None else touched([(directory, (".glsl",))])


_SOURCES_AT_START = _touched_sources()
"""What this process writes kernels for. Sources that came since then may define and ask for other names, and a name
that the preprocessor does not know is 0 to it: a kernel of both would be wrong without a word."""


@functools.cache
def source_text(path: str) -> str | None:
    """A file below the shader directory; ``None`` when it is not there."""
    directory = source_directory()
    if directory is None:
        return None
    try:
        return (directory / path).read_text(encoding="utf-8")
    except OSError:
        return None


@functools.cache
def _library_digest() -> str:
    """A hash of everything that a kernel may include."""
    directory = source_directory()
    hasher = hashlib.sha256()
    for file in sorted(directory.rglob("*.glsl")) if directory is not None else ():
        hasher.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return hasher.hexdigest()


def compiler() -> str | None:
    """The path of the machine's GLSL compiler; ``None`` when there is none."""
    return next(iter(glslang.candidates()), None)


class KernelRefusedError(ShaderCompilationError):
    """The compiler that comes with dmlvk refuses a kernel that dmlvk has written, which is a fault of dmlvk."""


def compiled(source: str) -> bytes | None:
    """The SPIR-V of a kernel.

    Args:
        source: GLSL, which may include files of ``shaders/include`` and ``shaders/patterns``.

    Returns:
        The module; ``None`` when it was never compiled before and there is no compiler.

    Raises:
        ShaderCompilationError: when the compiler refuses it, or does not end.
    """
    facts = [source, _library_digest(), *FLAGS, *RELEASE_FLAGS, PASSES, _FILE_FORMAT]
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()
    with _lock:
        spirv = _in_memory.get(key)
        if key in _refused:
            kind, text = _refused[key]
            raise kind(text)
    if spirv is None:
        spirv = _from_disk(key) or _made(key, source)
    if spirv is None:
        return None
    with _lock:
        return _in_memory.keep(key, spirv)


def _made(key: str, source: str) -> bytes | None:
    """Compiles a kernel and keeps it; ``None`` when there is no compiler."""
    found, directory = compiler(), source_directory()
    if found is None or directory is None:
        return None
    try:
        spirv = _compile(source, found, directory)
        if _touched_sources() != _SOURCES_AT_START:
            raise ShaderCompilationError(f"{directory} was changed since this program was started: start it anew")
    except ShaderCompilationError as error:
        with _lock:
            # So that nobody waits again for a compiler that does not end.
            _refused.keep(key, (type(error), str(error)))
        raise
    _to_disk(key, spirv)
    return spirv


def _compile(source: str, compiler_path: str, directory: Path) -> bytes:
    if glslang.compiles_many(compiler_path):
        try:
            return _compiled_by_many(source, compiler_path, directory)
        except glslang.CompilerProcessError as error:
            others = [path for path in glslang.candidates() if path != compiler_path]
            if isinstance(error, glslang.CompilerTimeoutError) or not others:
                raise ShaderCompilationError(f"{compiler_path} does not work: {error}") from error
            _log.info("%s; %s compiles instead", error, others[0])
            compiler_path = others[0]
    return _compiled_by_one(source, compiler_path, directory)


def _compiled_by_many(source: str, compiler_path: str, directory: Path) -> bytes:
    answer = glslang.compile_many(compiler_path, directory, "kernel.comp", INCLUDE_DIRECTORIES, {}, source)
    if not answer.is_done:
        raise KernelRefusedError(f"{compiler_path} refuses a fused kernel: {_placed(answer.message, source)}")
    return with_decorations(answer.module)


def _compiled_by_one(source: str, compiler_path: str, directory: Path) -> bytes:
    try:
        temporary = tempfile.TemporaryDirectory(prefix="dmlvk-kernel-")
    except OSError as error:
        raise ShaderCompilationError(f"{compiler_path} has no place to compile in: {error}") from error
    with temporary as folder:
        (Path(folder) / "kernel.comp").write_text(source, encoding="utf-8")
        includes = [f"-I{directory / name}" for name in INCLUDE_DIRECTORIES]
        command = [compiler_path, *FLAGS, *RELEASE_FLAGS, *includes, "-o", "kernel.spv", "kernel.comp"]
        try:
            status, said = _run(command, folder)
            if status != 0:
                raise ShaderCompilationError(
                    f"{compiler_path} refuses a fused kernel: {_placed(said, source) or f'exit status {status}'}"
                )
            return with_decorations((Path(folder) / "kernel.spv").read_bytes())
        except subprocess.TimeoutExpired as error:
            raise ShaderCompilationError(f"{compiler_path} did not end within {glslang.SECONDS} seconds") from error
        except (OSError, ValueError) as error:
            raise ShaderCompilationError(f"{compiler_path} does not work: {error}") from error


def _placed(said: str, source: str) -> str:
    """A compiler's words with the operator's file from which each line of a kernel was taken that they name."""
    lines = source.splitlines()

    def placed(match: re.Match[str]) -> str:
        before = (_TAKEN_FROM.fullmatch(line) for line in reversed(lines[: int(match[1])]))
        file = next((found[1] for found in before if found is not None), None)
        return match[0] if file is None else f"{match[0]} (of {file})"

    return _LINE_OF_KERNEL.sub(placed, " ".join(said.split()))


def _run(command: list[str], folder: str) -> tuple[int, str]:
    """Exit status and output of the compiler, which may take neither for ever nor all memory."""
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            if sys.platform == "linux":
                with contextlib.suppress(OSError):  # it may be done already
                    resource.prlimit(process.pid, resource.RLIMIT_AS, (glslang.MEMORY_BYTES, glslang.MEMORY_BYTES))
            said, _ = process.communicate(timeout=glslang.SECONDS)
        except BaseException:
            process.kill()
            raise
    return process.returncode, said


def _from_disk(key: str) -> bytes | None:
    """A kept kernel, unless its file is damaged or somebody else's: compiled anew, it is written over."""
    directory = cache_directory()
    if directory is None:
        return None
    path = directory / f"{key}.kernel"
    try:
        spirv = kept_contents(path, key)
    except ValueError as error:
        _log.warning("%s is damaged; the kernel is compiled anew: %s", path, error)
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # the least recently used files go first
    return spirv


def _to_disk(key: str, spirv: bytes) -> None:
    """Keeps a kernel; a directory that cannot be written is no reason to fail."""
    directory = cache_directory()
    if directory is None:
        return
    try:
        keep_contents(directory / f"{key}.kernel", key, spirv)
        _drop_old_ones(directory)
    except OSError as error:
        _log.info("fused kernels cannot be kept in %s: %s", directory, error)


def _drop_old_ones(directory: Path) -> None:
    files = []
    for path in directory.glob("*.kernel"):
        with contextlib.suppress(OSError):  # another process may have dropped it
            status = path.stat()
            files.append((status.st_mtime, status.st_size, path))
    size = sum(file_size for _, file_size, _ in files)
    for _, file_size, path in sorted(files):
        if size <= _KEPT_ON_DISK_BYTES:
            break
        with contextlib.suppress(OSError):
            path.unlink()
        size -= file_size
