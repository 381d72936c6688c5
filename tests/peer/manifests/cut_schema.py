"""Cuts out of a custom resource definition what a manifest of deploy/ needs, as a JSON schema.

    cut_schema.py DEFINITION.yaml VERSION MANIFEST.yaml > SCHEMA.json

Of every field that the manifest has: its type, choices, limits and required neighbours; descriptions and fields that the manifest does not
have are left out, and what is left out is refused. So a manifest that gets a field more needs its schema cut again. Made with this:

    jobset.schema.json      kubernetes-sigs/jobset 08dfbdfd6827 config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml v1alpha2
    pytorchjob.schema.json  kubeflow/training-operator v1.9.0 manifests/base/crds/kubeflow.org_pytorchjobs.yaml v1
"""

import json
import sys

import yaml

KEPT = ("type", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "maxItems", "minItems")


def cut(schema, values):
    """The part of the schema that these values, all of one place, touch."""
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    part = {key: schema[key] for key in KEPT if key in schema}
    if part.get("type") == "array":
        part["items"] = cut(schema["items"], [item for value in values for item in value])
    elif part.get("type") == "object" and "properties" in schema:
        names = dict.fromkeys(name for value in values for name in value)
        part["properties"] = {name: cut(schema["properties"][name], [v[name] for v in values if name in v]) for name in names}
        part["required"] = schema.get("required", [])
        part["additionalProperties"] = False
    elif part.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        part["additionalProperties"] = cut(schema["additionalProperties"], [item for value in values for item in value.values()])
    return part


def main():
    definition, version, manifest = sys.argv[1:]
    with open(definition) as file:
        whole = yaml.safe_load(file)
    with open(manifest) as file:
        value = yaml.safe_load(file)
    found = next(v for v in whole["spec"]["versions"] if v["name"] == version)
    schema = dict(found["schema"]["openAPIV3Schema"])
    schema["properties"] = dict(schema["properties"])
    schema["properties"]["metadata"] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    part = cut(schema, [value])
    part["properties"]["apiVersion"]["enum"] = [f"{whole['spec']['group']}/{version}"]
    part["properties"]["kind"]["enum"] = [whole["spec"]["names"]["kind"]]
    print(json.dumps(part, indent=1))


main()
