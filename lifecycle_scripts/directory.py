"""Check that an LDAP directory is reachable and trusted: `directory.py URI BUNDLE SECONDS`.

It tries for SECONDS. SSSD does not report why it has no answer. This program reports it in one line: the name, the
network, or the certificate, which must be signed by an authority in BUNDLE. For ldap://, which starts TLS later, it
checks only the first two.
"""

import socket
import ssl
import sys
import time
from urllib.parse import urlsplit

PORTS = {"ldap": 389, "ldaps": 636}
ANSWER_SECONDS = 5
PAUSE_SECONDS = 2


def unreachable(uri: str, bundle: str) -> str | None:
    """Return why the directory cannot be reached, or None."""
    parts = urlsplit(uri)
    host, port = str(parts.hostname), parts.port or PORTS[parts.scheme]
    try:
        with socket.create_connection((host, port), timeout=ANSWER_SECONDS) as plain:
            if parts.scheme == "ldaps":
                context = ssl.create_default_context(cafile=bundle)
                with context.wrap_socket(plain, server_hostname=host):
                    pass
    except ssl.SSLCertVerificationError as error:
        remedy = "put that of its authority into lifecycle_scripts/yours/certificates"
        return f"its certificate is not to be trusted: {error.verify_message}; {remedy}"
    except socket.gaierror:
        return f"there is no {host} to be found; the network's DNS has to know it"
    except OSError as error:
        return f"{host} does not answer at port {port}: {error}; its security group has to let the nodes in"
    return None


def main() -> int:
    uri, bundle, seconds = sys.argv[1:]
    end = time.monotonic() + float(seconds)
    while why := unreachable(uri, bundle):
        if time.monotonic() + PAUSE_SECONDS > end:
            print(why)
            return 1
        time.sleep(PAUSE_SECONDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
