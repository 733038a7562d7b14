"""The machines that code is generated for, with what they can do as fields."""
