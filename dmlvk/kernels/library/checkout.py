"""The shaders of a source checkout: compiled when they are first needed, and kept until their sources change."""

from __future__ import annotations

import functools
import hashlib
import logging
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dmlvk.errors import ShaderLibraryError
from dmlvk.kernels.library.keys import Keys, compilers, touched
from dmlvk.kernels.library.named import VARIANTS
from dmlvk.kernels.library.pack import PackedLibrary, PackError
from dmlvk.kernels.library.store import Store
from dmlvk.support.caches import cache_directory, keep_contents, kept_contents

if TYPE_CHECKING:
    from dmlvk.kernels.library.compiler import Compiler, Variant

OR_SET_UP = "or run scripts/setup.sh"

COMPILER = "compiler.txt"  # The file beside packed files that names their compiler's version

COMPILED = "compiled"  # The folder of what was compiled, by content

_KEYS = "keys.txt"
_PACKAGE = Path(__file__).parents[2]
_SHADERS = (".comp", ".glsl")
_SILENT_SECONDS = 0.5  # From then on a terminal shows what is compiled

_log = logging.getLogger("dmlvk")


def _touched_package() -> str:
    return touched([(_PACKAGE, (".py",))])


_PACKAGE_AT_START = _touched_package()
"""What this process runs. Its variants must not be taken for those of files that were changed meanwhile."""


@functools.cache
def _variants() -> Mapping[str, Variant]:
    return {variant.name: variant for named in VARIANTS for variant in named()}


