"""The process that checks a plug-in: one line of JSON when a check begins, one when it ends."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from cosim.conformance import memory, network
from cosim.conformance.request import CheckFailed, CheckRequest, NotApplicable

__all__ = ["CHECKS", "main"]

CHECKS = {
    "routing": network.ROUTING,
    "arbiters": network.ARBITERS,
    "routers": network.ROUTERS,
    "memory": memory.CHECKS,
}


def chosen(request: CheckRequest) -> tuple[str, ...]:
    """Names of the checks of a request, in their order."""
    known = CHECKS[request.kind]
    return tuple(name for name in known if not request.only or name == "load" or name in request.only)


def main(request_text: str, first: int, out: int) -> None:
    """Run the checks from number `first` on; lines go to the file descriptor `out`."""
    request = CheckRequest.from_json(request_text)

    def tell(**line: Any) -> None:
        os.write(out, (json.dumps(line) + "\n").encode())

    wanted = {name: check for name, check in CHECKS[request.kind].items() if name in chosen(request)}
    for name, check in list(wanted.items())[first:]:
        tell(begins=name)
        try:
            status, text = "ok", check(request)
        except NotApplicable as reason:
            status, text = "none", str(reason)
        except CheckFailed as reason:
            status, text = "failed", str(reason)
        except Exception as error:  # whatever a run with this plug-in raises is its failure
            status, text = "failed", str(error) or type(error).__name__
        tell(ends=name, status=status, text=text)
        if name == "load" and status == "failed":
            return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
