#!/usr/bin/env python3
"""liblonghaul_ops.so from Python: loads it with torch.ops.load_library and compares every operator with plain PyTorch.

    ops_library.py build/release/liblonghaul_ops.so

Values and gradients, fp64 (1e-9: sums of some hundred terms), fp32 (1e-4) and bf16 (3e-2: inputs and results rounded to 8 bits), packed
documents of length 0 and 1, shared key heads, windows, masked labels, meta tensors.
"""
import sys

import torch

LIMIT = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 3e-2}
OFFSETS = [0, 5, 5, 6, 41]


def rand(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 0.5


def recurrence(q, k, v, log_decay, initial, offsets, scale, reverse):
    heads, group = q.shape[1], q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    outputs, states = [None] * q.shape[0], []
    for n in range(len(offsets) - 1):
        state = initial[n]
        tokens = range(offsets[n], offsets[n + 1])
        for t in reversed(tokens) if reverse else tokens:
            if log_decay is not None:
                g = log_decay if log_decay.dim() == 1 else log_decay[t]
                state = state * (g.view(heads, 1, 1) if g.dim() == 1 else g.unsqueeze(-1)).exp()
            state = state + k[t].unsqueeze(2) * v[t].unsqueeze(1)
            outputs[t] = scale * torch.einsum("hk,hkv->hv", q[t], state)
        states.append(state)
    return torch.stack(outputs), torch.stack(states)


def attention(q, k, v, offsets, window, scale):
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    tokens = torch.arange(q.shape[0])
    document = torch.bucketize(tokens, torch.tensor(offsets[1:]), right=True)
    seen = (document[:, None] == document[None]) & (tokens[:, None] >= tokens[None])
    if window:
        seen &= tokens[:, None] - tokens[None] < window
    scores = (scale * torch.einsum("thd,shd->hts", q, k)).masked_fill(~seen, float("-inf"))
    return torch.einsum("hts,shd->thd", scores.softmax(-1), v), scores.logsumexp(-1).t()


def cross_entropy(hidden, weight, labels, z_loss):
    logits = hidden @ weight.t()
    lse, kept = logits.logsumexp(1), labels >= 0
    each = lse - logits.gather(1, labels.clamp_min(0)[:, None])[:, 0] + z_loss * lse.square()
    return each[kept].sum() / kept.sum()


def close(found, expected, limit, what):
    found, expected = found.double(), expected.double()
    error = ((found - expected).abs().max() / expected.abs().max().clamp_min(1e-30)).item() if expected.numel() else 0.0
    assert error < limit, f"{what}: relative error {error:.3g}, at most {limit:g}"


def compare(what, dtype, arguments, ours, plain):
    """arguments: fp64 tensors that want gradients; ours and plain map them to a tuple of tensors."""
    rounded = [a.detach().to(dtype).double().clone() for a in arguments]
    # States are fp32 beside bf16 inputs.
    mine = [a.clone().to(dtype if a.dim() < 4 or dtype == torch.float64 else torch.float32).requires_grad_() for a in rounded]
    theirs = [a.clone().requires_grad_() for a in rounded]
    found, expected = ours(*mine), plain(*theirs)
    seeds = [rand(*e.shape, seed=90 + i) if e.dim() else torch.tensor(1.0, dtype=torch.float64) for i, e in enumerate(expected)]
    sum((f.double() * s).sum() for f, s in zip(found, seeds)).backward()
    sum((e * s).sum() for e, s in zip(expected, seeds)).backward()
    for i, (f, e) in enumerate(zip(found, expected)):
        close(f.detach(), e.detach(), LIMIT[dtype], f"{what} {dtype}: output {i}")
    for i, (m, t) in enumerate(zip(mine, theirs)):
        close(m.grad, t.grad, LIMIT[dtype], f"{what} {dtype}: gradient of argument {i}")


def main():
    torch.ops.load_library(sys.argv[1])
    ops = torch.ops.longhaul
    tokens, documents = OFFSETS[-1], len(OFFSETS) - 1
    cu = torch.tensor(OFFSETS)
    for dtype in LIMIT:
        for kind, shape in {"none": None, "head": (4,), "head_token": (tokens, 4), "key_token": (tokens, 4, 6)}.items():
            for reverse in (False, True):
                q, k, v = rand(tokens, 4, 6, seed=1), rand(tokens, 2, 6, seed=2), rand(tokens, 2, 5, seed=3)
                initial = rand(documents, 4, 6, 5, seed=4)
                decay = [] if shape is None else [-rand(*shape, seed=5).abs()]
                first = lambda rest: rest[0] if rest else None
                compare(f"linear_recurrence {kind}", dtype, [q, k, v, initial, *decay],
                        lambda q, k, v, s, *g: ops.linear_recurrence(q, k, v, first(g), s, cu, 0.7, reverse),
                        lambda q, k, v, s, *g: recurrence(q, k, v, first(g), s, OFFSETS, 0.7, reverse))
        for window in (0, 1, 7):
            q, k, v = rand(tokens, 4, 8, seed=1), rand(tokens, 2, 8, seed=2), rand(tokens, 2, 8, seed=3)
            compare(f"attention window {window}", dtype, [q, k, v], lambda *x: ops.attention(*x, cu, window, 0.4),
                    lambda *x: attention(*x, OFFSETS, window, 0.4))
        labels = torch.randint(37, (tokens,), generator=torch.Generator().manual_seed(6))
        labels[::5] = -1
        compare("linear_cross_entropy", dtype, [rand(tokens, 12, seed=1), rand(37, 12, seed=2)],
                lambda h, w: (ops.linear_cross_entropy(h, w, labels, 1e-3),), lambda h, w: (cross_entropy(h, w, labels, 1e-3),))
    meta = torch.empty(7, 4, 8, device="meta", dtype=torch.bfloat16)
    o, state = ops.linear_recurrence(meta, meta, meta, None, None, None, 1.0)
    assert o.shape == (7, 4, 8) and state.shape == (1, 4, 8, 8) and state.dtype == torch.float32 and o.is_meta
    try:
        ops.linear_recurrence(rand(3, 2, 4, seed=1), rand(3, 2, 5, seed=2), rand(3, 2, 4, seed=3), None, None, None, 1.0)
        raise AssertionError("keys of another width were accepted")
    except RuntimeError as error:
        assert "bad argument k" in str(error), error
    print("every operator agrees with plain PyTorch")


if __name__ == "__main__":
    main()
