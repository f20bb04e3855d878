# SPDX-License-Identifier: BSD-2-Clause
"""The errors of engines that are worth naming: how each reads in a log, what it means, and what to do first.

The more telling come first. A pattern never crosses a line and has no unbounded part but between fixed words.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Pattern, Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.reading import LLAMA_CPP, SGLANG, VLLM


class Known(NamedTuple):
    """One error. `says` and `remedy` may use the pattern's groups; `kinds`: empty for every engine."""

    code: str
    pattern: Pattern[str]
    says: str
    remedy: str
    kinds: Tuple[str, ...] = ()


def _known(code: str, pattern: str, says: str, remedy: str, *kinds: str) -> Known:
    return Known(code, re.compile(pattern), says, remedy, kinds)


_LESS_KV = "or raise memory_utilization, or give it more devices"
_HUB = "Check the model's hf_id, revision and weights in the catalog"

# Not looked for like the others: `complaints.py` asks whether it is laid to another member, and what came before.
GROUP_ENDED = _known(
    "group-ended",
    r"llmgw-guard: the group ends: (?P<why>[^\n]{1,200})",
    "its group ended: {why}",
    "Look at the log of the member that it names.",
)

KNOWN: Tuple[Known, ...] = (
    # --- memory ---
    _known(
        "context-too-long",
        r"max seq len \((?P<asked>[\d,]{1,12})\).{0,200}?KV cache is needed.{0,120}?available KV cache memory "
        r"\((?P<room>[\d.]{1,12}) GiB\).{0,120}?estimated maximum model length is (?P<fits>\d{1,9})",
        "the KV cache has {room} GiB, too little for one request of {asked} tokens",
        f"Set max_model_len to {{fits}} or less, {_LESS_KV}.",
        VLLM,
    ),
    _known(
        "context-too-long",
        r"max seq len \((?P<asked>[\d,]{1,12})\).{0,200}?KV cache is needed.{0,120}?available KV cache memory "
        r"\((?P<room>[\d.]{1,12}) GiB\)",
        "the KV cache has {room} GiB, too little for one request of {asked} tokens",
        f"Lower max_model_len, {_LESS_KV}.",
        VLLM,
    ),
    _known(
        "context-too-long",
        r"max seq len \((?P<asked>[\d,]{1,12})\) is larger than the maximum number of tokens that can be stored in "
        r"KV cache \((?P<fits>[\d,]{1,12})\)",
        "the KV cache has room for {fits} tokens, and a request may have {asked}",
        f"Set max_model_len to {{fits}} or less, {_LESS_KV}.",
        VLLM,
    ),
    _known(
        "context-too-long",
        r"User-specified max_model_len \((?P<asked>\d{1,12})\) is greater than the derived max_model_len "
        r"\(\w{1,40}=(?P<fits>\d{1,12})",
        "the model was made for a context of {fits} tokens, and {asked} are asked for",
        "Set max_model_len to {fits} or less.",
        VLLM,
    ),
    _known(
        "no-room-for-kv-cache",
        r"No available memory for the cache blocks|Loaded weights leave no GPU memory for the KV cache"
        r"|Not enough memory\. Please try to increase --mem-fraction-static",
        "the weights leave no memory for a KV cache",
        "Raise memory_utilization, give it more devices, or use a smaller quantization.",
    ),
    _known(
        "memory-not-free",
        r"Free memory on device .{0,40}?\((?P<free>[\d.]{1,12})/(?P<total>[\d.]{1,12}) GiB\) on startup is less than "
        r"desired GPU memory utilization \((?P<share>[\d.]{1,8})",
        "only {free} of {total} GiB are free on its device, and memory_utilization asks for a share of {share}",
        "See what else runs there (`llmgw facts show NODE`), or lower memory_utilization.",
    ),
    _known(
        "memory-not-free",
        r"The memory capacity is unbalanced",
        "its devices do not have the same amount of free memory",
        "See what else runs there: `llmgw facts show NODE`.",
        SGLANG,
    ),
    _known(
        "out-of-device-memory",
        r"(?:CUDA|HIP) out of memory|torch\.(?:cuda\.)?OutOfMemoryError|cudaMalloc failed: out of memory"
        r"|CUDA error: out of memory|ErrorOutOfDeviceMemory|failed to allocate (?:CUDA|ROCm|Vulkan|SYCL)\d{1,3} buffer"
        r"|unable to allocate (?:CUDA|ROCm|Vulkan|SYCL)\d{1,3} buffer",
        "the device's memory ran out",
        "Lower max_model_len, parallel_requests or memory_utilization, or give it more devices; "
        "`llmgw fit` tells what fits.",
    ),
    _known(
        "killed-for-memory",
        r"killed by the OOM killer|Failed with result 'oom-kill'|Out of memory: Killed process",
        "the kernel killed it: it needed more host memory than it may have",
        "Raise max_memory_gb of its profile, or free memory on the node.",
    ),
    _known(
        "out-of-host-memory",
        r"std::bad_alloc|Cannot allocate memory|DefaultCPUAllocator: (?:can't|not enough)|\bMemoryError\b"
        r"|unable to allocate (?:CPU|backend) buffer|failed to allocate (?:CPU )?buffer",
        "host memory ran out",
        "Raise max_memory_gb of its profile, lower max_model_len, or free memory on the node.",
    ),
    # --- the node ---
    _known(
        "disk-full",
        r"No space left on device|Disk quota exceeded|\bENOSPC\b",
        "a disk that it writes to is full",
        "Free space: `df -h` on the node shows which; caches lie below the home of its user, "
        "shared memory is /dev/shm.",
    ),
    _known(
        "port-in-use",
        r"[Aa]ddress already in use|\bEADDRINUSE\b|couldn't bind (?:to )?(?:HTTP )?server socket"
        r"|[Pp]ort \d{1,5} (?:of \S{1,60} )?is (?:already )?(?:in use|taken)|Port is already in use",
        "a port that it needs is taken by another process",
        "`ss -ltnp` on the node names the process; end it, or move fleet.port_range.",
    ),
    _known(
        "driver-too-old",
        r"CUDA driver version is insufficient for CUDA runtime version|NVIDIA driver on your system is too old"
        r"|forward compatibility was attempted on non supported HW|PTX was compiled with an unsupported toolchain",
        "the GPU driver is older than this engine's CUDA",
        "Update the driver of the node, or pin an older engine in llmgw_engine_versions.",
    ),
    _known(
        "driver-mismatch",
        r"Driver/library version mismatch|\bCUDA error 803\b|unsupported display driver / cuda driver combination",
        "the loaded GPU driver and its libraries have different versions",
        "Reboot the node, or reload the driver's modules.",
    ),
    _known(
        "fabric-not-ready",
        r"CUDA error 802|system not yet initialized",
        "the NVSwitch fabric of the node is not ready",
        "Start nvidia-fabricmanager there, of the driver's version.",
    ),
    _known(
        "imex",
        r"(?:IMEX|imex)[- ](?:channel|ctl)|nvidia-imex-ctl|/dev/nvidia-caps-imex-channels",
        "memory could not be shared across nodes: IMEX refused",
        "Check `nvidia-imex-ctl -N` on each node of the NVLink domain, and /dev/nvidia-caps-imex-channels.",
    ),
    _known(
        "no-device",
        r"No CUDA GPUs are available|no CUDA-capable device is detected|NVML Shared Library Not Found"
        r"|Failed to infer device type|ggml_cuda_init: failed to initialize CUDA",
        "it sees no GPU",
        "Check `nvidia-smi` on the node, and that the engine was built for this kind of card.",
    ),
    _known(
        "compute-capability",
        r"not supported for the current GPU\. Minimum capability: (?P<need>\d{2,3})\. "
        r"Current capability: (?P<have>\d{2,3})",
        "its quantization needs compute capability {need} and the card has {have} (80 means 8.0)",
        "Use another quantization, or a newer card.",
    ),
    _known(
        "compute-capability",
        r"Bfloat16 is only supported on GPUs",
        "the card is too old for bfloat16",
        "Add `--dtype half` to the profile's args, or use a newer card.",
    ),
    _known(
        "compute-capability",
        r"no kernel image is available for execution|is not compatible with the current PyTorch installation"
        r"|requires compute capability|native FP8 requires SM|compute capability not supported",
        "the engine was not built for this card's compute capability, or what it was asked for needs a newer card",
        "Use another engine, quantization or kv_cache_dtype, or a newer card.",
    ),
    # --- the fabric ---
    _known(
        "nccl-transfer",
        r"NET/IB.{0,200}?(?:error|status=|status:?) ?12\b|vendor err 129|Transport retry count exceeded",
        "NCCL's first transfer over InfiniBand or RoCE timed out: the chosen ports cannot reach each other",
        "`llmgw nodes` shows which ports are of one fabric; check cables, subnet manager and RoCE addresses.",
    ),
    _known(
        "nccl-no-port",
        r"NET/IB : No device found",
        "NCCL found none of the InfiniBand or RoCE ports that it was given",
        "Check that the node's ports are active (`ibstat`), and that RDMA devices are visible to the unit.",
    ),
    _known(
        "peer-unreachable",
        r"client socket has timed out|DistNetworkError|TCPStore.{0,120}?timed out|wait timeout after \d{1,9} ?ms"
        r"|Timed out initializing process group|Connection closed by peer \[",
        "another member of its replica did not come or did not answer",
        "Look at the units of the other members; nodes must reach each other on all TCP ports.",
    ),
    _known(
        "nccl",
        r"ncclSystemError[^\n]{0,200}|ncclInternalError[^\n]{0,200}|ncclRemoteError[^\n]{0,200}"
        r"|NCCL error[^\n]{0,40}: [^\n]{0,160}",
        "the devices of its replica could not be joined (NCCL)",
        "Set NCCL_DEBUG to INFO in the profile's env; the lines before the error then say why.",
    ),
    # --- the weights ---
    _known(
        "model-gated",
        r"401 Client Error|403 Client Error|GatedRepoError|Cannot access gated repo|gated repo"
        r"|is restricted\. You must",
        "the hub refuses the model without a token that may read it",
        "Accept the model's licence on the hub, and give the profile a secret HF_TOKEN.",
    ),
    _known(
        "weights-not-there",
        r"outgoing traffic has been disabled|LocalEntryNotFoundError|OfflineModeIsEnabled"
        r"|offline mode is enabled|cannot find the requested files in the (?:local|disk) cache",
        "the weights are not in the node's cache, and it may not fetch them",
        "Put them there, or set `weights: {{fetch: missing}}` for the model.",
    ),
    _known(
        "no-such-model",
        r"RepositoryNotFoundError|RevisionNotFoundError|404 Client Error|is not a valid model identifier"
        r"|Invalid repository ID or local directory|Repo id must be in the form|there is no file (?P<file>/\S{1,200})"
        r"|failed to open GGUF file|(?:No such file or directory|not found)[^\n]{0,20}\.gguf",
        "there is no such model",
        f"{_HUB}.",
    ),
    _known(
        "weights-broken",
        r"invalid magic characters|failed to read magic|invalid magic number|is no GGUF file",
        "the model's file is no GGUF file",
        "Fetch it again; a page of HTML or a pointer of Git LFS in its place is the usual reason.",
        LLAMA_CPP,
    ),
    _known(
        "weights-broken",
        r"not within (?:the )?file bounds|model is corrupted or incomplete|failed to read key-value pairs"
        r"|failed to read tensor (?:info|data)|unexpectedly reached end of file|failed to read header"
        r"|missing tensor '|wrong number of tensors|is damaged or cut off: its header|is cut off: it has \d",
        "the model's file is damaged or cut off",
        "Compare its size with the source's, and fetch it again.",
        LLAMA_CPP,
    ),
    _known(
        "weights-broken",
        r"Error while deserializing header|InvalidHeaderDeserialization|HeaderTooLarge|HeaderTooSmall"
        r"|MetadataIncompleteBuffer|incomplete metadata, file not fully covered",
        "a file of the weights is damaged or cut off",
        "`llmgw facts show NODE` tells whether they are whole; fetch them again.",
    ),
    _known(
        "model-unknown",
        r"unknown model architecture: '?(?P<what>[\w.-]{1,60})|Model architectures \['?(?P<name>\w{1,80})[^\n]{0,200}?"
        r"not supported|does not recognize this architecture",
        "this version of the engine does not know the model's architecture",
        "Use a newer version of the engine (llmgw_engine_versions), or another engine.",
    ),
    _known(
        "remote-code",
        r"[Pp]lease pass the argument `?trust_remote_code=True"
        r"|requires you to execute the (?:configuration|modeling) file",
        "the model brings code of its own, which is not run unasked",
        "Read that code; then add `--trust-remote-code` to the profile's args.",
    ),
    _known(
        "tokenizer",
        r"Can't load tokenizer|Couldn't instantiate the backend tokenizer|Unable to load vocabulary from file"
        r"|Tokenizer class \w{1,80} does not exist|cannot find tokenizer|unknown pre-tokenizer type",
        "the model's tokenizer cannot be loaded",
        "Check that tokenizer.json and tokenizer_config.json lie beside the weights, complete.",
    ),
    # --- options ---
    _known(
        "not-divisible",
        r"(?:must be|is not|not) divisible by (?:the )?tensor[- _]parallel(?:[- _]size)?",
        "the model cannot be cut into that many parts",
        "Choose a tensor_parallel that divides the model's attention heads: `llmgw fit` tells which do.",
    ),
    _known(
        "unknown-option",
        r"unrecognized arguments?: (?P<what>[^\n]{1,120})|error: invalid argument: (?P<one>\S{1,60})"
        r"|llama-server: error: unknown: (?P<some>[^\n]{1,120})",
        "this version of the engine does not know an option that it was given",
        "Compare the profile's args with the version that is installed.",
    ),
    _known(
        "bad-option",
        r"error: (?P<what>argument \S{1,60}: [^\n]{1,120})",
        "an option has a value that the engine does not take: {what}",
        "Compare the profile's args with the version that is installed.",
    ),
    # --- secrets, which llmgw itself gives an engine ---
    _known(
        "secret-missing",
        r"llmgw-guard: cannot set (?P<variable>\w{1,80}) \(name (?P<secret>[\w.-]{1,80}) in llmgw_secrets",
        "the secret {secret}, which it needs as {variable}, is not on the node",
        "Name it in llmgw_secrets, then run the playbook llmgw.fleet.prepare.",
    ),
    _known(
        "secret-missing",
        r"Failed at step CREDENTIALS|Failed to set up credentials",
        "a secret that it names is not on the node",
        "Name it in llmgw_secrets, then run the playbook llmgw.fleet.prepare.",
    ),
    _known(
        "secret-closed",
        r"llmgw-guard: cannot set (?P<variable>\w{1,80}) \(systemd handed over no secret (?P<secret>[\w.-]{1,80}):",
        "systemd did not hand it the secret {secret}, which it needs as {variable}",
        "Secrets need systemd 247 or newer on the node; place the profile elsewhere by its node_selector.",
    ),
    # --- the installation ---
    _known(
        "installation",
        r"ModuleNotFoundError: No module named '(?P<what>[\w.]{1,80})'"
        r"|(?P<lib>lib[\w.+-]{1,80}): cannot open shared object file"
        r"|ImportError: (?P<text>[^\n]{1,120})",
        "the engine's installation is not complete",
        "Install it again with the role `engine`; the log names what is missing.",
    ),
    _known(
        "permission",
        r"Permission denied|PermissionError|Read-only file system|Operation not permitted",
        "it may not read or write a file",
        "The log names the file; the unit's user must be allowed to, and the unit's sandbox.",
    ),
    _known(
        "too-many-files",
        r"Too many open files",
        "it opened more files than it may",
        "Raise LimitNOFILE, or lower parallel_requests.",
    ),
    # --- what llmgw itself puts around an engine ---
    _known(
        "secret-unusable",
        r"llmgw-guard: cannot give (?P<variable>\w{1,80}) the secret (?P<secret>[\w.-]{1,80}): (?P<why>[^\n]{1,120})",
        "the secret {secret}, which it needs as {variable}, cannot be given to it: {why}",
        "Correct it in llmgw_secrets, then run the playbook llmgw.fleet.prepare.",
    ),
    GROUP_ENDED,
    # Where the kernel has cgroups of version 1, systemd is not told why a process was killed.
    _known(
        "killed",
        r"code=killed, status=9/KILL",
        "it was killed (SIGKILL), mostly the kernel's doing when host memory ran out",
        "`journalctl -k` on the node says whether it was; then raise max_memory_gb of its profile, or free memory.",
    ),
)
