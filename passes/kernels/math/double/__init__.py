"""Math functions in f64 as arith operations, for targets without a C library; good to about one unit in the last place.

What f32 functions gain by computing in f64, these gain by computing in pairs (pair.py). They need fused multiply-add.
"""
