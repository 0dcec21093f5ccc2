"""Where targets are named besides `targets`: files, HTTP, DNS and Kubernetes.

Contains the settings of each source and nothing that asks one (`opmon.discovery`).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from opmon.config import values
from opmon.config.section import Section, setting
from opmon.config.targets import Auth, Served, Tls
from opmon.config.values import Duration, FilePath, Name

KINDS = ("file_sd", "http_sd", "dns", "kubernetes")
_INTERVAL = values.between("1s", "1h")


def _interval(milliseconds: int, shown: str) -> int:
    """The declaration of a source's own interval, pydantic's field."""
    declared: int = setting(milliseconds, "How often it is asked.", alias="refresh_interval", shown_default=shown)
    return declared


class Defaults(Served):
    """What the targets of a source have in common; labels of the list itself win."""

    scheme: Literal["http", "https"] = setting("http", "Unless the list says `__scheme__`.")
    metrics_path: Annotated[str, AfterValidator(values.metrics_path)] = setting(
        "/metrics", "Unless the list says `__metrics_path__`."
    )


class SourceSettings(Section):
    """What all sources have. `name` is never empty once loaded."""

    name: Name | None = setting(
        None,
        "What the source is called in the log and on /metrics.",
        shown_default="its kind and place, like file_sd[0]",
    )
    defaults: Defaults = setting(
        Defaults,
        "What all its targets have: `scheme` (http), `metrics_path` (/metrics), and job, labels, model, engine,"
        " max_num_seqs, content_mix, auth and tls as under `targets`. Labels in the list win over these.",
        shown_default="{}",
        is_folded=True,
    )


class FileSource(SourceSettings):
    files: Annotated[
        tuple[Annotated[FilePath, AfterValidator(values.file_pattern)], ...], AfterValidator(values.at_least_one)
    ] = setting(
        ...,
        "JSON or YAML files in Prometheus' format; * in the last part of a path stands for any name.",
        alias="files",
    )
    refresh_interval_ms: Annotated[Duration, AfterValidator(_INTERVAL)] = _interval(5_000, "5s")


class HttpSource(SourceSettings):
    url: Annotated[str, AfterValidator(values.list_url)] = setting(..., "Answers with a list in Prometheus' format.")
    auth: Auth = setting(
        Auth,
        "How opmon proves to the list's server who it is, as `targets[].auth`.",
        shown_default="none",
        is_folded=True,
    )
    tls: Tls = setting(
        Tls,
        "How that server's certificate is checked, as `targets[].tls`.",
        shown_default="the system's certificates",
        is_folded=True,
    )
    refresh_interval_ms: Annotated[Duration, AfterValidator(_INTERVAL)] = _interval(30_000, "30s")


class DnsSource(SourceSettings):
    names: Annotated[
        tuple[Annotated[str, AfterValidator(values.dns_name)], ...], AfterValidator(values.at_least_one)
    ] = setting(..., "Names to look up.")
    type: Literal["SRV", "A", "AAAA"] = setting("SRV", "The records to ask for.")
    port: int | None = setting(None, "The port of the targets, for A and AAAA.", ge=1, le=65535)
    resolver: Annotated[str, AfterValidator(values.listen)] | None = setting(
        None, "IP:PORT of the DNS server that is asked for SRV.", shown_default="the system's"
    )
    refresh_interval_ms: Annotated[Duration, AfterValidator(_INTERVAL)] = _interval(30_000, "30s")


class KubernetesSource(SourceSettings):
    port: Annotated[int | str, AfterValidator(values.pod_port)] = setting(
        ..., "The port of the pods: its number, or the name that a container gives it."
    )
    namespaces: tuple[Annotated[str, AfterValidator(values.namespace)], ...] = setting(
        tuple, 'Whose pods are listed; "*" for all.', shown_default="the one that opmon runs in"
    )
    label_selector: str = setting("", "Which pods, like app=vllm,tier!=test.")
    pod_labels: tuple[str, ...] = setting(
        tuple, "Labels of the pods that become labels of the targets.", shown_default="[]"
    )
    api: Annotated[str, AfterValidator(values.target_url)] | None = setting(
        None, "Address of the Kubernetes API.", shown_default="the cluster's that opmon runs in"
    )
    auth: Auth = setting(
        Auth,
        "How opmon proves to the API who it is, as `targets[].auth`.",
        shown_default="the service account's token",
        is_folded=True,
    )
    tls: Tls = setting(
        Tls,
        "How the API's certificate is checked, as `targets[].tls`.",
        shown_default="the service account's certificate",
        is_folded=True,
    )
    refresh_interval_ms: Annotated[Duration, AfterValidator(_INTERVAL)] = _interval(15_000, "15s")


class Discovery(Section):
    """The sources, by kind. A target that several list, or that is configured too, is watched once."""

    file_sd: tuple[FileSource, ...] = setting(tuple, "Files.")
    http_sd: tuple[HttpSource, ...] = setting(tuple, "HTTP.")
    dns: tuple[DnsSource, ...] = setting(tuple, "DNS.")
    kubernetes: tuple[KubernetesSource, ...] = setting(tuple, "Pods.")

    @property
    def sources(self) -> tuple[SourceSettings, ...]:
        """All of them, in the order in which they win where two name one target."""
        return (*self.file_sd, *self.http_sd, *self.dns, *self.kubernetes)

    @property
    def is_set(self) -> bool:
        """Whether there is any source."""
        return bool(self.sources)
