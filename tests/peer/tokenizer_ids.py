#!/usr/bin/env python3
"""Peer test: ids of `longhaul tokenizer encode` against Hugging Face `tokenizers`, for every file of a folder.

    tests/peer/tokenizer_ids.py --longhaul build/release/longhaul --folder FOLDER [--ending .py] [--work DIR]

Compares a tokenizer of 8,192 entries that Longhaul trains on the folder (its vocabulary and merges too), and definitions in the
style of GPT-2, Llama 3, Qwen and SentencePiece-converted models (Llama 2, Mistral, Metaspace) whose vocabularies the peer trains on
the same files, plus texts made of Unicode code points (all of them with --unicode-every 1). Prints one line a definition; exit
status 1 when any id differs.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, __version__, decoders, models, normalizers, pre_tokenizers, processors, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def byte_level(size, texts, pre_tokenizer, normalizer=None, specials=("<|endoftext|>",)):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(specials), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def sentencepiece(size, texts, pre_tokenizer, normalizer, byte_fallback=True, fuse_unk=True):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=byte_fallback, fuse_unk=fuse_unk))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    fallback = [f"<0x{b:02X}>" for b in range(256)] if byte_fallback else []
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<unk>", "<s>", "</s>"] + fallback, limit_alphabet=200,
                                  show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    definition = json.loads(tokenizer.to_str())
    definition["added_tokens"] = [t for t in definition["added_tokens"] if not t["content"].startswith("<0x")]
    tokenizer = Tokenizer.from_str(json.dumps(definition))
    if pre_tokenizer is None:
        definition = json.loads(tokenizer.to_str())
        definition["pre_tokenizer"] = None
        tokenizer = Tokenizer.from_str(json.dumps(definition))
    else:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return tokenizer


def definitions(texts, size):
    space = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    yield "gpt2", byte_level(size, texts, pre_tokenizers.ByteLevel(add_prefix_space=False))
    yield "gpt2-prefix-space", byte_level(size, texts, pre_tokenizers.ByteLevel(add_prefix_space=True))
    yield "llama3", byte_level(size, texts, split(LLAMA3))
    yield "qwen", byte_level(size, texts, split(QWEN), normalizers.NFC())
    yield "o200k", byte_level(size, texts, split(O200K))
    yield "starcoder", byte_level(size, texts, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                                         pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    added = byte_level(size, texts, pre_tokenizers.ByteLevel(add_prefix_space=False))
    added.add_tokens([AddedToken("self", single_word=True), AddedToken("return", lstrip=True, normalized=False),
                      AddedToken("import", rstrip=True), AddedToken("def ", normalized=False), AddedToken("    ", normalized=True),
                      AddedToken("        ", normalized=True), AddedToken("ret", normalized=False)])
    added.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    yield "added-tokens", added
    merges = json.loads(added.to_str())
    merges["model"]["ignore_merges"] = True
    merges["model"]["merges"] = [" ".join(m) for m in merges["model"]["merges"][: size // 4]]
    yield "ignore-merges", Tokenizer.from_str(json.dumps(merges))
    yield "llama2", sentencepiece(size, texts, None, space)
    yield "mistral-metaspace", sentencepiece(size, texts, pre_tokenizers.Metaspace(prepend_scheme="first", split=True), None)
    yield "metaspace-whole", sentencepiece(size, texts, pre_tokenizers.Metaspace(prepend_scheme="always", split=False), None)
    yield "unknown-tokens", sentencepiece(size, texts, None, space, byte_fallback=False, fuse_unk=True)
    yield "unknown-unfused", sentencepiece(size, texts, None, space, byte_fallback=False, fuse_unk=False)


def unicode_texts(every):
    """Code points in different surroundings; the large uniform blocks (Han, Hangul, private use, unassigned) thinned."""
    dense = [*range(0x3400), *range(0xA000, 0xAC10), *range(0xD7A0, 0xD800), *range(0xF900, 0x12000), *range(0x16000, 0x17000),
             *range(0x1B000, 0x20010)]
    points = [chr(c) for c in sorted({*dense, *range(0xE000, 0x110000, every), *range(0x3400, 0xD800, every)}) if c != 13]
    yield " ".join(points)
    for around in ("a{}b", "'{}", "1{}2", " {}x", "\n{} ", "e{}\u0301", "-{}-\n"):
        for start in range(0, len(points), 200_000):
            yield "".join(around.format(p) for p in points[start : start + 200_000])
    yield "".join(chr(0x1F468) + "\u200d" + p for p in points[0x300:0x400]) + "don't DON'T it'ſ we'RE"


def ours(longhaul, tokenizer, paths):
    ids = {}
    for start in range(0, len(paths), 500):
        batch = [str(p) for p in paths[start : start + 500]]
        output = subprocess.run([longhaul, "tokenizer", "encode", tokenizer, *batch, "--json"], check=True, capture_output=True).stdout
        for line in output.splitlines():
            entry = json.loads(line)
            ids[entry["file"]] = entry["ids"]
    return ids


def compare(longhaul, name, tokenizer, path, files, texts):
    got = ours(longhaul, str(path), files)
    bad = 0
    for file, text in zip(files, texts, strict=True):
        want = tokenizer.encode(text, add_special_tokens=False).ids
        have = got[str(file)]
        if want != have:
            bad += 1
            at = next((i for i, (a, b) in enumerate(zip(want, have)) if a != b), min(len(want), len(have)))
            if bad <= 3:
                print(f"  {file}: id {at}: peer {[tokenizer.id_to_token(i) for i in want[at:at+4]]}, "
                      f"ours {[tokenizer.id_to_token(i) for i in have[at:at+4]]}")
    print(f"{name}: {len(files) - bad} of {len(files)} files equal", flush=True)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhaul", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--ending", default=".py")
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--families-every", type=int, default=8, help="families train on and compare every n-th file")
    parser.add_argument("--unicode-every", type=int, default=37, help="of the large uniform blocks, every n-th code point")
    parser.add_argument("--work")
    arguments = parser.parse_args()
    if not __version__.startswith("0.23."):
        sys.exit(f"needs tokenizers 0.23, found {__version__}")
    work = pathlib.Path(arguments.work or tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    files = sorted(p for p in pathlib.Path(arguments.folder).rglob("*" + arguments.ending) if p.is_file())
    texts = [p.read_bytes().decode("utf-8", "replace") for p in files]
    for index, (file, text) in enumerate(zip(files, texts)):
        if file.read_bytes() != text.encode():  # bad UTF-8: the peer cannot take it, so both get the repaired text
            files[index] = work / f"repaired-{index}.txt"
            files[index].write_bytes(text.encode())
    bad = 0

    trained = work / "trained.json"
    subprocess.run([arguments.longhaul, "tokenizer", "train", "--vocabulary", str(arguments.vocabulary), "--out", str(trained),
                    *map(str, files)], check=True, stdout=subprocess.DEVNULL)
    peer = byte_level(arguments.vocabulary, texts, pre_tokenizers.ByteLevel(add_prefix_space=False), specials=["<|end_of_document|>"])
    same = json.loads(peer.to_str())["model"], json.loads(trained.read_text())["model"]
    equal = same[0]["vocab"] == same[1]["vocab"] and same[0]["merges"] == same[1]["merges"]
    print(f"training: vocabulary and merges {'equal' if equal else 'DIFFER'}")
    bad += not equal

    unicode_files, unicode_contents = [], []
    for index, text in enumerate(unicode_texts(arguments.unicode_every)):
        path = work / f"unicode-{index}.txt"
        path.write_bytes(text.encode())
        unicode_files.append(path)
        unicode_contents.append(text)
    bad += compare(arguments.longhaul, "trained", Tokenizer.from_file(str(trained)), trained, files + unicode_files, texts + unicode_contents)
    some_files, some_texts = files[:: arguments.families_every], texts[:: arguments.families_every]
    for name, tokenizer in definitions(some_texts, arguments.vocabulary):
        path = work / f"{name}.json"
        tokenizer.save(str(path))
        bad += compare(arguments.longhaul, name, tokenizer, path, some_files + unicode_files, some_texts + unicode_contents)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
