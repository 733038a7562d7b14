"""IR as text: golden files, dumps that people read, odd and mutated input, programs of many ops."""
