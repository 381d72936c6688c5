#!/usr/bin/env python3
"""SentencePiece tokenizers in GGUF files: the package sentencepiece, this tokenizer and llama.cpp (xllamacpp) cut the same texts.

    gguf_sentencepiece.py PATH_TO_longhaul

A SentencePiece model (BPE, bytes for what is unknown) is trained here, and becomes a tokenizer.json as those of Llama 2 and of Mistral are: with
the space in front that a normalizer or Metaspace puts there, or without one. A small model with it is exported, and llama.cpp's server, which
reads nothing but the file, answers /tokenize and /detokenize. A greedy text is that of `sample`. A unigram tokenizer is refused by name.
"""
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

import sentencepiece

WORDS = ("the answer to every question is a number that nobody has written down yet because there were so many of them in that long year and those who "
         "counted began anew with each morning though it was never the same sum as the evening before").split()
TEXTS = [" ".join(WORDS[(i * j + j * j) % len(WORDS)] for j in range(3, 19)) + f" {i * 37}, it's {i}." for i in range(400)]
CUT = ["the answer", " the answer is 42", "The ANSWER", "a  b   c", "year\n\nof\tnumbers", "naïve café", "日本語 and 🙂", "x", "", " ", "12345 6789", "it's nobody's",
       "many of them in that long year", "</s", "<0x41>", "▁", "the▁answer", "a b", "number" * 9, "\u0000\u0007", "ﬁ ½"]
RECIPE = """
version = 1
[model]
family = "llama"
layers = 2
hidden = 64
vocabulary = 512
heads = 4
kv_heads = 2
head_dim = 16
mixers = ["softmax"]
channel = "swiglu"
intermediate = 96
wiring = "pre_norm"
position = "rotary"
rotary_dim = 16
[data]
source = ["texts.jsonl"]
tokenizer = "tokenizer-{name}.json"
held_out_percent = 0
[train]
dtype = "fp32"
steps = 60
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
# What stands before a text: a space that a normalizer puts there (Llama 2), one that Metaspace puts there (Mistral), none.
SPACE = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
METASPACE = {"type": "Metaspace", "replacement": "▁", "split": False}
FORMS = {"llama": ({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, SPACE]}, None),
         "mistral": (None, {**METASPACE, "prepend_scheme": "first"}),
         "bare": (SPACE, None)}


def run(folder, *arguments, status=0):
    result = subprocess.run([str(pathlib.Path(sys.argv[1]).resolve()), *map(str, arguments)], cwd=folder, capture_output=True, text=True)
    assert result.returncode == status, f"{arguments}: {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout if status == 0 else result.stderr


def trained(kind, prefixed):
    """A model of the package, in memory."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=model, model_type=kind, vocab_size=500, byte_fallback=True, split_digits=True, unk_id=0, bos_id=1,
        eos_id=2, pad_id=-1, normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=prefixed, hard_vocab_limit=False,
        character_coverage=1.0, minloglevel=2)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def definition(pieces, form):
    """tokenizer.json: every way to put a piece together of two others is a merge, in the order of the pieces."""
    normalizer, pre_tokenizer = FORMS[form]
    vocabulary = {pieces.id_to_piece(i): i for i in range(pieces.get_piece_size())}
    special = [{"id": i, "content": pieces.id_to_piece(i), "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
               for i in range(3)]
    merges = []
    for piece, i in sorted(vocabulary.items(), key=lambda each: each[1]):
        if i < 3 or pieces.is_byte(i):
            continue
        merges += [[piece[:cut], piece[cut:]] for cut in range(1, len(piece)) if piece[:cut] in vocabulary and piece[cut:] in vocabulary]
    decoders = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if form != "bare":
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    template = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
            "post_processor": {"type": "TemplateProcessing", "single": template, "pair": template + [{"Sequence": {"id": "B", "type_id": 1}}],
                               "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
            "decoder": {"type": "Sequence", "decoders": decoders},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True,
                      "byte_fallback": True, "ignore_merges": False, "vocab": vocabulary, "merges": merges}}


class LlamaServer:
    """llama.cpp's own server in this process, with a model that it has from the file alone."""

    def __init__(self, file):
        import xllamacpp
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(file)
        parameters.n_ctx = 256
        parameters.n_parallel = 1
        parameters.cpuparams.n_threads = 1
        parameters.warmup = False
        parameters.port = 0
        self.server = xllamacpp.Server(parameters)

    def ask(self, path, body):
        request = urllib.request.Request(self.server.listening_address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)


def encoded(work, tokenizer, texts):
    files = [work / f"text-{i}" for i in range(len(texts))]
    for file, text in zip(files, texts):
        file.write_bytes(text.encode())
    return [json.loads(line)["ids"] for line in run(work, "tokenizer", "encode", tokenizer, *files, "--json").splitlines()]


def compare(work, form, pieces):
    run(work, "train", f"{form}.toml", "--run", f"run-{form}", "--quiet")
    run(work, "export", f"run-{form}", "--gguf", f"{form}.gguf")
    theirs = LlamaServer(work / f"{form}.gguf")
    # Metaspace puts no space in front of a text that begins with one; SentencePiece and llama.cpp do (docs/guides/published-models.md).
    texts = [text for text in CUT + TEXTS[:40] if form != "mistral" or not text.startswith((" ", "▁"))]
    longest = 0
    for text, ours in zip(texts, encoded(work, f"tokenizer-{form}.json", texts), strict=True):
        found = theirs.ask("/tokenize", {"content": text, "add_special": False, "parse_special": False})["tokens"]
        assert found == ours, (form, text, ours, found)
        assert ours == pieces.encode(text), (form, text, ours, pieces.encode(text))
        longest = max(longest, len(ours))
    with_beginning = theirs.ask("/tokenize", {"content": "the answer", "add_special": True})["tokens"]
    assert with_beginning[0] == 1 and with_beginning[1:] == pieces.encode("the answer"), with_beginning
    for prompt in ("the answer", "number of"):
        ours = json.loads(run(work, "sample", f"run-{form}", "--prompt", prompt, "--tokens", "30", "--temperature", "0", "--json"))["text"]
        answer = theirs.ask("/completion", {"prompt": prompt, "n_predict": 30, "temperature": 0, "cache_prompt": False})["content"]
        assert ours == answer, (form, prompt, ours, answer)
    print(f"{form}: {len(texts)} texts of up to {longest} tokens, and greedy texts, are llama.cpp's and SentencePiece's")


def main():
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(KeyboardInterrupt):
        work = pathlib.Path(folder)
        (work / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
        for form in FORMS:
            pieces = trained("bpe", form != "bare")
            (work / f"tokenizer-{form}.json").write_text(json.dumps(definition(pieces, form)))
            (work / f"{form}.toml").write_text(RECIPE.format(name=form))
            compare(work, form, pieces)
        unigram = {**definition(trained("bpe", True), "llama")}
        unigram["model"] = {"type": "Unigram", "unk_id": 0, "byte_fallback": True, "vocab": [["<unk>", 0.0], ["▁a", -1.0]]}
        (work / "unigram.json").write_text(json.dumps(unigram))
        said = run(work, "tokenizer", "encode", "unigram.json", "texts.jsonl", status=65)
        assert "Unigram" in said, said


if __name__ == "__main__":
    main()
