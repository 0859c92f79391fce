"""The machine's GLSL compilers, and talk with the one that compiles many shaders in one process.

``dmlvk-glslang`` (scripts/native/shader_compiler.cpp, built by set-up) keeps glslang's tables of built-in functions
from one shader to the next, of which glslangValidator's own start consists: a shader takes it 15 ms instead of 100,
with the same bytes. Where it is not there, glslangValidator serves.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

if sys.platform == "linux":
    import resource

MANY = "dmlvk-glslang"  # The program that compiles many shaders in one process

ONE = "glslangValidator"
"""glslang's own program, for one shader at a time (Debian's package glslang-tools, the Vulkan SDK)."""

SECONDS = 20  # A shader takes a tenth of a second; a compiler that does not end is not waited for

MEMORY_BYTES = 2 * 2**30  # What a compiler may take

_READ_BYTES = 2**16
_PIPES_CAN_BE_AWAITED = os.name != "nt"
_NOWHERE = subprocess.DEVNULL if os.path.exists(os.devnull) else None  # the smallest containers have no /dev


class CompilerProcessError(Exception):
    """The program does not run, does not end, or ended in the middle; the message says which."""


class CompilerTimeoutError(CompilerProcessError):
    """The program does not end."""


@dataclass(frozen=True)
class Answer:
    is_done: bool  # whether the shader was compiled, or the module is valid
    module: bytes  # the compiled module, in this machine's byte order
    message: str  # words of the compiler or the validator, which warnings are too


def own_program() -> Path:
    """Where set-up puts :data:`MANY`: beside this environment's Python."""
    return Path(sys.prefix) / ("Scripts" if sys.platform == "win32" else "bin") / MANY


def candidates() -> list[str]:
    """The compilers to be tried, the fastest first; DMLVK_GLSLANG names the only one."""
    if named := os.environ.get("DMLVK_GLSLANG"):
        found = [shutil.which(named)]
    else:
        found = [shutil.which(str(own_program())) or shutil.which(MANY), shutil.which(ONE)]
    return [path for path in found if path is not None]


def compiles_many(path: str) -> bool:
    """Whether a compiler is :data:`MANY`."""
    return Path(path).name.lower().removesuffix(".exe") == MANY


def compile_many(
    path: str,
    root: Path,  # the directory that the names are relative to
    name: str,  # of the shader's file, for messages and for what it includes
    folders: Iterable[str],  # where ``#include`` looks besides the including file's directory
    defines: Mapping[str, str],
    source: str,
    *,
    keeps_names: bool = False,  # whether the module has the shader's names
) -> Answer:
    """Compiles a shader with :data:`MANY`.

    Raises:
        CompilerProcessError: the program does not work.
    """
    preamble = "".join(f"#define {macro} {value}".rstrip() + "\n" for macro, value in sorted(defines.items()))
    parts = (str(root), name, "\n".join(folders), preamble, source)
    return _pool(path).ask("compile-with-names" if keeps_names else "compile", [part.encode() for part in parts])


def validate_many(path: str, module: bytes) -> Answer:
    """Validates a module with :data:`MANY`, for Vulkan 1.1.

    Raises:
        CompilerProcessError: the program does not work.
    """
    return _pool(path).ask("validate", [module])


