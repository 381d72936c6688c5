#!/usr/bin/env python3
"""liblonghaul_ops.so from Python: loads it with torch.ops.load_library and compares every operator with plain PyTorch.

    ops_library.py build/release/liblonghaul_ops.so

Values and gradients, fp64 (1e-9: sums of some hundred terms), fp32 (1e-4) and bf16 (3e-2: inputs and results rounded to 8 bits), packed
documents of length 0 and 1, shared key heads, windows, masked labels, every stride, every choice of arguments that want gradients; finite
differences in fp64; nothing to do (no tokens, no labels); refusals; meta and fake tensors, torch.compile, torch.library.opcheck.
"""
import re
import sys
import time

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


def plain_answer(dtype, arguments, plain):
    """The arguments as `dtype` has them, and in fp64 what plain PyTorch makes of those: a tuple of tensors, and the gradients of their
    weighed sum."""
    rounded = [a.detach().to(dtype).double() for a in arguments]
    leaves = [a.clone().requires_grad_() for a in rounded]
    outputs = plain(*leaves)
    weights = [rand(*x.shape, seed=90 + i) if x.dim() else torch.tensor(1.3, dtype=torch.float64) for i, x in enumerate(outputs)]
    sum((x * w).sum() for x, w in zip(outputs, weights)).backward()
    return rounded, [x.detach() for x in outputs], weights, [x.grad for x in leaves]


def compare(what, dtype, answer, ours, wanted, layout=lambda a: a):
    """`ours` gives the same values, and the same gradients to those arguments that are `wanted`, which it gets as `layout` lays them out."""
    rounded, outputs, weights, gradients = answer
    # States are fp32 beside bf16 inputs.
    mine = [a.to(dtype if a.dim() < 4 or dtype == torch.float64 else torch.float32).clone() for a in rounded]
    for i in wanted:
        mine[i].requires_grad_()
    found = ours(*map(layout, mine))
    for i, (f, e) in enumerate(zip(found, outputs)):
        close(f.detach(), e, LIMIT[dtype], f"{what} {dtype}: output {i}")
    if not wanted:
        assert not any(f.requires_grad for f in found), f"{what}: gradients that nobody wants"
        return
    sum((f.double() * w).sum() for f, w in zip(found, weights)).backward()
    for i, (m, e) in enumerate(zip(mine, gradients)):
        assert (m.grad is not None and m.grad.dtype == m.dtype) if i in wanted else m.grad is None, f"{what}: gradient {i} of {wanted}"
        if i in wanted:
            close(m.grad, e, LIMIT[dtype], f"{what} {dtype}: gradient of argument {i} of {wanted}")


NAN_BESIDE = lambda a: torch.full_like(a, float("nan"))
LAYOUTS = {
    "axes in another order": lambda a: a.transpose(0, -1).contiguous().transpose(0, -1),
    "slice of longer rows": lambda a: torch.cat([a, NAN_BESIDE(a)], -1)[..., : a.shape[-1]],
    "every other element": lambda a: torch.stack([a, NAN_BESIDE(a)], -1)[..., 0],
}


def every_way(what, dtype, arguments, ours, plain):
    answer, every = plain_answer(dtype, arguments, plain), list(range(len(arguments)))
    for wanted in (every, [], *([i] for i in every)):
        compare(what, dtype, answer, ours, wanted)
    for name, layout in LAYOUTS.items():
        compare(f"{what}, {name},", dtype, answer, ours, every, layout)


def decays(tokens, heads, keys):
    return {"none": None, "head": (heads,), "head_token": (tokens, heads), "key_token": (tokens, heads, keys)}


def first(rest):
    return rest[0] if rest else None


