#!/usr/bin/env python3
"""longhaul serve beside llama.cpp's own server (package xllamacpp): the same random weights, asked over HTTP by the same clients in turn.

    python bench/peers/serve.py --longhaul build/release/longhaul                        # the shape of Qwen2.5 0.5B, 2 threads
    python bench/peers/serve.py --longhaul build/release/longhaul --shape tiny --runs 1  # only to see that it runs

Weights are drawn here, so that bf16 (longhaul) and f16 (llama.cpp) both have them exactly, and become a published folder, which `longhaul import`
and `longhaul export --gguf` read. A run asks both servers one after the other, the other one stopped meanwhile, so that the machine's mood hits both: 1, 4 and 16 clients for texts of
--tokens new tokens after prompts of --prompt random tokens (the end of a text is ignored, nothing is in a cache), then one client for the first token
after 2,000 tokens. Tokens a second are those of the answers; the time of reading prompts counts. Medians of --runs runs after one that does not
count. Prints one JSON object; above 1 is better for "tokens_per_second", below 1 for "first_token".
Needs: pip install numpy safetensors xllamacpp
"""
import argparse
import concurrent.futures
import http.client
import json
import multiprocessing
import os
import pathlib
import random
import signal
import statistics
import subprocess
import tempfile
import time
import urllib.parse

SHAPES = {"qwen2.5-0.5b": {"layers": 24, "hidden": 896, "intermediate": 4864, "heads": 14, "kv_heads": 2, "vocabulary": 151936},
          "tiny": {"layers": 2, "hidden": 64, "intermediate": 96, "heads": 4, "kv_heads": 2, "vocabulary": 512}}
CLIENTS, FIRST_TOKEN_PROMPT = (1, 4, 16), 2000


