# SPDX-License-Identifier: Apache-2.0
"""What pip is told, and what an operator is told when it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import engine_build
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_build import BuildError, Packages

FOLDER = "/opt/llmgw/engines/vllm/0.33.0"
PIP = [f"{FOLDER}/bin/python", "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
PIP += ["--no-cache-dir", "--only-binary=:all:"]


def test_a_package_comes_from_the_index_with_its_extras_and_constraints() -> None:
    argv, files = engine_build.command(
        FOLDER, Packages("vllm", "0.33.0", ["ray==2.54.0"], ["numpy<3", "torch==2.14.0"])
    )
    assert argv == [*PIP, "--constraint", f"{FOLDER}/constraints.txt", "vllm==0.33.0", "ray==2.54.0"]
    assert files == {f"{FOLDER}/constraints.txt": "numpy<3\ntorch==2.14.0\n"}


def test_a_wheelhouse_takes_the_place_of_every_index() -> None:
    argv, files = engine_build.command(FOLDER, Packages("vllm", "0.33.0", wheelhouse="/srv/wheels"))
    assert argv == [*PIP, "--no-index", "--find-links", "/srv/wheels", "vllm==0.33.0"]
    assert files == {}


def test_a_requirements_file_with_hashes_says_alone_what_is_installed() -> None:
    argv, files = engine_build.command(
        FOLDER, Packages("vllm", "0.33.0", ["ray"], ["numpy<3"], locked="vllm==0.33.0 --hash=x\n")
    )
    assert argv == [*PIP, "--require-hashes", "--requirement", f"{FOLDER}/requirements.txt"]
    assert files == {f"{FOLDER}/requirements.txt": "vllm==0.33.0 --hash=x\n"}


def test_an_address_with_a_password_is_on_no_command_line() -> None:
    wanted = Packages("vllm", "1", index_url="https://me:secret@x/simple", extra_index_urls=["https://you:secret@y"])
    argv, files = engine_build.command(FOLDER, wanted)
    assert "secret" not in f"{argv}{files}"


def test_a_python_that_is_not_there_is_named_with_the_setting() -> None:
    with pytest.raises(BuildError, match=r"/nowhere/python3 does not run: .*not found.*llmgw_engine_python"):
        engine_build.environment("/nowhere/venv", "/nowhere/python3", 10)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ('["/usr/bin/python3.7", [3, 7, 2], true]', "/usr/bin/python3.7 is Python 3.7.2, too old for any engine"),
        ('["/usr/bin/python3.11", [3, 11, 2], false]', "install the package python3-venv"),
        ("nothing", "does not run: nothing"),
    ],
)
def test_a_python_that_cannot_do_it_says_what_to_do(tmp_path: Path, answer: str, message: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho '{answer}'\n")
    python.chmod(0o755)
    with pytest.raises(BuildError, match=message):
        engine_build.environment(str(tmp_path / "venv"), str(python), 10)


FAILURES = {
    "hash": (
        """\
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package
    needed==3.0: Expected sha256 0000 Got 3a4b""",
        "what /srv/wheels holds is not what the requirements file says",
    ),
    "unlisted": (
        """\
ERROR: Hashes are required in --require-hashes mode, but they are missing from some requirements.
    needed==3.0 --hash=sha256:28dd""",
        "every package needs its version and hashes in the requirements file, and one has none",
    ),
    "another-python": (
        "ERROR: Package 'vllm' requires a different Python: 3.11.2 not in '>=3.13'",
        "does not go with the Python",
    ),
    "python": (
        """\
