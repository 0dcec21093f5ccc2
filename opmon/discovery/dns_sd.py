"""Targets from the DNS: addresses by the system's resolver, SRV records by dnspython.

Contains no caching: a name is asked anew each time. A name that does not exist names nothing, as in Prometheus; one that
cannot be asked is a failure.
"""

from __future__ import annotations

import asyncio
import socket

import dns.asyncresolver
import dns.exception
import dns.rdatatype
import dns.resolver

from opmon.config import DnsSource
from opmon.discovery.listed import Entry, Listed, listed
from opmon.discovery.parts import Parts
from opmon.errors import DiscoveryError

DEADLINE_SECONDS = 10.0
# EAI_NODATA: the name is there, but has no address of this family. Not every system's module names it.
_NOTHING = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


class Dns:
    """One `dns` source."""

    def __init__(self, settings: DnsSource) -> None:
        self.settings = settings
        self.parts = Parts()

    async def read(self) -> Listed:
        """What the names stand for now. A name that cannot be asked stands for what it did before."""
        look_up = self._services if self.settings.type == "SRV" else self._addresses
        entries, failure = await self.parts.read(self.settings.names, look_up)
        return listed(entries, self.settings.defaults, failure)

    async def aclose(self) -> None:
        """Nothing is held open."""

    async def _addresses(self, name: str) -> tuple[Entry, ...]:
        family = socket.AF_INET if self.settings.type == "A" else socket.AF_INET6
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                found = await loop.getaddrinfo(name, self.settings.port, family=family, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            if error.errno in _NOTHING:
                return ()
            raise DiscoveryError(f"{name}: cannot be looked up: {error.strerror}") from error
        except (OSError, UnicodeError) as error:  # a time-out is an OSError
            raise DiscoveryError(f"{name}: cannot be looked up: {str(error) or 'no answer in time'}") from error
        return tuple(
            Entry(hosted(*address[:2])) for address in sorted({str(one[4][0]): one[4] for one in found}.values())
        )

    async def _services(self, name: str) -> tuple[Entry, ...]:
        try:
            answer = await self._resolver().resolve(
                name, dns.rdatatype.SRV, search=True, raise_on_no_answer=False, lifetime=DEADLINE_SECONDS
            )
        except dns.resolver.NXDOMAIN:
            return ()
        except (dns.exception.DNSException, OSError) as error:
            raise DiscoveryError(f"{name}: SRV cannot be looked up: {_first_line(error)}") from error
        found = {(str(record.target).rstrip("."), int(record.port)) for record in answer.rrset or ()}
        # A target of "." says that the service is decidedly not there (RFC 2782).
        return tuple(Entry(f"{host}:{port}") for host, port in sorted(found) if host)

    def _resolver(self) -> dns.asyncresolver.Resolver:
        """The system's, read anew so that a changed resolv.conf counts; or the one that is configured."""
        if self.settings.resolver is None:
            return dns.asyncresolver.Resolver()
        host, _, port = self.settings.resolver.rpartition(":")
        resolver = dns.asyncresolver.Resolver(configure=False)
        resolver.nameservers = [host.removeprefix("[").removesuffix("]")]
        resolver.port = int(port)
        return resolver


def hosted(host: object, port: object) -> str:
    """`host:port`, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
