#!/usr/bin/env python3
"""torch.ops.longhaul.optimizer_step beside other people's optimizers: torch.optim's AdamW, SGD, Adafactor and Muon, transformers' Adafactor; and, where the
public ones are not the published algorithm, plain PyTorch in fp64 written from the publications (CAME, LAMB as apex has it, Lion, SM3-II). The authors' CAME
(came-pytorch) and pytorch-optimizer's Lion and SM3, and its CAME on matrices alone (its vectors' momentum is overwritten by the step).

    optimizer_steps.py build/release/liblonghaul_ops.so

Shapes (7), (64, 48) and (5, 3), 50 steps from one seed: weights within 1e-5 of their largest in fp32, 1e-10 in fp64, states within 1e-4 and 1e-9. torch's Muon makes
its products in bf16: what it adds to weights is within 3e-2 of ours in norm. Then: nothing is recorded, versions rise, fake tensors, torch.compile, refusals.
"""
import math
import sys
import time

import torch

SHAPES = [(7,), (64, 48), (5, 3)]
STEPS = 50
WEIGHTS = {torch.float32: 1e-5, torch.float64: 1e-10}
STATES = {torch.float32: 1e-4, torch.float64: 1e-9}


def tensors(dtype, seed, scale=1.0, shapes=SHAPES):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randn(*shape, generator=generator, dtype=torch.float64) * scale).to(dtype) for shape in shapes]


def close(found, expected, limit, what):
    found, expected = found.double(), expected.double()
    error = ((found - expected).abs().max() / expected.abs().max().clamp_min(1e-30)).item()
    assert error < limit, f"{what}: relative error {error:.3g}, at most {limit:g}"


class Ours:
    """Values, and their states by tensor."""

    def __init__(self, ops, name, dtype, options=(), lr=1e-2, shapes=SHAPES):
        self.ops, self.name, self.options, self.lr, self.t = ops, name, list(options), lr, 0
        self.values = tensors(dtype, 1, shapes=shapes)
        self.states = ops.optimizer_states(name, self.values, self.options)

    def step(self, gradients):
        self.t += 1
        self.ops.optimizer_step(self.name, self.values, gradients, self.states, self.t, self.lr, self.options)


def beside(what, ours, theirs, dtype, step_of_theirs, shapes=SHAPES):
    """`theirs`: their values. step_of_theirs(gradients)."""
    for t in range(STEPS):
        gradients = tensors(dtype, 100 + t, 0.3, shapes)
        ours.step(gradients)
        step_of_theirs(gradients)
        for i, (mine, other) in enumerate(zip(ours.values, theirs)):
            close(mine, other.detach(), WEIGHTS[dtype], f"{what} {dtype}: value {i}, step {t + 1}")


def beside_torch(what, ours, dtype, make, states=(), shapes=SHAPES):
    """An optimizer of torch.optim's kind, and the names of its states in the order of ours, of every tensor."""
    parameters = [torch.nn.Parameter(value.clone()) for value in ours.values]
    optimizer = make(parameters)

    def step(gradients):
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient.clone()
        optimizer.step()

    beside(what, ours, parameters, dtype, step, shapes)
    mine = iter(ours.states)
    for i, parameter in enumerate(parameters):
        for name in states(parameter) if callable(states) else states:
            close(next(mine).flatten(), optimizer.state[parameter][name].flatten(), STATES[dtype], f"{what} {dtype}: {name} of value {i}")
    assert not states or next(mine, None) is None, f"{what}: states that {what} has not"


def torch_optimizers(ops):
    for dtype in WEIGHTS:
        for decay in (0.0, 0.1):
            beside_torch("torch AdamW", Ours(ops, "adamw", dtype, [0.9, 0.999, 1e-8, decay]), dtype,
                         lambda p: torch.optim.AdamW(p, lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=decay), ["exp_avg", "exp_avg_sq"])
        for nesterov in (False, True):
            beside_torch("torch SGD", Ours(ops, "sgd", dtype, [0.9, 0.0, float(nesterov)]), dtype,
                         lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, nesterov=nesterov), ["momentum_buffer"])
        beside_torch("torch SGD", Ours(ops, "sgd", dtype, [0.0, 0.0]), dtype, lambda p: torch.optim.SGD(p, lr=1e-2))
        of_matrices = lambda p: ["row_var", "col_var"] if p.dim() > 1 else ["variance"]
        for decay in (0.0, 0.01):
            beside_torch("torch Adafactor", Ours(ops, "adafactor", dtype, [0.0, decay, 1.0]), dtype,
                         lambda p: torch.optim.Adafactor(p, lr=1e-2, weight_decay=decay), of_matrices)


