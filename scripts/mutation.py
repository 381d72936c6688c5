#!/usr/bin/env python3
"""Reads scripts/mutations and plants mistakes, for scripts/mutate, which says how they are written.

  mutation.py list [OP[/NAME]…]        a line a mistake: OP, NAME, test program, filter and files, with tabs between
  mutation.py list --changed [BASE]    those of what changed
  mutation.py check                    tells what keeps mistakes from being planted; exit 1 if anything does
  mutation.py plant OP/NAME TREE       writes the mistake into the files of TREE
"""

import fnmatch
import os
import re
import subprocess
import sys
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = "scripts/mutations"


class Refused(Exception):
    def __init__(self, code, *lines):
        self.code, self.lines = code, lines


class Change(NamedTuple):
    file: str
    old: str
    new: str


class Mistake:
    def __init__(self, op, name, line, setup):
        self.op, self.name, self.where = op, name, f"{FOLDER}/{op}:{line}: {name}"
        self.program = setup.get("program", "kernels_test")
        self.filter = setup.get("filter", "*" + "".join(word.capitalize() for word in op.split("_")) + "*")
        self.changes = []

    def files(self):
        return list(dict.fromkeys(change.file for change in self.changes))

    def what_runs(self):
        return self.program, self.filter, self.changes


def logical_lines(text):
    """Pairs of line number and text; a line that four blanks begin goes on with the one above it."""
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("    ") and lines:
            lines[-1][1] += "\n" + line.strip()
        elif line.strip():
            lines.append([number, line.rstrip()])
    return lines


def parse(op, text):
    """The mistakes in a file of scripts/mutations, by name."""
    setup, mistakes, mistake = {}, {}, None

    def refuse(number, line, what, expected):
        where = f"{FOLDER}/{op}:{number}: {what}: {line.strip()}"
        raise Refused(1, where, f"expected {expected}", "type: scripts/mutate --help")

    for number, line in logical_lines(text):
        if line.startswith("  "):
            file, *change = re.split(r":\s", line.strip(), maxsplit=1)
            old, arrow, new = "".join(change).partition("⇒")
            if mistake is None or not arrow or not words(old):
                refuse(number, line, "not understood", "FILE: OLD ⇒ NEW below the name of a mistake")
            if words(old) == words(new):
                refuse(number, line, "this changes nothing", "a NEW that is not OLD")
            mistake.changes.append(Change(file, " ".join(old.split()), new.strip()))
            continue
        begin = re.fullmatch(r"([\w-]+): (.+)", line)
        if not begin:
            refuse(number, line, "not understood", "NAME: what the mistake is")
        name, rest = begin.groups()
        if name in ("program", "filter") and not mistakes:
            setup[name] = rest
        elif name in mistakes:
            refuse(number, line, "the name is taken", "another one")
        else:
            mistake = mistakes[name] = Mistake(op, name, number, setup)
    for mistake in mistakes.values():
        if not mistake.changes:
            raise Refused(1, f"{mistake.where} changes nothing", "expected FILE: OLD ⇒ NEW below it", "type: scripts/mutate --help")
    return mistakes


def read(folder, path):
    with open(os.path.join(folder, path), encoding="utf-8") as file:
        return file.read()


def operators():
    return sorted(os.listdir(os.path.join(ROOT, FOLDER)))


def mistakes_of(op):
    return parse(op, read(ROOT, f"{FOLDER}/{op}"))


def named(names):
    result = []
    for each in names:
        op, slash, name = each.partition("/")
        if op not in operators():
            raise Refused(64, f"no such mutation: {each}", "there are: " + " ".join(operators()))
        mistakes = mistakes_of(op)
        if slash and name not in mistakes:
            raise Refused(64, f"no such mutation: {each}", f"of {op} there are: " + " ".join(mistakes))
        result += [mistakes[name]] if slash else mistakes.values()
    return result


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, encoding="utf-8")


def changed(base):
    """The mistakes in files that differ from where this tree left base, and those that were themselves written since."""
    if base is None:
        on_main = git("symbolic-ref", "--short", "-q", "HEAD").stdout.strip() == "main"
        base = "HEAD~1" if on_main else "main"
    left = git("merge-base", base, "HEAD")
    if left.returncode:
        raise Refused(64, f"this tree does not come from {base}", "type: scripts/mutate --changed COMMIT")
    since = left.stdout.strip()
    differ = git("diff", "--name-only", "--no-renames", "-z", since).stdout + git("ls-files", "--others", "--exclude-standard", "-z").stdout
    files = set(differ.split("\0"))
    result = []
    for op in operators():
        before = {}
        if f"{FOLDER}/{op}" in files:
            try:
                before = parse(op, git("cat-file", "blob", f"{since}:{FOLDER}/{op}").stdout)
            except Refused:
                pass  # it was written in another form then
        for mistake in mistakes_of(op).values():
            known = before.get(mistake.name)
            rewritten = f"{FOLDER}/{op}" in files and (known is None or known.what_runs() != mistake.what_runs())
            if rewritten or files.intersection(mistake.files()):
                result.append(mistake)
    return result


