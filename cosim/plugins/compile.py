"""C source to a shared object, with the compiler of the system."""

from __future__ import annotations

import atexit
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from cosim.plugins.headers import include_dir
from cosim.plugins.registry import PluginError

__all__ = ["FLAGS", "compile_c", "compiler"]

FLAGS = ("-std=c11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
"""How plug-ins are compiled; a warning is an error, as most warnings about callbacks are crashes to come."""


def compiler() -> list[str]:
    """The C compiler: the environment variable CC, else cc, gcc or clang.

    Raises:
        PluginError: there is none.
    """
    named = os.environ.get("CC")
    if named:
        return shlex.split(named)
    for name in ("cc", "gcc", "clang"):
        path = shutil.which(name)
        if path:
            return [path]
    raise PluginError("a plug-in given as C source needs a C compiler: none of cc, gcc and clang is there (or set CC)")


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="cosim-plugins-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def compile_c(source: str | Path, *, flags: tuple[str, ...] = ()) -> Path:
    """Compile a plug-in.

    Args:
        source: the text of a C file, or the path of one (a ``Path``, or a string that ends in ``.c``).
        flags: more arguments for the compiler, after :data:`FLAGS`.

    Returns:
        The shared object, in a folder that lives as long as this process: what ``{"plugin": ...}`` takes.

    Raises:
        PluginError: no compiler, or its messages.
    """
    near: tuple[str, ...] = ()
    if isinstance(source, Path) or (source.endswith(".c") and "\n" not in source):
        path = Path(source)
        text, name = path.read_text(encoding="utf-8"), path.stem
        near = ("-I", str(path.resolve().parent))
    else:
        text, name = source, "source"
    command = [*compiler(), *FLAGS, "-I", str(include_dir()), *near, *flags]
    digest = hashlib.sha256("\0".join([*command, text]).encode()).hexdigest()[:16]
    target = _folder() / f"{name}-{digest}.so"
    if target.exists():
        return target
    written = target.with_suffix(".c")
    written.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [*command, "-o", str(target), str(written)], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        target.unlink(missing_ok=True)
        raise PluginError(f"the C compiler refuses this plug-in:\n{done.stderr.strip()}")
    return target
