"""Which hosts are never asked, in every spelling; a rule over texts, nothing is resolved or connected to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opmon.config import Settings, load
from opmon.config.addresses import refusal
from opmon.errors import ConfigError

REFUSED = [
    "169.254.169.254",
    "169.254.0.1",
    "169.254.170.2",
    "169.254.169.254.",
    "2852039166",
    "0xa9fea9fe",
    "0XA9FEA9FE",
    "0251.0376.0251.0376",
    "0xa9.254.0251.254",
    "169.254.43518",
    "169.16689662",
    "169%2e254.169.254",
    "１６９.254.169.254",
    "169。254。169。254",
    "[::ffff:169.254.169.254]",
    "::ffff:a9fe:a9fe",
    "::a9fe:a9fe",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "fe80::1",
    "fe80::1%eth0",
    "[fe80::1%25eth0]",
    "FEBF::1",
    "fd00:ec2::254",
    "fd00:0ec2:0:0::0254",
    "fd20:ce::254",
    "100.100.100.200",
    "168.63.129.16",
    "metadata.google.internal",
    "Metadata.Google.Internal.",
    "metadata.goog",
    "instance-data.ec2.internal",
]
ALLOWED = [
    "127.0.0.1",
    "localhost",
    "::1",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.253.255.255",
    "169.255.0.0",
    "2130706433",
    "fd00:ec2::1",
    "fec0::1",
    "2001:db8::a9fe:a9fe",
    "::ffff:10.0.0.1",
    "metadata",
    "169.254.169.254.example",
    "a9fea9fe",
    "gpu-7",
    "",
]


@pytest.mark.parametrize("host", REFUSED)
def test_link_local_and_metadata_hosts_are_refused_in_every_spelling(host: str) -> None:
    assert "which opmon never asks" in refusal(host)


@pytest.mark.parametrize("host", ALLOWED)
def test_private_and_loopback_addresses_and_names_may_be_asked(host: str) -> None:
    assert "" == refusal(host)


def test_the_words_name_the_address_behind_its_spelling() -> None:
    words = "(169.254.169.254) is a link-local address, as of a cloud's metadata service, which opmon never asks"
    assert f"0xa9fea9fe {words}" == refusal("0xA9FEA9FE")


def loaded(folder: Path, text: str) -> Settings:
    path = folder / "opmon.yml"
    path.write_text(text, encoding="utf-8")
    return load(path, environ={"HOME": str(folder)})


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("targets: [{url: 'http://169.254.169.254:80'}]", "targets[0].url"),
        ("targets: [{url: 'http://user:pass@0xa9fea9fe/metrics'}]", "targets[0].url"),
        ("discovery: {http_sd: [{url: 'http://[fe80::1]:9000/sd?x=1'}]}", "discovery.http_sd[0].url"),
        ("discovery: {kubernetes: [{api: 'https://[fd00:ec2::254]', port: 80}]}", "discovery.kubernetes[0].api"),
    ],
)
def test_a_configured_address_that_is_never_asked_is_a_fault_that_names_its_key(
    tmp_path: Path, text: str, place: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    assert place in str(caught.value)
    assert "which opmon never asks" in str(caught.value)
    assert "pass" not in str(caught.value).partition("never asks")[0].partition("never")[0]


def test_private_addresses_are_targets(tmp_path: Path) -> None:
    settings: Any = loaded(tmp_path, "targets: [{url: 'http://10.0.0.1:8000'}, {url: 'http://[fd00::1]:8000'}]")
    assert ["10.0.0.1:8000", "[fd00::1]:8000"] == [target.name for target in settings.targets]
