"""The gradient of attention by five products in one launch."""
