#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module llmgw.fleet.bundle: publishes to one gateway host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle
short_description: Publish routes to a gateway host and wait until endpoints are drained
version_added: 0.1.0
author:
  - The llmgw authors (@llmgw)
description:
  - Writes the one file that a gateway reads (routes, fleet snapshot, plan, findings) in one step.
  - Then waits until the gateway goes by it, and until the endpoints that it should drain have nothing in flight.
  - Who published it is noted beside the file, in C(<path>.applied.json).
  - Where no gateway runs, nothing is in flight. A gateway that runs and does not answer costs the whole deadline.
attributes:
  check_mode:
    support: full
    description: Says whether the routes would change. Writes nothing and waits for nothing.
  diff_mode:
    support: none
    description: The bundle holds the whole fleet.
  idempotent:
    support: full
    description: The same routes again are no change, although the rest of the bundle is written.
options:
  path:
    description: The bundle's file on the gateway host. It is readable by the group of its directory.
    type: path
    required: true
  content:
    description: The bundle.
    type: json
    required: true
  generation:
    description:
      - Generation of the bundle.
      - A host that has a newer one refuses, and so does one that has the same of another plan or with other routes.
    type: int
    required: true
  plan_id:
    description:
      - Tells the plan from another one of the same generation.
      - Without this option the generation and the routes alone count.
    type: str
  by:
    description: Who publishes, such as C(ops@ctl1), for whoever is refused because of it.
    type: str
  routes_digest:
    description: Digest of the bundle's routes.
    type: str
    required: true
  force:
    description: Publishes an older generation over a newer one.
    type: bool
    default: false
  drain:
    description: Endpoints that must have nothing in flight before the module ends, such as C(chat/0@n1).
    type: list
    elements: str
    default: []
  drain_timeout_s:
    description: Seconds that requests in flight may take. After that the module goes on and says so.
    type: int
    default: 60
  floors:
    description: By C(service) how many (C(at_least)) of C(stay) must be ready before endpoints in C(drain) may go.
    type: list
    elements: dict
    default: []
  ready:
    description: Endpoints that the gateway's own probes must find ready before the module ends, such as C(chat/0@n1).
    type: list
    elements: str
    default: []
  ready_timeout_s:
    description: Seconds that the gateway may take to find them ready. After that the module fails.
    type: int
    default: 30
  trials:
    description:
      - Canaries. After the gateway sees them ready, the module counts their answers and says how many came.
      - It waits for each trial until every endpoint of it has given enough good answers here, one of them too many bad
        ones, or its time has passed. It never fails for what it counts.
      - The wait ends at once where no gateway runs, and when another controller's routes are in force.
    type: list
    elements: dict
    default: []
    suboptions:
      endpoints:
        description: Ids of the canaries, such as C(chat/0@n1).
        type: list
        elements: str
        required: true
      answers:
        description: Good answers that each of them should give.
        type: int
        required: true
      max_errors:
        description: Bad answers that each of them may give.
        type: int
        default: 0
      timeout_s:
        description: Seconds that this may take.
        type: int
        required: true
  reload_timeout_s:
    description: Seconds that the gateway may take to go by the new routes.
    type: int
    default: 10
  admin_url:
    description: Base URL of the gateway's admin API as seen from its host. Without it the module waits for nothing.
    type: str
  admin_token_file:
    description: File on the gateway host that holds the admin API's token.
    type: path
"""

EXAMPLES = r"""
- name: Take one endpoint out and wait until it is idle
  llmgw.fleet.bundle:
    path: /var/lib/llmgw/bundle.json
    content: "{{ bundle }}"
    generation: 8
    routes_digest: "{{ routes_digest }}"
    admin_url: http://127.0.0.1:8081
    drain:
      - chat/1@n2
    drain_timeout_s: 120
"""

RETURN = r"""
generation:
  description: The published generation.
  returned: success
  type: int
waited_s:
  description: Seconds spent waiting for the gateway.
  returned: success
  type: float
drained:
  description: Whether the gateway goes by the routes and nothing is in flight. Null when it was not asked.
  returned: success
  type: bool
detail:
  description: A sentence about that.
  returned: when the gateway was asked
  type: str
answers:
  description:
    - What this gateway got of each canary while it was tried. Good are complete answers with a status below 500 other
      than 429; bad are 5xx other than 503, answers that broke off, and none at all.
    - Null for an endpoint of which the gateway does not tell.
  returned: success, with O(trials)
  type: dict
  sample:
    chat/0@n1:
      good: 20
      bad: 0
    chat/1@n2:
