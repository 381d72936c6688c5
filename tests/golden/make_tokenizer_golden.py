#!/usr/bin/env python3
"""Writes tests/golden/tokenizer_golden.json: small definitions with ids from Hugging Face `tokenizers`.

    pip install tokenizers==0.23.*          (any virtual environment; no network)
    tests/golden/make_tokenizer_golden.py   > tests/golden/tokenizer_golden.json

The vocabularies are trained on the texts below, so nothing of anyone's model is in the file.
"""
import importlib.util
import json
import pathlib
import sys

from tokenizers import __version__, pre_tokenizers

path = pathlib.Path(__file__).resolve().parent.parent / "peer" / "tokenizer_ids.py"
spec = importlib.util.spec_from_file_location("tokenizer_ids", path)
peer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peer)

TEXTS = [
    "",
    "Hello world, hello  world!\n",
    "def main(argv):\n    for i in range(1234567):\n        print(f\"{i:>8}\")  # it's DON'T we'LL\n\n\n    return 0\n",
    "\t\tx = 1\r\n\r\n  \n y=2   \n",
    "Größe naïve café e\u0301cole \u212b \uac00\u1100\u1161 Привет мир 你好世界。こんにちは ١٢٣ 12 345 6789 Ⅷ½²",
    "👩‍👩‍👧 🏳️‍🌈 \u00a0nbsp\u2003em\u3000wide\u200bzero",
    "\U00010d4a\U00010d50\U00016d43\U0001e5d0\U00031350\u1c89\ua7dc new \u0897\U00010d40\U0001ccf0 letters",
    "'ſ 'S 'Re don't'll",
    "a" * 70 + "ab" * 40 + "-" * 90,
    "▁already ▁marked  <s> <unk>  <0x41> </s> <|endoftext|> <|end_of_document|> trailing ",
    "\x00\x01\x7f\x80 end\x85of",
    "q\u0323\u0307 q\u0307\u0323 \u1e9b\u0323 \u0958 \U00011938 \u0344",
]
CORPUS = TEXTS * 3 + [p.read_text() for p in sorted(pathlib.Path(__file__).resolve().parent.parent.glob("*/*.py"))]


def main():
    cases = []
    for name, tokenizer in peer.definitions(CORPUS, 600):
        plain = [tokenizer.encode(t, add_special_tokens=False).ids for t in TEXTS]
        special = [tokenizer.encode(t, add_special_tokens=True).ids for t in TEXTS]
        cases.append({"name": name, "definition": json.loads(tokenizer.to_str()), "ids": plain,
                      "special_ids": special if special != plain else None})
    trained = peer.byte_level(400, TEXTS, pre_tokenizers.ByteLevel(add_prefix_space=False), specials=["<|end_of_document|>"])
    json.dump({"peer": f"tokenizers {__version__}", "texts": TEXTS, "cases": cases,
               "trained_on_texts": json.loads(trained.to_str())["model"]}, sys.stdout, ensure_ascii=True, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
