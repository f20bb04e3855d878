# SPDX-License-Identifier: Apache-2.0
"""Whatever a catalog says, a unit hands it to the engine as it is, and nothing of it becomes a line of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.model.node import NodeSettings
from llmgw.model.replica import ProfileSpec
from tests.support import systemd_syntax as systemd
from tests.support.fleets import profile
from tests.unit.units.unit_cases import Case, alone, group, machine, wide

TEXT = st.text(alphabet="%$\\\"'; \t\n\r#[]=~/-aZ0é界🙂\x01\x1b\x7f", max_size=12)
NAMES = st.from_regex(r"[A-Z_][A-Z0-9_]{0,9}", fullmatch=True).map(lambda name: f"X{name}")
SECRETS = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,9}", fullmatch=True)
FOLDERS = st.text(alphabet="aé %$;#./-", max_size=8)
PROFILES = st.builds(
    lambda args, env, secrets, limit: profile(
        args=tuple(args), env=env, secrets=secrets, max_memory_bytes=limit, ready_timeout_s=None
    ),
    st.lists(TEXT, max_size=3),
    st.dictionaries(NAMES, TEXT, max_size=3),
    st.dictionaries(NAMES, SECRETS, max_size=3),
    st.none() | st.integers(1, 10**13),
)


def settings_of(case: Case) -> list[tuple[str, str]]:
    return [(key, value) for _section, key, value in systemd.settings(case.unit.text)]


def command_of(case: Case, home: str = "/home/op") -> list[str]:
    (line,) = [value for key, value in settings_of(case) if key == "ExecStart"]
    return systemd.command(line.replace(" %h", f" {home}", 1).replace(' "%h', f' "{home}', 1))


@given(PROFILES, FOLDERS, st.booleans())
def test_arguments_variables_and_secrets_arrive_as_the_catalog_has_them(
    wanted: ProfileSpec, folder: str, in_a_home: bool
) -> None:
    state = f"~/{folder}" if in_a_home else f"/srv/{folder}"
    case = alone(wanted, machine(settings=NodeSettings(state_dir=state)))
    words = command_of(case)
    if wanted.secrets:
        assert words[3] == state.replace("~", "/home/op", 1) + "/guard.py"
        given_to_the_guard = words[4 : words.index("--")]
        assert given_to_the_guard[1::2] == [f"{key}={name}" for key, name in sorted(wanted.secrets.items())]
        words = words[words.index("--") + 1 :]
    assert words[0] == "/opt/llmgw/engines/sim/bin/llmgw-sim"
    assert words[len(words) - len(wanted.args) :] == list(wanted.args)
    variables = dict(systemd.assignment(value) for key, value in settings_of(case) if key == "Environment")
    assert wanted.env.items() <= variables.items()
    assert not variables.keys() & wanted.secrets.keys() - wanted.env.keys()


@given(PROFILES)
def test_nothing_that_a_catalog_says_adds_or_hides_a_setting(wanted: ProfileSpec) -> None:
    plain = replace(wanted, args=("x",), env=dict.fromkeys(wanted.env, "x"))
    keys = [key for key, _value in settings_of(alone(wanted)) if key not in ("PrivateTmp", "ReadWritePaths")]
    assert keys == [key for key, _value in settings_of(alone(plain)) if key not in ("PrivateTmp", "ReadWritePaths")]


@given(PROFILES)
def test_members_of_a_group_agree_on_its_digest_whatever_they_run(wanted: ProfileSpec) -> None:
    spread = wide("vllm", args=wanted.args, env=wanted.env, secrets=wanted.secrets)
    first, second = (command_of(group(spread, rank)) for rank in (0, 1))
    assert first[first.index("--group") + 1] == second[second.index("--group") + 1]
    assert first[first.index("--") + 1 :] != second[second.index("--") + 1 :]


CAREFUL = '50% of $HOME "x"\n[Service]'


def read_back(text: str, meant: str) -> bool:
    """Whether a unit's text says what was meant, setting by setting, with CAREFUL as its last argument."""
    after, before = list(systemd.settings(text)), list(systemd.settings(meant))
    assert [key for _section, key, _value in after] == [key for _section, key, _value in before]
    (line,) = [value for _section, key, value in after if key == "ExecStart"]
    assert systemd.command(line)[-1] == CAREFUL
    return True


@pytest.mark.parametrize(
    "broken",
    [
        lambda text: text.replace("%%", "%"),
        lambda text: text.replace("$$", "$"),
        lambda text: text.replace('\\"', '"'),
        lambda text: text.replace("\\n", "\n"),
    ],
    ids=["percent signs", "dollars", "quotes", "line ends"],
)
def test_a_unit_that_was_quoted_wrongly_is_found(broken: Callable[[str], str]) -> None:
    case = alone(profile(args=(CAREFUL,)))
    assert read_back(case.unit.text, case.unit.text)
    with pytest.raises((systemd.NotTakenError, AssertionError, ValueError)):
        read_back(broken(case.unit.text), case.unit.text)
