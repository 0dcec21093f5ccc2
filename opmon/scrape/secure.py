"""TLS of a target: the context for its settings, and what to do about a handshake that fails.

Contains no connection.
"""

from __future__ import annotations

import ssl
from functools import lru_cache

import certifi

from opmon.config.files import refuse_irregular
from opmon.config.settings import Tls
from opmon.errors import ConfigError

_NAME_MISMATCH = (62, 64)  # OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH
_NOT_NOW = (9, 10)  # not yet valid, expired
_SPEAKS_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
_WANTS_A_CERTIFICATE = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE")


def tls_context(tls: Tls | None) -> ssl.SSLContext:
    """The context for a target's TLS settings; targets without any share one. Raises ConfigError for unusable files."""
    if tls is None or not (tls.ca_file or tls.cert_file or tls.insecure_skip_verify):
        return _default_context()
    context = _trusting(tls.ca_file)
    if tls.cert_file:
        _show(context, tls.cert_file, tls.key_file or tls.cert_file)
    if tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def remedy(error: ssl.SSLError) -> str:
    """What to do about a failed handshake, as an end of the sentence that tells it; empty where nothing is known."""
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _NAME_MISMATCH:
            return "; name what the certificate is for in `tls.server_name`"
        if error.verify_code in _NOT_NOW:
            return "; renew the certificate, or set the clock"
        return "; name the certificate of its authority in `tls.ca_file`"
    if reason in _SPEAKS_NO_TLS:
        return "; the port speaks http, not https: write http:// in its address"
    if any(word in reason for word in _WANTS_A_CERTIFICATE):
        return "; the server may want a client certificate: `tls.cert_file` and `tls.key_file`"
    return ""


@lru_cache(maxsize=1)
def _default_context() -> ssl.SSLContext:
    """The system's certificates and, for systems that have none, certifi's. Loading them takes 20 ms, once."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def _trusting(ca_file: str | None) -> ssl.SSLContext:
    try:
        if ca_file is not None:
            refuse_irregular(ca_file)
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{ca_file}: cannot be used for TLS as `ca_file`: {_words(error)}") from error


def _show(context: ssl.SSLContext, cert_file: str, key_file: str) -> None:
    """Makes the context show a client certificate. A key behind a passphrase is refused: OpenSSL would ask for it."""
    try:
        for file in (cert_file, key_file):
            refuse_irregular(file)
        context.load_cert_chain(cert_file, key_file, password=_no_passphrase)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{cert_file}, {key_file}: cannot be used for TLS: {_words(error)}") from error


def _no_passphrase() -> str:
    raise ValueError("the key is behind a passphrase; give one without")


def _words(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        if error.reason == "KEY_VALUES_MISMATCH":
            return "the key does not belong to the certificate"
        if error.reason in ("NO_CERTIFICATE_OR_CRL_FOUND", "NO_START_LINE") or not error.reason:
            return f"a file holds no PEM of what it should hold ({error.reason or 'it cannot be read as PEM'})"
        return str(error)
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
