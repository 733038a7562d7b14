"""GPT-2 learns and writes."""
