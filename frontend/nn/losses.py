"""Losses as modules, by torch's names and arguments; each computes the function of `blu` that it is named after.

`reduction` is "mean", "sum" or "none" (all losses). Classes are the last dimension of logits, and weights of classes
are buffers: they have no gradient.
"""

from __future__ import annotations

from typing import Any

from blu.frontend.ctc import ctc_loss
from blu.frontend.functional import functional as ops
from blu.frontend.functional.losses.losses import check_reduction
from blu.frontend.nn.buffer import Buffer
from blu.frontend.nn.function_module import FunctionModule


class _Loss(FunctionModule):
    """A loss of x and a target."""

    def __init__(self, reduction: str = "mean"):
        check_reduction(reduction)
        self.reduction = reduction


def _kept(weight: Any) -> Any:
    return None if weight is None else Buffer(weight)


class MSELoss(_Loss):
    """(x - target)**2."""

    function = staticmethod(ops.mse_loss)


class L1Loss(_Loss):
    """|x - target|."""

    function = staticmethod(ops.l1_loss)


class HuberLoss(_Loss):
    """d**2 / 2 for d = |x - target| up to delta, delta * (d - delta / 2) above."""

    function = staticmethod(ops.huber_loss)

    def __init__(self, reduction: str = "mean", delta: float = 1.0):
        super().__init__(reduction)
        self.delta = delta


class SmoothL1Loss(_Loss):
    """The Huber loss with a delta of beta, divided by beta."""

    function = staticmethod(ops.smooth_l1_loss)

    def __init__(self, reduction: str = "mean", beta: float = 1.0):
        super().__init__(reduction)
        self.beta = beta


class CrossEntropyLoss(_Loss):
    """-log(softmax(x)[target]), of logits [..., V] and integer targets [...] or probabilities [..., V]."""

    function = staticmethod(ops.cross_entropy)

    def __init__(
        self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0
    ):
        super().__init__(reduction)
        self.weight = _kept(weight)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing


class NLLLoss(_Loss):
    """-x[target] of log-probabilities [..., V] and integer targets [...]."""

    function = staticmethod(ops.nll_loss)

    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"):
        super().__init__(reduction)
        self.weight = _kept(weight)
        self.ignore_index = ignore_index


class BCELoss(_Loss):
    """-(target * log(x) + (1 - target) * log(1 - x)) of probabilities."""

    function = staticmethod(ops.binary_cross_entropy)

    def __init__(self, weight: Any = None, reduction: str = "mean"):
        super().__init__(reduction)
        self.weight = _kept(weight)


class BCEWithLogitsLoss(_Loss):
    """The BCELoss of sigmoid(x), which it does not form."""

    function = staticmethod(ops.binary_cross_entropy_with_logits)

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None):
        super().__init__(reduction)
        self.weight, self.pos_weight = _kept(weight), _kept(pos_weight)


class KLDivLoss(_Loss):
    """target * (log(target) - x), of log-probabilities x."""

    function = staticmethod(ops.kl_div)

    def __init__(self, reduction: str = "mean", log_target: bool = False):
        super().__init__(reduction)
        self.log_target = log_target


class CTCLoss(_Loss):
    """The loss of sequences without an alignment: of log_probs [T, N, C], targets [N, S] and their lengths [N]."""

    function = staticmethod(ctc_loss)

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False):
        super().__init__(reduction)
        self.blank, self.zero_infinity = blank, zero_infinity


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target * x)) for targets 1 and -1."""

    function = staticmethod(ops.soft_margin_loss)


class MarginRankingLoss(_Loss):
    """max(0, margin - target * (x - y)), called with x, y and the target."""

    function = staticmethod(ops.margin_ranking_loss)

    def __init__(self, margin: float = 0.0, reduction: str = "mean"):
        super().__init__(reduction)
        self.margin = margin


class CosineEmbeddingLoss(MarginRankingLoss):
    """1 - cos(x, y) where the target is 1, max(0, cos(x, y) - margin) where it is -1."""

    function = staticmethod(ops.cosine_embedding_loss)


class HingeEmbeddingLoss(_Loss):
    """x where the target is 1, max(0, margin - x) where it is -1."""

    function = staticmethod(ops.hinge_embedding_loss)

    def __init__(self, margin: float = 1.0, reduction: str = "mean"):
        super().__init__(reduction)
        self.margin = margin


class TripletMarginLoss(_Loss):
    """max(0, |anchor - positive| - |anchor - negative| + margin), called with these three."""

    function = staticmethod(ops.triplet_margin_loss)

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: str = "mean"
    ):
        super().__init__(reduction)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap


class PoissonNLLLoss(_Loss):
    """exp(x) - target * x, of the logarithm x of a Poisson distribution's mean."""

    function = staticmethod(ops.poisson_nll_loss)

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"):
        super().__init__(reduction)
        self.log_input, self.full, self.eps = log_input, full, eps


class GaussianNLLLoss(_Loss):
    """(log(var) + (x - target)**2 / var) / 2, called with x, the target and var."""

    function = staticmethod(ops.gaussian_nll_loss)

    def __init__(self, full: bool = False, eps: float = 1e-6, reduction: str = "mean"):
        super().__init__(reduction)
        self.full, self.eps = full, eps
