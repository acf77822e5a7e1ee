"""Verify tokens of an IronAuth server, offline or by introspection, in sync and async code."""

from ironauth_client.client import AsyncClient, Client
from ironauth_client.config import Config
from ironauth_client.dpop import MemoryReplayStore, ReplayStore
from ironauth_client.errors import (
    InsufficientScope,
    InvalidProof,
    InvalidToken,
    IronAuthError,
    ProviderUnavailable,
)
from ironauth_client.presented import Presented
from ironauth_client.tokens import Claims

__all__ = [
    "AsyncClient",
    "Claims",
    "Client",
    "Config",
    "InsufficientScope",
    "InvalidProof",
    "InvalidToken",
    "IronAuthError",
    "MemoryReplayStore",
    "Presented",
    "ProviderUnavailable",
    "ReplayStore",
]
