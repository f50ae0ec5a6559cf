"""One Chromium process for all browser tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from support.chromium import Browser


@pytest.fixture(scope="session")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium on this machine")
    return found


@pytest.fixture(scope="session")
def browser(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(chromium, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()
