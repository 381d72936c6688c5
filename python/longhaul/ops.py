"""The operators of the trainer, differentiable in every floating point argument.

Documents are packed: T tokens of all documents follow each other, and `cu_seqlens` [N + 1] (int64, on the CPU) says
where each begins. Inputs are bf16, fp32 or fp64. An argument that does not fit is refused with its name, what was
expected and what was found. docs/reference/python-operators.md has the table of shapes.
"""
from typing import Optional, Tuple

import torch
from torch import Tensor

__all__ = ["linear_recurrence", "attention", "linear_cross_entropy"]


def linear_recurrence(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Optional[Tensor] = None,
    initial_state: Optional[Tensor] = None,
    cu_seqlens: Optional[Tensor] = None,
    *,
    scale: float = 1.0,
    reverse: bool = False,
) -> Tuple[Tensor, Tensor]:
    """Linear attention with decay: S_t = exp(log_decay_t) S_{t-1} + k_t v_t^T and o_t = scale * S_t^T q_t.

    q [T, H, Dk], k [T, Hk, Dk], v [T, Hk, Dv], where H is a multiple of Hk. log_decay, at most 0, is None, [H] (a
    constant for each head), [T, H] (a number for each token) or [T, H, Dk] (one for each key channel). initial_state
    [N, H, Dk, Dv] is fp32, or fp64 for fp64 inputs; None means zeros. reverse=True runs from the last token to the
    first. Returns o [T, H, Dv] and the final state of each document [N, H, Dk, Dv].
    """
    result = torch.ops.longhaul.linear_recurrence(q, k, v, log_decay, initial_state, cu_seqlens, scale, reverse)
    return result[0], result[1]


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens: Optional[Tensor] = None,
    *,
    window: int = 0,
    scale: Optional[float] = None,
) -> Tuple[Tensor, Tensor]:
    """Causal softmax attention within documents, with grouped keys.

    q [T, H, D], k and v [T, Hk, D], where H is a multiple of Hk. window=w lets each token see w keys, its own
    included; 0 means all. scale=None means 1 / sqrt(D). Returns o [T, H, D] and the log of each token's sum of
    exponentials [T, H].
    """
    if scale is None:
        scale = q.shape[-1] ** -0.5
    result = torch.ops.longhaul.attention(q, k, v, cu_seqlens, window, scale)
    return result[0], result[1]


def linear_cross_entropy(hidden: Tensor, weight: Tensor, labels: Tensor, *, z_loss: float = 0.0) -> Tensor:
    """Cross entropy of hidden @ weight^T against labels, without keeping a [T, V] tensor.

    hidden [T, D], weight [V, D], labels [T] (int64; tokens with a negative label do not count). Returns the mean
    over the labels that count, plus z_loss times the mean square of the log of each sum of exponentials; 0 when no
    label counts.
    """
    return torch.ops.longhaul.linear_cross_entropy(hidden, weight, labels, z_loss)