def transformers_adafactor(ops):
    from transformers.optimization import Adafactor

    factored = lambda p: ["exp_avg_sq_row", "exp_avg_sq_col"] if p.dim() > 1 else ["exp_avg_sq"]
    for dtype in WEIGHTS:
        for momentum in (0.0, 0.9):
            for scaled in (False, True):
                for relative in (False, True):
                    # Ours bounds a relative step by the learning rate; theirs is 1e-2 at most, and takes none.
                    beside_torch("transformers Adafactor", Ours(ops, "adafactor", dtype, [momentum, 0.1, 0.0, float(scaled), float(relative)]), dtype,
                                 lambda p: Adafactor(p, lr=None if relative else 1e-2, beta1=momentum or None, weight_decay=0.1,
                                                     scale_parameter=scaled, relative_step=relative),
                                 lambda p: (["exp_avg"] if momentum else []) + factored(p))


def packages_of_authors(ops):
    import came_pytorch
    import pytorch_optimizer

    came_states = lambda p: ["exp_avg"] + (["exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_res_row", "exp_avg_res_col"] if p.dim() > 1 else ["exp_avg_sq"])
    for dtype in WEIGHTS:
        for decay in (0.0, 0.05):
            options = [0.9, 0.999, 0.9999, decay]
            beside_torch("came-pytorch", Ours(ops, "came", dtype, options, lr=1e-3), dtype,
                         lambda p: came_pytorch.CAME(p, lr=1e-3, betas=(0.9, 0.999, 0.9999), weight_decay=decay), came_states)
            beside_torch("pytorch-optimizer Lion", Ours(ops, "lion", dtype, [0.9, 0.99, decay], lr=1e-3), dtype,
                         lambda p: pytorch_optimizer.Lion(p, lr=1e-3, betas=(0.9, 0.99), weight_decay=decay))
            beside_torch("pytorch-optimizer CAME", Ours(ops, "came", dtype, options, lr=1e-3, shapes=SHAPES[1:]), dtype,
                         lambda p: pytorch_optimizer.CAME(p, lr=1e-3, betas=(0.9, 0.999, 0.9999), weight_decay=decay), shapes=SHAPES[1:])
        beside_torch("pytorch-optimizer SM3", Ours(ops, "sm3", dtype, [0.9, 0.0], lr=1e-3), dtype,
                     lambda p: pytorch_optimizer.SM3(p, lr=1e-3, momentum=0.9, beta=0.0, eps=1e-30))


def stacked_matrices(ops):
    """(2, 5, 3) is two matrices to our CAME; came-pytorch, which clips by the RMS of all of a tensor, is given them one by one."""
    import came_pytorch

    for dtype in WEIGHTS:
        ours = Ours(ops, "came", dtype, [0.9, 0.999, 0.9999, 0.05], lr=1e-3, shapes=[(2, 5, 3)])
        parameters = [torch.nn.Parameter(matrix.clone()) for matrix in ours.values[0]]
        optimizer = came_pytorch.CAME(parameters, lr=1e-3, betas=(0.9, 0.999, 0.9999), weight_decay=0.05)
        for t in range(STEPS):
            gradients = tensors(dtype, 100 + t, 0.3, [(2, 5, 3)])
            ours.step(gradients)
            for parameter, gradient in zip(parameters, gradients[0]):
                parameter.grad = gradient.clone()
            optimizer.step()
            for i, (mine, other) in enumerate(zip(ours.values[0], parameters)):
                close(mine, other.detach(), WEIGHTS[dtype], f"came-pytorch {dtype}: matrix {i}, step {t + 1}")