def values_and_gradients(ops):
    tokens, documents = OFFSETS[-1], len(OFFSETS) - 1
    cu = torch.tensor(OFFSETS)
    labels = torch.randint(37, (tokens,), generator=torch.Generator().manual_seed(6))
    labels[::5], labels[3] = -1, -100
    for dtype in LIMIT:
        for kind, shape in decays(tokens, 4, 6).items():
            for reverse in (False, True):
                q, k, v = rand(tokens, 4, 6, seed=1), rand(tokens, 2, 6, seed=2), rand(tokens, 2, 5, seed=3)
                decay = [] if shape is None else [-rand(*shape, seed=5).abs()]
                every_way(f"linear_recurrence {kind} reverse {reverse}", dtype, [q, k, v, rand(documents, 4, 6, 5, seed=4), *decay],
                          lambda q, k, v, s, *g: ops.linear_recurrence(q, k, v, first(g), s, cu, 0.7, reverse),
                          lambda q, k, v, s, *g: recurrence(q, k, v, first(g), s, OFFSETS, 0.7, reverse))
        for window in (0, 1, 7, 1000):
            for width in (8, 5):
                q, k, v = rand(tokens, 4, 8, seed=1), rand(tokens, 2, 8, seed=2), rand(tokens, 2, width, seed=3)
                every_way(f"attention window {window}", dtype, [q, k, v], lambda *x: ops.attention(*x, cu, window, 0.4),
                          lambda *x: attention(*x, OFFSETS, window, 0.4))
        for z_loss in (0.0, 1e-2):
            every_way("linear_cross_entropy", dtype, [rand(tokens, 12, seed=1), rand(37, 12, seed=2)],
                      lambda h, w: (ops.linear_cross_entropy(h, w, labels, z_loss),), lambda h, w: (cross_entropy(h, w, labels, z_loss),))


def finite_differences(ops):
    """Of every output on its own too: gradcheck sums over them one element at a time."""
    check = lambda function, *arguments: torch.autograd.gradcheck(function, [a.requires_grad_() for a in arguments])
    offsets = torch.tensor([0, 3, 3, 4, 9])
    for shape in decays(9, 4, 3).values():
        for reverse in (False, True):
            decay = [] if shape is None else [-rand(*shape, seed=5).abs() - 0.05]
            check(lambda q, k, v, s, *g: ops.linear_recurrence(q, k, v, first(g), s, offsets, 0.7, reverse),
                  rand(9, 4, 3, seed=1), rand(9, 2, 3, seed=2), rand(9, 2, 2, seed=3), rand(4, 4, 3, 2, seed=4), *decay)
    for window in (0, 1, 3):
        check(lambda *x: ops.attention(*x, offsets, window, 0.7), rand(9, 4, 3, seed=1), rand(9, 2, 3, seed=2), rand(9, 2, 2, seed=3))
    labels = torch.tensor([0, 4, -1, 2, 2, -100])
    check(lambda *x: ops.linear_cross_entropy(*x, labels, 0.1), rand(6, 4, seed=1), rand(5, 4, seed=2))


def nothing_to_do(ops):
    for dtype in LIMIT:
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        for shape in decays(0, 4, 6).values():
            for cu in (None, torch.tensor([0, 0]), torch.tensor([0, 0, 0])):
                documents = 1 if cu is None else len(cu) - 1
                q, k = torch.empty(0, 4, 6, dtype=dtype, requires_grad=True), torch.empty(0, 2, 6, dtype=dtype, requires_grad=True)
                decay = None if shape is None else torch.full(shape, -0.1, dtype=dtype, requires_grad=True)
                before = rand(documents, 4, 6, 6, seed=1).to(wide).requires_grad_()
                o, after = ops.linear_recurrence(q, k, k, decay, before, cu, 1.0)
                assert o.shape == q.shape and torch.equal(after, before), "a state does not pass through a document without tokens"
                (after * 2).sum().backward()
                assert torch.equal(before.grad, torch.full_like(before, 2)) and (decay is None or not decay.grad.any())
                assert not ops.linear_recurrence(q, k, k, decay, None, cu, 1.0)[1].any(), "the first state is not zero"
                o, logsumexp = ops.attention(q, k, k, cu, 0, 1.0)
                (o.sum() + logsumexp.sum()).backward()
                assert o.shape == q.shape and logsumexp.shape == (0, 4)
        for labels in (torch.empty(0, dtype=torch.long), torch.full((4,), -1), torch.tensor([-100, -1])):
            hidden, weight = rand(len(labels), 6, seed=1).to(dtype).requires_grad_(), rand(7, 6, seed=2).to(dtype).requires_grad_()
            loss = ops.linear_cross_entropy(hidden, weight, labels, 0.1)
            loss.backward()
            assert loss == 0 and not weight.grad.any() and not hidden.grad.any(), "a loss without labels"


