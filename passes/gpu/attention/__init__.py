"""Attention on GPUs: of many queries (`attention.py`), of one (`decode.py`), and its gradient (`gradient.py`)."""
