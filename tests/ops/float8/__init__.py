"""fp8 as a dtype of tensors."""
