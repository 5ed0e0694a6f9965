"""What the tests in Chromium share; the fixture `browser` is in conftest.py."""

from __future__ import annotations

from typing import Any

CONTRAST = """([text, ground]) => {
  const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const luminance = colour => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map(channel);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const style = selector => getComputedStyle(document.querySelector(selector));
  const [low, high] = [luminance(style(text).color), luminance(style(ground).backgroundColor)].sort((p, q) => p - q);
  return (high + 0.05) / (low + 0.05);
}"""
"""WCAG 2 contrast of the text of one element with the background of another; 4.5 is what level AA asks for."""


def opened(browser: Any, address: str, **settings: Any) -> tuple[Any, list[str]]:
    """A tab at an address, and the list of what it says on the console and asks for."""
    context = browser.new_context(**settings)
    tab = context.new_page()
    events: list[str] = []
    tab.on("console", lambda message: events.append(message.text))
    tab.on("pageerror", lambda error: events.append(str(error)))
    tab.on("request", lambda request: events.append(request.url))
    tab.goto(address)
    return tab, events
