"""The command `longhaul` of a Python environment: the program of this package, in the place of this process."""
import os
import shutil
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).parent / "bin" / "longhaul"
    # The program says what to type next, and begins with the name under which it was started.
    typed = sys.argv[0]
    if shutil.which("longhaul") == typed:
        typed = "longhaul"
    os.execv(program, [typed, *sys.argv[1:]])
