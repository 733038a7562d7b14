"""What public functions are of complex numbers: functions of their real and imaginary parts.

Importing a module here puts its functions into `COMPLEX_RULES`.
"""
