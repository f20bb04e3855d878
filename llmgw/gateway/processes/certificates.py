# SPDX-License-Identifier: Apache-2.0
"""The TLS side of the data listener: a context out of the catalog's files, and a newer certificate into it."""

from __future__ import annotations

import ssl

from llmgw.errors import LlmgwError
from llmgw.model.replica import GatewaySpec


def tls_context(gateway: GatewaySpec) -> ssl.SSLContext | None:
    """The context to serve with; None where the catalog names no certificate. Raises LlmgwError `tls-unusable`."""
    if gateway.tls_certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    _load(context, gateway)
    return context


def renew(context: ssl.SSLContext, gateway: GatewaySpec) -> None:
    """Lets new connections see what the files hold now. Raises LlmgwError `tls-unusable`, and changes nothing then."""
    tls_context(gateway)  # tried on a context of its own: half a pair would break the one in use
    _load(context, gateway)


def _load(context: ssl.SSLContext, gateway: GatewaySpec) -> None:
    certificate, key = gateway.tls_certificate, gateway.tls_key
    if certificate is None:
        return
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:  # ssl.SSLError is one
        why = (error.strerror or str(error)) if not isinstance(error, ssl.SSLError) else _said(error)
        raise LlmgwError(
            "tls-unusable",
            f"clients cannot be served over TLS: {why.lower()}",
            where=f"{certificate} and {key}",
            fix="let gateway.tls in the catalog name a certificate (its chain after it) and its key in PEM, which the "
            "gateway's user may read",
        ) from error


def _said(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key is not the certificate's"
    return f"not a certificate and key in PEM ({error.reason or error})"