def muon(ops):
    shapes = [(64, 48), (48, 64), (33, 130)]
    for original in (False, True):
        ours = Ours(ops, "muon", torch.float32, [0.95, 0.1, 1.0, float(original)], shapes=shapes)
        parameters = [torch.nn.Parameter(value.clone()) for value in ours.values]
        optimizer = torch.optim.Muon(parameters, lr=1e-2, weight_decay=0.1, momentum=0.95, nesterov=True,
                                     adjust_lr_fn="original" if original else "match_rms_adamw")
        for t in range(5):
            before = [value.clone() for value in ours.values]
            for parameter, value, gradient in zip(parameters, ours.values, tensors(torch.float32, 100 + t, 0.3, shapes)):
                parameter.data.copy_(value)
                parameter.grad = gradient
            ours.step([parameter.grad for parameter in parameters])
            optimizer.step()
            for i, (mine, other, was) in enumerate(zip(ours.values, parameters, before)):
                added, theirs = mine - was * (1 - 1e-3), other.detach() - was * (1 - 1e-3)
                error = ((added - theirs).norm() / theirs.norm()).item()
                assert error < 3e-2, f"torch Muon, value {i}, step {t + 1}: {error:.3g}"


# ---- plain PyTorch, from the publications


def rms(x):
    return x.square().mean().sqrt()


def came(w, g, state, t, lr, decay, betas=(0.9, 0.999, 0.9999), clip=1.0):
    """arXiv 2307.02047."""
    b1, b2, b3 = betas
    mean_over = lambda x, dim: x.mean(dim)
    if w.dim() < 2:
        v = state["v"] = b2 * state.get("v", 0) + (1 - b2) * (g * g + 1e-30)
        u = g / v.sqrt()
    else:
        square = g * g + 1e-30
        r = state["r"] = b2 * state.get("r", 0) + (1 - b2) * mean_over(square, 1)
        c = state["c"] = b2 * state.get("c", 0) + (1 - b2) * mean_over(square, 0)
        u = g / (torch.outer(r, c) / r.mean()).sqrt()
    u = u / max(1.0, rms(u).item() / clip)
    m = state["m"] = b1 * state.get("m", 0) + (1 - b1) * u
    step = m
    if w.dim() == 2:
        residual = (u - m) ** 2 + 1e-16
        rr = state["rr"] = b3 * state.get("rr", 0) + (1 - b3) * mean_over(residual, 1)
        cc = state["cc"] = b3 * state.get("cc", 0) + (1 - b3) * mean_over(residual, 0)
        step = m / (torch.outer(rr, cc) / rr.mean()).sqrt()
    return w * (1 - lr * decay) - lr * step


def lamb(w, g, state, t, lr, decay, beta3=0.1, least=0.0, most=math.inf):
    """arXiv 1904.00962, as apex's FusedLAMB; the bounds of the ratio are DeepSpeed's."""
    m = state["m"] = 0.9 * state.get("m", 0) + beta3 * g
    v = state["v"] = 0.999 * state.get("v", 0) + 0.001 * g * g
    u = m / (1 - 0.9**t) / ((v / (1 - 0.999**t)).sqrt() + 1e-6) + decay * w
    return w - lr * (min(max(w.norm() / u.norm(), least), most) if decay else 1.0) * u


def bounded_lamb(*arguments):
    return lamb(*arguments, beta3=1.0, least=0.9, most=2.0)


def lion(w, g, state, t, lr, decay):
    """arXiv 2302.06675."""
    m = state.get("m", torch.zeros_like(w))
    state["m"] = 0.99 * m + 0.01 * g
    return w * (1 - lr * decay) - lr * torch.sign(0.9 * m + 0.1 * g)


def sm3(w, g, state, t, lr, decay):
    """arXiv 1901.11150, SM3-II with momentum."""
    if w.dim() < 2:
        nu = state["nu"] = state.get("nu", 0) + g * g
    else:
        rows, columns = state.get("rows", torch.zeros_like(w[:, 0])), state.get("columns", torch.zeros_like(w[0]))
        nu = torch.minimum(rows[:, None], columns[None, :]) + g * g
        state["rows"], state["columns"] = nu.amax(1), nu.amax(0)
    m = state["m"] = 0.9 * state.get("m", 0) + 0.1 * g / (nu + 1e-30).sqrt()
    return w * (1 - lr * decay) - lr * m


