"""HTTP(S) to servers outside the lab, through the proxies that the environment names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import urllib3  # noqa: TID251 - this is the door

    Response = urllib3.BaseHTTPResponse


def get(url: str, timeout: float, env: Mapping[str, str], more: Mapping[str, str] = MappingProxyType({})) -> Response:
    """Send one GET, without retries and redirects, and return the response with its body unread.

    Uses the proxy that ``env`` names for the address (https_proxy, http_proxy, no_proxy), and the credentials in both
    addresses. ``timeout`` is in seconds, to connect and between two reads; ``more`` are further headers. Raises
    urllib3.exceptions.HTTPError.
    """
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # noqa: TID251 - reads no_proxy, opens nothing

    import urllib3  # noqa: TID251 - this is the door

    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    proxy = env.get(f"{parts.scheme}_proxy") or env.get(f"{parts.scheme.upper()}_PROXY") or ""
    no_proxy = {"no": env.get("no_proxy") or env.get("NO_PROXY") or ""}
    pool = urllib3.PoolManager()
    if proxy and not proxy_bypass_environment(host, no_proxy):
        address = proxy if "://" in proxy else f"http://{proxy}"
        pool = urllib3.ProxyManager(address, proxy_headers=urllib3.make_headers(proxy_basic_auth=_credentials(address)))
    headers = {"User-Agent": "kailab", **urllib3.make_headers(basic_auth=_credentials(url)), **more}
    bare = parts._replace(netloc=host).geturl()
    return pool.request(
        "GET", bare, headers=headers, timeout=timeout, retries=False, redirect=False, preload_content=False
    )


def reason(error: BaseException) -> str:
    """The innermost cause of an error, such as 'Connection refused', without the layers that wrap it."""
    inner: BaseException = error
    while (deeper := inner.__cause__ or inner.__context__) is not None:
        inner = deeper
    if isinstance(inner, ValueError) and not isinstance(inner, OSError):  # http.client: a truncated chunk length
        return "the connection was cut"
    text = inner.strerror if isinstance(inner, OSError) else ""
    return text or " ".join(str(inner).split()) or type(inner).__name__


def _credentials(url: str) -> str | None:
    parts = urlsplit(url)
    return f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
