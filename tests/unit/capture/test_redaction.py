# SPDX-License-Identifier: Apache-2.0
"""A redacted capture tells nobody whose machine it is, and is still the same machine."""

from __future__ import annotations

import gzip
import ipaddress
import json
import re
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils import unitfile
from ansible_collections.llmgw.fleet.plugins.module_utils.capture import saving, taking
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.recording import Answer, Call, Recording
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.redaction import Redactor
from tests.support.captured_machine import Identity, machine, options
from tests.unit.capture.plain import plain

KEY = b"a key of the tests"
NIL = "00000000-0000-0000-0000-000000000000"


def redactor(text: str = "", *, key: bytes = KEY, names: tuple[str, ...] = ()) -> Redactor:
    calls = {Call("run", ("tool",)): (Answer({"rc": 0}, {"stdout": text.encode()}),)}
    return Redactor(Recording({}, 0.0, None, calls), key, names)


def redacted(text: str, **given: Any) -> str:
    return redactor(text, **given).text(text)


def of_file(path: str, content: bytes) -> bytes:
    calls = {Call("read", (path, 9)): (Answer({}, {"content": content}),)}
    recording = Recording({}, 0.0, None, calls)
    (answers,) = Redactor(recording, KEY).recording(recording).calls.values()
    return answers[0].contents["content"]


def words(length: int, first: str = "abcdefghijklmnopqrstuvwxyz") -> st.SearchStrategy[str]:
    return st.builds(
        lambda head, tail: f"{head}{tail}",
        st.sampled_from(first),
        st.text("abcdef0123456789", min_size=length, max_size=length),
    )


def hexes(*sizes: int, mark: str = "-") -> st.SearchStrategy[str]:
    return st.tuples(*(st.text("0123456789abcdef", min_size=size, max_size=size) for size in sizes)).map(mark.join)


OCTET = st.integers(1, 120)
IDENTITIES = st.builds(
    Identity,
    host=words(8).map(lambda word: f"zq-{word}"),
    domain=words(6).map(lambda word: f"{word}.zz.example"),
    peer=words(8).map(lambda word: f"zp-{word}"),
    user=words(6).map(lambda word: f"zu{word}"),
    serial=st.integers(1_650_000_000_000, 1_659_999_999_999).map(str),
    uuid=hexes(8, 4, 4, 4, 12).map(lambda uuid: f"GPU-3{uuid[1:]}"),
    cluster=hexes(8, 4, 4, 4, 12).map(lambda uuid: f"1{uuid[1:]}"),
    boot_id=hexes(8, 4, 4, 4, 12).map(lambda uuid: f"2{uuid[1:]}"),
    address=st.builds(lambda a, b: f"10.{a}.{b}.41", OCTET, OCTET),
    peer_address=st.builds(lambda a, b: f"172.16.{a}.{b}", OCTET, OCTET),
    address6=hexes(4, 4, 4, 4, 4, 4, mark=":").map(lambda groups: f"2001:0db8:{groups}"),
    guid=hexes(4, 2, mark=":").map(lambda tail: f"b83f:d203:{tail}77"),
)


def renamed(facts: dict[str, Any], how: Redactor) -> dict[str, Any]:
    """The facts with stand-ins: what facts of the redacted capture must be."""
    found: dict[str, Any] = how.value(facts)
    return without_digests(found)


