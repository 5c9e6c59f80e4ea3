"""TLS as botocore configures it, without importing botocore's HTTP client. Tests compare both."""

import os
import ssl
import sys
from pathlib import Path


def tls_context() -> ssl.SSLContext:
    """A context that verifies the certificate of the service, but has no authorities yet, and leaves its host name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # urllib3 does so
    context.verify_mode = ssl.CERT_REQUIRED
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    context.post_handshake_auth = True
    keys = os.environ.get("SSLKEYLOGFILE")
    if keys and not sys.flags.ignore_environment:
        context.keylog_filename = keys
    return context


def authorities() -> str:
    """The path of the certificates of authorities: those of certifi if it is installed, otherwise botocore's."""
    try:
        from certifi import where
    except ImportError:
        import botocore

        return str(Path(botocore.__file__).with_name("cacert.pem"))
    return where()
