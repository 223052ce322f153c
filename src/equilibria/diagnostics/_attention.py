"""Attention that can be differentiated twice."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode


@contextmanager
def twice_differentiable_attention() -> Iterator[None]:
    """Use the kernel that can be differentiated twice, with results in the memory layout of the fused kernels.

    Models view the result, (batch, heads, length, width), as (batch, length, heads * width), which only works in that
    layout.
    """
    with sdpa_kernel(SDPBackend.MATH), _FusedLayout():
        yield


class _FusedLayout(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func is scaled_dot_product_attention and found.ndim > 3:
            return found.transpose(-3, -2).contiguous().transpose(-3, -2)
        return found