def words(text):
    return re.findall(r"\w+|\S", text)


def places(old, text):
    """Where old stands in text, as (begin, end): the same words and signs, whatever white space is between them."""
    each = [rf"\b{word}\b" if re.match(r"\w", word) else re.escape(word) for word in words(old)]
    pattern, found = re.compile(r"\s*".join(each)), []
    while match := pattern.search(text, found[-1][0] + 1 if found else 0):
        found.append(match.span())
    return found


def planted(mistake, tree):
    """The files of tree with the mistake in them, as file → text; and what keeps it from being planted, a line each."""
    texts, problems = {}, []
    for file in mistake.files():
        if not os.path.isfile(os.path.join(tree, file)):
            problems.append(f"{mistake.where}: there is no {file}")
            continue
        text, spans = read(tree, file), []
        for change in mistake.changes:
            if change.file == file:
                found = places(change.old, text)
                if len(found) != 1:
                    problems.append(f"{mistake.where}: {file} must hold this once, and holds it {len(found)} times: {change.old}")
                spans += [(*span, change.new) for span in found]
        spans.sort()
        if any(end > begin for (_, end, _), (begin, _, _) in zip(spans, spans[1:])):
            problems.append(f"{mistake.where}: changes overlap in {file}")
        for begin, end, new in reversed(spans):
            line = text[text.rfind("\n", 0, begin) + 1 : begin]
            indent = line[: len(line) - len(line.lstrip())]
            text = text[:begin] + new.replace("\n", "\n" + indent) + text[end:]
        texts[file] = text
    return texts, problems


def tests_of(program):
    """The names of a program's tests as its source files tell them, those with parameters as Instance/Suite.Name/."""
    names, folder = [], os.path.join(ROOT, "tests", program.removesuffix("_test"))
    for at, _, files in os.walk(folder):
        for text in (read(at, file) for file in files if file.endswith((".cpp", ".h"))):
            instances = re.findall(r"INSTANTIATE_TEST_SUITE_P\(\s*(\w+),\s*(\w+)", text)
            for suite, name in re.findall(r"^TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)", text, re.MULTILINE):
                names += [f"{suite}.{name}"] + [f"{instance}/{suite}.{name}/" for instance, of in instances if of == suite]
    return names


def matches(pattern, name):
    """Whether a pattern of GoogleTest matches the name; its end may be of a parameter, which no source file tells."""
    beginnings = [pattern[:end] for end in range(1, len(pattern)) if pattern[:end].strip("*")] if name.endswith("/") else []
    return any(fnmatch.fnmatchcase(name, each) for each in [pattern] + beginnings)


def without_tests():
    """Lists whose filter matches no test of a program that they name, a line each."""
    problems = []
    for op, programs, wanted in sorted({(each.op, each.program, each.filter) for each in named(operators())}):
        patterns = [pattern for pattern in wanted.split("-")[0].split(":") if pattern] or ["*"]
        for program in programs.split():
            if not any(matches(pattern, name) for name in tests_of(program) for pattern in patterns):
                problems.append(f"{FOLDER}/{op}: no test of {program} matches {wanted}")
    return problems


def check():
    problems = [problem for mistake in named(operators()) for problem in planted(mistake, ROOT)[1]]
    if unseen := without_tests():
        raise Refused(1, "mistakes that no test is run for", *unseen, "write lines 'program: …' and 'filter: …' at the beginning of the file")
    if problems:
        raise Refused(1, "mistakes that can no longer be planted", *problems, "write them anew against what the files say now")


def plant(name, tree):
    texts, problems = planted(named([name])[0], tree)
    if problems:
        raise Refused(1, f"{name} cannot be planted", *problems)
    for file, text in texts.items():
        with open(os.path.join(tree, file), "w", encoding="utf-8") as out:
            out.write(text)


def show(mistakes):
    for each in mistakes:
        print(each.op, each.name, each.program, each.filter, " ".join(each.files()), sep="\t")


def main(command, *arguments):
    if command == "check":
        check()
    elif command == "plant":
        plant(*arguments)
    elif arguments[:1] == ("--changed",):
        show(changed(arguments[1] if len(arguments) > 1 else None))
    else:
        show(named(arguments or operators()))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Refused as refused:
        print("longhaul: error: " + "\n  ".join(refused.lines), file=sys.stderr)
        sys.exit(refused.code)
