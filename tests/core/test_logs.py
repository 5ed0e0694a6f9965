from __future__ import annotations

import logging

import pytest

from osler.core.logs import configure, get_logger


def test_logs_refuse_text(caplog):
    log = get_logger("osler.test")
    with caplog.at_level(logging.INFO, logger="osler.test"):
        log.event("done", documents=3, rate=0.5, name="en-train", missing=None)
        with pytest.raises(ValueError, match="document text never"):
            log.event("done", text="Mr John Smith was seen today")
    assert '"documents": 3' in caplog.text
    assert "Smith" not in caplog.text


@pytest.mark.parametrize("verbose", [False, True])
def test_people_get_sentences_and_programs_json(verbose, capsys, monkeypatch):
    root = logging.getLogger("osler")
    monkeypatch.setattr(root, "handlers", [])
    before = root.level
    try:
        configure(verbose)
        get_logger("osler.test").warning("data.odd", "{count} files are odd", count=3)
        get_logger("osler.test").event("data.done")
    finally:
        root.setLevel(before)
    shown = capsys.readouterr().err
    if verbose:
        assert '{"event": "data.odd", "count": 3}' in shown
        assert "data.done" in shown
    else:
        assert shown == "warning: 3 files are odd\n"