def published(ops):
    for name, plain, options in (("came", came, lambda wd: [0.9, 0.999, 0.9999, wd]), ("lamb", lamb, lambda wd: [0.9, 0.999, 1e-6, wd]),
                                 ("lamb", bounded_lamb, lambda wd: [0.9, 0.999, 1e-6, wd, 0, 0, 0, 0.9, 2.0]),
                                 ("lion", lion, lambda wd: [0.9, 0.99, wd]), ("sm3", sm3, lambda wd: [0.9, wd])):
        for dtype in WEIGHTS:
            for decay in (0.0, 0.05):
                ours = Ours(ops, name, dtype, options(decay), lr=1e-3)
                theirs, states = [value.double().clone() for value in ours.values], [{} for _ in SHAPES]

                def step(gradients):
                    for i, g in enumerate(gradients):
                        theirs[i] = plain(theirs[i], g.double(), states[i], ours.t, 1e-3, decay)

                beside(name, ours, theirs, dtype, step)


# ---- what PyTorch expects of an operator


def torch_rules(ops):
    for name in ("adamw", "came", "lamb", "sgd"):
        parameters = [torch.nn.Parameter(value) for value in tensors(torch.float32, 1)]
        states = ops.optimizer_states(name, parameters)
        assert not any(state.requires_grad for state in states)
        gradients, versions = tensors(torch.float32, 2), [p._version for p in parameters]
        given = [g.clone() for g in gradients]
        ops.optimizer_step(name, parameters, gradients, states, 1, 1e-2)  # gradients are on, and nothing of it is recorded
        assert all(p.is_leaf and p.grad_fn is None and p._version > v for p, v in zip(parameters, versions)), name
        assert all(torch.equal(a, b) for a, b in zip(gradients, given)), "gradients were written"
    w = torch.nn.Parameter(torch.ones(3, 4))
    loss = (w * w).sum()
    ops.optimizer_step("sgd", [w], [torch.ones(3, 4)], ops.optimizer_states("sgd", [w]), 1, 0.1)
    refused(loss.backward, "modified by an inplace operation")
    meta = [torch.empty(5, 3, device="meta")]
    states = ops.optimizer_states("came", meta)
    assert [tuple(s.shape) for s in states] == [(5, 3), (5,), (3,), (5,), (3,)] and all(s.is_meta for s in states)
    ops.optimizer_step("came", meta, meta, states, 1, 0.1)
    refused(lambda: ops.optimizer_step("came", meta, meta, states[:-1], 1, 0.1), "bad argument states")
    for name in ("adamw", "came"):
        values = tensors(torch.float32, 1)
        arguments = (name, values, tensors(torch.float32, 2), ops.optimizer_states(name, values), 1, 1e-2, [])
        torch.library.opcheck(ops.optimizer_step.default, arguments)

    def step(values, gradients, states):
        ops.optimizer_step("came", values, [g * 2 for g in gradients], states, 1, 1e-2)
        return [v.sum() for v in values]

    plain, compiled = ((tensors(torch.float32, 1), tensors(torch.float32, 2)) for _ in range(2))
    states = [ops.optimizer_states("came", plain[0]) for _ in range(2)]
    expected = step(*plain, states[0])
    found = torch.compile(step, backend="aot_eager", fullgraph=True)(*compiled, states[1])
    for a, b in zip([*found, *compiled[0], *states[1]], [*expected, *plain[0], *states[0]]):
        assert torch.equal(a, b), "torch.compile gives another step"


class Longhaul(torch.optim.Optimizer):
    """As docs/reference/python-operators.md has it."""

    def __init__(self, parameters, name, lr, options=()):
        super().__init__(parameters, dict(name=name, lr=lr, options=list(options), t=0, states=None))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            weights = group["params"]
            group["states"] = group["states"] or torch.ops.longhaul.optimizer_states(group["name"], weights, group["options"])
            group["t"] += 1
            torch.ops.longhaul.optimizer_step(group["name"], weights, [w.grad for w in weights], group["states"], group["t"], group["lr"], group["options"])


