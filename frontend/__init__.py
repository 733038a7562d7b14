"""What users write: functions on tensors, modules, optimizers, gradients; and the tracing of it all."""
