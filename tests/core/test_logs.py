from __future__ import annotations

import logging

import pytest

from osler.core.logs import get_logger


def test_logs_refuse_text(caplog):
    log = get_logger("osler.test")
    with caplog.at_level(logging.INFO, logger="osler.test"):
        log.event("done", documents=3, rate=0.5, name="en-train", missing=None)
        with pytest.raises(ValueError, match="document text never"):
            log.event("done", text="Mr John Smith was seen today")
    assert '"documents": 3' in caplog.text
    assert "Smith" not in caplog.text
