"""A pass of a user's, in one file: it makes the floating-point constants of a program twice as large.

blu-compile model.py::f --load-pass double_constants.py --dump-ir ir/
"""

from dataclasses import dataclass

from blu import Pass, register_pass
from blu.dialects.core.constants import decode, encode
from blu.passes.framework.base import find


@register_pass(after="blu-decompose")
@dataclass(frozen=True)
class DoubleConstants(Pass):
    """Floating-point constants become `factor` times as large.

    %0 = "blu.constant"() {value = dense<3.0>}        ->        %0 = "blu.constant"() {value = dense<6.0>}
    """

    level = "blu"
    factor: float = 2.0

    def run(self, module):
        for constant in find(module, "blu.constant"):
            value = decode(constant.attributes["value"])
            if value.dtype.kind == "f":
                constant.attributes["value"] = encode((value * self.factor).astype(value.dtype))
                self.count("constants")
