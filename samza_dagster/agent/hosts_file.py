"""A hosts file that makes a JVM report the agent's host name (`-Djdk.net.hosts.file`).

Samza's `Util.getLocalHost` takes the machine's own name; if that is a loopback address, it
takes the first other address that is not link-local, of whichever interface comes last,
and looks up its name. So the machine's name is mapped to loopback here, and every other
address to the reported name. On a machine without any other address Samza falls back to the
machine's own name, and nothing in this file can change it: containers then report `uname -n`.
"""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import List

from samza_dagster.agent.files import write_text

_FIB_LOCAL = re.compile(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL")


def own_addresses(fib_trie: str, if_inet6: str) -> List[str]:
    """Return the addresses that Samza could take, from `/proc/net/fib_trie` and `/proc/net/if_inet6`."""
    found = list(dict.fromkeys(_FIB_LOCAL.findall(fib_trie)))
    for line in if_inet6.splitlines():
        digits = line.split()[0] if line.strip() else ""
        if len(digits) == 32:
            found.append(str(ipaddress.IPv6Address(int(digits, 16))))
    addresses = [ipaddress.ip_address(a) for a in found]
    return [str(a) for a in addresses if not (a.is_loopback or a.is_link_local)]


def lines(host: str, machine: str, addresses: List[str]) -> List[str]:
    """Return the file's lines; the reported name is alone on its addresses."""
    names = ["localhost"] if machine in (host, "localhost") else ["localhost", machine]
    return ["127.0.0.1 " + " ".join(names), *("{} {}".format(a, host) for a in addresses)]


def write(path: Path, host: str) -> bool:
    """Write the file; return False when containers will report the machine's own name."""
    addresses = own_addresses(_read("/proc/net/fib_trie"), _read("/proc/net/if_inet6"))
    machine = os.uname().nodename
    write_text(path, "\n".join(lines(host, machine, addresses)) + "\n")
    return bool(addresses) or machine == host


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
