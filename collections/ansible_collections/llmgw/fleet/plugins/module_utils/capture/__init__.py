# SPDX-License-Identifier: BSD-2-Clause
"""Captures (D16): everything that discovery reads on one machine, kept so that another machine reads the same facts.

Private to llmgw. `taking` runs discovery on a recording host, `recorder`; `replay` is the host that answers from a
recording, anywhere. A capture is one directory (`names`, `saving`, `loading`), for people as much as for llmgw:

    capture.json                     who made it and how; every call, with its answer or the file that holds it
    commands/nvidia-smi_-q_-x.txt    what a command printed; `.stderr.txt` beside it what it complained of
    programs/nvml.txt                what a Python program printed
    files/proc/meminfo               a file's bytes
    extracts/srv/m/a.gguf.header     what discovery took out of a large file
    http/127.0.0.1_8081_healthz.txt  the body of an answer

Where answers to one call differed, all are kept in their order. Secrets never enter (`withheld`); names, serials, UUIDs
and addresses are replaced on request (`redaction`).
"""
