"""`python -m mirrorball`: the `mirrorball` binary with the same arguments."""

import os
import sys

from ._binary import find_binary

if __name__ == "__main__":
    binary = str(find_binary())
    os.execv(binary, [binary, *sys.argv[1:]])