def extremes(ops):
    for dtype in LIMIT:
        q, k, v = rand(70, 2, 16, seed=1).to(dtype), rand(70, 2, 16, seed=2).to(dtype), rand(70, 2, 16, seed=3).to(dtype)
        wide = [x.double() for x in (q, k, v)]
        for shape in filter(None, decays(70, 2, 16).values()):
            for value in (-1e4, float("-inf"), 0.0, -0.0):
                found = ops.linear_recurrence(q, k, v, torch.full(shape, value), None, None, 0.5)
                expected = recurrence(*wide, torch.full(shape, max(value, -1e4), dtype=torch.float64), torch.zeros(1, 2, 16, 16), [0, 70], 0.5, False)
                for f, e in zip(found, expected):
                    close(f, e, LIMIT[dtype], f"decay {value} {shape} {dtype}")


def refusals(ops):
    q, k, v, state = rand(5, 4, 6, seed=1), rand(5, 2, 6, seed=2), rand(5, 2, 3, seed=3), rand(1, 4, 6, 3, seed=4)
    hidden, weight, labels = rand(5, 6, seed=5), rand(7, 6, seed=6), torch.arange(5)
    whole = {"q": q, "k": k, "v": v, "log_decay": -torch.ones(4), "initial_state": state, "cu_seqlens": torch.tensor([0, 5]), "scale": 1.0}
    wrong_offsets = [[1, 5], [0, 3, 2, 5], [0, 4], [0, 9], [-1, 5], [0], [[0, 5]]]
    wrong = [(ops.linear_recurrence, whole, name, value) for name, values in {
        "q": [q[0], q.long(), q.to(torch.complex64)],
        "k": [k[..., :5], k[:4], q, k.float(), k.to("meta")],
        "v": [v[:3], v[:, 0], v.float(), v.to("meta"), rand(5, 3, 3, seed=1)],
        "log_decay": [-torch.ones(3), -torch.ones(5, 4, 1), -torch.ones(1, 5, 4, 6), -torch.ones(4, dtype=torch.long), -torch.ones(4, device="meta"),
                      torch.ones(4), torch.full((5, 4), 2e-3), torch.full((5, 4, 6), 1.0)],
        "initial_state": [state.float(), state.expand(2, 4, 6, 3), state.transpose(2, 3), state.to("meta")],
        "cu_seqlens": [torch.tensor([0, 5], dtype=torch.int32), torch.tensor([0.0, 5.0]), torch.tensor([0, 5], device="meta"),
                       *map(torch.tensor, wrong_offsets)],
    }.items() for value in values]
    whole = {"q": q, "k": k, "v": v, "cu_seqlens": None, "window": 0, "scale": 1.0}
    wrong += [(ops.attention, whole, name, value) for name, values in {
        "q": [q[0], q.long()],
        "k": [k[..., :5], rand(5, 3, 6, seed=1), k.float(), k.to("meta")],
        "v": [v[:4], rand(5, 4, 3, seed=1), v.float(), v.to("meta")],
        "cu_seqlens": [torch.tensor([0, 5], dtype=torch.int32), *map(torch.tensor, wrong_offsets)],
        "window": [-1],
    }.items() for value in values]
    whole = {"hidden": hidden, "weight": weight, "labels": labels, "z_loss": 0.0}
    wrong += [(ops.linear_cross_entropy, whole, name, value) for name, values in {
        "hidden": [q, hidden.long()],
        "weight": [weight[:, :5], weight.float(), weight[:0], weight.to("meta")],
        "labels": [labels.int(), labels[:4], labels + 3, labels.double(), labels.to("meta")],
    }.items() for value in values]
    for op, whole, name, value in wrong:
        came = f"{tuple(value.shape)} {value.dtype} {value.device}" if isinstance(value, torch.Tensor) else value
        try:
            op(**{**whole, name: value})
        except RuntimeError as error:
            # The argument by its name, what was expected and what came.
            assert re.search(rf"bad argument (\w+ \()?{name}\b.*expected .*found ", str(error), re.S), f"{op} {name} {came}: {error}"
        else:
            raise AssertionError(f"{op} took {name} {came}")


