"""The preference losses of TRL, and their gradients, for random log-probabilities in fp64.

Prints the numbers that tests/posttrain/preference/trl_losses_test.cpp holds. Run by hand, in an environment with
trl (1.16.0), transformers (5.24.0) and torch (2.13.0):

    python tests/peer/preference_losses.py
"""
import os
from types import SimpleNamespace
from unittest.mock import MagicMock

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
import torch
from trl import DPOTrainer, KTOTrainer
from trl.experimental.cpo import CPOTrainer
from trl.experimental.orpo import ORPOTrainer

PAIRS, MOST_TOKENS = 6, 9
torch.manual_seed(39)
torch.set_default_dtype(torch.float64)
lengths = torch.randint(2, MOST_TOKENS + 1, (2 * PAIRS,))  # chosen, then rejected
policy = -torch.rand(2 * PAIRS) * lengths
reference = policy + 0.8 * torch.randn(2 * PAIRS)
mismatched, mismatched_reference = torch.tensor([-9.0, -7.5]), torch.tensor([-9.5, -7.75])
good = torch.tensor([1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 0])


def accelerator():
    return SimpleNamespace(device=torch.device("cpu"), gather_for_metrics=lambda x: x, gather=lambda x: x)


def trainer(**fields):
    stub = MagicMock()
    stub.accelerator = accelerator()
    stub.aux_loss_enabled = False
    stub.precompute_ref_logps = True
    stub.model.training = True
    stub._tp_size = 1
    stub._total_train_tokens = 0
    for name, value in fields.items():
        setattr(stub, name, value)
    return stub


def rows(sums):
    """Log-probabilities of tokens with these sums, and the mask of answers behind a prompt of one token."""
    mask = (torch.arange(MOST_TOKENS + 1) >= 1) & (torch.arange(MOST_TOKENS + 1) <= lengths.unsqueeze(1))
    each = (sums / lengths).unsqueeze(1) * mask[:, 1:]
    return each, mask.long()


class Outputs:
    """What a model returns; everything that only metrics read is zero."""

    def __init__(self, log_probs):
        self.log_probs = log_probs

    def __getattr__(self, name):
        zeros = torch.zeros_like(self.log_probs)
        return zeros.bool() if name.startswith("is_") else zeros


def dpo(loss_type, beta):
    sums = policy.clone().requires_grad_(True)
    each, mask = rows(sums)
    stub = trainer(beta=beta, ld_alpha=None, loss_types=[loss_type], loss_weights=[1.0], f_divergence_type="reverse_kl",
                   use_weighting=False, label_smoothing=0.0)
    inputs = {"input_ids": mask, "attention_mask": mask, "completion_mask": mask,
              "ref_chosen_logps": reference[:PAIRS], "ref_rejected_logps": reference[PAIRS:]}
    loss = DPOTrainer._compute_loss(stub, lambda **_: Outputs(each), inputs, False)
    return loss, torch.autograd.grad(loss, sums)[0]


def kto(beta, desirable, undesirable):
    sums = policy.clone().requires_grad_(True)
    each, mask = rows(sums)
    stub = trainer(beta=beta, calculate_KL=True, loss_type="kto", desirable_weight=desirable, undesirable_weight=undesirable)
    stub._compute_kl_logps = lambda *_: mismatched
    inputs = {"input_ids": mask, "attention_mask": mask, "completion_mask": mask, "label": good,
              "ref_logps": reference, "ref_KL_logps": mismatched_reference}
    loss = KTOTrainer._compute_loss(stub, lambda **_: Outputs(each), inputs, False)
    return loss, torch.autograd.grad(loss, sums)[0]


def of_means(call):
    sums = policy.clone().requires_grad_(True)
    means = sums / lengths
    loss = call(means[:PAIRS], means[PAIRS:]).mean()
    return loss, torch.autograd.grad(loss, sums)[0]


def simpo(beta, gamma, smoothing):
    stub = trainer(alpha=0.0, loss_type="simpo", beta=beta, simpo_gamma=gamma, label_smoothing=smoothing)
    return of_means(lambda c, r: CPOTrainer.cpo_loss(stub, c, r)[0])


def cpo(beta, smoothing):
    """TRL's smoothed sigmoid loss, of log-ratios in place of log-probabilities: conservative DPO."""
    stub = trainer(alpha=0.0, loss_type="sigmoid", beta=beta, label_smoothing=smoothing)
    sums = policy.clone().requires_grad_(True)
    ratio = sums - reference
    loss = CPOTrainer.cpo_loss(stub, ratio[:PAIRS], ratio[PAIRS:])[0].mean()
    return loss, torch.autograd.grad(loss, sums)[0]


def orpo(beta):
    """Its odds ratio part, which TRL computes in fp32, and the mean log-probability of chosen tokens, pair by pair."""
    stub = trainer(beta=beta)
    return of_means(lambda c, r: -c - ORPOTrainer.odds_ratio_loss(stub, c, r)[0])


def numbers(tensor):
    return "{" + ", ".join(repr(x) for x in tensor.tolist()) + "}"


if __name__ == "__main__":
    for name in ("lengths", "policy", "reference", "good"):
        print(name, numbers(globals()[name].double()))
    for name, (loss, gradient) in {
        "dpo 0.25": dpo("sigmoid", 0.25),
        "dpo smoothed 0.25 0.1": cpo(0.25, 0.1),
        "ipo 0.4": dpo("ipo", 0.4),
        "kto 0.3 1.25 0.75": kto(0.3, 1.25, 0.75),
        "simpo 2 0.5 0.05": simpo(2.0, 0.5, 0.05),
        "orpo 0.2": orpo(0.2),
    }.items():
        print(name, repr(loss.item()), numbers(gradient))
