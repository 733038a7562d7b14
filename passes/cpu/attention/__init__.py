"""Attention on processors: of many queries (`prefill.py`), of one (`decode.py`), and its gradient (`gradient.py`)."""