def autograd_rules(ops):
    q, k, v = (rand(9, 2, 4, seed=i).float() for i in range(3))
    labels = torch.zeros(9, dtype=torch.long)
    for name, op in {"linear_recurrence": lambda x, k: ops.linear_recurrence(x, k, v, None, None, None, 0.5)[0],
                     "attention": lambda x, k: ops.attention(x, k, v, None, 0, 0.5)[0],
                     "linear_cross_entropy": lambda x, k: ops.linear_cross_entropy(x[:, 0], k[:, 0], labels, 0.1)}.items():
        x = q.clone().requires_grad_()
        with torch.no_grad():
            quiet = op(x, k), op(x, k)
        with torch.inference_mode():
            inference = op(x, k)
        loud = op(x, k)
        assert not quiet[0].requires_grad and loud.requires_grad and all(torch.equal(loud, y) for y in (*quiet, inference)), name
        once, = torch.autograd.grad(loud.sum(), x, retain_graph=True)
        again, = torch.autograd.grad(loud.sum(), x)
        assert torch.equal(once, again), f"{name}: another gradient the second time"
        slope, = torch.autograd.grad(op(x, k).square().sum(), x, create_graph=True)
        refused(lambda: slope.sum().backward(), "no second derivative")
        if name != "linear_cross_entropy":  # whose gradients are there before the weight changes
            changed = k.clone()
            loud = op(x, changed)
            changed.mul_(2)
            refused(lambda: loud.sum().backward(), "inplace operation")


def refused(action, reason):
    try:
        action()
    except RuntimeError as error:
        assert reason in str(error), error
    else:
        raise AssertionError(f"not refused: {reason}")


def traced(ops):
    cu, labels = torch.tensor([0, 3, 9]), torch.tensor([0, 1, 2, 3, 4, 5, 6, -1, -1])
    q, k, v = rand(9, 4, 6, seed=1).float(), rand(9, 2, 6, seed=2).float(), rand(9, 2, 6, seed=3).float()

    def model(q, k, v, g, state, w):
        o, after = ops.linear_recurrence(q, k, v, g, state, cu, 0.5)
        a, logsumexp = ops.attention(o, k, v, cu, 3, 0.5)
        return ops.linear_cross_entropy(a.flatten(1), w, labels, 0.1) * 2 + (after * logsumexp.sum()).sum()

    for shape in filter(None, decays(9, 4, 6).values()):
        arguments = [q, k, v, -rand(*shape, seed=5).abs().float(), rand(2, 4, 6, 6, seed=4).float(), rand(7, 24, seed=6).float()]
        for dynamic in (False, True):
            torch._dynamo.reset()
            compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=dynamic)
            mine, theirs = ([a.clone().requires_grad_() for a in arguments] for _ in range(2))
            found, expected = compiled(*mine), model(*theirs)
            assert torch.equal(found, expected), "torch.compile gives another value"
            found.backward(), expected.backward()
            for m, t in zip(mine, theirs):
                close(m.grad, t.grad, 1e-6, "torch.compile: gradient")  # summed in another order
    for op, arguments in ((ops.linear_recurrence, (q, k, v, -torch.ones(4), None, cu, 0.5)), (ops.attention, (q, k, v, cu, 0, 0.5)),
                          (ops.linear_cross_entropy, (q.flatten(1), rand(7, 24, seed=1).float(), labels, 0.5))):
        torch.library.opcheck(op.default, arguments)
        torch.library.opcheck(op.default, (arguments[0].clone().requires_grad_(), *arguments[1:]))
    meta = torch.empty(7, 4, 8, device="meta", dtype=torch.bfloat16)
    o, state = ops.linear_recurrence(meta, meta, meta, None, None, torch.tensor([0, 2, 7]), 1.0)
    assert o.shape == (7, 4, 8) and state.shape == (2, 4, 8, 8) and state.dtype == torch.float32 and o.is_meta
    refused(lambda: ops.linear_recurrence(meta, meta[..., :5], meta, None, None, None, 1.0), "bad argument k")


def main():
    torch.ops.load_library(sys.argv[1])
    for check in (values_and_gradients, finite_differences, nothing_to_do, extremes, refusals, autograd_rules, traced):
        start = time.monotonic()
        check(torch.ops.longhaul)
        print(f"{check.__name__}: {time.monotonic() - start:.1f} s", flush=True)
    print("every operator agrees with plain PyTorch")


if __name__ == "__main__":
    main()
