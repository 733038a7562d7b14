"""Factors of products that lie otherwise than warpgroups take them: copied, or made the other way."""
