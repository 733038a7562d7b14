"""The pass that puts the policies of automatic mixed precision into ops."""

from __future__ import annotations

from collections.abc import Callable

from blu.dataclass import dataclass
from blu.dialects.core.autocast import ATTRIBUTE, GOVERNED, HALVES, POLICIES, check_policy
from blu.dialects.core.dialect import YIELD
from blu.dialects.core.dtypes import DType, as_dtype, f32
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import attributes_of
from blu.dialects.core.remat import emitting_in_place_of
from blu.dialects.ops.contraction import ROUNDING, rounded
from blu.dialects.ops.precision import ReducePrecision
from blu.dialects.tensor.tensor import Tensor
from blu.passes.framework.base import Pass, find

# Ops that only look at an operand in another order.
VIEWS = ("blu.transpose", "blu.reshape")
# Ops whose result is one of the numbers that they read: it is the same number in half.
_CHOOSING = ("blu.relu", "blu.max_pool")
# Gradients of what others give are read by the epilogues of products, which have them in f32.
NORMALIZATIONS = ("blu.layer_norm", "blu.rms_norm")
_ATTENTION_OPERANDS = 3  # query, key, value; a mask and an offset stay what they are


@dataclass(frozen=True)
class Autocast(Pass):
    """Contractions and attention of f32 get the precision that the policy says, and the roundings that it means.

        %1 = "blu.matmul"(%x, %w) {precision = "highest", blu.autocast = "bf16"}
        %2 = "blu.add"(%1, %bias)

    becomes

        %a = "blu.reduce_precision"(%x) {dtype = bf16, rounds_gradient = false}
        %b = "blu.reduce_precision"(%w) {dtype = bf16, rounds_gradient = false}
        %1 = "blu.matmul"(%a, %b) {precision = "bf16"}
        %2 = "blu.add"(%1, %bias)
        %3 = "blu.reduce_precision"(%2) {dtype = bf16, rounds_gradient = true}      (uses of %2 become uses of %3)

    All types stay f32, so parameters get f32 gradients. Results are rounded, after a bias, to be stored in half of the
    bytes, unless they are only added to something (a residual stream) or returned; so are the gradients of those.
    Attention takes its operands in the half dtype itself. What convolutions read is in half for all who read it, and so
    is what `standardize` gives: they go over memory often, and do little with it. GELU by erf between contractions is
    one of halves, whose tail needs no second half of an f32. `policy` is that of ops which `blu.autocast` has not
    marked.

    It runs before `differentiate`: that gradients are products of the same precision follows from the ops, and
    attention and einsum are still whole.
    """

    level = "blu"
    policy: str = ""

    def __post_init__(self) -> None:
        if self.policy:
            check_policy(self.policy)

    def run(self, module: ir.Module) -> None:
        for op in list(find(module, *(f"blu.{name}" for name in GOVERNED))):
            operation = op.operation
            policy = self._policy_of(operation)
            with ir.InsertionPoint(operation), emitting_in_place_of(operation):
                if operation.name == "blu.attention":
                    self._cast_attention(operation, policy)
                elif operation.name == "blu.standardize":
                    self._store_norm(operation, policy)
                else:
                    self._set_precision(operation, policy)
        for op in list(find(module, "blu.gelu")):
            if _is_exact(op.operation) and (half := _half_around(op.operation)) is not None:
                self._compute_in_half(op.operation, half)

    def _compute_in_half(self, operation: ir.Operation, half: DType) -> None:
        """Let an op take and give halves, which are computed in f32 but need not have its last bits."""
        operand, result = Tensor(operation.operands[0]), operation.results[0]
        with ir.InsertionPoint(operation), emitting_in_place_of(operation):
            operation.operands[0] = operand.astype(half).value
        result.set_type(Tensor(result).type.with_dtype(half).to_mlir())
        _replace_after(result, lambda: Tensor(result).astype(f32))
        self.count("activations cast")

    def _policy_of(self, operation: ir.Operation) -> str:
        """The op's own policy, or else the pass's; the mark goes."""
        if ATTRIBUTE not in operation.attributes:
            return self.policy
        policy = ir.StringAttr(operation.attributes[ATTRIBUTE]).value
        del operation.attributes[ATTRIBUTE]
        if policy not in POLICIES:
            self.fail(operation, f'{ATTRIBUTE} = "{policy}" is no policy', advice=f"One of {', '.join(POLICIES)}.")
        return policy

    def _set_precision(self, operation: ir.Operation, policy: str) -> None:
        precision = ir.StringAttr(operation.attributes["precision"]).value
        if policy and (precision == "highest" or policy == "f32"):
            precision = POLICIES[policy]
            operation.attributes["precision"] = ir.StringAttr.get(precision)
        if Tensor(operation.results[0]).dtype != f32:
            return
        if operation.name == "blu.convolution" and policy in HALVES:
            self._keep_half(operation.operands[0], as_dtype(policy))
        if precision in ROUNDING:
            for index in range(len(operation.operands)):
                _round_operand(operation, index, precision, policy)
        if policy in HALVES:
            _store_as(operation.results[0], as_dtype(policy))
            self.count("contractions cast")

    def _keep_half(self, data: ir.Value, half: DType) -> None:
        """Let all that read what a convolution does read it in half: between layers nothing else is stored."""
        while not isinstance(data.owner, ir.Block) and data.owner.name in _CHOOSING and Tensor(data).dtype == f32:
            operation = data.owner.operation
            data = operation.operands[0]
            self._compute_in_half(operation, half)
        _round_for_all(data, half)

    def _store_norm(self, operation: ir.Operation, policy: str) -> None:
        """What is standardized along rows is stored in half, as what it is made of is; so is its gradient."""
        result, operand = operation.results[0], operation.operands[0]
        if policy not in HALVES or Tensor(result).dtype != f32:
            return
        half = as_dtype(policy)
        if not isinstance(operand.owner, ir.Block) and _is_half(operand.owner.operation, half):
            self._compute_in_half(operation, half)
        else:
            _replace_after(result, lambda: ReducePrecision(Tensor(result), dtype=half, rounds_gradient=True))
        self.count("norms cast")

    def _cast_attention(self, operation: ir.Operation, policy: str) -> None:
        precision = {"tf32": "tf32", "f32": "highest"}.get(policy)
        if precision:
            operation.attributes["precision"] = ir.StringAttr.get(precision)
        if policy not in HALVES or Tensor(operation.results[0]).dtype != f32:
            return
        half = as_dtype(policy)
        for index, value in enumerate(list(operation.operands)[:_ATTENTION_OPERANDS]):
            operation.operands[index] = Tensor(value).astype(half).value
        result = operation.results[0]
        result.set_type(Tensor(result).type.with_dtype(half).to_mlir())
        _replace_after(result, lambda: Tensor(result).astype(f32))
        self.count("attentions cast")


