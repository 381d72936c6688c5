#!/usr/bin/env python3
"""Adapters of `peft` in and out, on small random models: the same logits in fp32.

    adapters.py PATH_TO_longhaul [NAME…]

It needs peft beside torch and transformers (`pip install peft`), which scripts/peer-python does not have: it is run by hand.
For each model and kind (LoRA, rsLoRA, DoRA): an adapter of random numbers made by peft is imported onto the imported model and scored;
exported again it has the same tensors, and peft loads it and gives the same logits; merged it gives those of merge_and_unload().
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import peft
import torch
import transformers
from safetensors import safe_open

LENGTHS = (1, 17, 60)
MODELS = {
    "llama": lambda: transformers.LlamaConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                              num_key_value_heads=2, vocab_size=101, max_position_embeddings=128),
    "qwen3": lambda: transformers.Qwen3Config(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                              num_key_value_heads=2, head_dim=16, vocab_size=101, max_position_embeddings=128,
                                              tie_word_embeddings=True),
}
KINDS = {"lora": {}, "rslora": {"use_rslora": True}, "dora": {"use_dora": True}}
TARGETS = {"all": "all-linear", "some": ["q_proj", "v_proj"], "one layer": ["model.layers.1.mlp.down_proj"]}


def longhaul(*arguments):
    result = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == 0, f"{arguments}: {result.returncode}\n{result.stdout}\n{result.stderr}"


def score(folder, checkpoint, ids):
    (folder / "ids.json").write_text(json.dumps(ids))
    longhaul("score", checkpoint, "--ids", folder / "ids.json", "--out", folder / "logits.safetensors", "--dtype", "fp32", "--device", "cpu")
    with safe_open(folder / "logits.safetensors", framework="pt") as opened:
        return opened.get_tensor("logits")


def tensors(folder):
    with safe_open(folder / "adapter_model.safetensors", framework="pt") as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}


def worst(folder, model, checkpoint):
    found = 0
    for length in LENGTHS:
        ids = torch.arange(length).mul(7).add(3).remainder(101)
        with torch.no_grad():
            expected = model(ids[None]).logits[0]
        found = max(found, float((score(folder, checkpoint, ids.tolist()) - expected).abs().max() / expected.abs().max()))
    return found


def check(name, kind, targets, folder):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(MODELS[name](), attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    model.save_pretrained(folder / "model")
    config = peft.LoraConfig(r=3, lora_alpha=5, target_modules=TARGETS[targets], task_type="CAUSAL_LM", **KINDS[kind])
    adapted = peft.get_peft_model(model, config).eval()
    with torch.no_grad():
        for parameter_name, parameter in adapted.named_parameters():
            if "lora_B" in parameter_name or "magnitude" in parameter_name:
                parameter.add_(torch.rand_like(parameter) * 0.3)
    adapted.save_pretrained(folder / "adapter")

    longhaul("import", folder / "model", "--out", folder / "base")
    longhaul("import", folder / "base", "--adapter", folder / "adapter", "--out", folder / "adapted")
    of_import = worst(folder, adapted, folder / "adapted")
    assert of_import < 1e-5, f"{name} {kind} {targets}: {of_import}"
    of_base = worst(folder, adapted, folder / "base")
    assert of_base > 1e-2, f"the adapter of {name} does nothing: {of_base}"

    longhaul("export", folder / "adapted", "--adapter", folder / "back")
    before, after = tensors(folder / "adapter"), tensors(folder / "back")
    assert before.keys() == after.keys(), before.keys() ^ after.keys()
    for each, tensor in before.items():
        assert torch.allclose(tensor, after[each], rtol=0, atol=1e-6), each
    again = peft.PeftModel.from_pretrained(transformers.AutoModelForCausalLM.from_pretrained(folder / "model", attn_implementation="eager"),
                                           folder / "back").eval()
    of_export = worst(folder, again, folder / "adapted")
    assert of_export < 1e-5, f"{name} {kind} {targets}, exported: {of_export}"

    longhaul("checkpoint", "merge", folder / "adapted", folder / "merged")
    of_merge = worst(folder, adapted.merge_and_unload().eval(), folder / "merged")
    assert of_merge < 1e-5, f"{name} {kind} {targets}, merged: {of_merge}"
    print(f"{name}, {kind}, {targets}: relative difference of logits {of_import:.1e} imported, {of_export:.1e} exported, {of_merge:.1e} merged")


def main():
    for name in sys.argv[2:] or MODELS:
        for kind in KINDS:
            for targets in TARGETS:
                with tempfile.TemporaryDirectory() as folder:
                    check(name, kind, targets, pathlib.Path(folder))


if __name__ == "__main__":
    main()
