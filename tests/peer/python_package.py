#!/usr/bin/env python3
"""The wheel in an empty virtual environment: `longhaul train first-run` reaches its first steps, and `import longhaul` has the operators and
optimizers.

    python_package.py SOURCES          the folder of the sources; its scripts/package makes the wheel first if dist/ has none

The optimizers are compared with torch.optim's (AdamW, SGD: 20 steps in fp64, within 1e-12) and, through state_dict(), with themselves after a
restart (equal to the bit); the operators with plain PyTorch.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

INSIDE = r'''
import torch, longhaul

torch.manual_seed(0)

def trained(make, steps=20, restart_at=None):
    model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).double()
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(torch.linspace(-1, 1, p.numel(), dtype=torch.float64).view_as(p) * (0.3 + 0.1 * i))
    x = torch.linspace(-2, 2, 4 * 7, dtype=torch.float64).view(4, 7).sin()
    optimizer = make(model.parameters())
    for step in range(steps):
        if step == restart_at:
            saved = optimizer.state_dict()
            optimizer = make(model.parameters())
            optimizer.load_state_dict(saved)
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]

def close(found, expected, limit, what):
    for a, b in zip(found, expected):
        error = (a - b).abs().max().item()
        assert error <= limit, f"{what}: {error:.3g} apart, at most {limit:g}"

optim = longhaul.optim
close(trained(lambda p: optim.AdamW(p, lr=1e-2, weight_decay=0.1)),
      trained(lambda p: torch.optim.AdamW(p, lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)), 1e-12, "AdamW")
close(trained(lambda p: optim.Sgd(p, lr=1e-2, momentum=0.9, weight_decay=0.0)),
      trained(lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, nesterov=True)), 1e-12, "Sgd")
matrices = lambda p: [each for each in p if each.dim() >= 2]
for name in optim.__all__:
    kind = getattr(optim, name)
    make = (lambda p: kind(matrices(p), lr=1e-2)) if name == "Muon" else (lambda p: kind(p, lr=1e-2))
    start = trained(make, steps=0)
    whole = trained(make)
    assert any(not torch.equal(a, b) for a, b in zip(start, whole)), f"{name} changed nothing"
    close(trained(make, restart_at=9), whole, 0.0, f"{name} after a restart")
try:
    optim.AdamW([torch.zeros(2, requires_grad=True)], lr=-1.0)
    raise AssertionError("a negative rate was taken")
except ValueError as error:
    assert "lr" in str(error)

q, k, v = (torch.randn(9, 2, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
decay = torch.tensor([-0.1, -0.5], dtype=torch.float64)
o, state = longhaul.ops.linear_recurrence(q, k, v, decay)
s, rows = torch.zeros(2, 4, 4, dtype=torch.float64), []
for t in range(9):
    s = s * decay.exp()[:, None, None] + k[t].unsqueeze(2) * v[t].unsqueeze(1)
    rows.append(torch.einsum("hk,hkv->hv", q[t], s))
assert (o - torch.stack(rows)).abs().max() < 1e-12 and (state[0] - s).abs().max() < 1e-12
o, lse = longhaul.ops.attention(q, k, v)
plain = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(0, 1) for x in (q, k, v)), is_causal=True)
assert (o.transpose(0, 1) - plain).abs().max() < 1e-12
o.sum().backward()
weight, labels = torch.randn(11, 4, dtype=torch.float64), torch.tensor([3, -1, 10])
loss = longhaul.ops.linear_cross_entropy(q[:3, 0], weight, labels)
assert abs(loss.item() - torch.nn.functional.cross_entropy((q[:3, 0] @ weight.t()), labels, ignore_index=-1).item()) < 1e-12
print("longhaul", longhaul.__version__, "torch", torch.__version__)
'''


def run(*words, **more):
    return subprocess.run(words, check=True, text=True, **more)


def main():
    sources = Path(sys.argv[1])
    wheels = sorted((sources / "dist").glob("longhaul-*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        run(sources / "scripts" / "package")
        wheels = list((sources / "dist").glob("longhaul-*.whl"))
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "environment"
        run(sys.executable, "-m", "venv", "--without-pip", environment)
        python = environment / "bin" / "python"
        outside = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LONGHAUL"))}
        run("python3", "-m", "pip", "--python", python, "install", "--quiet", wheels[-1], env=outside)
        run(python, "-c", INSIDE, env=outside)
        bare = {"PATH": f"{environment / 'bin'}:/usr/bin:/bin", "HOME": folder, "LONGHAUL_CACHE": str(Path(folder) / "cache")}
        shown = run("longhaul", "train", "first-run", "train.steps=3", "train.evaluate_every=0", "sample.tokens=0",
                    "observe.compression_baseline=false", cwd=folder, env=bare, capture_output=True)
        told = [line.split() for line in shown.stdout.splitlines()]
        assert any(words[:3] == ["longhaul", "train", "first-run"] and "train.steps=6" in words for words in told), shown.stdout[-2000:]
        assert (Path(folder) / "runs" / "first-run" / "events.jsonl").is_file()
    print("ok")


main()
