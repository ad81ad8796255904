"""The command line: one group whose commands are imported when they are used.

Exit status: 0 ran; 2 the input is wrong, every error listed; 3 the host failed; 130 interrupted; 1 a fault of cosim.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from cosim import __version__
from cosim.config.errors import ConfigErrors, did_you_mean

__all__ = ["EXIT_FAULT", "EXIT_HOST", "EXIT_INPUT", "EXIT_INTERRUPTED", "main"]

EXIT_FAULT = 1
EXIT_INPUT = 2
EXIT_HOST = 3
EXIT_INTERRUPTED = 130

# What `cosim --help` says of each command; the module of that name is imported only when the command is used.
_COMMANDS = {
    "validate": "Hold an analytical model against the simulation, claim by claim.",
    "run": "Simulate an experiment without claims.",
    "sweep": "Run an experiment over ranges of its keys.",
    "compare": "Compare two results.",
    "report": "Write the HTML report of a result.",
    "diagnose": "Say from a trace whether replicas would help a system.",
    "train": "Train the slow controller of HCRMap.",
    "place": "Compute placements of experts, and write them for serving engines.",
    "claims": "List, check and import claims.",
    "noc": "Run, sweep and check networks by themselves.",
    "mem": "Run memories by themselves and show address maps.",
    "trace": "Inspect, convert and characterise routing traces.",
    "plugins": "List, show, begin and check plug-ins.",
    "xval": "Run the same experiment on another simulator and compare.",
    "config": "Check configuration files and show them resolved.",
}

# What the operating system says of a path that a user named.
_PATH_ERRORS = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)


class _ReaderGoneError(Exception):
    """Whoever read our output has closed it."""


class _Commands(click.Group):
    """Commands by name, imported on use; every way out has its exit status here."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in _COMMANDS if importlib.util.find_spec(f"{__name__}.{name}") is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = getattr(importlib.import_module(f"{__name__}.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            hint = did_you_mean(args[0], known)
            ctx.fail(f"no command {args[0]!r}" + (f"; {hint}" if hint else f"; there are {', '.join(known)}"))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as problem:
            raise _ReaderGoneError from problem  # click itself would make it status 1, a fault

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name]) for name in self.list_commands(ctx)])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        def run() -> Any:
            return super(_Commands, self).main(
                args,
                prog_name or "cosim",
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )

        if not standalone_mode:
            return run()
        try:
            status = run()
            sys.stdout.flush()
        except BaseException as problem:
            _leave(problem)
        sys.exit(status if isinstance(status, int) and not isinstance(status, bool) else 0)


def _leave(problem: BaseException) -> NoReturn:
    """Say what went wrong and exit with its status."""
    if isinstance(problem, SystemExit):
        raise problem
    status, text = _verdict(problem)
    if isinstance(problem, BrokenPipeError | _ReaderGoneError):
        # Nothing more can be written, not even by the interpreter's own last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        click.echo(text, err=True)
    sys.exit(status)


def _verdict(problem: BaseException) -> tuple[int, str]:
    """Exit status and text of an exception."""
    if isinstance(problem, ConfigErrors):
        count = len(problem.errors)
        return EXIT_INPUT, "\n".join([*map(str, problem.errors), f"{count} error{'s' if count > 1 else ''}"])
    if isinstance(problem, click.Abort | KeyboardInterrupt):
        return EXIT_INTERRUPTED, "interrupted"
    if isinstance(problem, click.UsageError):
        usage = f"{problem.ctx.get_usage()}\n" if problem.ctx else ""
        return EXIT_INPUT, f"{usage}{problem.format_message()}"
    if isinstance(problem, click.ClickException):
        return EXIT_INPUT, problem.format_message()
    if isinstance(problem, BrokenPipeError | _ReaderGoneError):
        return EXIT_HOST, "nobody reads the output any more"
    if isinstance(problem, MemoryError):
        return EXIT_HOST, f"out of memory{f': {problem}' if str(problem) else ''}"
    if isinstance(problem, _PATH_ERRORS) and problem.filename is not None:
        return EXIT_INPUT, f"{problem.filename}: {problem.strerror}"
    if isinstance(problem, OSError):
        what = "disk full" if problem.errno in (errno.ENOSPC, errno.EDQUOT) else "the host failed"
        where = f"{problem.filename}: " if problem.filename is not None else ""
        return EXIT_HOST, f"{what}: {where}{problem.strerror or problem}"
    if type(problem).__name__ == "BrokenProcessPool":
        return EXIT_HOST, f"the host failed: a worker process was killed ({problem})"
    # An exception may know that it is the user's or the host's: a deadlock of a user's routing, a broken plug-in.
    status = getattr(problem, "exit_code", EXIT_FAULT)
    if status in (EXIT_INPUT, EXIT_HOST):
        return status, str(problem)
    trace = "".join(traceback.format_exception(problem))
    return EXIT_FAULT, f"{trace}\nThis is a fault of cosim {__version__}: please report it with the text above."


@click.group(
    name="cosim",
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(__version__, prog_name="cosim")
def main() -> None:
    """Cycle-level judge of mixture-of-experts hardware ideas."""