class Checkout:
    """Compiled shaders of the sources in a directory.

    Args:
        directory: where compiled shaders are kept; in the user's cache directory where that cannot be written.
    """

    def __init__(self, shaders: Path, directory: Path) -> None:
        self.shaders = shaders
        self._directories = [directory]
        if (cache := cache_directory()) is not None:
            self._directories.append(cache / "shaders" / hashlib.sha256(str(directory).encode()).hexdigest()[:16])
        self._packed = PackedLibrary(directory)
        self._lock = threading.Lock()
        self._known: Keys | None = None
        self._found_compiler: tuple[str, Compiler] | None = None
        self._seconds = 0.0
        self._compiled = 0

    @property
    def stores(self) -> list[Store]:
        return [Store(directory / COMPILED) for directory in self._directories]

    def names(self) -> list[str]:
        return sorted(self.keys().by_name())

    def read(self, variant_name: str) -> bytes:
        """The SPIR-V of a variant, compiled if it has to be.

        Raises:
            ShaderLibraryError: there is no such variant, no compiler, or the variant does not compile.
        """
        key = self.key(variant_name)
        if key is None:
            raise ShaderLibraryError(f"there is no shader variant {variant_name}")
        return self._found(variant_name, key) or self._made(variant_name)

    def key(self, variant_name: str) -> str | None:
        """What a variant's bytes follow from; ``None`` where there is no such variant."""
        return self.keys().find(variant_name)

    def _found(self, variant_name: str, key: str) -> bytes | None:
        for store in self.stores:
            if (module := store.get(key)) is not None:
                return module
        try:
            return self._packed.read(variant_name, key)
        except PackError:
            return None

    def keys(self) -> Keys:
        """The keys of all variants: those of this process's start, while nothing had to be compiled since."""
        with self._lock:
            if self._known is None:
                self._known = self._current_keys()
            return self._known

    def _signature(self) -> str:
        text = "\0".join([touched([(self.shaders, _SHADERS)]), _PACKAGE_AT_START, compilers()])
        return hashlib.sha256(text.encode()).hexdigest()

    def _current_keys(self) -> Keys:
        signature = self._signature()
        version = ""
        for directory in self._directories:
            try:
                text = kept_contents(directory / _KEYS, _KEYS)
            except ValueError:
                continue
            if text is None:
                continue
            kept = Keys.from_text(text.decode())
            if kept.signature == signature:
                return kept
            version = version or kept.version
        return self._new_keys(signature, version)

    def _new_keys(self, signature: str, version: str) -> Keys:
        """Computes all keys anew, and keeps them.

        Args:
            version: of the compiler, for where there is none any more.
        """
        from dmlvk.kernels.library.compiler import MissingToolError, key_of
        from dmlvk.kernels.library.sources import SourceError, SourceTree

        try:
            version = self._compiler(signature).version
        except MissingToolError:
            version = version or self._packed_version()
        tree = SourceTree(self.shaders)
        try:
            keys = {name: key_of(tree, version, variant) for name, variant in _variants().items()}
        except SourceError as error:
            raise ShaderLibraryError(f"{self.shaders.name}/{error}") from error
        made = Keys.of(signature, version, keys)
        if self._signature() == signature and _touched_package() == _PACKAGE_AT_START:
            self._keep(lambda directory: keep_contents(directory / _KEYS, _KEYS, made.to_text().encode()))
            needed = set(keys.values())
            for store in self.stores:
                store.prune(needed)
        return made

    def _packed_version(self) -> str:
        """The compiler of the packed library, if there is one."""
        try:
            return (self._directories[0] / COMPILER).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def _made(self, variant_name: str) -> bytes:
        """Compiles a variant from its sources, which must be those of this process's start: its code is written for
        them, and gives others what they may call otherwise.
        """
        from dmlvk.kernels.library.compiler import CompileError, MissingToolError
        from dmlvk.kernels.library.sources import SourceError

        started = time.monotonic()
        self._show(variant_name)
        try:
            signature = self._signature()
            compiler = self._compiler(signature)
            variant = _variants()[variant_name]
            key = compiler.key(variant)
            if key != self.keys().find(variant_name):
                raise ShaderLibraryError(
                    f"{variant_name}: its sources were changed since this program was started: start it anew"
                )
            module = compiler.compile(variant)
        except MissingToolError as error:
            raise ShaderLibraryError(f"{variant_name} is not compiled yet, and {error}, {OR_SET_UP}") from error
        except (CompileError, SourceError) as error:
            file = f"{self.shaders.name}/{_variants()[variant_name].source}"
            raise ShaderLibraryError(f"{variant_name}, of {file}, cannot be compiled: {error}") from error
        except OSError as error:
            raise ShaderLibraryError(f"{variant_name} is not compiled yet, and cannot be here: {error}") from error
        finally:
            self._show("")
        if self._signature() == signature:  # else it may have been compiled from something in between
            self._keep(lambda directory: Store(directory / COMPILED).put(key, module))
        self._compiled += 1
        self._seconds += time.monotonic() - started
        return module

    def _compiler(self, signature: str) -> Compiler:
        """The compiler of the sources that a signature tells of."""
        from dmlvk.kernels.library.compiler import Compiler
        from dmlvk.kernels.library.sources import SourceTree

        if self._found_compiler is None or self._found_compiler[0] != signature:
            self._found_compiler = signature, Compiler.find(SourceTree(self.shaders))
        return self._found_compiler[1]

    def _keep(self, keep: Callable[[Path], None]) -> None:
        """Writes a file into the first directory where that is possible; to keep nothing costs time, and no result."""
        for directory in self._directories:
            try:
                keep(directory)
                return
            except OSError as error:
                _log.info("compiled shaders cannot be kept in %s: %s", directory, error)

    def _show(self, variant_name: str) -> None:
        """Shows what takes time in the last line of a terminal; takes it away again."""
        if self._seconds > _SILENT_SECONDS and sys.stderr is not None and sys.stderr.isatty():
            text = f"dmlvk: compiling shaders that are new or changed: {self._compiled + 1}, {variant_name}"
            shown = text[: shutil.get_terminal_size().columns - 1] if variant_name else ""
            print(f"\r\033[K{shown}", end="", file=sys.stderr, flush=True)
