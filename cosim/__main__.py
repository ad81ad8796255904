"""``python -m cosim``: the command ``cosim`` of the interpreter that runs it."""

from cosim.cli import main

if __name__ == "__main__":
    main(prog_name="cosim")
