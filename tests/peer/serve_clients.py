#!/usr/bin/env python3
"""`longhaul serve` asked by the official `openai` package and by curl.

    serve_clients.py PATH_TO_longhaul

A small model is trained for a few steps and served; texts, streams, log probabilities, errors and the end by SIGTERM
are seen as these clients see them. What they read must agree with what `longhaul sample` writes.
"""
import asyncio
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import openai

RECIPE = """
version = 1
[model]
layers = 2
hidden = 32
vocabulary = 257
heads = 2
kv_heads = 2
head_dim = 16
rotary_dim = 8
mixers = ["lightning", "softmax"]
intermediate = 40
[data]
source = ["{folder}/text"]
cache = "{folder}/cache"
tokenizer = "bytes"
held_out_percent = 0
[train]
steps = 3
sequence = 64
evaluate_every = 0
[sample]
tokens = 0
"""


TEMPLATE = """{% for message in messages %}[{{ message.role }}] {{ message.content }}
{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}"""


def require(good, what):
    if not good:
        raise SystemExit(f"serve_clients: {what}")


def error_of(call):
    try:
        call()
    except openai.APIStatusError as error:
        return error
    raise SystemExit("serve_clients: an error was expected")


def trained_run(program, folder):
    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE.replace("{folder}", str(folder)))
    (folder / "text").mkdir()
    for i in range(20):
        (folder / "text" / f"{i}.py").write_text(f"def f{i}(x):\n    return x + {i}\n" * 40)
    run = folder / "small"
    subprocess.run([program, "train", str(recipe), "--run", str(run)], check=True, stdout=subprocess.DEVNULL)
    return run