ERROR: Ignored the following versions that require a different python version: 0.33.0 Requires-Python <3.15,>=3.11
ERROR: No matching distribution found for vllm==0.33.0""",
        "does not go with the Python",
    ),
    "missing": (
        "ERROR: Could not find a version that satisfies the requirement torch==2.14.0 (from vllm)",
        "/srv/wheels has no wheel of it, or of what it needs",
    ),
    "disk": (
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
        "No space left",
    ),
}


@pytest.mark.parametrize("failure", sorted(FAILURES))
def test_a_failure_of_pip_is_told_with_its_kind_and_pips_own_words(tmp_path: Path, failure: str) -> None:
    said, message = FAILURES[failure]
    folder = with_pip(tmp_path, f"cat >&2 <<'TEXT'\n{said}\nTEXT\nexit 1")
    with pytest.raises(BuildError, match=message) as raised:
        engine_build.packages(folder, Packages("vllm", "0.33.0", wheelhouse="/srv/wheels"), 20)
    assert said.split()[-1] in str(raised.value)
    assert "vllm 0.33.0 could not be installed" in str(raised.value)
    assert not (Path(folder) / "downloads").exists()


def test_a_pip_that_was_killed_and_one_that_takes_too_long_are_told_apart(tmp_path: Path) -> None:
    wanted = Packages("vllm", "0.33.0")
    with pytest.raises(BuildError, match="ended by signal 9"):
        engine_build.packages(with_pip(tmp_path, "kill -9 $$"), wanted, 20)
    with pytest.raises(BuildError, match=r"within 0\.2 s. Raise llmgw_engine_timeout_s"):
        engine_build.packages(with_pip(tmp_path, "sleep 60"), wanted, 0.2)


def test_a_requirements_file_for_another_version_is_found_out(tmp_path: Path) -> None:
    folder = with_pip(tmp_path, 'mkdir -p "${0%/bin/python}/lib/python3.11/site-packages/vllm-0.32.0.dist-info"')
    with pytest.raises(BuildError, match=r"the requirements file brought vllm 0\.32\.0, and 0\.33\.0 is wanted"):
        engine_build.packages(folder, Packages("vllm", "0.33.0", locked="vllm==0.32.0"), 20)


@pytest.mark.parametrize("name", ["vllm-0.33.0.dist-info", "vllm-0.33.0+cu129.dist-info", "VLLM-0.33.0.dist-info"])
def test_a_build_for_special_cards_is_the_version_it_is_made_from(tmp_path: Path, name: str) -> None:
    folder = with_pip(tmp_path, f'mkdir -p "${{0%/bin/python}}/lib/python3.11/site-packages/{name}"')
    engine_build.packages(folder, Packages("vllm", "0.33.0"), 20)


def test_downloads_and_addresses_reach_pip_by_its_environment(tmp_path: Path) -> None:
    folder = with_pip(tmp_path, 'env >"${0%/bin/python}/seen"; exit 1')
    wanted = Packages("vllm", "1", index_url="https://a", extra_index_urls=["https://b", "https://c"])
    with pytest.raises(BuildError):
        engine_build.packages(folder, wanted, 20)
    seen = (Path(folder) / "seen").read_text().split("\n")
    assert {f"TMPDIR={folder}/downloads", "PIP_INDEX_URL=https://a", "PIP_EXTRA_INDEX_URL=https://b https://c"} <= set(
        seen
    )


def test_programs_run_by_the_environments_python_unless_they_say_otherwise(tmp_path: Path) -> None:
    engine_build.programs(str(tmp_path), {"launcher": "print(1)\n", "own": "#!/bin/sh\necho 2\n"})
    assert (tmp_path / "bin/launcher").read_text() == f"#!{tmp_path}/bin/python\nprint(1)\n"
    assert (tmp_path / "bin/own").read_text() == "#!/bin/sh\necho 2\n"
    assert (tmp_path / "bin/own").stat().st_mode & 0o777 == 0o755


def with_pip(tmp_path: Path, script: str) -> str:
    """A folder whose `bin/python` is a script that takes pip's place."""
    folder = tmp_path / "venv"
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "bin/python").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin/python").chmod(0o755)
    return str(folder)


UNREACHABLE = {
    "refused": "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError()': /simple/",
    "unknown": "Failed to establish a new connection: [Errno -2] Name or service not known",
    "slow": "ReadTimeoutError(\"HTTPSConnectionPool(host='x', port=443): Read timed out.\")",
    "certificate": "SSLError(SSLCertVerificationError(1, 'CERTIFICATE_VERIFY_FAILED'))",
}


@pytest.mark.parametrize("failure", sorted(UNREACHABLE))
def test_an_index_that_does_not_answer_is_not_said_to_lack_the_package(tmp_path: Path, failure: str) -> None:
    folder = with_pip(tmp_path, f"cat >&2 <<'TEXT'\n{UNREACHABLE[failure]}\n{FAILURES['missing'][0]}\nTEXT\nexit 1")
    with pytest.raises(
        BuildError, match=r"the package index does not answer this node.*llmgw_engine_index_url"
    ) as raised:
        engine_build.packages(folder, Packages("vllm", "0.33.0"), 20)
    assert "has no wheel" not in str(raised.value)


def test_an_index_that_wants_another_password_is_told(tmp_path: Path) -> None:
    said = f"WARNING: 401 Error, Credentials not correct for https://x/simple/vllm/\n{FAILURES['missing'][0]}"
    with pytest.raises(BuildError, match=r"refuses this node. Look at the name and password"):
        engine_build.packages(with_pip(tmp_path, f"cat >&2 <<'TEXT'\n{said}\nTEXT\nexit 1"), Packages("vllm", "1"), 20)


def test_a_password_in_what_pip_says_is_not_told(tmp_path: Path) -> None:
    folder = with_pip(tmp_path, "echo 'ERROR: 500 for url: https://bob:hunt@er2@x.example/simple/' >&2; exit 1")
    with pytest.raises(BuildError, match=r"https://x\.example/simple/") as raised:
        engine_build.packages(folder, Packages("vllm", "1", index_url="https://bob:hunt@er2@x.example/simple"), 20)
    assert "er2" not in str(raised.value)
