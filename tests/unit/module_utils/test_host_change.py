# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils import companions, host_change
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import ObservedUnit
from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import HostChange, WantedUnit, refusals
from tests.unit.module_utils.unit_texts import NAME, running, wanted

OTHER = "llmgw-chat.1.0.service"


def compute(
    units: Sequence[ObservedUnit],
    present: Sequence[WantedUnit] = (),
    absent: Sequence[str] = (),
    contents: Mapping[str, str | None] | None = None,
    drop_ins: Mapping[str, Sequence[str]] | None = None,
) -> HostChange:
    return host_change.compute(units, present, absent, "/units", contents=contents or {}, drop_ins=drop_ins or {})


def test_a_new_unit_is_shown_whole() -> None:
    unit = wanted()
    change = compute([], [unit])
    assert change.changed
    header = f"/units/{NAME}"
    assert change.diff == [{"before_header": header, "after_header": header, "before": "", "after": unit.text}]


def test_a_unit_that_is_as_wanted_is_no_change() -> None:
    unit = wanted()
    change = compute([running(unit)], [unit])
    assert (change.changed, change.diff) == (False, [])


def test_a_stopped_unit_is_a_change_without_a_difference_in_text() -> None:
    unit = wanted()
    stopped = replace(running(unit), active_state="inactive", running_digest=None)
    change = compute([stopped], [unit])
    assert (change.changed, change.diff, change.steps[0].action) == (True, [], "started")


def test_units_that_are_not_named_are_left_alone() -> None:
    assert compute([running(wanted(name=OTHER))], [wanted()]).steps[0].name == NAME


def test_removing_what_is_not_there_is_no_change() -> None:
    change = compute([], [], [NAME])
    assert (change.changed, change.diff, change.steps[0].action) == (False, [], "kept")


def test_removing_takes_the_files_beside_the_unit_along_and_the_unit_last() -> None:
    unit = wanted(env="A=1\n")
    path = "/state/llmgw-chat.0.0.env"
    drop_in = f"/units/{NAME}.d/x.conf"
    paths = host_change.companion_paths([running(unit)], [], {NAME: (drop_in,)})
    assert paths == (path, drop_in)
    contents = {path: "A=1\n", drop_in: "[Service]\n"}
    change = compute([running(unit)], [], [NAME], contents, {NAME: (drop_in,)})
    assert [one.path for one in change.steps[0].files] == [path, drop_in, f"/units/{NAME}"]
    assert [one["after"] for one in change.diff] == ["", "", ""]


def test_a_secret_that_many_units_read_is_not_a_file_beside_one() -> None:
    assert companions.named_in(NAME, "EnvironmentFile=/state/secrets/hf-token.env\n") == ()
    assert companions.named_in(NAME, "EnvironmentFile=-/state/llmgw-chat.0.0.env\n") == ("/state/llmgw-chat.0.0.env",)


def test_a_file_beside_the_unit_that_differs_is_written_without_a_restart() -> None:
    unit = wanted(env="A=1\n")
    change = compute([running(unit)], [unit], contents={"/state/llmgw-chat.0.0.env": "A=0\n"})
    assert change.steps[0].action == "rewritten"
    assert [(one["before"], one["after"]) for one in change.diff] == [("A=0\n", "A=1\n")]


def test_files_beside_a_unit_may_lie_only_where_its_own_files_lie() -> None:
    directories = ("/var/lib/llmgw", "/units")
    assert companions.objection(NAME, "/var/lib/llmgw/env/llmgw-chat.0.0.env", directories) is None
    for path in ("/etc/passwd", "/var/lib/llmgw/../../etc/llmgw-chat.0.0.env", "/var/lib/llmgw2/llmgw-chat.0.0.env"):
        assert "lies outside" in str(companions.objection(NAME, path, directories))
    assert "must start with" in str(companions.objection(NAME, "/units/llmgw-chat.1.0.env", directories))


def test_units_that_changed_since_the_plan_are_named_with_what_happened() -> None:
    unit = wanted("/bin/new")
    old = running(wanted("/bin/old"))
    change = compute([old], [unit])
    assert refusals([old], change, {NAME: str(old.actual_text_digest)}) == ()
    assert refusals([old], change, {NAME: "sha256:other"}) == (f"{NAME} is not as it was when the plan was made",)
    assert refusals([old], change, {}) == (f"{NAME} was not there when the plan was made",)
    assert refusals([], change, {NAME: "sha256:other"}) == (f"{NAME} is gone since the plan was made",)


def test_units_that_the_call_does_not_name_count_too() -> None:
    other = running(wanted(name=OTHER))
    change = compute([other], [wanted()])
    assert refusals([other], change, {}) == (f"{OTHER} was not there when the plan was made",)
    assert refusals([], change, {OTHER: "sha256:x"}) == (f"{OTHER} is gone since the plan was made",)


def test_what_an_interrupted_run_of_the_same_plan_did_already_is_no_objection() -> None:
    new, gone = wanted("/bin/new"), wanted("/bin/gone", name=OTHER)
    expected = {NAME: wanted("/bin/old").text_digest, OTHER: gone.text_digest}
    change = compute([running(new)], [new], [OTHER])
    assert refusals([running(new)], change, expected) == ()


def test_without_expectations_nothing_is_compared() -> None:
    unit = running(wanted("/bin/any"))
    assert refusals([unit], compute([unit], [wanted()]), None) == ()


def test_a_text_that_was_altered_on_its_way_is_found() -> None:
    unit = wanted()
    assert host_change.text_objections([unit]) == ()
    altered = replace(unit, text=unit.text.replace("/bin/engine", "/bin/other"))
    assert "is not the one its text digest was made from" in host_change.text_objections([altered])[0]
    assert "another process digest" in host_change.text_objections([replace(unit, process_digest="sha256:x")])[0]


UNITS = st.builds(wanted, st.sampled_from(["/bin/a", "/bin/b"]), comment=st.sampled_from(["", "x"]))
STATES = st.sampled_from(["active", "inactive", "failed", "activating", "deactivating"])


@given(UNITS, UNITS, STATES, st.booleans(), st.booleans())
def test_carrying_a_change_out_leaves_nothing_to_change(
    before: WantedUnit, after: WantedUnit, state: str, enabled: bool, reload: bool
) -> None:
    seen = replace(running(before), active_state=state, enabled=enabled, needs_reload=reload)
    change = compute([seen], [after])
    written = {one.path: one.after for step in change.steps for one in step.files}
    text = written.get(f"/units/{NAME}", seen.text)
    assert text == after.text
    restarts = change.steps[0].action in {"restarted", "started", "created"}
    process = after.process_digest if restarts else seen.running_digest
    then = replace(running(after), running_digest=process)
    assert not compute([then], [after]).changed