def started(program, arguments):
    server = subprocess.Popen([program, "serve", *arguments, "--port", "0"], stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    found = re.search(r"http://\S+?:\d+/", line)
    require(found, f"no address in {line!r}")
    return server, found.group(0)


def check_texts(client, program, run):
    whole = client.completions.create(model="small", prompt="def f(", max_tokens=20, seed=4, logprobs=2)
    sampled = subprocess.run(
        [program, "sample", str(run), "--prompt", "def f(", "--tokens", "20", "--seed", "4", "--temperature", "1", "--top-p", "1", "--json"],
        check=True, stdout=subprocess.PIPE)
    expected = json.loads(sampled.stdout)
    require(whole.choices[0].text == expected["text"], f"{whole.choices[0].text!r} instead of {expected['text']!r}")
    require(whole.choices[0].logprobs.token_logprobs == expected["log_probabilities"], "other log probabilities than sample's")
    require(all(len(top) <= 2 for top in whole.choices[0].logprobs.top_logprobs), "more top tokens than asked for")
    require(whole.usage.completion_tokens == len(expected["ids"]), "usage")
    pieces = list(client.completions.create(model="small", prompt="def f(", max_tokens=20, seed=4, stream=True,
                                            stream_options={"include_usage": True}))
    require("".join(c.text for piece in pieces for c in piece.choices) == whole.choices[0].text, "the stream is another text")
    require(pieces[-1].usage.total_tokens == whole.usage.total_tokens, "usage of the stream")
    several = client.completions.create(model="small", prompt=["a", "b"], n=2, max_tokens=5, seed=1)
    require([c.index for c in several.choices] == [0, 1, 2, 3], "choices in order")
    vectors = client.embeddings.create(model="small", input=["a", "b"]).data
    require(len(vectors) == 2 and len(vectors[0].embedding) == 32, "embeddings")
    plain = {"model": "small", "prompt": "def f(", "max_tokens": 20, "seed": 4, "logit_bias": {str(byte): -100 for byte in range(128, 257)}}
    text = client.completions.create(**plain).choices[0].text
    stopped = client.completions.create(**plain, stop=text[4:7]).choices[0]
    require(stopped.finish_reason == "stop" and stopped.text == text[: text.index(text[4:7])], f"a stop string: {stopped}")


def check_chat(client):
    """A conversation is what its template makes of it: the same text follows the same ids."""
    said = {"model": "talks", "max_tokens": 12, "seed": 3}
    turn = client.chat.completions.create(messages=[{"role": "user", "content": "f(1)"}], **said).choices[0]
    ids = list(b"[user] f(1)\n[assistant] ")
    text = client.completions.create(prompt=ids, **said).choices[0].text
    require(turn.message.role == "assistant" and turn.message.content == text, f"{turn.message.content!r} instead of {text!r}")
    pieces = client.chat.completions.create(messages=[{"role": "user", "content": "f(1)"}], stream=True, **said)
    require("".join(c.delta.content or "" for piece in pieces for c in piece.choices) == text, "the stream of a turn is another text")


def check_errors(client, url):
    missing = error_of(lambda: client.completions.create(model="nobody", prompt="x"))
    require(missing.status_code == 404 and missing.code == "model_not_found", f"a missing model: {missing}")
    bad = error_of(lambda: client.completions.create(model="small", prompt="x", temperature=9))
    require(isinstance(bad, openai.BadRequestError) and bad.param == "temperature", f"a temperature of 9: {bad}")
    chat = error_of(lambda: client.chat.completions.create(model="small", messages=[{"role": "user", "content": "x"}]))
    require(chat.status_code == 400 and "chat template" in str(chat), f"no chat template: {chat}")
    wrong = error_of(lambda: openai.OpenAI(base_url=url + "v1", api_key="wrong", max_retries=0).models.list())
    require(isinstance(wrong, openai.AuthenticationError), f"a wrong key: {wrong}")


async def check_many(url, key):
    client = openai.AsyncOpenAI(base_url=url + "v1", api_key=key)
    ask = lambda seed: client.completions.create(model="small", prompt="x = ", max_tokens=30, seed=seed)
    together = await asyncio.gather(*[ask(seed) for seed in range(24)])
    for seed in (0, 11, 23):
        alone = await ask(seed)
        require(alone.choices[0].text == together[seed].choices[0].text, f"seed {seed}: another text beside others")


def curl(url, key, *arguments):
    done = subprocess.run(["curl", "-sS", "-H", f"Authorization: Bearer {key}", *arguments[1:], url + arguments[0]], stdout=subprocess.PIPE, check=True)
    return done.stdout.decode()


def check_curl(url, key):
    require(json.loads(curl(url, key, "health"))["status"] == "ok", "health")
    require(json.loads(curl(url, key, "v1/models"))["data"][0]["id"] == "small", "models")
    require(json.loads(curl(url, key, "tokenize", "-d", '{"prompt": "ab"}'))["tokens"][-2:] == [97, 98], "tokenize")
    stream = curl(url, key, "v1/completions", "-N", "-d", '{"prompt": "x", "max_tokens": 4, "stream": true}')
    require(stream.startswith("data: {") and stream.endswith("data: [DONE]\n\n"), f"a stream: {stream!r}")
    require("longhaul_serve_requests_total" in curl(url, key, "metrics"), "metrics")


def main(program):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run = trained_run(program, folder)
        talks = folder / "talks"
        shutil.copytree(run, talks)
        (talks / "chat_template.jinja").write_text(TEMPLATE)
        token = folder / "token"
        key = "a-token-of-the-test-alone"
        token.write_text(key)
        os.chmod(token, 0o600)
        server, url = started(program, [str(run), str(talks), "--token-file", str(token)])
        try:
            client = openai.OpenAI(base_url=url + "v1", api_key=key)
            require([model.id for model in client.models.list()] == ["small", "talks"], "the models")
            check_texts(client, program, run)
            check_chat(client)
            check_errors(client, url)
            asyncio.run(check_many(url, key))
            check_curl(url, key)
            # A stream that has begun is finished after SIGTERM.
            stream = client.completions.create(model="small", prompt="x", max_tokens=300, seed=1, stream=True, extra_body={"ignore_eos": True})
            next(iter(stream))
            server.send_signal(signal.SIGTERM)
            require(list(stream)[-1].choices[0].finish_reason == "length", "the stream was cut by SIGTERM")
            require(server.wait(60) == 0, f"the server ended with {server.returncode}")
        finally:
            server.kill()
    print("serve_clients: openai", openai.__version__, "and curl agree with longhaul serve")


if __name__ == "__main__":
    main(sys.argv[1])
