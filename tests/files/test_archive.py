"""Unpacking: valid archives are unpacked completely, and malicious ones not at all."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.files.archive import unpack

FILES = {"data/a.txt": b"first", "data/deep/b.txt": b"second" * 1000, "c.txt": b""}


def make_tar(
    path: Path, mode: str = "w:gz", files: dict[str, bytes] = FILES, extra: tuple[tarfile.TarInfo, ...] = ()
) -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o4777
            tar.addfile(info, io.BytesIO(content))
        for info in extra:
            tar.addfile(info)
    return path


def make_zip(path: Path, files: dict[str, bytes] = FILES, mode: int = 0) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            packed.writestr(info, content)
    return path


def link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tgz", "x.tar.bz2", "x.zip"])
def test_sound_archives(tmp_path: Path, name: str) -> None:
    modes = {"x.tar": "w:", "x.tar.bz2": "w:bz2"}
    archive = make_zip(tmp_path / name) if name == "x.zip" else make_tar(tmp_path / name, modes.get(name, "w:gz"))
    folder = unpack(archive, tmp_path / "new" / "out")
    assert contents(folder) == FILES
    assert not (folder / "data" / "a.txt").stat().st_mode & (stat.S_ISUID | stat.S_IXUSR)
    assert [path.name for path in folder.parent.iterdir()] == ["out"]


def test_a_folder_of_the_same_name_does_not_double(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "x.zip", {"out/a.txt": b"a", "__MACOSX/._a": b"junk", ".DS_Store": b"junk"})
    assert contents(unpack(archive, tmp_path / "out")) == {"a.txt": b"a"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "x.zip"]
    two = make_zip(tmp_path / "y.zip", {"two/a.txt": b"a", "b.txt": b"b"})
    assert contents(unpack(two, tmp_path / "two")) == {"two/a.txt": b"a", "b.txt": b"b"}


def refuse(archive: Path, complaint: str, **caps: int) -> None:
    folder = archive.parent / "out"
    with pytest.raises(UserError, match=complaint):
        unpack(archive, folder, **caps)
    assert not [path for path in archive.parent.iterdir() if path != archive], "something was left"


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/etc/evil", "a\\..\\evil", "C:evil"])
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    if name != "/etc/evil":  # tarfile's filter takes the slash away, and the rest stays inside
        tar = make_tar(tmp_path / "x.tar.gz", files={name: b"evil"})
        refuse(tar, "refused|outside")
        tar.unlink()
    refuse(make_zip(tmp_path / "x.zip", {name: b"evil"}), "would lead out|refused")
    assert not (tmp_path.parent / "evil").exists()
    assert not Path("/etc/evil").exists()


@pytest.mark.parametrize(
    "extra",
    [
        link("inside", "data/a.txt"),
        link("outside", "/etc/passwd"),
        link("climbing", "../../secret"),
        link("hard", "data/a.txt", tarfile.LNKTYPE),
        link("pipe", "", tarfile.FIFOTYPE),
        link("device", "", tarfile.CHRTYPE),
    ],
    ids=lambda info: info.name,
)
def test_links_and_devices_are_refused(tmp_path: Path, extra: tarfile.TarInfo) -> None:
    refuse(make_tar(tmp_path / "x.tar.gz", extra=(extra,)), "link|device|outside|special")


def test_links_in_zip_files_are_refused(tmp_path: Path) -> None:
    refuse(make_zip(tmp_path / "x.zip", {"link": b"/etc/passwd"}, stat.S_IFLNK | 0o777), "link or a device")


def test_sizes_are_counted_while_writing(tmp_path: Path) -> None:
    bomb = {"zeros": bytes(5_000_000)}
    refuse(make_zip(tmp_path / "x.zip", bomb), "more than 1,000,000 bytes", max_bytes=1_000_000)
    (tmp_path / "x.zip").unlink()
    refuse(make_tar(tmp_path / "x.tgz", files=bomb), "more than 1,000,000 bytes", max_bytes=1_000_000)
    assert (tmp_path / "x.tgz").stat().st_size < 10_000


def test_a_zip_header_that_lies_about_the_size(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "x.zip", {"zeros": bytes(5_000_000)})
    content = bytearray(archive.read_bytes())
    place = content.rindex(b"PK\x01\x02")
    content[place + 24 : place + 28] = (10).to_bytes(4, "little")  # the central directory's uncompressed size
    archive.write_bytes(content)
    refuse(archive, "refused|cannot be unpacked", max_bytes=1_000_000)


def test_a_sparse_file_that_claims_a_terabyte(tmp_path: Path) -> None:
    info = tarfile.TarInfo("sparse")
    info.type, info.size = tarfile.GNUTYPE_SPARSE, 512
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[386 : 386 + 24] = b"%011o\0" % 0 + b"%011o\0" % 512  # one stretch of data at the start
    header[483:495] = b"%011o\0" % ((1 << 33) - 1)  # the size it claims once unpacked
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "x.tar").write_bytes(bytes(header) + bytes(512) + bytes(1024))
    refuse(tmp_path / "x.tar", "more than 10,000,000 bytes", max_bytes=10_000_000)


def test_the_number_of_members_is_capped(tmp_path: Path) -> None:
    many = {f"{number}.txt": b"" for number in range(30)}
    refuse(make_tar(tmp_path / "x.tgz", files=many), "more than 20 members", max_members=20)
    (tmp_path / "x.tgz").unlink()
    refuse(make_zip(tmp_path / "x.zip", many), "more than 20 members", max_members=20)


def test_a_header_of_absurd_size_does_not_fill_the_memory(tmp_path: Path) -> None:
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 200 << 20
    archive = tmp_path / "x.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.addfile(info, io.BytesIO(bytes(info.size)))
    tracemalloc.start()
    refuse(archive, "absurd size")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20


def test_damaged_archives(tmp_path: Path) -> None:
    noise = {"noise": os.urandom(50_000)}
    tar = make_tar(tmp_path / "x.tgz", files=noise)
    tar.write_bytes(tar.read_bytes()[:-1000])
    refuse(tar, "cannot be unpacked")
    tar.write_bytes(b"no archive")
    refuse(tar, "cannot be unpacked")
    tar.unlink()
    packed = make_zip(tmp_path / "x.zip", noise)
    content = bytearray(packed.read_bytes())
    content[20_000] ^= 0xFF
    packed.write_bytes(content)
    refuse(packed, "cannot be unpacked")
    packed.write_bytes(content[:-100])
    refuse(packed, "cannot be unpacked")


def test_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "x.tar"
    with tarfile.open(archive, "w") as tar:
        for content in (b"one", b"two"):
            info = tarfile.TarInfo("same.txt")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    refuse(archive, "cannot be unpacked")


def test_targets_that_cannot_be_unpacked_into(tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "x.tgz")
    (tmp_path / "there").mkdir()
    with pytest.raises(UserError, match="exists already"):
        unpack(archive, tmp_path / "there")
    with pytest.raises(UserError, match="no such file"):
        unpack(tmp_path / "none.zip", tmp_path / "out")
    (tmp_path / "x.rar").write_bytes(b"")
    with pytest.raises(UserError, match="not an archive Lamina unpacks"):
        unpack(tmp_path / "x.rar", tmp_path / "out")
