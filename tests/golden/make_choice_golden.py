#!/usr/bin/env python3
"""Makes tests/golden/choice.json: questions by hand, log-probabilities by hand, and how lm-evaluation-harness judges them.

    make_choice_golden.py  (Python with lm_eval 0.4.13)

The harness's own task asks a model that knows nothing but the table below; its samples and its results are written down as they come.
"""
import importlib.metadata
import json
import os
import pathlib
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"  # the data is a local file
os.environ["HF_DATASETS_OFFLINE"] = "1"

from lm_eval.api.model import LM  # noqa: E402
from lm_eval.api.task import ConfigurableTask  # noqa: E402
from lm_eval.evaluator import evaluate  # noqa: E402

METRICS = ["acc", "acc_norm", "acc_bytes", "acc_mutual_info"]

# context, choices, right one, log-probabilities behind the context, and behind nothing. Each question parts some scores from the others.
ITEMS = [
    ("The capital of France is", ["Paris", "the town of Lyon", "Marseille"], 0, [-2.25, -9.5, -4.5], [-8.0, -21.0, -9.0]),
    ("Long answers lose", ["no", "only where lengths are not counted"], 1, [-3.0, -11.5], [-4.0, -12.0]),
    ("Bytes and characters", ["abcd", "äöü"], 1, [-8.0, -9.0], [-9.0, -9.5]),
    ("Bytes and characters again", ["ずっと前", "long ago now"], 0, [-13.0, -30.0], [-14.0, -42.0]),
    ("What is likely anyway", ["the", "a zebra"], 1, [-1.5, -7.0], [-1.0, -12.5]),
    ("Equal ones", ["left", "east", "west"], 1, [-6.0, -6.0, -6.0], [-7.0, -7.0, -7.0]),
    ("Equal ones, the first right", ["up", "at", "in"], 0, [-5.5, -5.5, -5.5], [-5.5, -5.5, -5.5]),
    ("Equal by character alone", ["xy", "xyzw"], 1, [-2.0, -4.0], [-3.0, -3.5]),
    ("Impossible but for one", ["nil", "nul", "one"], 2, [-745.0, -1e4, -744.5], [-3.0, -4.0, -760.0]),
    ("Certain", ["yes", "perhaps not"], 0, [0.0, -0.25], [-0.5, -0.5]),
    ("Five of them", ["q", "rr", "sss", "tttt", "uuuuu"], 3, [-1.0, -1.9, -2.7, -3.5, -4.6], [-1.5, -1.9, -3.0, -6.0, -5.0]),
    ("One letter, many bytes", ["😀", "smile"], 0, [-4.0, -4.5], [-4.0, -5.5]),
]


class Table(LM):
    def loglikelihood(self, requests):
        answers = []
        for request in requests:
            context, continuation = request.args
            which = request.doc["choices"].index(continuation.removeprefix(" "))
            answers.append((request.doc["unconditional" if context == "" else "conditional"][which], False))
        return answers

    def loglikelihood_rolling(self, requests):
        raise NotImplementedError

    def generate_until(self, requests):
        raise NotImplementedError


def main():
    docs = [dict(zip(("context", "choices", "gold", "conditional", "unconditional"), item)) for item in ITEMS]
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "items.jsonl"
        data.write_text("".join(json.dumps(doc) + "\n" for doc in docs))
        os.environ["HF_DATASETS_CACHE"] = folder
        task = ConfigurableTask(config={
            "task": "by_hand", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(data)}, "cache_dir": folder},
            "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "{{context}}", "doc_to_choice": "choices",
            "doc_to_target": "gold", "metric_list": [{"metric": metric, "aggregation": "mean", "higher_is_better": True} for metric in METRICS]})
        found = evaluate(lm=Table(), task_dict={"by_hand": task}, log_samples=True, bootstrap_iters=2)
    samples = sorted(found["samples"]["by_hand"], key=lambda sample: sample["doc_id"])
    for doc, sample in zip(docs, samples, strict=True):
        assert sample["doc"]["context"] == doc["context"]
        # The arguments of what was asked behind the context; of acc_mutual_info the same follows behind nothing.
        asked = sample["arguments"][: len(doc["choices"])]
        assert all(context == doc["context"] for context, _ in asked)
        doc["continuations"] = [continuation for _, continuation in asked]
        doc.update({metric: sample[metric] for metric in METRICS})
    results = {key.removesuffix(",none"): value for key, value in found["results"]["by_hand"].items() if key.split("_stderr")[0].split(",")[0] in METRICS}
    out = pathlib.Path(__file__).parent / "choice.json"
    text = ",\n".join(json.dumps(doc, ensure_ascii=False) for doc in docs)
    out.write_text(f'{{"lm_eval": {json.dumps(importlib.metadata.version("lm_eval"))},\n"results": {json.dumps(results)},\n"items": [\n{text}\n]}}\n')


if __name__ == "__main__":
    main()