def without_digests(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts without what is computed from a whole list of GUIDs: other GUIDs have another digest."""
    for port in facts["rdma_ports"]:
        del port["subnet_digest"]
    return facts


@settings(max_examples=25)
@given(IDENTITIES)
def test_facts_of_a_redacted_capture_are_those_of_the_plain_one_renamed(identity: Identity) -> None:
    recording, facts = taking.take(machine(identity), options(identity))
    how = Redactor(recording, KEY, [identity.peer])
    again = taking.facts_in(how.recording(recording), "1.2.3")
    assert without_digests(plain(again)) == renamed(plain(facts), how)
    assert again.units is not None
    assert (again.units[0].edited, again.units[0].ready) == (False, True)
    assert [(one.listed, one.domain_state) for one in [again.imex] if one] == [(True, "UP")]
    assert [(port.sm_guids, port.subnet_port_count) != (None, None) for port in again.rdma_ports or ()] == [True]
    assert [gpu.nic_paths for gpu in again.gpus or ()] != [None]


@settings(max_examples=25)
@given(IDENTITIES)
def test_nothing_of_a_machines_identity_is_in_its_redacted_capture(identity: Identity) -> None:
    recording, _facts = taking.take(machine(identity), options(identity))
    files = saving.files_of(Redactor(recording, KEY, [identity.peer]).recording(recording))
    everything = "\n".join(name + content.decode("latin-1") for name, content in files.items())
    without = everything.lower()
    octets = [int(part) for part in identity.address.split(".")]
    spelled = (
        *astuple(identity),
        identity.guid.replace(":", ""),
        identity.address6.replace(":", ""),
        str(ipaddress.ip_address(identity.address6)),
        "".join(f"{octet:02x}" for octet in reversed(octets)),
        identity.host.split("-")[1],
    )
    assert [one for one in spelled if one.lower().removeprefix("gpu-") in without] == []


def test_captures_with_one_key_can_be_joined_and_others_cannot() -> None:
    text = "GPU-5c1f6a0e-91aa-4f3e-b7a1-0d5a8e6f1b2c at 10.1.2.3"
    assert redacted(text) == redacted(text) == redactor("other").text(text)
    assert redacted(text) != redacted(text, key=b"another")


@pytest.mark.parametrize(
    "text",
    [
        NIL,
        "0000:3b:00.0 00000000:3B:00.0 PCI:0000:10:00",
        "12:34:56 2026-01-05 10:00:00 std::string foo::bar",
        "127.0.0.1 0.0.0.0 255.255.255.0 224.0.0.1 ::1 :: ff02::1 [::]:8080",
        "driver 570.86.15 kernel 6.8.0-1013 vbios 96.00.5E.00.01 1.2.3.4.5 v1.2.3.4",
        "0x0000000000000001 0x10de 0xffff",
        "fe80:0000:0000:0000:0000:0000:0000:0000 fe80:0000:0000:0000 fec0:0000:0000:0000 0000:0000:0000:0000",
        "sha256:" + "ab" * 32,
        "81559 MiB, 4 MiB, 7 %, 700.00 W",
        "mlx5_0 NIC0 NV18 SYS PIX h100-80g /srv/models/org--name",
        "Serial Number : N/A\nhostname: localhost\nserial: 0",
    ],
)
def test_what_tells_nobody_anything_stays(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("GPU-5c1f6a0e-91aa-4f3e-b7a1-0d5a8e6f1b2c", r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        ("MIG-GPU-5c1f6a0e-91aa-4f3e-b7a1-0d5a8e6f1b2c/7/0", r"MIG-GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/7/0"),
        ("5C1F6A0E-91AA-4F3E-B7A1-0D5A8E6F1B2C", r"[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}"),
        ("10.20.30.40", r"198\.1[89]\.[0-9]+\.[0-9]+"),
        ("10.20.30.40:8080/x", r"198\.1[89]\.[0-9]+\.[0-9]+:8080/x"),
        ("fe80::a3f:d2ff:fe00:102", r"fe80:(:[0-9a-f]{1,4}){4}"),
        ("2001:db8::41", r"[0-9a-f:]+"),
        ("::ffff:10.1.2.3", r"::ffff:(c612|c613|198\.1[89]).*"),
        ("fe80:0000:0000:0000:b83f:d203:00c4:71e2", r"fe80:0000:0000:0000(:[0-9a-f]{4}){4}"),
        ("b83f:d203:00c4:71e2", r"[0-9a-f]{4}(:[0-9a-f]{4}){3}"),
        ("0xb83fd20300c471e2", r"0x[0-9a-f]{16}"),
        ("0x2c90300a1b2c3", r"0x[0-9a-f]{13,16}"),
        ("08:3f:d2:00:01:02", r"08:3f:d2(:[0-9a-f]{2}){3}"),
        ("/home/alice/bin/x", r"/home/[a-z]{5}/bin/x"),
        ("Serial Number : 1654923001877", r"Serial Number : [0-9]{13}"),
        ("<serial>1654923001877</serial>", r"<serial>[0-9]{13}</serial>"),
        ('{"serial": "PJ12-77AB"}', r'\{"serial": "[A-Z]{2}[0-9]{2}-[0-9]{2}[A-Z]{2}"\}'),
        ('{"hostname": "gpu7"}', r'\{"hostname": "[a-z]{3}[0-9]"\}'),
        (
            "CA 1 1 0x0002c903 4x NDR ( 'gpu7 mlx5_0' - 'MF0;sw-9:MQM9700/U1' )",
            r".*'[a-z]{3}[0-9] mlx5_0' - 'MF0;[a-z]{2}-[0-9]:MQM9700/U1' \)",
        ),
    ],
)
def test_a_stand_in_has_the_shape_of_what_it_stands_for(text: str, shape: str) -> None:
    made = redacted(text)
    assert made != text
    assert re.fullmatch(shape, made), made


def test_forms_of_one_thing_get_forms_of_one_stand_in() -> None:
    uuid = "5c1f6a0e-91aa-4f3e-b7a1-0d5a8e6f1b2c"
    made = redacted(f"GPU-{uuid} {uuid} {uuid.upper()} MIG-GPU-{uuid}/1/0").split()
    assert (
        made[0].removeprefix("GPU-")
        == made[1]
        == made[2].lower()
        == made[3].removeprefix("MIG-GPU-").removesuffix("/1/0")
    )
    guid = redacted(
        "b83f:d203:00c4:71e2 0xb83fd20300c471e2 fe80:0000:0000:0000:b83f:d203:00c4:71e2 fe80::b83f:d203:c4:71e2"
    ).split()
    number = int(guid[0].replace(":", ""), 16)
    assert number == int(guid[1], 16)
    assert [int(ipaddress.ip_address(one)) & (2**64 - 1) for one in guid[2:]] == [number, number]
    mapped = redacted("10.1.2.3 0000:0000:0000:0000:0000:ffff:0a01:0203").split()
    assert ipaddress.IPv6Address(mapped[1]).ipv4_mapped == ipaddress.IPv4Address(mapped[0])
    ipoib = redacted("00:00:10:49:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:c4:71:e2 b83f:d203:00c4:71e2").split()
    assert ipoib[0].replace(":", "") == "00001049fe80000000000000" + ipoib[1].replace(":", "")
    cluster = redacted('{"cluster": [92, 31, 106, 14, 145, 170, 79, 62, 183, 161, 13, 90, 142, 111, 27, 44]}')
    assert bytes(int(one) for one in re.findall("[0-9]+", cluster)).hex() == made[1].replace("-", "")


def test_a_name_is_replaced_wherever_it_stands_and_never_inside_another_word() -> None:
    how = redactor("hostname: gpu7.dc1.example\non n3, a node\n", names=("n3", "node"))
    short = how.text("gpu7")
    domain = how.text("dc1.example")
    assert how.text("gpu7.dc1.example gpu7-ib0 /srv/gpu7/x agpu7 gpu77") == (
        f"{short}.{domain} {short}-ib0 /srv/{short}/x agpu7 gpu77"
    )
    assert how.text("n3") != "n3"
    assert how.text("NODE node") == "NODE node", "a word of tools is no telling name"


def test_two_values_never_get_one_stand_in() -> None:
    names = tuple(f"n{number}" for number in range(10))
    how = redactor(" ".join(names), names=names)
    assert len({how.text(name) for name in names}) == 10
    assert len({how.text(f"10.0.{high}.{low}") for high in range(20) for low in range(200)}) == 4000


def test_a_units_digests_stay_true() -> None:
    identity = Identity()
    recording, _facts = taking.take(machine(identity), options(identity))
    made = Redactor(recording, KEY).recording(recording)
    texts = [
        answers[0].contents["content"].decode()
        for call, answers in made.calls.items()
        if call.method == "read" and str(call.of[0]).endswith(".service") and answers[0].contents
    ]
    units = [text for text in texts if "[X-Llmgw]" in text]
    assert units != []
    for text in units:
        assert unitfile.parse(text).text_digest == unitfile.text_digest(text)


def test_a_unit_that_was_edited_is_edited_in_the_redacted_capture_too() -> None:
    host = machine()
    path = "/etc/systemd/system/llmgw-chat.0.0.service"
    host.files[path] = str(host.files[path]).replace("Type=", "") + "# by hand on gpu-rack7-n03\n"
    recording, facts = taking.take(host, options())
    how = Redactor(recording, KEY)
    again = taking.facts_in(how.recording(recording), "1.2.3")
    assert [unit.edited for unit in again.units or ()] == [True]
    assert without_digests(plain(again)) == renamed(plain(facts), how)


def test_of_the_kernel_log_only_what_is_about_cards_is_kept() -> None:
    lines = [f"[{number:5}.000000] booting" for number in range(60)]
    lines += ["[  100.000000] sd 0:0:0:0: disk of Ms Example", "[  101.000000] NVRM: Xid (PCI:0000:10:00): 79, x"]
    lines += [
        "               goes on",
        '[  102.000000] audit: acct="eve"',
        "[  103.000000] pci 0000:10:00.0: [10de:2330] type 00",
    ]
    calls = {Call("run", ("dmesg",)): (Answer({"rc": 0}, {"stdout": "\n".join(lines).encode()}),)}
    recording = Recording({}, 0.0, None, calls)
    (answers,) = Redactor(recording, KEY).recording(recording).calls.values()
    kept = answers[0].contents["stdout"].decode().splitlines()
    assert kept == [*lines[:50], lines[61], lines[62], lines[64]]


def test_a_serial_number_in_vital_product_data_keeps_its_length() -> None:
    data = b"\x82\x03\x00NIC\x90\x14\x00PN\x03X-1SN\x06AB1234VA\x02ok\x78"
    made = of_file("/sys/bus/pci/devices/0000:0c:00.0/vpd", data)
    assert len(made) == len(data)
    assert made[:18] == data[:18]
    assert made[18:24] != b"AB1234"
    assert made[24:] == data[24:]
    assert of_file("/sys/bus/pci/devices/0000:0c:00.0/vpd", b"\x82no serial") == b"\x82no serial"


def test_binary_contents_keep_their_length() -> None:
    data = b"GGUF\x00\x0b\x00\x00\x0010.20.30.40 GPU-5c1f6a0e-91aa-4f3e-b7a1-0d5a8e6f1b2c"
    made = of_file("/srv/m.gguf", data)
    assert len(made) == len(data)
    assert b"10.20.30.40" in made
    assert b"5c1f6a0e" not in made


@given(st.binary(max_size=200))
def test_any_content_can_be_redacted(content: bytes) -> None:
    for path in ("/proc/net/tcp", "/proc/net/if_inet6", "/sys/x/vpd", "/etc/hostname", "/a"):
        of_file(path, content)


def test_the_capture_of_a_machine_has_the_name_that_it_has_inside(tmp_path: Path) -> None:
    redaction = taking.Redaction("key", ("n3",))
    taken = taking.write(machine(), options(), str(tmp_path / "c.tar.gz"), "n3", redaction)
    assert taken.name != "n3"
    assert re.fullmatch("[a-z][0-9]", taken.name)
    assert f"{taken.name}/capture.json".encode() in gzip.decompress((tmp_path / "c.tar.gz").read_bytes())
    assert taken.unanswered == taken.left_out == ()
    again = taking.write(machine(), options(), str(tmp_path / "d.tar.gz"), "n3", taking.Redaction())
    assert again.calls == taken.calls
    assert (
        taking.write(machine(), options(), str(tmp_path / "e.tar.gz"), None, None).name
        == "gpu-rack7-n03.dc1.example.org"
    )
    assert taking.write(machine(), options(), str(tmp_path / "f.tar.gz"), "../x/y", None).name == "_.._x_y"


@pytest.mark.parametrize(
    "piece", ["a:", "1.", "serial ", "hostname", "/home/", "0x", "fe80", "-", "n3.", "\\", " - nfs4 a"]
)
def test_redacting_a_long_text_takes_no_longer_than_reading_it(piece: str) -> None:
    names = tuple(f"n{number}" for number in range(1000))
    redacted(piece * (300_000 // len(piece)), names=names)


def test_marks_tell_neither_who_made_them_nor_why_and_are_marks_all_the_same() -> None:
    said = {"by": "anna@ctl1", "at": 5.0, "reason": "Anna's rack"}
    for path in (
        "/var/lib/llmgw/cordoned",
        "/home/x/.local/state/llmgw/drained",
        "/var/lib/llmgw/quarantine/GPU-1.json",
    ):
        told = json.loads(of_file(path, json.dumps(said).encode()))
        assert told["at"] == 5.0
        assert set(told) == set(said)
        assert "nna" not in str(told)
        assert "ctl1" not in str(told)
    assert of_file("/var/lib/llmgw/cordoned", b"") == b""
    for unreadable in (b"Anna was here", b'["Anna"]', b"[" * 100_000):
        assert of_file("/var/lib/llmgw/drained", unreadable) == b"?"
    assert of_file("/var/lib/other", b'{"by": "Anna"}') == b'{"by": "Anna"}'