def tokenizer():
    """256 bytes; the other rows of the model stand for nothing."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, beyond = {}, 0
    for byte in range(256):
        letters[byte] = chr(byte if byte in visible else 256 + beyond)
        beyond += byte not in visible
    return {"version": "1.0", "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}, "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                      "byte_fallback": False, "ignore_merges": False, "vocab": {letters[byte]: byte for byte in range(256)}, "merges": []}}


def write_model(folder, shape):
    import numpy
    from safetensors.numpy import save_file
    folder.mkdir()
    hidden, inner, heads, kv = shape["hidden"], shape["intermediate"], shape["heads"], shape["kv_heads"]
    width = hidden // heads
    numbers = numpy.random.default_rng(0)

    def weights(*sizes):  # multiples of 2⁻¹¹ up to 127 of them: exact with seven bits behind the point
        return numpy.clip(numpy.rint(numbers.standard_normal(sizes, dtype=numpy.float32) * (0.02 * 2048)), -127, 127) / numpy.float32(2048)

    tensors = {"model.embed_tokens.weight": weights(shape["vocabulary"], hidden), "model.norm.weight": numpy.ones(hidden, numpy.float32)}
    for layer in range(shape["layers"]):
        at = f"model.layers.{layer}."
        for name, rows in (("q", heads * width), ("k", kv * width), ("v", kv * width)):
            tensors[f"{at}self_attn.{name}_proj.weight"], tensors[f"{at}self_attn.{name}_proj.bias"] = weights(rows, hidden), weights(rows)
        tensors[at + "self_attn.o_proj.weight"] = weights(hidden, heads * width)
        tensors[at + "mlp.gate_proj.weight"], tensors[at + "mlp.up_proj.weight"] = weights(inner, hidden), weights(inner, hidden)
        tensors[at + "mlp.down_proj.weight"] = weights(hidden, inner)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}{norm}.weight"] = numpy.ones(hidden, numpy.float32)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "hidden_size": hidden, "intermediate_size": inner,
        "num_hidden_layers": shape["layers"], "num_attention_heads": heads, "num_key_value_heads": kv, "vocab_size": shape["vocabulary"],
        "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": True, "use_sliding_window": False,
        "torch_dtype": "float32", "initializer_range": 0.02}))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))


def longhaul(arguments, folder, *words):
    result = subprocess.run([str(pathlib.Path(arguments.longhaul).resolve()), *map(str, words)], cwd=folder, capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"longhaul {' '.join(map(str, words))}: {result.stderr}")


def serve_llama(file, threads, tokens, pipe):
    import xllamacpp
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(file)
    parameters.n_parallel = max(CLIENTS)
    parameters.n_ctx = max(CLIENTS) * (FIRST_TOKEN_PROMPT + tokens + 64)
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    parameters.port = 0
    server = xllamacpp.Server(parameters)
    pipe.send(server.listening_address)
    pipe.recv()  # until the end


class Server:
    def __init__(self, url, cache_field):
        self.address, self.cache_field = urllib.parse.urlsplit(url), cache_field

    def ask(self, prompt, tokens):
        body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, **self.cache_field}
        connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=3600)
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        text = reply.read()
        connection.close()
        if reply.status != 200:
            raise SystemExit(f"{self.address.netloc} answers {reply.status}: {text[:400]}")
        written = json.loads(text)["usage"]["completion_tokens"]
        if written != tokens:
            raise SystemExit(f"{self.address.netloc} wrote {written} tokens and not {tokens}")


def measure(server, arguments, numbers):
    found = {}
    for clients in CLIENTS:
        prompts = [[numbers.randrange(256) for _ in range(arguments.prompt)] for _ in range(clients)]
        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            began = time.perf_counter()
            list(pool.map(lambda prompt: server.ask(prompt, arguments.tokens), prompts))
            found[f"tokens_per_second_{clients}"] = clients * arguments.tokens / (time.perf_counter() - began)
    prompt = [numbers.randrange(256) for _ in range(FIRST_TOKEN_PROMPT)]
    began = time.perf_counter()
    server.ask(prompt, 1)
    found["first_token_ms"] = 1e3 * (time.perf_counter() - began)
    return found


def serve_longhaul(arguments, folder):
    process = subprocess.Popen(
        [str(pathlib.Path(arguments.longhaul).resolve()), "serve", "run", "--port", "0", "--memory", str(2 << 30), "--dtype", "bf16"], cwd=folder,
        stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": str(arguments.threads), "LONGHAUL_THREADS": str(arguments.threads)})
    line = process.stdout.readline()
    if "http" not in line:
        raise SystemExit("longhaul serve did not begin")
    return process, line.split()[0].removesuffix("v1")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhaul", required=True, help="the program")
    parser.add_argument("--shape", choices=list(SHAPES), default="qwen2.5-0.5b")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_model(folder / "published", SHAPES[arguments.shape])
        longhaul(arguments, folder, "import", "published", "--out", "run")
        longhaul(arguments, folder, "export", "run", "--gguf", "model.gguf", "--type", "f16")
        ours_pipe, theirs_pipe = multiprocessing.get_context("spawn").Pipe()
        peer = multiprocessing.get_context("spawn").Process(target=serve_llama, daemon=True,
                                                            args=(folder / "model.gguf", arguments.threads, arguments.tokens, theirs_pipe))
        peer.start()
        process, url = serve_longhaul(arguments, folder)
        try:
            servers = {"longhaul": Server(url, {}), "llama_cpp": Server(ours_pipe.recv(), {"cache_prompt": False})}
            times = {each: [] for each in servers}
            processes = {"longhaul": process.pid, "llama_cpp": peer.pid}
            for run in range(arguments.runs + 1):
                for each, server in servers.items():
                    # llama.cpp's threads wait for work by asking again and again, which would slow the other server down.
                    others = [pid for name, pid in processes.items() if name != each]
                    for pid in others:
                        os.kill(pid, signal.SIGSTOP)
                    try:
                        times[each].append(measure(server, arguments, random.Random(run)))
                    finally:
                        for pid in others:
                            os.kill(pid, signal.SIGCONT)
        finally:
            process.terminate()
            process.wait()
            ours_pipe.send("end")
            peer.join(30)
    medians = {each: {key: statistics.median(run[key] for run in runs[1:]) for key in runs[0]} for each, runs in times.items()}
    ratios = {key: medians["longhaul"][key] / medians["llama_cpp"][key] for key in medians["longhaul"]}
    print(json.dumps({"shape": arguments.shape, "threads": arguments.threads, "prompt": arguments.prompt, "tokens": arguments.tokens,
                      "runs": arguments.runs, **medians, "longhaul_of_llama_cpp": ratios}, indent=2))


if __name__ == "__main__":
    main()
