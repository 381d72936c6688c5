#!/usr/bin/env python3
"""GGUF files of `longhaul export --gguf` against the packages gguf (its reader, its names of tensors, its q8_0) and llama.cpp (xllamacpp).

    gguf_file.py PATH_TO_longhaul PATH_TO_tests/golden/published

Tensors of the golden published models are compared number by number. Small models of three families are trained here on lines of text
with a trained byte-level tokenizer, exported, and continued greedily by llama.cpp from the file alone: the texts must be those of `sample`.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy
from safetensors.numpy import load_file

ARCHITECTURES = {"llama": gguf.MODEL_ARCH.LLAMA, "mixtral": gguf.MODEL_ARCH.LLAMA, "mistral": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2,
                 "qwen3": gguf.MODEL_ARCH.QWEN3, "qwen2_moe": gguf.MODEL_ARCH.QWEN2MOE, "qwen3_moe": gguf.MODEL_ARCH.QWEN3MOE, "gpt2": gguf.MODEL_ARCH.GPT2}
TEXTS = [f"The answer to {i} is {'yes' if i % 3 else 'no'}, and it's {i * 7}.\n" for i in range(120)]
MODELS = [("llama", "llama", ""), ("qwen2", "qwen2", '[model.softmax]\nbias = "qkv"'), ("qwen3", "qwen3", "[model.softmax]\nqk_norm = true"),
          ("llama-scaled", "llama", '[model.softmax]\nrotary_scaling = "llama3"\nrotary_factor = 4\nrotary_original = 16'),
          ("llama-linear", "llama", '[model.softmax]\nrotary_scaling = "linear"\nrotary_factor = 2.5')]
RECIPE = """
version = 1
[model]
family = "{family}"
layers = 2
hidden = 64
vocabulary = 400
heads = 4
kv_heads = 2
head_dim = 16
mixers = ["softmax"]
channel = "swiglu"
intermediate = 96
wiring = "pre_norm"
position = "rotary"
rotary_dim = 16
{more}
[data]
source = ["texts.jsonl"]
tokenizer = "tokenizer.json"
held_out_percent = 0
[train]
dtype = "fp32"
steps = 150
sequence = 64
batch = 4
micro_batch = 4
evaluate_every = 0
[optim]
lr = 1e-2
warmup_steps = 3
[sample]
tokens = 0
"""


def longhaul(folder, *arguments):
    result = subprocess.run([sys.argv[1], *map(str, arguments)], cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, f"{arguments}: {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def permuted(matrix, heads):
    return matrix.reshape(heads, 2, matrix.shape[0] // heads // 2, *matrix.shape[1:]).swapaxes(1, 2).reshape(matrix.shape)


def public_tensors(folder, config):
    """By the names of the package gguf; experts stacked, Llama's heads in pairs, GPT-2's matrices turned."""
    architecture = ARCHITECTURES[config["model_type"]]
    names = gguf.get_tensor_name_map(architecture, config.get("num_hidden_layers", config.get("n_layer")))
    found = {}
    for file in sorted(folder.glob("*.safetensors")):
        for name, tensor in load_file(file).items():
            tensor = tensor.astype(numpy.float32)
            if config["model_type"] == "gpt2" and tensor.ndim == 2 and ".h." in "." + name:
                tensor = tensor.T
            if architecture == gguf.MODEL_ARCH.LLAMA and ".q_proj." in name:
                tensor = permuted(tensor, config["num_attention_heads"])
            if architecture == gguf.MODEL_ARCH.LLAMA and ".k_proj." in name:
                tensor = permuted(tensor, config["num_key_value_heads"])
            parts = name.split(".")
            if "experts" in parts:
                expert = int(parts.pop(parts.index("experts") + 1))
                made = names.get_name(".".join(parts), (".weight", ".bias"))
                assert made is not None, name
                found.setdefault(made, {})[expert] = tensor
            else:
                made = names.get_name(name, (".weight", ".bias"))
                assert made is not None, name
                found[made] = tensor.squeeze() if "shared_expert_gate" in name else tensor
    return {name: numpy.stack([each[i] for i in range(len(each))]) if isinstance(each, dict) else each for name, each in found.items()}


def compare_file(file, folder, config):
    """The number of tensors, each of which is that of the package."""
    reader = gguf.GGUFReader(file)
    expected = public_tensors(folder, config)
    assert {t.name for t in reader.tensors} - {"rope_freqs.weight"} == set(expected), (file, {t.name for t in reader.tensors} ^ set(expected))
    kinds = {}
    for tensor in reader.tensors:
        if tensor.name == "rope_freqs.weight":
            continue
        wanted = expected[tensor.name]
        assert list(tensor.shape)[::-1] == list(wanted.shape), (file, tensor.name, tensor.shape, wanted.shape)
        if tensor.tensor_type == gguf.GGMLQuantizationType.F32:
            same = numpy.array_equal(tensor.data.reshape(wanted.shape), wanted)
        elif tensor.tensor_type == gguf.GGMLQuantizationType.F16:
            same = numpy.array_equal(tensor.data.reshape(wanted.shape), wanted.astype(numpy.float16))
        else:
            same = numpy.array_equal(tensor.data.reshape(-1), gguf.quants.quantize(wanted, gguf.GGMLQuantizationType.Q8_0).reshape(-1))
        assert same, (file, tensor.name)
        kinds[tensor.tensor_type.name] = kinds.get(tensor.tensor_type.name, 0) + 1
    return kinds


def compare_tensors(work, golden):
    compared, refused = 0, []
    for model in sorted(golden.iterdir()):
        config = json.loads((model / "model" / "config.json").read_text())
        if config["model_type"] not in ARCHITECTURES:
            continue
        longhaul(work, "import", model / "model", "--out", model.name)
        for kind in ("f16", "q8_0"):
            file = work / f"{model.name}-{kind}.gguf"
            result = subprocess.run([sys.argv[1], "export", model.name, "--gguf", file, "--type", kind], cwd=work, capture_output=True, text=True)
            if result.returncode == 64:
                refused.append(model.name)
                continue
            assert result.returncode == 0, result.stderr
            compared += sum(compare_file(file, model / "model", config).values())
    print(f"{compared} tensors are those of gguf {kind_of_package()}; refused: {', '.join(dict.fromkeys(refused)) or 'none'}")
    assert compared > 200


def kind_of_package():
    import importlib.metadata
    return importlib.metadata.version("gguf")


def greedy(file, prompt, tokens):
    import xllamacpp
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(file)
    parameters.n_ctx = 256
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 1
    parameters.warmup = False
    server = xllamacpp.Server(parameters)
    answer = server.handle_completions({"prompt": prompt, "max_tokens": tokens, "temperature": 0, "n_predict": tokens})
    answer = json.loads(answer) if isinstance(answer, str) else answer
    return answer["choices"][0]["text"] if "choices" in answer else answer["content"]


def compare_texts(work):
    with (work / "texts.jsonl").open("w") as file:
        for text in TEXTS:
            file.write(json.dumps({"text": text}) + "\n")
    longhaul(work, "tokenizer", "train", "texts.jsonl", "--vocabulary", "380", "--out", "tokenizer.json")
    for name, family, more in MODELS:
        (work / f"{name}.toml").write_text(RECIPE.format(family=family, more=more))
        longhaul(work, "train", f"{name}.toml", "--run", f"run-{name}", "--quiet")
        longhaul(work, "export", f"run-{name}", "--gguf", f"{name}.gguf")
        longhaul(work, "export", f"run-{name}", "--gguf", f"{name}-q8.gguf", "--type", "q8_0")
        longhaul(work, "export", f"run-{name}", "--out", f"folder-{name}")
        config = json.loads((work / f"folder-{name}" / "config.json").read_text())
        kinds = compare_file(work / f"{name}-q8.gguf", work / f"folder-{name}", config)
        assert kinds.get("Q8_0", 0) >= 14, kinds
        for prompt in ("The answer to 17", "The", " it's 4"):
            ours = json.loads(longhaul(work, "sample", f"run-{name}", "--prompt", prompt, "--tokens", "40", "--temperature", "0", "--json"))["text"]
            theirs = greedy(work / f"{name}.gguf", prompt, 40)
            assert ours == theirs, (name, prompt, ours, theirs)
            print(f"{name}: llama.cpp continues {prompt!r} as sample does: {ours!r}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        compare_tensors(work, pathlib.Path(sys.argv[2]).resolve())
        compare_texts(work)


if __name__ == "__main__":
    main()
