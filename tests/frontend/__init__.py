"""What users write: functions, modules, `jit`."""
