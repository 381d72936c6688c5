#!/usr/bin/env python3
"""Writes text_scores_golden.json: pairs of texts with LongBench's measures, computed with the packages that its program calls.

  tests/golden/make_text_scores_golden.py            writes the file
  tests/golden/make_text_scores_golden.py --check    compares what it would write with the file; exit status 1 where they differ

Needs rouge 1.0.1 and fuzzywuzzy 0.18.0 (tests/peer/requirements.txt) without python-Levenshtein, whose ratio is another one. The measures for
questions, classes and numbers are computed here with Python's own strings and regular expressions.
"""
import collections
import json
import pathlib
import random
import re
import string
import sys
import unicodedata
import warnings

warnings.filterwarnings("ignore", message="Using slow pure-python")
from fuzzywuzzy import fuzz  # noqa: E402
from rouge import Rouge  # noqa: E402

FILE = pathlib.Path(__file__).with_name("text_scores_golden.json")


def f1(said, expected):
    both = sum((collections.Counter(said) & collections.Counter(expected)).values())
    if both == 0:
        return 0.0
    precision, recall = both / len(said), both / len(expected)
    return 2 * precision * recall / (precision + recall)


def word_f1(said, expected):
    def words(text):
        text = text.lower().translate({ord(c): None for c in string.punctuation})
        return re.sub(r"\b(?:the|an|a)\b", " ", text).split()

    return f1(words(said), words(expected))


def character_f1(said, expected):
    def characters(text):
        return [c for c in text.lower() if not c.isspace() and unicodedata.category(c)[0] not in "PS"]

    return f1(characters(said), characters(expected))


def rouge_l(said, expected):
    try:
        return Rouge().get_scores([said], [expected], avg=True)["rouge-l"]["f"]
    except ValueError:  # a text without sentences
        return 0.0


def rouge_l_of_characters(said, expected):
    return rouge_l(" ".join(said), " ".join(expected))


def numbers(said, expected):
    found = re.findall(r"\d+", said)
    return found.count(expected) / len(found) if found else 0.0


def classes(said, expected, names):
    named = [name for name in names if name in said]
    for name in named:  # the list changes while it is walked, as in LongBench's program
        if name in expected and name != expected:
            named.remove(name)
    return 1 / len(named) if expected in named else 0.0


def code(said, expected):
    for line in said.lstrip("\n").split("\n"):
        if not any(mark in line for mark in ("`", "#", "//")):
            return fuzz.ratio(line, expected) / 100
    return fuzz.ratio("", expected) / 100


WORDS = "the a an of The river Paris in 1889 was built by an engineer and a half co-operative naïve İstanbul Straße re-run it's end".split()
CHINESE = "长江是中国的第一大河，全长约六千三百公里。《红楼梦》、A股 2024 年！"
CODE = ["    return self.value + 1", "for i in range(10):", "x = y", "  }", "if (a < b) a = b;", "# a comment", "// another", "`quoted`", ""]
CLASSES = ["number", "phone number", "number of people", "place", "birthplace", "person", "description of a person"]


def cases():
    draw = random.Random(20261127)
    some = lambda words, most: " ".join(draw.choice(words) for _ in range(draw.randint(0, most)))
    for said, expected in [("", ""), ("", "Paris"), ("Paris", ""), ("The  Paris.", "paris"), ("a the an", "the"), ("an-other", "another"),
                           ("“a” b", "b"), ("élan a\u0301", "elan a"), ("one\u00a0two\u3000three", "three two one"), ("a_b the_c", "ab thec")]:
        yield "word_f1", said, expected
        yield "rouge_l", said, expected
    for _ in range(30):
        yield "word_f1", some(WORDS, 12) + draw.choice(["", ".", "!?", ", yes"]), some(WORDS, 8)
    for said, expected in [("...", "a."), (" . ", "a"), ("a b. c d. ", "d c. b a"), ("w1 w2 w6 w7 w8. w1 w3 w8 w9 w5", "w1 w2 w3 w4 w5"),
                           ("police killed the gunman", "the gunman kill police"), ("a a a", "a a b b"), ("x y x y", "y x y x")]:
        yield "rouge_l", said, expected
    for _ in range(40):
        yield "rouge_l", ". ".join(some(WORDS, 9) for _ in range(draw.randint(1, 4))), ". ".join(some(WORDS, 9) for _ in range(3))
    for _ in range(20):
        said = "".join(draw.choice(CHINESE) for _ in range(draw.randint(0, 25)))
        expected = "".join(draw.choice(CHINESE) for _ in range(draw.randint(1, 15)))
        yield "character_f1", said, expected
        yield "rouge_l_of_characters", said, expected
    for said in ["7", "There are 7, or 17, or 7.", "none", "7.7", "٧ 7", "paragraph 70", "007", "a7b7c8"]:
        yield "number", said, "7"
    for said in ["number", "a phone number", "phone number of people", "place", "birthplace and place", "person", "nothing", "number of people",
                 "description of a person, number"]:
        for expected in CLASSES:
            yield "class", said, expected
    for _ in range(40):
        said = "\n".join([""] * draw.randint(0, 2) + [draw.choice(CODE) for _ in range(draw.randint(0, 4))])
        yield "code", said, draw.choice(CODE[:5])
    for length in [10, 150, 199, 200, 260, 420]:
        for _ in range(4):
            expected = "".join(draw.choice("abc   xyz(){};=+") for _ in range(length))
            said = "".join(draw.choice("abcxyz ") if draw.random() < 0.3 else c for c in expected if draw.random() < 0.9)
            yield "code", said, expected


def golden():
    measures = {"word_f1": word_f1, "character_f1": character_f1, "rouge_l": rouge_l, "rouge_l_of_characters": rouge_l_of_characters,
                "number": numbers, "code": code, "class": lambda said, expected: classes(said, expected, CLASSES)}
    rows = [{"measure": m, "said": said, "expected": expected, "score": measures[m](said, expected)} for m, said, expected in cases()]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return '{"classes": %s,\n"cases": [\n%s\n]}\n' % (json.dumps(CLASSES), lines)


if __name__ == "__main__":
    text = golden()
    if sys.argv[1:] == ["--check"]:
        if FILE.read_text(encoding="utf-8") != text:
            sys.exit(f"{FILE} is not what rouge and fuzzywuzzy say now")
        print(f"{text.count('measure')} pairs of texts")
    else:
        FILE.write_text(text, encoding="utf-8")