class _CompilerProcess:
    def __init__(self, path: str) -> None:
        self.owner = os.getpid()
        try:
            self._process = subprocess.Popen(
                [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=_NOWHERE, bufsize=0
            )
        except OSError as error:
            raise CompilerProcessError(f"{path} does not run: {error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._path = path
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        if _PIPES_CAN_BE_AWAITED:
            os.set_blocking(self._input, False)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # it may have ended already
                resource.prlimit(self._process.pid, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))

    def ask(self, word: str, parts: Sequence[bytes]) -> Answer:
        """The answer to a request.

        Raises:
            CompilerProcessError: there is none; the process has ended.
        """
        head = " ".join([word, *(str(len(part)) for part in parts)])
        try:
            exchange = self._exchange if _PIPES_CAN_BE_AWAITED else self._exchange_in_turn
            received = exchange(b"".join([head.encode(), b"\n", *parts]))
        except BaseException:
            self.end()
            raise
        head_end = received.index(b"\n")
        status, module_size, _ = map(int, received[:head_end].split())
        module_end = head_end + 1 + module_size
        return Answer(
            status == 0, bytes(received[head_end + 1 : module_end]), received[module_end:].decode(errors="replace")
        )

    def _exchange(self, request: bytes) -> bytearray:
        """Writes a request and reads until the answer is whole."""
        to_write, received = memoryview(request), bytearray()
        wanted: int | None = None
        deadline = time.monotonic() + SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            selector.register(self._input, selectors.EVENT_WRITE)
            while wanted is None or len(received) < wanted:
                ready = {key.fd for key, _ in selector.select(max(0, deadline - time.monotonic()))}
                if not ready:
                    raise CompilerTimeoutError(f"{self._path} did not end within {SECONDS} seconds")
                try:
                    if self._input in ready:
                        to_write = to_write[os.write(self._input, to_write[:_READ_BYTES]) :]
                        if not to_write:
                            selector.unregister(self._input)
                    data = os.read(self._output, _READ_BYTES) if self._output in ready else None
                except OSError:
                    data = b""
                if data == b"":
                    raise CompilerProcessError(f"{self._path} ended with status {self.end()} instead of an answer")
                received += data or b""
                if wanted is None and b"\n" in received:
                    wanted = self._whole(received)
        return received

    def _exchange_in_turn(self, request: bytes) -> bytearray:
        """The same where pipes cannot be awaited: the program answers when it has read all, and is ended after a while.

        A program that has ended breaks the pipes, so that nothing waits for it.
        """
        has_waited = threading.Event()

        def give_up() -> None:
            has_waited.set()
            self._process.kill()

        timer = threading.Timer(SECONDS, give_up)
        timer.daemon = True
        timer.start()
        received = bytearray()
        wanted: int | None = None
        try:
            to_write = memoryview(request)
            while to_write:
                to_write = to_write[os.write(self._input, to_write[:_READ_BYTES]) :]
            while wanted is None or len(received) < wanted:
                data = os.read(self._output, _READ_BYTES)
                if not data:
                    break
                received += data
                if wanted is None and b"\n" in received:
                    wanted = self._whole(received)
        except OSError:
            wanted = None
        finally:
            timer.cancel()
        if has_waited.is_set():
            raise CompilerTimeoutError(f"{self._path} did not end within {SECONDS} seconds")
        if wanted is None or len(received) < wanted:
            raise CompilerProcessError(f"{self._path} ended with status {self.end()} instead of an answer")
        return received

    def _whole(self, received: bytearray) -> int:
        head, _, _ = received.partition(b"\n")
        try:
            _, module_size, message_size = map(int, head.split())
        except ValueError as error:
            raise CompilerProcessError(f"{self._path} does not answer as {MANY} does") from error
        return len(head) + 1 + module_size + message_size

    def end(self) -> int | None:
        """Ends the process; returns its exit status, where that is known."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        if self.owner != os.getpid():
            self._process.returncode = 0  # after a fork it is the other process's child: nothing to warn of
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(0.05)
        self._process.kill()
        return self._process.wait()


class _ProgramPool:
    """Running programs: one for each thread that asks at the same time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._idle: list[_CompilerProcess] = []

    def ask(self, word: str, parts: Sequence[bytes]) -> Answer:
        process = self._take()
        if process is not None:
            try:
                return self._asked(process, word, parts)
            except CompilerTimeoutError:
                raise
            except CompilerProcessError:
                pass  # it ends by itself when nobody has asked for some seconds, which may have been now
        return self._asked(_CompilerProcess(self._path), word, parts)

    def _asked(self, process: _CompilerProcess, word: str, parts: Sequence[bytes]) -> Answer:
        answer = process.ask(word, parts)
        with self._lock:
            self._idle.append(process)
        return answer

    def renew_lock(self) -> None:
        """In a process that was forked, where nobody would ever release it."""
        self._lock = threading.Lock()

    def _take(self) -> _CompilerProcess | None:
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.owner == os.getpid():
                    return process
                process.end()  # this process was forked: the program belongs to the other one
        return None

    def close(self) -> None:
        while (process := self._take()) is not None:
            process.end()


_pools: dict[str, _ProgramPool] = {}
_pools_lock = threading.Lock()


def _pool(path: str) -> _ProgramPool:
    with _pools_lock:
        return _pools.setdefault(path, _ProgramPool(path))


def _renew_locks() -> None:
    """In a process that was forked: another thread of its parent may have a lock."""
    global _pools_lock
    _pools_lock = threading.Lock()
    for pool in _pools.values():
        pool.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


def close() -> None:
    """Ends all running programs; the next request starts one."""
    for pool in list(_pools.values()):
        pool.close()


atexit.register(close)
