"""Longhaul in Python: its operators, its optimizers and its program.

    import longhaul
    o, state = longhaul.ops.linear_recurrence(q, k, v, log_decay)
    optimizer = longhaul.optim.Came(model.parameters(), lr=2e-4)

The program itself is the command `longhaul` of the same environment: `longhaul train first-run`.
"""
from pathlib import Path

import torch

_FOLDER = Path(__file__).parent
__version__ = (_FOLDER / "VERSION").read_text(encoding="utf-8").strip()


def _load_operators():
    built_for = (_FOLDER / "TORCH_VERSION").read_text(encoding="utf-8").strip()
    found = torch.__version__.partition("+")[0]
    # The operators use LibTorch's C++ interface, which changes between minor versions.
    if found.split(".")[:2] != built_for.split(".")[:2]:
        raise ImportError(
            f"longhaul {__version__} was built for torch {built_for}, found torch {found}; type: pip install torch=={built_for}"
        )
    torch.ops.load_library(str(_FOLDER / "lib" / "liblonghaul_ops.so"))


_load_operators()

from longhaul import ops, optim  # noqa: E402  (they call the operators that are loaded above)

__all__ = ["ops", "optim", "__version__"]
