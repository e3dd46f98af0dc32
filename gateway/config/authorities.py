"""`ca_file`: certificates of authorities that are trusted beside the system's, read from a file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gateway.config.reader import HIDDEN, Place, looks_secret
from gateway.config.secrets import expand_variables
from gateway.extension import find_advice

_CERTIFICATE: Final = re.compile(
    r"-----BEGIN (?:X509 )?CERTIFICATE-----[^-]+-----END (?:X509 )?CERTIFICATE-----"
)
_DER: Final = b"\x30\x82"
"""The first bytes of a certificate in binary form."""


def read_authorities(
    place: Place, path: str | None, environ: Mapping[str, str] | None, trusted: str = ""
) -> str:
    """Return the certificates that are trusted with those of a file. Raises ConfigError.

    Without `environ` no file is read: nobody connects then. `trusted` are the certificates of all providers.
    """
    if path is None or environ is None:
        return trusted
    try:
        full = Path(place.file).absolute().parent / expand_variables(path, environ)
        own = _read_certificates(full, HIDDEN if looks_secret(path) else str(full))
    except ValueError as error:
        raise place.error("ca_file", str(error)) from error
    return f"{trusted}{own}\n"


def _read_certificates(path: Path, name: str) -> str:
    """Return the certificates of a file without the words between them. Raises ValueError with its name."""
    import ssl  # here, as commands that connect to nobody need no TLS

    try:
        is_pipe = path.is_fifo()
        content = b"" if is_pipe else path.read_bytes()
    except OSError as error:
        reason = None if name == HIDDEN else find_advice().find_obstacle(path, os.R_OK)
        raise ValueError(f"cannot be read from {name}: {reason or error.strerror}") from error
    if is_pipe:  # nobody may ever write to it, and a reload reads it again
        raise ValueError(f"must be an ordinary file, and {name} is a pipe")
    found = "\n".join(_CERTIFICATE.findall(content.decode("latin-1")))
    if not found:
        convert = f": openssl x509 -inform der -in {name} -out FILE" if content[:2] == _DER else ""
        raise ValueError(f"must have certificates in PEM, and {name} has none{convert}")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=found)
    except (ValueError, ssl.SSLError) as error:
        raise ValueError(f"a certificate in {name} is damaged") from error
    return found
