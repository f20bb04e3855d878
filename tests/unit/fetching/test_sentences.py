# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.fetching import sentences

ASKED = sentences.Asked("org/model", "main", "https://hub.example", None)
WITH_TOKEN = ASKED._replace(token_file="/var/lib/llmgw/secrets/hf-token")


@pytest.mark.parametrize(
    ("kinds", "message", "said"),
    [
        (["ModuleNotFoundError"], "No module named 'huggingface_hub'", "llmgw.fleet.weights"),
        (["OSError", "errno 28"], "[Errno 28] No space left on device", "became full"),
        (["PermissionError", "errno 13"], "[Errno 13] Permission denied: '/srv'", "cannot be written to"),
        (["GatedRepoError", "HTTP 403"], "restricted", "is gated"),
        (["RevisionNotFoundError", "HTTP 404"], "", "no revision main"),
        (["RepositoryNotFoundError", "HTTP 401"], "", "secret `hf-token`"),
        (["HTTP 429"], "", "fewer requests"),
        (["LocalEntryNotFoundError", "ConnectError"], "Connection refused", "llmgw_hf_endpoint"),
        (["LocalEntryNotFoundError", "FileMetadataError"], "no X-Repo-Commit", "does not speak as a hub"),
        (["OSError"], "Consistency check failed: file should be of size 5", "less of a file"),
        (["OddAnswer"], "it gives '../x' as the commit", "does not speak as a hub does: it gives '../x' as the commit"),
        (["OddAnswer", "HTTP 401"], "it gives '../x' as the commit", "does not speak as a hub does"),
        (["LinkInTheWay"], "/srv/models/.llmgw/writer.1", "/srv/models/.llmgw/writer.1 is a link"),
        (["TypeError"], "'NoneType' object is not iterable", "does not speak as a hub does (TypeError: 'NoneType'"),
        (["HfHubHTTPError", "HTTP 502"], "Bad Gateway", "status 502"),
        (["Surprise"], "", "Surprise: no reason given"),
        ([], "", "error: no reason given"),
    ],
)
def test_every_failure_has_a_sentence(kinds: list[str], message: str, said: str) -> None:
    sentence = sentences.sentence(ASKED, kinds, message)
    assert said in sentence
    assert sentence.endswith((".", "?"))


@pytest.mark.parametrize("kind", ["GatedRepoError", "RepositoryNotFoundError"])
def test_with_a_token_the_token_is_doubted(kind: str) -> None:
    assert "Is the token in /var/lib/llmgw/secrets/hf-token still good" in sentences.sentence(WITH_TOKEN, [kind], "")


def test_an_address_is_told_without_the_secrets_in_it() -> None:
    message = "GET https://user:hunter2@store.example/blob?X-Amz-Signature=abc&Expires=1 failed"
    said = sentences.sentence(ASKED, ["HfHubHTTPError", "HTTP 500"], message)
    assert "https://store.example/blob" in said
    assert not any(secret in said for secret in ("hunter2", "abc", "Expires"))


@pytest.mark.parametrize("user", ["bob:hunter2", "bob:h@nter2", "hunter2"])
@pytest.mark.parametrize("kind", ["ConnectError", "HTTP 502", "HTTP 429", "OddAnswer", "RepositoryNotFoundError"])
def test_a_mirrors_password_is_in_no_sentence(user: str, kind: str) -> None:
    asked = ASKED._replace(endpoint=f"https://{user}@hub.example/hf")
    said = sentences.sentence(asked, [kind], f"GET https://{user}@hub.example/hf/x as {user} failed")
    assert "nter2" not in said
    assert "https://hub.example/hf" in said
