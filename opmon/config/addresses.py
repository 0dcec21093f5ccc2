"""Which addresses are never asked: those that belong to a single link, and those at which a cloud tells its machines' secrets.

Whoever may name a target could otherwise let opmon fetch what only its own machine may see. Private and loopback
addresses are what opmon is for, and are allowed.
Contains no resolving: what a name stands for is judged again once it is resolved (`opmon.scrape.network`).
"""

from __future__ import annotations

import socket
import unicodedata
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import unquote

_LINK_LOCAL = (ip_network("169.254.0.0/16"), ip_network("fe80::/10"))
# Metadata services that are not link-local: Alibaba, Azure, Oracle; Amazon and Google by IPv6.
_METADATA = frozenset(
    map(ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"))
)
_METADATA_NAMES = frozenset({"metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"})
# Ways to write an IPv4 address into the last bits of an IPv6 address: compatible, mapped, and two of NAT64.
_AROUND_IPV4 = tuple(map(ip_network, ("::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/96")))


def refusal(host: str) -> str:
    """Why a host is never asked, in words; empty where it may be asked.

    `host` is a name or an address as it stands in a URL: with or without brackets, zone, dot at its end, in any
    spelling that a system's resolver takes for an address (2852039166, 0xa9fea9fe, 0251.0376.0251.0376).
    """
    # The ideographic full stop separates the parts of a name too (RFC 3490).
    plain = unicodedata.normalize("NFKC", unquote(host)).replace("\u3002", ".").strip().strip("[]").rstrip(".").lower()
    if plain in _METADATA_NAMES:
        return f"{plain} is a cloud's metadata service, which opmon never asks"
    address = _address(plain)
    if address is None:
        return ""
    for one in (address, *_inside(address)):
        shown = plain if str(one) == plain else f"{plain} ({one})"
        if one in _METADATA:
            return f"{shown} is the address of a cloud's metadata service, which opmon never asks"
        if any(one in network for network in _LINK_LOCAL):
            return f"{shown} is a link-local address, as of a cloud's metadata service, which opmon never asks"
    return ""


def _address(plain: str) -> IPv4Address | IPv6Address | None:
    """The address that is written here, None for a name. The zone of an IPv6 address is left out."""
    try:
        return ip_address(plain.partition("%")[0])
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(plain))
    except (OSError, UnicodeError, ValueError):
        return None


def _inside(address: IPv4Address | IPv6Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that an IPv6 address stands for."""
    if isinstance(address, IPv4Address):
        return ()
    last = (IPv4Address(int(address) & 0xFFFFFFFF),) if any(address in network for network in _AROUND_IPV4) else ()
    return (*last, *((address.sixtofour,) if address.sixtofour else ()))
