# SPDX-License-Identifier: Apache-2.0
"""The codes of this layer's errors: stable, each with what it says about a catalog. The reference page lists them."""

from __future__ import annotations

FILE = "catalog-file"
SYNTAX = "catalog-syntax"
EMPTY = "catalog-empty"
DUPLICATE_KEY = "catalog-duplicate-key"
DUPLICATE_NAME = "catalog-duplicate-name"
OVERLAY = "catalog-overlay"
KEY = "catalog-key"
UNKNOWN_KEY = "catalog-unknown-key"
MISSING = "catalog-missing"
TYPE = "catalog-type"
VALUE = "catalog-value"
REFERENCE = "catalog-reference"
REPEATED = "catalog-repeated"
WEIGHTS = "catalog-weights"
DEVICES = "catalog-devices"
PARALLEL = "catalog-parallel"
MIG = "catalog-mig"
ENGINE = "catalog-engine"
CAPABILITY = "catalog-capability"
SECRET = "catalog-secret"  # noqa: S105 - names the mistake
SECRET_NAME = "catalog-secret-name"  # noqa: S105 - names the mistake
RESERVED = "catalog-reserved"
SERVED_NAME = "catalog-served-name"
ROLLOUT = "catalog-rollout"
ROUTING = "catalog-routing"
ADMISSION = "catalog-admission"
API_KEY = "catalog-api-key"
LISTENER = "catalog-listener"
PATH = "catalog-path"
PORTS = "catalog-ports"
UNSUPPORTED = "catalog-unsupported"
UNKNOWN_CLASS = "catalog-unknown-class"
UNKNOWN_WORD = "catalog-unknown-word"
DEFAULT_CPU = "catalog-default-cpu"
MANY_CARDS = "catalog-many-cards"
SHARED_MEMORY = "catalog-shared-memory"
ACCESS = "catalog-access"

MEANINGS = {
    FILE: "A file is missing, unreadable, too large or no regular file.",
    SYNTAX: "A file is not UTF-8 or not YAML, or uses what no catalog needs: tags, several documents, endless aliases.",
    EMPTY: "Nothing but comments in the main file, or below `services`. Taking everything down is `services: {}`.",
    DUPLICATE_KEY: "One mapping has the same key twice.",
    DUPLICATE_NAME: "Two files define the same thing.",
    OVERLAY: "An overlay takes away what is not there.",
    KEY: "A key is no text, or a name breaks the rule for such names.",
    UNKNOWN_KEY: "There is no such key in this place.",
    MISSING: "A key is missing.",
    TYPE: "A value is of the wrong type.",
    VALUE: "A value is of the right type and not allowed.",
    REFERENCE: "A name refers to nothing.",
    REPEATED: "A list names the same thing twice.",
    WEIGHTS: "A model names no weights, or names them two ways.",
    DEVICES: "`cpu` stands beside device classes, or one text names several of them.",
    PARALLEL: "tensor_parallel x pipeline_parallel differs from gpus x nodes.",
    MIG: "A replica on MIG instances asks for more than one.",
    ENGINE: "A profile asks for what its engine cannot do.",
    CAPABILITY: "No device class of a profile has the compute capability that it needs.",
    SECRET: "A secret would be seen in unit files, plans and process lists.",
    SECRET_NAME: "Two secrets would have one variable at the gateways.",
    RESERVED: "A variable or an option is one that llmgw itself sets.",
    SERVED_NAME: "Two services answer to the same name, or an engine cannot answer to it.",
    ROLLOUT: "A rollout could never make progress.",
    ROUTING: "Fallbacks and splits lead from a service back to itself.",
    ADMISSION: "A limit on waiting, where no request waits.",
    API_KEY: "A key is empty, or two keys are one.",
    LISTENER: "Listeners collide, or the admin listener is open to other hosts without a token.",
    PATH: "A path on the gateway hosts cannot be that of such a file.",
    PORTS: "The engines' port range is none, or somebody else has a claim on it.",
    UNSUPPORTED: "The format has this field, and this version does not act on it.",
}

WARNINGS = {
    UNKNOWN_CLASS: "A device class is neither known by name nor in the stored facts of the fleet.",
    UNKNOWN_WORD: "The engine is not known to have such a quantization or type of the KV cache.",
    DEFAULT_CPU: "A profile of vllm names no devices, and so runs on `cpu`.",
    MANY_CARDS: "A replica takes more cards of one node than nodes have.",
    ACCESS: "Gateways may be kept from the engines.",
    SHARED_MEMORY: "An engine would take nearly all memory of a machine whose device has no memory of its own.",
}
"""What `llmgw catalog check` warns of. It refuses nothing for them."""