def a_model_of_torch(ops):
    """A torch.nn model learns, by each optimizer, with a scheduler of torch's."""
    inputs, targets = torch.randn(64, 8, generator=torch.Generator().manual_seed(1)), torch.randn(64, 1, generator=torch.Generator().manual_seed(2))
    for name, lr in {"adamw": 1e-2, "lamb": 3e-2, "came": 5e-3, "adafactor": 1e-1, "lion": 3e-3, "muon": 1e-2, "sm3": 1e-1, "sgd": 1e-2}.items():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 32, bias=False), torch.nn.Tanh(), torch.nn.Linear(32, 1, bias=False))
        optimizer = Longhaul(model.parameters(), name, lr)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 100)
        losses = []
        for _ in range(100):
            optimizer.zero_grad()
            loss = (model(inputs) - targets).square().mean()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        assert losses[-1] < 0.8 * losses[0], f"{name}: {losses[0]:.3f} became {losses[-1]:.3f}"


def refused(action, reason):
    try:
        action()
    except RuntimeError as error:
        assert reason in str(error), error
    else:
        raise AssertionError(f"not refused: {reason}")


def refusals(ops):
    w, g = torch.ones(4, 3), torch.ones(4, 3)
    states = ops.optimizer_states("adamw", [w])
    for reason, arguments in {
        "bad argument name": ("adam", [w], [g], states, 1, 0.1),
        "bad argument values[0]": ("adamw", [w.bfloat16()], [g], states, 1, 0.1),
        "bad argument gradients[0]": ("adamw", [w], [g.double()], states, 1, 0.1),
        "bad argument gradients: expected 1": ("adamw", [w], [], states, 1, 0.1),
        "bad argument states[1]": ("adamw", [w], [g], [states[0], states[1][0]], 1, 0.1),
        "bad argument states": ("adamw", [w], [g], states[:1], 1, 0.1),
        "bad argument step": ("adamw", [w], [g], states, 0, 0.1),
        "bad argument lr": ("adamw", [w], [g], states, 1, math.nan),
        "bad argument beta1": ("adamw", [w], [g], states, 1, 0.1, [1.5]),
        "bad argument options": ("adamw", [w], [g], states, 1, 0.1, [0.5] * 9),
    }.items():
        refused(lambda: ops.optimizer_step(*arguments), reason.split(":")[0])
    assert torch.equal(w, torch.ones(4, 3)), "a refused call wrote"


def times(ops):
    """Of one step of AdamW on 16 million parameters; told, not judged."""
    shapes = [(1024, 1024)] * 16
    values, gradients = tensors(torch.float32, 1, shapes=shapes), tensors(torch.float32, 2, shapes=shapes)
    states = ops.optimizer_states("adamw", values)
    parameters = [torch.nn.Parameter(value.clone()) for value in values]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    fused, each = (torch.optim.AdamW(parameters, lr=1e-3, fused=on, foreach=not on) for on in (True, False))
    ways = {"longhaul": lambda: ops.optimizer_step("adamw", values, gradients, states, 1, 1e-3), "torch fused": fused.step, "torch foreach": each.step}
    seconds = {name: [] for name in ways}
    for _ in range(6):
        for name, way in ways.items():
            start = time.monotonic()
            way()
            seconds[name].append(time.monotonic() - start)
    print("  ".join(f"{name}: {1e3 * sorted(all_of[1:])[2]:.1f} ms" for name, all_of in seconds.items()))


def main():
    torch.ops.load_library(sys.argv[1])
    for check in (torch_optimizers, transformers_adafactor, packages_of_authors, stacked_matrices, muon, published, torch_rules, a_model_of_torch, refusals, times):
        start = time.monotonic()
        check(torch.ops.longhaul)
        print(f"{check.__name__}: {time.monotonic() - start:.1f} s", flush=True)
    print("every step agrees with its peer")


if __name__ == "__main__":
    main()
