"""The trainer's optimizers as torch.optim.Optimizer classes. Their steps equal the trainer's to the bit on a CPU.

Parameters are fp32 or fp64, on the CPU. A parameter of two dimensions is a matrix, one of more is a stack of matrices,
each of which is updated by itself. Weight decay applies to every parameter of a group: give norms and biases a group
with weight_decay=0. docs/guides/optimizers.md says which optimizer suits which run.
"""
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

import torch
from torch import Tensor

__all__ = ["AdamW", "Lamb", "Came", "Adafactor", "Lion", "Muon", "Sm3", "Sgd"]


class _LonghaulOptimizer(torch.optim.Optimizer):
    _name = ""  # of torch.ops.longhaul.optimizer_step
    _options: Tuple[str, ...] = ()  # keys of a group, in the order in which the operator takes them

    def __init__(self, params: Iterable[Any], lr: float, **options: Any):
        if not lr >= 0:
            raise ValueError(f"lr is a number of at least 0, found {lr}")
        super().__init__(params, {"lr": lr, **options})

    def _numbers(self, group: Dict[str, Any]) -> List[float]:
        numbers: List[float] = []
        for key in self._options:
            value = group[key]
            numbers += [float(each) for each in value] if isinstance(value, (tuple, list)) else [float(value)]
        return numbers

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Updates every parameter that has a gradient. Returns what `closure`, if any, returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            options = self._numbers(group)
            by_step: Dict[int, List[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["step"] = 0
                    state["tensors"] = list(torch.ops.longhaul.optimizer_states(self._name, [parameter], options))
                state["step"] += 1
                by_step.setdefault(state["step"], []).append(parameter)
            for step, parameters in by_step.items():
                states = [tensor for parameter in parameters for tensor in self.state[parameter]["tensors"]]
                gradients = [parameter.grad for parameter in parameters]
                torch.ops.longhaul.optimizer_step(
                    self._name, parameters, gradients, states, step, float(group["lr"]), options
                )
        return loss


class AdamW(_LonghaulOptimizer):
    """Adam with decoupled weight decay (arXiv:1711.05101)."""

    _name, _options = "adamw", ("betas", "eps", "weight_decay")

    def __init__(self, params, lr: float = 3e-4, betas=(0.9, 0.95), eps: float = 1e-8, weight_decay: float = 0.1):
        super().__init__(params, lr, betas=betas, eps=eps, weight_decay=weight_decay)


class Lamb(_LonghaulOptimizer):
    """LAMB: Adam's step scaled by a trust ratio for each matrix, for large batches (arXiv:1904.00962)."""

    _name = "lamb"
    _options = ("betas", "eps", "weight_decay", "nvlamb", "l2", "grad_averaging", "min_ratio", "max_ratio")

    def __init__(
        self,
        params,
        lr: float = 1e-3,
        betas=(0.9, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.1,
        nvlamb: bool = False,
        l2: bool = False,
        grad_averaging: bool = True,
        min_ratio: float = 0.0,
        max_ratio: float = 0.0,
    ):
        super().__init__(
            params,
            lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            nvlamb=nvlamb,
            l2=l2,
            grad_averaging=grad_averaging,
            min_ratio=min_ratio,
            max_ratio=max_ratio,
        )


class Came(_LonghaulOptimizer):
    """CAME: factored second moments guided by a confidence, so that the state is about a third of Adam's
    (arXiv:2307.02047)."""

    _name = "came"
    _options = ("betas", "weight_decay", "update_clip", "eps", "correct_residuals")

    def __init__(
        self,
        params,
        lr: float = 2e-4,
        betas=(0.9, 0.95, 0.995),
        weight_decay: float = 0.1,
        update_clip: float = 1.0,
        eps=(1e-30, 1e-16),
        correct_residuals: bool = False,
    ):
        super().__init__(
            params,
            lr,
            betas=betas,
            weight_decay=weight_decay,
            update_clip=update_clip,
            eps=eps,
            correct_residuals=correct_residuals,
        )


class Adafactor(_LonghaulOptimizer):
    """Adafactor: second moments kept as sums of rows and columns (arXiv:1804.04235). form: 0 follows fairseq, 1
    torch, 2 big_vision."""

    _name = "adafactor"
    _options = ("momentum", "weight_decay", "form", "scale_by_weights", "relative_step", "update_clip", "eps")

    def __init__(
        self,
        params,
        lr: float = 1e-2,
        momentum: float = 0.0,
        weight_decay: float = 0.1,
        form: int = 0,
        scale_by_weights: bool = True,
        relative_step: bool = True,
        update_clip: float = 1.0,
        eps: float = 1e-30,
    ):
        super().__init__(
            params,
            lr,
            momentum=momentum,
            weight_decay=weight_decay,
            form=form,
            scale_by_weights=scale_by_weights,
            relative_step=relative_step,
            update_clip=update_clip,
            eps=eps,
        )


class Lion(_LonghaulOptimizer):
    """Lion: the sign of an interpolated momentum (arXiv:2302.06675)."""

    _name, _options = "lion", ("betas", "weight_decay", "sign_fade")

    def __init__(self, params, lr: float = 1e-4, betas=(0.9, 0.95), weight_decay: float = 0.1, sign_fade: float = 0.0):
        super().__init__(params, lr, betas=betas, weight_decay=weight_decay, sign_fade=sign_fade)


class Muon(_LonghaulOptimizer):
    """Muon: momentum orthogonalised by Newton-Schulz iterations (arXiv:2502.16982). It takes matrices only: give
    embeddings, norms and biases to AdamW."""

    _name = "muon"
    _options = ("momentum", "weight_decay", "nesterov", "original_scale", "iterations", "bf16_products")

    def __init__(
        self,
        params,
        lr: float = 2e-2,
        momentum: float = 0.95,
        weight_decay: float = 0.1,
        nesterov: bool = True,
        original_scale: bool = False,
        iterations: int = 5,
        bf16_products: bool = False,
    ):
        super().__init__(
            params,
            lr,
            momentum=momentum,
            weight_decay=weight_decay,
            nesterov=nesterov,
            original_scale=original_scale,
            iterations=iterations,
            bf16_products=bf16_products,
        )


class Sm3(_LonghaulOptimizer):
    """SM3-II: second moments bounded by rows and columns (arXiv:1901.11150)."""

    _name, _options = "sm3", ("momentum", "weight_decay", "eps")

    def __init__(self, params, lr: float = 0.1, momentum: float = 0.9, weight_decay: float = 0.1, eps: float = 1e-30):
        super().__init__(params, lr, momentum=momentum, weight_decay=weight_decay, eps=eps)


class Sgd(_LonghaulOptimizer):
    """Stochastic gradient descent with momentum."""

    _name, _options = "sgd", ("momentum", "weight_decay", "nesterov")

    def __init__(self, params, lr: float, momentum: float = 0.9, weight_decay: float = 0.1, nesterov: bool = True):
        super().__init__(params, lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov)