def _is_exact(operation: ir.Operation) -> bool:
    return ir.StringAttr(operation.attributes["approximate"]).value == "erf"


def _half_around(operation: ir.Operation) -> DType | None:
    """The half dtype that what an op reads has been rounded to, and that all its readers round what it gives to."""
    around = [operation.operands[0].owner, *(use.owner for use in operation.results[0].uses)]
    if any(isinstance(item, ir.Block) or item.name != "blu.reduce_precision" for item in around):
        return None
    dtypes = {attributes_of(item.operation)["dtype"] for item in around}
    (dtype,) = dtypes if len(dtypes) == 1 else (None,)
    return dtype if dtype is not None and dtype.name in HALVES and len(around) > 1 else None


def _store_as(result: ir.Value, half: DType) -> None:
    """Round a contraction's result, or what it is after a bias, where it is worth storing in half of the bytes."""
    users = [use.owner.operation for use in result.uses]
    if len(users) == 1 and _adds_bias(users[0], result):
        result = users[0].results[0]
        users = [use.owner.operation for use in result.uses]
    if all(user.name in ("blu.add", "blu.subtract", "func.return", YIELD) for user in users):
        return
    _replace_after(result, lambda: ReducePrecision(Tensor(result), dtype=half, rounds_gradient=True))


def _round_for_all(value: ir.Value, half: DType) -> None:
    """Let all that read what an op gives read it rounded, unless they do."""
    if isinstance(value.owner, ir.Block) or _is_half(value.owner, half) or Tensor(value).dtype != f32:
        return
    _replace_after(value, lambda: ReducePrecision(Tensor(value), dtype=half, rounds_gradient=True))


def _is_half(operation: ir.Operation, half: DType) -> bool:
    """Whether an op gives halves, as f32."""
    is_wide = operation.name == "blu.convert" and Tensor(operation.operands[0]).dtype == half
    return is_wide or operation.name == "blu.reduce_precision"


def _adds_bias(operation: ir.Operation, result: ir.Value) -> bool:
    if operation.name != "blu.add":
        return False
    return any(Tensor(value).ndim < Tensor(result).ndim for value in operation.operands)


def _replace_after(value: ir.Value, emit_replacement: Callable[[], Tensor]) -> None:
    """Let all uses of a value use what is emitted right after it instead."""
    owner = value.owner.operation
    with ir.InsertionPoint.after(owner), emitting_in_place_of(owner):
        replacement = emit_replacement().value
    value.replace_all_uses_except(replacement, [replacement.owner.operation])


def _is_strided(operation: ir.Operation) -> bool:
    """Whether an op is a convolution that skips elements: its gradient is stored, with zeros between, and then read."""
    return operation.name == "blu.convolution" and max(attributes_of(operation)["strides"], default=1) > 1


def _round_operand(operation: ir.Operation, index: int, precision: str, policy: str) -> None:
    """Round an operand; where it is a view that nobody else uses, what is viewed."""
    value, stores = operation.operands[index], index == 0 and _is_strided(operation)
    while not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS and len(list(value.uses)) == 1:
        operation, index = value.owner.operation, 0
        value = operation.operands[0]
    is_normalized = not isinstance(value.owner, ir.Block) and value.owner.name in NORMALIZATIONS
    with ir.InsertionPoint(operation), emitting_in_place_of(operation):
        half = rounded(Tensor(value), precision, rounds_gradient=policy in HALVES and (is_normalized or stores))
        operation.operands[index] = half.value
