#!/usr/bin/env python3
"""Where texts begin and end, against `transformers`: a run that was trained here, exported, and a published model with a template and several end tokens, imported.

    text_ends.py PATH_TO_longhaul

Both sides write greedily. What `transformers` writes with nothing but the files of the folder must be what `sample` writes, to the same end; bits per byte of texts
must be those of its logits behind the template's token, the documents' ends included.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

TEXTS = [f"The answer to {i} is yes." for i in range(60)]

RECIPE = """
version = 1
[model]
family = "llama"
layers = 2
hidden = 32
vocabulary = 257
heads = 4
kv_heads = 2
head_dim = 8
mixers = ["softmax"]
channel = "swiglu"
intermediate = 48
wiring = "pre_norm"
position = "rotary"
rotary_dim = 8
[data]
source = ["texts.jsonl"]
tokenizer = "bytes"
held_out_percent = 0
[train]
dtype = "fp32"
steps = 200
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


def sampled(folder, model, prompt):
    return json.loads(longhaul(folder, "sample", model, "--prompt", prompt, "--temperature", 0, "--tokens", 40, "--json"))


def written(folder, prompt):
    """By transformers, with nothing but the folder."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=40, pad_token_id=0)[0, ids.shape[1]:].tolist()
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    stopped = out[-1] in ends
    return ids[0].tolist(), out[:-1] if stopped else out, stopped


def compare(folder, ours, theirs, prompts):
    for prompt in prompts:
        mine = sampled(folder, ours, prompt)
        read, ids, stopped = written(folder / theirs, prompt)
        assert mine["prompt_ids"] == read, (prompt, mine["prompt_ids"], read)
        assert mine["ids"] == ids, (prompt, mine["ids"], ids)
        assert (mine["finish"] == "stop") == stopped, (prompt, mine["finish"])
        print(f"{theirs}: {prompt!r} {mine['text']!r} {mine['finish']}")


def exported_run(folder):
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    (folder / "run.toml").write_text(RECIPE)
    longhaul(folder, "train", "run.toml", "--run", "run", "data.cache=cache")
    longhaul(folder, "export", "run", "--out", "exported")
    assert json.loads((folder / "exported" / "config.json").read_text())["max_position_embeddings"] == 64
    compare(folder, "run", "exported", ["The answer to 3", "The", ""])
    assert sampled(folder, "run", "The answer to 3")["finish"] == "stop"


def template_folder(folder):
    """Like Llama 3: <s> in front by the template, and two tokens that end a text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<over>", "<s>", "<|im_end|>"]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(special + alphabet)}, merges=[]))
    tokenizer.add_special_tokens(special)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    torch.manual_seed(1)
    config = transformers.LlamaConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
                                      vocab_size=len(special) + len(alphabet), max_position_embeddings=128, bos_token_id=1, eos_token_id=0)
    model = transformers.LlamaForCausalLM(config)
    texts = TEXTS[:10] + [f"Question {i}<|im_end|>" for i in range(5)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for step in range(150):
        loss = 0
        for text in texts[step % 5::5]:
            ids = torch.tensor([tokenizer.encode(text).ids + [0]])
            loss = loss + model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.generation_config = transformers.GenerationConfig(bos_token_id=1, eos_token_id=[0, 2])
    model.eval().save_pretrained(folder / "template")
    tokenizer.save(str(folder / "template" / "tokenizer.json"))
    (folder / "template" / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "<over>"}))
    return model, tokenizer


def imported_model(folder):
    model, tokenizer = template_folder(folder)
    longhaul(folder, "import", "template", "--out", "imported")
    compare(folder, "imported", "template", ["Question", "The answer", ""])
    finishes = [sampled(folder, "imported", prompt)["finish"] for prompt in ("Question 2", "The answer to 2")]
    assert finishes == ["stop", "stop"], finishes
    nats = size = 0
    for text in TEXTS[:10]:
        ids = tokenizer.encode(text).ids + [0]
        with torch.no_grad():
            lp = model.double()(torch.tensor([ids])).logits[0].log_softmax(-1)
        nats -= sum(lp[i - 1, ids[i]].item() for i in range(1, len(ids)))
        size += len(text)
    (folder / "held.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS[:10]))
    found = json.loads(longhaul(folder, "evaluate", "imported", "--data", "held.jsonl", "--context", 64, "--dtype", "fp64", "--json"))
    expected = nats / size / math.log(2)
    assert abs(found["bits_per_byte"] - expected) < 1e-6 * expected, (found["bits_per_byte"], expected)
    print(f"template: {expected:.6f} bits per byte")


with tempfile.TemporaryDirectory() as temporary:
    exported_run(pathlib.Path(temporary))
    imported_model(pathlib.Path(temporary))
