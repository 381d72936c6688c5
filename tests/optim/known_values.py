"""What tests/optim/known_values_test.cpp expects: plain numpy in fp64, written from the papers' equations apart from Longhaul's code.

    python3 tests/optim/known_values.py
"""
import numpy as np

W0 = np.array([[0.5, -0.25, 0.125], [-1, 0.75, 0.3]])
GRADIENTS = [np.array([[0.1, -0.2, 0.3], [-0.4, 0.5, -0.6]]), np.array([[0.2, 0.1, -0.3], [0.05, -0.15, 0.25]]),
             np.array([[-0.1, 0.4, 0.2], [0.3, 0, -0.5]])]
LR = WD = 1e-2


def rms(x):
    return np.sqrt(np.mean(x * x))


def lamb(l2=False, wd=WD, nvlamb=False, beta3=0.1, least=0, most=np.inf):
    w, m, v = W0.copy(), 0, 0
    for t, g in enumerate(GRADIENTS, 1):
        g = g / max(1, np.linalg.norm(g)) + (wd * w if l2 else 0)
        m, v = 0.9 * m + beta3 * g, 0.999 * v + 0.001 * g * g
        u = m / (1 - 0.9 ** t) / (np.sqrt(v / (1 - 0.999 ** t)) + 1e-6) + (0 if l2 else wd * w)
        ratio = np.linalg.norm(w) / np.linalg.norm(u) if wd != 0 or nvlamb else 1
        if wd != 0 or nvlamb:
            ratio = min(max(ratio, least), most)
        w = w - LR * ratio * u
    return w


def adafactor(form, beta1=0.0, scale=True, relative=True, w0=W0, gradients=GRADIENTS):
    w, r, c, v, m = w0.copy(), 0, 0, 0, 0
    for t, g in enumerate(gradients, 1):
        decay = 1 - t ** -0.8
        if form == "big_vision":
            decay = min(decay, 0.999)
        a = g * g + (0 if form == "torch" else 1e-30)
        if w.ndim == 2:
            r, c = decay * r + (1 - decay) * a.mean(1), decay * c + (1 - decay) * a.mean(0)
            v = np.outer(r, c) / r.mean()
        else:
            v = decay * v + (1 - decay) * a
        u = g / np.sqrt(v)
        u = u / max(1, rms(u))
        rate = min(LR, t ** -0.5) if form == "torch" or relative else LR
        alpha = LR if form == "big_vision" else rate * max(1e-3, rms(w)) if form == "torch" or scale else rate
        if form == "fairseq":
            m = beta1 * m + (1 - beta1) * alpha * u
            w = w - alpha * WD * w - m
        else:
            m = beta1 * m + (1 - beta1) * u
            w = w - LR * WD * w - alpha * m
    return w


def lion():
    w, m = W0.copy(), 0
    for g in GRADIENTS:
        w = w - LR * (np.sign(0.9 * m + 0.1 * g) + WD * w)
        m = 0.99 * m + 0.01 * g
    return w


def sgd(nesterov):
    w, m = W0.copy(), 0
    for g in GRADIENTS:
        m = 0.9 * m + g
        w = w - LR * WD * w - LR * (g + 0.9 * m if nesterov else m)
    return w


def sm3(beta=0.0, lr=0.1, wd=0.0):
    w, rows, columns, m = W0.copy(), np.zeros(2), np.zeros(3), 0
    for g in GRADIENTS:
        nu = np.minimum(rows[:, None], columns[None, :]) + g * g
        rows, columns = nu.max(1), nu.max(0)
        m = beta * m + (1 - beta) * g / np.sqrt(nu + 1e-30)
        w = w - lr * wd * w - lr * m
    return w, rows, columns


def newton_schulz(g):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = (g if g.shape[0] <= g.shape[1] else g.T) / max(np.linalg.norm(g), 1e-7)
    for _ in range(5):
        p = x @ x.T
        x = a * x + (b * p + c * p @ p) @ x
    return x if g.shape[0] <= g.shape[1] else x.T


def muon(original=False, nesterov=True, tall=False):
    w, b = (W0.T if tall else W0).copy(), 0
    for g in GRADIENTS:
        g = g.T if tall else g
        b = 0.95 * b + 0.05 * g
        o = newton_schulz(0.05 * g + 0.95 * b if nesterov else b)
        n, m = w.shape
        w = w * (1 - LR * WD) - LR * (max(1, n / m) ** 0.5 if original else 0.2 * max(n, m) ** 0.5) * o
    return w


np.set_printoptions(precision=10, floatmode="maxprec")
for name, value in {
        "lamb": lamb(), "lamb l2": lamb(l2=True), "lamb no decay": lamb(wd=0), "nvlamb no decay": lamb(wd=0, nvlamb=True),
        "lamb sums": lamb(beta3=1), "lamb bounded": lamb(least=0.8, most=1.25), "lamb no decay, bounded": lamb(wd=0, least=2),
        "adafactor torch": adafactor("torch"), "adafactor fairseq": adafactor("fairseq"),
        "adafactor fairseq, external lr, momentum": adafactor("fairseq", 0.9, False, False), "adafactor big_vision, momentum": adafactor("big_vision", 0.9),
        "adafactor torch, vector": adafactor("torch", w0=W0[0], gradients=[g[0] for g in GRADIENTS]),
        "adafactor fairseq, vector": adafactor("fairseq", w0=W0[0], gradients=[g[0] for g in GRADIENTS]),
        "lion": lion(), "sgd": sgd(False), "sgd nesterov": sgd(True), "sm3": sm3(), "sm3 momentum, decay": sm3(0.9, LR, WD),
        "newton_schulz": newton_schulz(GRADIENTS[0]), "muon": muon(), "muon original, no nesterov": muon(True, False), "muon, tall": muon(tall=True), "muon tall original": muon(True, tall=True)}.items():
    print(name, [np.asarray(x).reshape(-1).tolist() for x in (value if isinstance(value, tuple) else (value,))])
