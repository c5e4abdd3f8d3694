"""HTTP(S) to servers outside the lab: the environment's proxies, and reasons in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import urllib3  # noqa: TID251 - this is the door


def get(url: str, timeout: float, env: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
    """One GET, without retries and redirects; the body is still to be read.

    Uses the proxy that ``env`` names for the address (https_proxy, http_proxy, no_proxy), and user and password
    of the address and of the proxy.

    Args:
        url: the address.
        timeout: seconds to connect, and between two reads.
        env: the environment.

    Raises:
        urllib3.exceptions.HTTPError: the server cannot be reached.
    """
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # noqa: TID251 - reads no_proxy, opens nothing

    import urllib3  # noqa: TID251 - this is the door

    parts = urlsplit(url)
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    proxy = env.get(f"{parts.scheme}_proxy") or env.get(f"{parts.scheme.upper()}_PROXY") or ""
    spared = {"no": env.get("no_proxy") or env.get("NO_PROXY") or ""}
    pool = urllib3.PoolManager()
    if proxy and not proxy_bypass_environment(parts.netloc.rpartition("@")[2], spared):
        address = proxy if "://" in proxy else f"http://{proxy}"
        pool = urllib3.ProxyManager(address, proxy_headers=urllib3.make_headers(proxy_basic_auth=_credentials(address)))
    headers = {"User-Agent": "kailab", **urllib3.make_headers(basic_auth=_credentials(url))}
    return pool.request(
        "GET", bare, headers=headers, timeout=timeout, retries=False, redirect=False, preload_content=False
    )


def reason(error: BaseException) -> str:
    """The innermost cause in plain words: 'Connection refused' rather than three layers of wrapping."""
    inner: BaseException = error
    while (deeper := inner.__cause__ or inner.__context__) is not None:
        inner = deeper
    if isinstance(inner, OSError):
        return inner.strerror or " ".join(str(inner).split()) or type(inner).__name__
    if isinstance(inner, ValueError):  # the length of a chunk that never came
        return "the connection was cut"
    return " ".join(str(inner).split()) or type(inner).__name__


def _credentials(url: str) -> str | None:
    parts = urlsplit(url)
    return f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
