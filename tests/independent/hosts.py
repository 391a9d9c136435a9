# SPDX-License-Identifier: Apache-2.0
"""Lists of hosts (sandbox.md: A list of hosts; format.md: Sandbox)."""
import ipaddress
import re

from canonical import Bad

_LABEL = r"[A-Za-z0-9_-]{1,63}"
_NAME = re.compile(r"%s(?:\.%s)*" % (_LABEL, _LABEL))
_ADDRESS = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})")


def _is_address(host):
    return bool(_ADDRESS.fullmatch(host)) and all(int(part) < 256 for part in host.split("."))


def _is_name(host):
    """A name: not this machine's, and nothing that some program takes for an address."""
    labels = host.split(".")
    return len(host) <= 253 and bool(_NAME.fullmatch(host)) and labels[-1] != "localhost" and not labels[-1][0].isdigit()


def split(entry):
    """(host, port) of an entry: a host and one port; `*.` stands for every name below a domain."""
    host, colon, port = entry.rpartition(":")
    if not colon or not re.fullmatch(r"0*[1-9][0-9]{0,4}", port) or int(port) > 65535:
        raise Bad("%r is not a host and a port" % entry)
    if host.startswith("[") and host.endswith("]"):
        try:
            return str(ipaddress.IPv6Address("" if "%" in host else host[1:-1])), int(port)
        except ValueError:
            raise Bad("%r is not a host and a port" % entry)
    host = (host[:-1] if host.endswith(".") else host).lower()
    below = host[2:] if host.startswith("*.") else None
    if not (_is_name(below) and "." in below if below is not None else _is_address(host) or _is_name(host)):
        raise Bad("%r is not a host and a port" % entry)
    return host, int(port)


def lets_through(network, host, port):
    """Whether a list of hosts lets a request through."""
    for entry in network["allow"]:
        listed, at = split(entry)
        if at == port and (listed == host or (listed.startswith("*.") and host.endswith(listed[1:]) and
                                              len(host) >= len(listed))):
            return True
    return False


def check_requests(told, network, sandbox, what):
    """worker_requests or check_requests: there exactly with a list of hosts and a sandbox beside it."""
    listed = isinstance(network, dict) and sandbox is not None
    if (told is not None) != listed:
        raise Bad("%s is null exactly without a list of hosts or a sandbox" % what)
    if told is None:
        return
    for request in told["requests"]:
        if (request["why"] is None) != request["allowed"]:
            raise Bad("%s: why is null exactly if it was allowed" % what)
        if request["allowed"] and not lets_through(network, request["host"], request["port"]):
            raise Bad("%s: %s:%d is not listed" % (what, request["host"], request["port"]))
