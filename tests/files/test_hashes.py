"""Hashes, and manifests that notice a change."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.files.hashes import Damaged, FileRecord, ManifestFormat, hash_json, seal_json, unseal_json

FORMATS = [ManifestFormat("lamina-test", 3), ManifestFormat("lamina-test", 3, section="manifest")]
BODY = {"files": {"ä.bin": {"bytes": 3, "sha256": "00"}}, "settings": {"rate": 1e-05, "none": None}}


def test_a_record_has_size_and_hash(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert FileRecord.of(tmp_path / "file") == FileRecord(bytes=3, sha256=hashlib.sha256(b"abc").hexdigest())


def test_the_order_of_keys_does_not_matter() -> None:
    assert hash_json({"a": 1, "b": 2}) == hash_json({"b": 2, "a": 1}) != hash_json({"a": 2, "b": 1})


@pytest.mark.parametrize("form", FORMATS)
def test_a_body_reads_back(form: ManifestFormat, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(form.dump(BODY))
    assert form.load(tmp_path / "manifest.json") == BODY
    assert json.loads(form.dump(BODY))["version"] == 3


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_anywhere_is_noticed(form: ManifestFormat, bit: int, tmp_path: Path) -> None:
    path, content = tmp_path / "manifest.json", form.dump(BODY)
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
        with pytest.raises(UserError) as raised:
            form.load(path)
        if form.section is None:  # else format and version are not hashed, and name another version
            assert isinstance(raised.value, Damaged)


@pytest.mark.parametrize("form", FORMATS)
def test_another_version_is_named(form: ManifestFormat, tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(ManifestFormat("lamina-test", 4, form.section).dump(BODY))
    expected = (
        r"manifest\.json: made by another version of Lamina \(found lamina-test 4, this one reads lamina-test 3\)"
    )
    with pytest.raises(UserError, match=expected) as raised:
        form.load(path)
    assert not isinstance(raised.value, Damaged)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"[" * 99_999, b'{"format": [], "version": {}}', b"\xff"])
def test_what_is_no_manifest_is_damaged(form: ManifestFormat, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    with pytest.raises(Damaged, match=r"manifest\.json: cannot be read \(No such file"):
        form.load(path)
    path.write_bytes(content)
    with pytest.raises(Damaged, match=r"manifest\.json: damaged, its content has changed since it was written"):
        form.load(path)


def test_a_sealed_object_is_json_and_every_change_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    text = json.dumps({"loss": 0.5, "steps": [1, 2]}).encode()
    sealed = seal_json(text)
    assert json.loads(sealed)["steps"] == [1, 2]
    assert unseal_json(file, sealed) == text
    assert unseal_json(file, text) == text  # of an earlier version
    start = sealed.index(b"loss")
    for at in range(start, len(sealed)):
        with pytest.raises(Damaged, match=r"result\.json: damaged"):
            unseal_json(file, sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :])