tried:
  description: A sentence about why the wait for the canaries ended.
  returned: when the gateway was asked
  type: str
tried_s:
  description: Seconds that it took.
  returned: when the gateway was asked
  type: float
overtaken:
  description: Whether it failed because another controller has published.
  returned: when it did
  type: bool
unready:
  description: Endpoints of O(ready) that the gateway does not see ready.
  returned: when it failed for that
  type: list
  elements: str
gateway_generation:
  description: The generation the gateway reports. Null when it reports none.
  returned: success
  type: int
in_flight:
  description: Requests in flight by endpoint, of those that are not idle. Null when the gateway does not tell.
  returned: success
  type: dict
  sample:
    chat/1@n2: 3
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.llmgw.fleet.plugins.module_utils import (
    applied,
    atomic,
    gateway_api,
    gateway_floors,
    gateway_trials,
    host_lock,
    published,
    unwritten,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import PublishedBundle
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gateway_facts
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_BUNDLE_LIMIT = 512 * 1024 * 1024
_MODE = 0o640
_LOCK_WAIT_S = 10.0
_BESIDE = ".applied.json"
_OVERTAKEN = "Wait until that apply has ended, then plan again and apply that."

ARGUMENTS = {
    "path": {"type": "path", "required": True},
    "content": {"type": "json", "required": True},
    "generation": {"type": "int", "required": True},
    "routes_digest": {"type": "str", "required": True},
    "plan_id": {"type": "str"},
    "by": {"type": "str"},
    "force": {"type": "bool", "default": False},
    "drain": {"type": "list", "elements": "str", "default": []},
    "drain_timeout_s": {"type": "int", "default": 60},
    "floors": {"type": "list", "elements": "dict", "default": []},
    "ready": {"type": "list", "elements": "str", "default": []},
    "ready_timeout_s": {"type": "int", "default": 30},
    "trials": {"type": "list", "elements": "dict", "default": [], "options": gateway_trials.OPTIONS},
    "reload_timeout_s": {"type": "int", "default": 10},
    "admin_url": {"type": "str"},
    "admin_token_file": {"type": "path", "no_log": False},
}


def publish(module: AnsibleModule, host: Host) -> bool:
    """Writes the bundle unless in check mode, and says whether the routes change."""
    path, content = module.params["path"], module.params["content"].encode("utf-8")
    generation, digest = module.params["generation"], module.params["routes_digest"]
    new = read(module, content)
    if (new.generation, new.routes_digest) != (generation, digest):
        module.fail_json(msg="The new bundle's generation or routes are not those stated beside it.", changed=False)
    now = read(module, host.read(path, _BUNDLE_LIMIT))
    why = None if module.params["force"] else ahead(module, host, now)
    if why is not None:
        module.fail_json(
            msg=f"{path} {why}. Nothing was touched. {_OVERTAKEN}",
            changed=False,
            overtaken=True,
        )
    if not module.check_mode:
        # Whose it is comes first. Of a run that was killed between the two it says nothing: it names other routes.
        by, plan_id = module.params["by"], module.params["plan_id"]
        whose = applied.Applied(generation, plan_id, by, round(host.clock(), 1), digest)
        atomic.write(f"{path}{_BESIDE}", applied.note(whose), _MODE, group_of_directory=True)
        atomic.write(path, content + b"\n", _MODE, group_of_directory=True)
    return bool(now.routes_digest != digest)


def ahead(module: AnsibleModule, host: Host, now: PublishedBundle) -> str | None:
    """What shows that another controller has published; None when nothing does."""
    note = applied.parse(host.read(f"{now.path}{_BESIDE}"))
    given = module.params
    return published.ahead(now, note, given["generation"], given["routes_digest"], given["plan_id"], now_s=host.clock())


def refuse_overtaken(module: AnsibleModule, host: Host, *, changed: bool) -> None:
    """Fails the module when another controller published while this one waited: what comes next was planned against
    these routes, and the gateway no longer goes by them.
    """
    path = module.params["path"]
    now = read(module, host.read(path, _BUNDLE_LIMIT))
    why = None if module.check_mode else ahead(module, host, now)
    if why is not None:
        module.fail_json(
            msg=f"While this waited, {path} was replaced: it {why}. {_OVERTAKEN}",
            changed=changed,
            overtaken=True,
        )


def read(module: AnsibleModule, content: bytes | None) -> PublishedBundle:
    """What identifies a bundle; nothing for none. A broken one is as good as none, with a warning."""
    path = module.params["path"]
    try:
        return PublishedBundle(path) if content is None else gateway_facts.bundle(path, content)
    except gateway_facts.GatewayError as error:
        module.warn(f"A bundle for {path} is broken ({error}).")
        return PublishedBundle(path)


def drain(module: AnsibleModule, host: Host) -> dict[str, Any]:
    """Waits for the gateway, where there is one to ask, and returns what it said."""
    admin_url = module.params["admin_url"]
    if admin_url is None or module.check_mode:
        return {"waited_s": 0.0, "drained": None, "gateway_generation": None, "in_flight": {}}
    token = _token(host, module.params["admin_token_file"])
    ended = gateway_api.wait(
        host,
        admin_url,
        token,
        module.params["generation"],
        module.params["drain"],
        reload_timeout_s=module.params["reload_timeout_s"],
        drain_timeout_s=module.params["drain_timeout_s"],
    )
    return {
        "waited_s": round(ended.waited_s, 3),
        "drained": ended.complete,
        "detail": ended.detail,
        "gateway_generation": ended.generation,
        "in_flight": dict(ended.in_flight),
    }


def await_ready(module: AnsibleModule, host: Host, *, changed: bool) -> None:
    """Waits until the gateway itself sees the new endpoints answer; fails the module when it does not."""
    admin_url, wanted = module.params["admin_url"], module.params["ready"]
    if admin_url is None or not wanted or module.check_mode:
        return
    seen = gateway_api.wait_ready(
        host,
        admin_url,
        _token(host, module.params["admin_token_file"]),
        module.params["generation"],
        wanted,
        timeout_s=module.params["ready_timeout_s"],
    )
    if not seen.complete:
        refuse_overtaken(module, host, changed=changed)
        module.fail_json(
            msg=gateway_api.unseen(seen),
            changed=changed,
            generation=module.params["generation"],
            unready=list(seen.unready),
        )


def try_canaries(module: AnsibleModule, host: Host) -> dict[str, Any]:
    """Counts what canaries answer, where there is a gateway to ask, and returns that."""
    trials = [
        gateway_trials.Trial(tuple(one["endpoints"]), one["answers"], one["max_errors"], one["timeout_s"])
        for one in module.params["trials"]
    ]
    if not trials:
        return {}
    admin_url = module.params["admin_url"]
    if admin_url is None or module.check_mode:
        return {"answers": {name: None for trial in trials for name in trial.endpoints}}
    token = _token(host, module.params["admin_token_file"])
    tried = gateway_trials.count(host, admin_url, token, module.params["generation"], trials)
    counts = {name: None if one is None else one._asdict() for name, one in tried.answers.items()}
    return {"answers": counts, "tried": tried.detail, "tried_s": round(tried.waited_s, 3)}


def keep_floors(module: AnsibleModule, host: Host) -> None:
    """Fails the module, before anything was touched, when too little would serve while endpoints are drained."""
    token = _token(host, module.params["admin_token_file"])
    short = () if module.check_mode else gateway_floors.wait(host, token, module.params)
    if short:
        module.fail_json(msg=f"{'; '.join(short)}. Nothing was drained. Mend or wait for these.", changed=False)


def _token(host: Host, path: str | None) -> str | None:
    content = host.read(path) if path is not None else None
    return content.decode("utf-8", "replace").strip() if content is not None else None


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    host = Host()
    path = module.params["path"]
    try:
        keep_floors(module, host)
        if module.check_mode:
            changed = publish(module, host)
        else:
            Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            with host_lock.hold(f"{path}.lock", _LOCK_WAIT_S, module.params["by"]):
                changed = publish(module, host)
        await_ready(module, host, changed=changed)
        tried = try_canaries(module, host)
        ended = drain(module, host)
        refuse_overtaken(module, host, changed=changed)
        module.exit_json(changed=changed, generation=module.params["generation"], **tried, **ended)
    except host_lock.LockHeldError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        said = f"{unwritten.why(host, error)}. The gateway goes by the routes it had. {unwritten.remedy(error)}"
        module.fail_json(msg=said, changed=False)


if __name__ == "__main__":
    main()
