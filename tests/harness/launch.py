"""``python -I launch.py PARENT COMMAND...``: become COMMAND, and be killed when process PARENT ends (Linux).

A ``preexec_fn`` would do the same after a real fork, and a fork of a process with gRPC threads may abort.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(sys.argv[1]):
            sys.exit("the parent has ended")
    os.execvp(sys.argv[2], sys.argv[2:])
