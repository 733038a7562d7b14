"""Passes: programs that rewrite IR. `base` says what a pass is, `pipeline_text` reads pipelines of them."""
