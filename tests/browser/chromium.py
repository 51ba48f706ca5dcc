"""The system's Chromium, without a window, driven by Playwright."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

WIDTH, HEIGHT = 1360, 850
PATIENCE = 60_000.0
"""Milliseconds that a page may take on a machine which does other work as well."""

PICTURES = "KEEP_PICTURES"
"""The variable that names the folder in which pictures are kept; without it they go with the test's other files."""


def program() -> str:
    """Return where Chromium is. Skips without it; fails where CI=true."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    reason = "Chromium is not installed (Debian: apt-get install chromium)"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"{reason}, and CI=true requires it")
    pytest.skip(reason)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium, and end it afterwards."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program(),
            args=["--no-sandbox"],  # which root, whom containers run as, would be refused
        )
        expect.set_options(timeout=PATIENCE)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def page_for(
    browser: Browser, *, stored: Mapping[str, str], credentials: tuple[str, str] | None = None
) -> Iterator[Page]:
    """Open a page with what it finds in local storage, and a password to send; what breaks in it fails the test."""
    sent = None if credentials is None else {"username": credentials[0], "password": credentials[1], "send": "always"}
    context = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT},
        http_credentials=sent,
        color_scheme="light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE)
    context.add_init_script(
        f"Object.entries({json.dumps(dict(stored))}).forEach(item => localStorage.setItem(...item))"
    )
    page = context.new_page()
    broken: list[str] = []
    page.on("pageerror", lambda error: broken.append(str(error)))
    page.on("response", lambda answer: broken.append(f"{answer.status} {answer.url}") if answer.status >= 500 else None)
    try:
        yield page
    finally:
        context.close()
    assert broken == []


def picture(page: Page, name: str, folder: Path) -> Path:
    """Keep what the page shows."""
    path = Path(os.environ.get(PICTURES) or folder) / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=path)
    return path
