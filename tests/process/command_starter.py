"""A process that runs a command as Headgate does, until it or the command is killed.

Arguments: the directory, the command, and `forget` if the process is to kill its own commands when it is told
to end.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from headgate.process import kill_own_commands, run_command


def quit_at_once(*_: object) -> None:
    kill_own_commands()
    os._exit(3)


if __name__ == "__main__":
    if "forget" in sys.argv[3:]:
        signal.signal(signal.SIGTERM, quit_at_once)
    work = run_command(sys.argv[2], cwd=Path(sys.argv[1]), env=os.environ, timeout=None, max_output=1000)
    print(asyncio.run(work).output, flush=True)
