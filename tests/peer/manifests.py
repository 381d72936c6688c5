"""The manifests of deploy/ fit the schemas of their kinds, and what they say of ranks hangs together.

    manifests.py SOURCE_ROOT

The schemas are cut out of the published definitions (manifests/cut_schema.py says which, and how). What servers check beside schemas (their
webhooks, rules in CEL) is not checked here.
"""

import copy
import json
import pathlib
import sys

import jsonschema
import yaml

root = pathlib.Path(sys.argv[1])
here = root / "tests/peer/manifests"


def load(name):
    manifest = yaml.safe_load((root / "deploy" / f"{name}.yaml").read_text())
    schema = json.loads((here / f"{name}.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    return manifest, jsonschema.Draft7Validator(schema)


def variables(container):
    return {entry["name"]: entry.get("value") for entry in container["env"]}


def require_refused(validator, manifest, what, change):
    """The validator sees what it is there for: a manifest with this mistake is refused."""
    wrong = copy.deepcopy(manifest)
    change(wrong)
    assert not validator.is_valid(wrong), f"not refused: {what}"


jobset, validator = load("jobset")
validator.validate(jobset)
job = jobset["spec"]["replicatedJobs"][0]
require_refused(validator, jobset, "a misspelt field", lambda m: m["spec"].update(replicatedJob=[]))
require_refused(validator, jobset, "an unknown action", lambda m: m["spec"]["failurePolicy"]["rules"][0].update(action="Restart"))
require_refused(validator, jobset, "no containers", lambda m: m["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"].pop("containers"))
require_refused(validator, jobset, "a number that is text", lambda m: m["spec"]["replicatedJobs"][0]["template"]["spec"].update(parallelism="4"))
name, rank_job = jobset["metadata"]["name"], job["template"]["spec"]
pod = rank_job["template"]["spec"]
container = pod["containers"][0]
said = variables(container)
assert job["replicas"] == 1 and rank_job["completionMode"] == "Indexed"
assert str(rank_job["parallelism"]) == str(rank_job["completions"]) == said["WORLD_SIZE"]
assert said["MASTER_ADDR"] == f"{name}-{job['name']}-0-0.{name}", "pod 0's name"
assert said["MASTER_PORT"] == str(container["ports"][0]["containerPort"])
assert {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"} <= set(said), "what control/wire/placement.cpp needs"
assert {"JOBSET_NAME", "JOBSET_RESTART_ATTEMPT", "POD_NAMESPACE"} <= set(said), "what control/engines/engine_kubernetes.cpp reads"
field = next(e for e in container["env"] if e["name"] == "RANK")["valueFrom"]["fieldRef"]["fieldPath"]
assert field == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
rule = next(r for r in rank_job["podFailurePolicy"]["rules"] if "onExitCodes" in r)["onExitCodes"]
assert rule["containerName"] == container["name"] and rule["values"] == sorted(rule["values"])
assert pod["restartPolicy"] == "Never", "which a podFailurePolicy asks for"
documented = (root / "docs/reference/exit-codes.md").read_text()
assert all(f"\n| {code} | " in documented for code in rule["values"])

pytorchjob, validator = load("pytorchjob")
validator.validate(pytorchjob)
require_refused(validator, pytorchjob, "an unknown policy", lambda m: m["spec"]["pytorchReplicaSpecs"]["Worker"].update(restartpolicy="Never"))
for replica in pytorchjob["spec"]["pytorchReplicaSpecs"].values():
    container = replica["template"]["spec"]["containers"][0]
    assert container["name"] == "pytorch", "the operator looks for this name"
    assert set(variables(container)) == {"POD_NAMESPACE"}, "the rest is the operator's"
assert pytorchjob["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] == 1

# Every rank of both trains on whole micro-batches: batch = micro_batch · ranks.
for words, ranks in (
    (pod["containers"][0]["command"], rank_job["parallelism"]),
    (container["command"], 1 + pytorchjob["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"]),
):
    sizes = dict(word.split("=") for word in words if word.startswith("train."))
    assert int(sizes["train.batch"]) % (int(sizes["train.micro_batch"]) * ranks) == 0, words
    assert (root / words[2]).exists(), words[2]
# What the driver may do, and no more: what control/engines/engine_kubernetes.cpp types.
rights = {part["kind"]: part for part in yaml.safe_load_all((root / "deploy/kubernetes-rights.yaml").read_text())}
allowed = {resource: set(rule["verbs"]) for kind in ("Role", "ClusterRole") for rule in rights[kind]["rules"] for resource in rule["resources"]}
assert allowed == {"pods": {"get", "delete"}, "nodes": {"get", "patch"}}, allowed
print("all manifests fit")
