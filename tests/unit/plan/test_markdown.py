# SPDX-License-Identifier: Apache-2.0
"""Plans as comments of pull requests: whole ones are in golden/, and what names can do to them is tried here."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from llmgw.decide import decide
from llmgw.model.ids import DeviceId, NodeName, ReplicaId, ServiceName
from llmgw.model.node import NodeState
from llmgw.model.plan import (
    PLAN_FORMAT,
    Action,
    ActionKind,
    Drift,
    MarkDevices,
    Plan,
    Quarantine,
    Rollout,
    Strategy,
    Wave,
)
from llmgw.model.replica import CanarySpec, Catalog, ProfileSpec, RolloutSpec
from llmgw.nodekit import contract
from llmgw.plan.markdown import MOST_CHARACTERS, Footing, plan_markdown
from llmgw.plan.markdown_escape import code, plain, row
from tests.support import golden
from tests.support.fleets import catalog, fleet, node, profile, service, with_facts
from tests.support.world import World

HERE = Path(__file__).parent
GITHUB_TAKES = 65_536
_ZERO_WIDTH = "\u200b"


def on_cards(*args: str) -> ProfileSpec:
    return profile("gpu", classes=("h200-141g",), gpus=1, args=args)


def chat(replicas: int, *args: str, **rollout: object) -> Catalog:
    return catalog(service(replicas=replicas, profiles=(on_cards(*args),), rollout=RolloutSpec(**rollout)))  # type: ignore[arg-type]


def applied(wanted: Catalog, *cards: int) -> World:
    world = World(fleet(*(node(f"n{number}", gpus=count) for number, count in enumerate(cards, 1))))
    world.apply(wanted)
    return world


def fresh() -> Plan:
    return decide(chat(2), fleet(node("n1", gpus=2))).plan


def rolled() -> Plan:
    return decide(chat(3, "--x", max_surge=1, canary=CanarySpec()), applied(chat(3), 2, 2).fleet).plan


def refused() -> Plan:
    return decide(chat(2, "--x", max_unavailable=0), applied(chat(2), 2).fleet).plan


def drifted() -> Plan:
    world = applied(chat(2), 2)
    world.change("llmgw-chat.0.0.service", lambda one: replace(one, active_state="failed", result="oom-kill"))
    one = world.fleet.nodes[0]
    assert one.facts is not None
    strangers = (contract.ForeignEngine(4711, "vllm", ("GPU-n1-1",)),)
    world.fleet = fleet(with_facts(one, replace(one.facts, foreign_engines=strangers)))
    return decide(chat(2), world.fleet).plan


def frozen() -> Plan:
    world = applied(chat(3), 1, 1, 1)
    for name in ("n1", "n2"):
        world.state(name, NodeState.LOST)
    return decide(chat(4), world.fleet).plan


def unplaced() -> Plan:
    nodes = [node(f"n{number}", gpus=1, cordoned=number % 2 == 0) for number in range(1, 4)]
    return decide(chat(5), fleet(*nodes, node("other", gpus=1, device_class="l40s-45g"))).plan


def large() -> Plan:
    cards = [node(f"n{number:02}", gpus=4) for number in range(8)]
    return decide(chat(30), fleet(*cards)).plan


def quarantined() -> Plan:
    mark = Quarantine(NodeName("n1"), DeviceId("GPU-1"), "xid", "card 3 fell off the bus")
    return Plan(PLAN_FORMAT, 7, (), (Wave("quarantine", (MarkDevices((mark,)),)),), notes=("n1 gets old facts",))


def nothing() -> Plan:
    return decide(chat(2), applied(chat(2), 2).fleet).plan


PLANS = [fresh, rolled, refused, drifted, frozen, unplaced, large, quarantined, nothing]


def test_comments_are_as_the_golden_files(*, update_golden: bool) -> None:
    footing = Footing("up to 3 h", "sha256:0123")
    produced = {f"{make.__name__}.md": plan_markdown(make(), footing) for make in PLANS}
    golden.compare(HERE / "golden", produced, update=update_golden)


def rendered(text: str) -> str:
    return str(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text))


EVIL = [
    "a|b",
    "`code`",
    "``x`|y``",
    "back\\slash|",
    "<script>alert(1)</script>",
    "</details><h1>big",
    "@maintainers",
    "#1234",
    "[text](https://evil.example)",
    "![x](//evil.example/x.png)",
    "*bold* _it_ ~~gone~~",
    "line\nbreak | x\n# heading",
    "\u202eright to left",
    "&lt;b&gt;",
    "https://evil.example www.evil.example",
]


@pytest.mark.parametrize("name", EVIL)
def test_what_a_name_has_in_it_is_shown_and_does_nothing(name: str) -> None:
    evil = Action(
        ActionKind.CREATE, ReplicaId(name), ServiceName(name), (NodeName(name),), devices=(name,), reasons=(name,)
    )
    text = plan_markdown(
        Plan(
            PLAN_FORMAT,
            1,
            (evil,),
            (),
            untouched={NodeName(name): name},
            frozen=name,
            notes=(name,),
            rollouts=(Rollout(ServiceName(name), Strategy.IN_PLACE, 1, 1, reason=name),),
            drift=(Drift("stopped", NodeName(name), name, name, mended=False),),
        )
    )
    html = rendered(text)
    assert "<script" not in html
    assert "<h1" not in html
    assert "<a " not in html
    assert "<img" not in html
    assert "<em>" not in html
    assert html.count("<td>") == 4
    assert html.count("</details>") == html.count("<details>")
    outside_code = re.sub(r"<code>.*?</code>", "", html)
    assert not re.search(r"@[a-z]|#[0-9]|://[a-z]|www\.[a-z]", outside_code)


@pytest.mark.parametrize(
    "note", ["- item", "+ item", "1. item", "12) item", "---", "- - -", "-", "+", "1.", "-- x", "# x", "> x", "* x"]
)
def test_a_note_begins_no_list_and_no_rule(note: str) -> None:
    html = rendered(plan_markdown(Plan(PLAN_FORMAT, 1, (), (), notes=(note,))))
    assert (html.count("<ul>"), html.count("<li>"), html.count("<ol>"), html.count("<hr")) == (1, 1, 0, 0)
    assert html.count("<h") == 1
    assert "<blockquote>" not in html


def test_what_github_makes_formulas_emojis_and_references_of_is_kept_apart() -> None:
    assert plain("$a$") == "<span>$</span>a<span>$</span>"
    for text in (":smile:", ":white_check_mark:", ":+1:", ":100:", "a:b:c:d"):
        assert not re.search(r":[\w+-]+:", plain(text).replace("\\", "")), text
    assert plain("chat: 2 at 14:03") == "chat: 2 at 14:03"
    for text in ("GH-12", "gh-7", "see GH-1."):
        assert not re.search(r"gh-\d", plain(text), re.IGNORECASE), text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0123abc", "`0123abc`"),
        ("of e83c5163316f89bfbde7d9ab23ca2e25604af290, it", "of `e83c5163316f89bfbde7d9ab23ca2e25604af290`, it"),
        ("a@e83c516", "a@\u200b`e83c516`"),
        ("GPU-6a1b2c3d-0000-1111 lost", "`GPU-6a1b2c3d-0000-1111` lost"),
        ("- e83c516", "\\- `e83c516`"),
        ("`e83c516`", "\\``e83c516`\\`"),
        ("abcdef 123456 replicas", "abcdef 123456 replicas"),
    ],
)
def test_what_may_be_the_id_of_a_commit_is_shown_as_code(text: str, shown: str) -> None:
    assert plain(text) == shown
    assert "".join(re.sub(r"<[^>]*>", "", rendered(plain(text))).split()) == "".join(
        text.replace("@", "@\u200b").split()
    )


names = st.text(st.characters(codec="utf-8"), max_size=40)


@given(one=names, other=names)
def test_a_row_has_its_cells_whatever_is_in_them(one: str, other: str) -> None:
    table = "\n".join(["| a | b | c |", "|---|---|---|", row(code(one), plain(other), "last")])
    html = rendered(table)
    assert html.count("<td>") == 3
    assert "<td>last</td>" in html


@given(name=names)
def test_a_name_is_shown_as_it_is(name: str) -> None:
    html = rendered(f"x {plain(name)} x")
    shown = re.sub(r"<[^>]*>", "", html).replace(_ZERO_WIDTH, "")
    for entity, sign in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        shown = shown.replace(entity, sign)
    as_line = " ".join("".join(sign if sign.isprintable() else " " for sign in name).split())
    assert " ".join(shown.split()) == f"x {as_line} x".replace("  ", " ")


def test_a_long_name_is_cut() -> None:
    assert len(plain("x" * 10_000)) == 300


def test_a_comment_is_never_longer_than_github_takes_and_says_what_it_left_out() -> None:
    many = tuple(
        Action(
            ActionKind.CREATE,
            ReplicaId(f"chat/{number}"),
            ServiceName("chat"),
            (NodeName("n" * 50),),
            reasons=("because " * 20,),
        )
        for number in range(4000)
    )
    drift = tuple(Drift("stopped", NodeName(f"n{number}"), "u", "x" * 200, mended=False) for number in range(4000))
    text = plan_markdown(Plan(PLAN_FORMAT, 1, many, (), drift=drift), Footing("up to 3 h", "sha256:0123"))
    assert len(text) <= MOST_CHARACTERS < GITHUB_TAKES
    found = re.search(r"_(\d+) lines left out for length: `llmgw plan` shows all of it\._", text)
    assert found is not None
    shown = text.count("\n| `chat/") + text.count("\n- `n")
    assert int(found[1]) + shown == 8000
    assert text.count("<details>") == text.count("</details>")
    assert "facts up to 3 h old" in text


def test_what_is_in_the_way_comes_before_a_long_table() -> None:
    text = plan_markdown(unplaced())
    assert text.index("Cannot be placed") < text.index("| replica |")
