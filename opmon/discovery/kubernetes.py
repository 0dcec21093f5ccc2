"""Targets from the Kubernetes API: the running pods of some namespaces that a label selector chooses.

Contains no watch on the API: the list is asked for at each interval. Whether a pod is ready is not asked: one that does not
answer is down, and that is what happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from opmon.clock import Clock
from opmon.config import Auth, KubernetesSource, Tls
from opmon.discovery.dns_sd import hosted
from opmon.discovery.http_sd import fetched_json
from opmon.discovery.listed import Entry, Listed, listed
from opmon.discovery.parts import Parts
from opmon.errors import ConfigError, DiscoveryError
from opmon.scrape.fetch import Fetcher

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a cluster puts a pod's own account: its token, the API's certificate, and the namespace."""

PAGE = 500
MOST_PAGES = 20


class Pods:
    """One `kubernetes` source."""

    def __init__(
        self, settings: KubernetesSource, clock: Clock, *, environ: Mapping[str, str], account: Path = ACCOUNT
    ) -> None:
        """Raises ConfigError where no API is named and this is no cluster."""
        self.settings = settings
        self._api = (settings.api or _api_of_cluster(str(settings.name), environ)).rstrip("/")
        self._namespaces = settings.namespaces or (_own_namespace(account),)
        self.parts = Parts()
        self._fetcher = Fetcher(clock, tls=_tls(settings, account), authorization=_auth(settings, account).header)

    async def read(self) -> Listed:
        """The pods that run now. A namespace that cannot be listed has the pods that it had before."""
        entries, failure = await self.parts.read(self._namespaces, self._pods)
        return listed(entries, self.settings.defaults, failure)

    async def aclose(self) -> None:
        """Closes the connection."""
        await self._fetcher.aclose()

    async def _pods(self, namespace: str) -> tuple[Entry, ...]:
        """The pods of one namespace, page after page."""
        where = "" if namespace == "*" else f"/namespaces/{quote(namespace, safe='')}"
        query = {"limit": str(PAGE)} | ({"labelSelector": s} if (s := self.settings.label_selector) else {})
        entries: list[Entry] = []
        for _ in range(MOST_PAGES):
            url = f"{self._api}/api/v1{where}/pods"
            page = await fetched_json(self._fetcher, f"{url}?{urlencode(query)}")
            if not isinstance(page, dict) or not isinstance(page.get("items"), list):
                raise DiscoveryError(f"{url}: the answer is no list of pods")
            entries += (entry for pod in page["items"] for entry in pod_entries(pod, self.settings))
            next_page = _at(page, "metadata", "continue")
            if not next_page:
                return tuple(entries)
            query["continue"] = str(next_page)
        raise DiscoveryError(f"{namespace}: more than {MOST_PAGES * PAGE} pods; choose with label_selector")


def pod_entries(pod: Any, settings: KubernetesSource) -> Iterator[Entry]:
    """The pod as a target, if it runs, has an address and has the port. Its name is `namespace/pod`: a pod that comes
    back under its name, as those of a StatefulSet do, goes on with its history at whatever address."""
    namespace, name = _at(pod, "metadata", "namespace"), _at(pod, "metadata", "name")
    address = _at(pod, "status", "podIP")
    port = _port(pod, settings.port)
    if _at(pod, "status", "phase") != "Running" or not all((namespace, name, address, port)):
        return
    labels = {"namespace": str(namespace), "pod": str(name)}
    if node := _at(pod, "spec", "nodeName"):
        labels["node"] = str(node)
    own = _at(pod, "metadata", "labels") or {}
    labels |= {label_name(label): str(own[label]) for label in settings.pod_labels if label in own}
    yield Entry(hosted(address, port), labels, f"{namespace}/{name}")


def label_name(label: str) -> str:
    """A label of Kubernetes as one of Prometheus: `app.kubernetes.io/name` is `app_kubernetes_io_name`."""
    return "".join(character if character.isascii() and character.isalnum() else "_" for character in label)


def _port(pod: Any, wanted: int | str) -> int | None:
    """The number of the port; by name, what the first container that has it says."""
    if isinstance(wanted, int):
        return wanted
    for container in _at(pod, "spec", "containers") or ():
        for port in _at(container, "ports") or ():
            if _at(port, "name") == wanted:
                number = _at(port, "containerPort")
                return number if isinstance(number, int) else None
    return None


def _at(value: Any, *keys: str) -> Any:
    """What stands at a path of keys; None where there is none."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _api_of_cluster(name: str, environ: Mapping[str, str]) -> str:
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError(f"discovery: {name}: this is no cluster (KUBERNETES_SERVICE_HOST is not set); name its `api`")
    return f"https://{hosted(host, port)}"


def _own_namespace(account: Path) -> str:
    try:
        return (account / "namespace").read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return "default"


def _auth(settings: KubernetesSource, account: Path) -> Auth:
    """The configured way, else the account's token where there is one. It is read again at each use: it changes."""
    token = account / "token"
    return settings.auth if settings.auth.is_set or not token.exists() else Auth(bearer_file=str(token))


def _tls(settings: KubernetesSource, account: Path) -> Tls:
    certificate = account / "ca.crt"
    return settings.tls if settings.tls != Tls() or not certificate.exists() else Tls(ca_file=str(certificate))
