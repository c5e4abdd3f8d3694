"""HTTP to one API server; the only importer of ``kubernetes``; ``in_cluster`` does without it.

The client library loads the kubeconfig (certificates, tokens, exec plugins) and opens the connections, except those of
``certificates``. Its typed models are not used: for CRDs in several versions plain JSON is simpler.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from lab.errors import ApiFailed
from lab.kube.certificates import plain_pool
from lab.kube.transport import ExecOutcome, Reply, TransportError
from lab.tools.http import reason

CONNECT_SECONDS = 5.0
USER_AGENT = "kailab"

# The library caches temporary files with credentials in a module-level dict without a lock.
_loading = threading.Lock()


def _configuration(kubeconfig: Path, context: str | None) -> Any:
    """A Configuration of this file and context; the library's global default stays unchanged."""
    from kubernetes import config  # noqa: TID251 - this is the door
    from kubernetes.client import Configuration  # noqa: TID251 - this is the door

    untyped: Any = config
    configuration = Configuration()
    configuration.proxy = ""  # that of the environment follows below; kubernetes before 37 takes no such argument
    try:
        with _loading:
            untyped.load_kube_config(
                config_file=str(kubeconfig), context=context, client_configuration=configuration, persist_config=False
            )
    except Exception as error:
        # The loader passes exceptions through: ConfigException, YAMLError, KeyError, OSError, …
        what = f"kubeconfig {kubeconfig}" + (f", context {context}," if context else "")
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ApiFailed(f"{what} is invalid: {reason}", fix="check the file and the names of its contexts") from error
    configuration.proxy = configuration.proxy or _proxy_url(kubeconfig, context)
    configuration.retries = False  # rest.py decides which requests to repeat
    configuration.keep_alive = True
    configuration.connection_pool_maxsize = 64
    if not configuration.proxy and not _is_local(configuration.host):
        configuration.proxy = Configuration(host=configuration.host).proxy
    elif not configuration.proxy:
        # Without a proxy websocket-client reads one from the environment, and it respects no_proxy only together with
        # a proxy: so set any proxy, and exclude this server from it.
        configuration.proxy = configuration.host
        configuration.no_proxy = urlsplit(configuration.host).hostname
    return configuration


def _proxy_url(kubeconfig: Path, context: str | None) -> str:
    """The ``proxy-url`` of a context's cluster in a valid kubeconfig, which the library ignores before 37; or empty."""
    import yaml  # the image of kailab watch, which needs no kubeconfig, has none

    document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    name = context or document.get("current-context")
    cluster = next(one["context"]["cluster"] for one in document["contexts"] if one["name"] == name)
    found = next(one["cluster"] for one in document["clusters"] if one["name"] == cluster)
    return str(found.get("proxy-url", ""))


def _is_local(server: str) -> bool:
    """Whether this server is on this machine or a container network, where the environment's proxy does not apply.

    A ``proxy-url`` in the kubeconfig always applies.
    """
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


class HttpTransport:
    """HTTP to a server through a connection pool of urllib3; ``_credentials`` are the headers of each request."""

    def __init__(self, server: str, pool: Any) -> None:
        self.server = server
        self._pool = pool

    def send(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None, content_type: str, timeout: float
    ) -> Reply:
        import urllib3  # noqa: TID251 - this is the door

        headers = {"Accept": "application/json, */*", "User-Agent": USER_AGENT, **self._credentials()}
        if body is not None:
            headers["Content-Type"] = content_type
        url = self.server + path + (f"?{urlencode(query)}" if query else "")
        limits = urllib3.Timeout(connect=min(CONNECT_SECONDS, timeout), read=timeout)
        with _translated():
            response = self._pool.request(
                method, url, body=body, headers=headers, timeout=limits, preload_content=False, redirect=False
            )
        return _Reply(response)

    def close(self) -> None:
        self._pool.clear()

    def _credentials(self) -> dict[str, str]:
        return {}


class KubeTransport(HttpTransport):
    """HTTP through the connection pool of the Kubernetes client library. Raises ApiFailed for an invalid kubeconfig."""

    def __init__(self, kubeconfig: Path, context: str | None) -> None:
        self._source = kubeconfig, context
        plain = plain_pool(kubeconfig, context)
        if plain is not None and _is_local(plain[0]):
            self._with_token = False
            super().__init__(*plain)
            return
        from kubernetes.client.rest import RESTClientObject  # noqa: TID251 - this is the door

        self._with_token = True
        super().__init__(str(self._config.host), RESTClientObject(self._config).pool_manager)

    @functools.cached_property
    def _config(self) -> Any:
        return _configuration(*self._source)

    def exec(
        self, path: str, query: Sequence[tuple[str, str]], timeout: float, cancelled: Callable[[], bool]
    ) -> ExecOutcome:
        from kubernetes.stream import ws_client  # noqa: TID251 - this is the door
        from websocket import WebSocketBadStatusException, WebSocketConnectionClosedException, WebSocketException

        untyped: Any = ws_client
        url = untyped.get_websocket_url(self.server + path, query)
        deadline = time.monotonic() + timeout
        try:
            socket = untyped.WSClient(self._config, url, self._credentials(), capture_all=False, binary=True)
            try:
                with contextlib.suppress(WebSocketConnectionClosedException):
                    while socket.is_open():
                        if cancelled() or time.monotonic() > deadline:
                            raise TimeoutError
                        socket.update(timeout=0.25)
            finally:
                socket.close()
            out, err, status = (socket.read_channel(channel) for channel in (1, 2, 3))
        except WebSocketBadStatusException as error:
            raise ApiFailed(_status_message(error.resp_body), status=error.status_code) from error
        except TimeoutError:
            raise
        except (WebSocketException, OSError) as error:
            raise TransportError(reason(error)) from error
        return ExecOutcome(_text(out), _text(err), json.loads(status) if status else None)

    def _credentials(self) -> dict[str, str]:
        """The authorization header, read for each request because tokens of exec plugins expire."""
        if not self._with_token:
            return {}
        token = self._config.auth_settings().get("BearerToken", {}).get("value")
        return {"authorization": token} if token else {}


class _Reply:
    def __init__(self, response: Any) -> None:
        self._response = response

    @property
    def status(self) -> int:
        return int(self._response.status)

    def read(self) -> bytes:
        with _translated():
            return bytes(self._response.data)

    def lines(self) -> Iterator[bytes]:
        rest = b""
        with _translated():
            for chunk in self._response.stream(amt=None, decode_content=True):
                *complete, rest = (rest + chunk).split(b"\n")
                yield from complete
        if rest:
            yield rest

    def shutdown(self) -> None:
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # already closed
            self._response.shutdown()

    def close(self) -> None:
        self._response.close()


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Raise the library's connection errors as TransportError."""
    from urllib3 import exceptions as http  # noqa: TID251 - this is the door

    try:
        yield
    except http.SSLError as error:
        text = reason(error)
        untrusted = any(sign in text.upper() for sign in ("CERTIFICATE", "UNKNOWN_CA"))
        raise TransportError(text, tls=untrusted) from error
    except (http.NewConnectionError, http.ConnectTimeoutError) as error:
        raise TransportError(reason(error), unsent=True) from error
    except http.ReadTimeoutError as error:
        raise TransportError("no answer within the timeout") from error
    except (http.HTTPError, OSError) as error:
        raise TransportError(reason(error)) from error


def _status_message(body: object) -> str:
    """The message of a Status object, or the body itself."""
    text = _text(body) if isinstance(body, bytes) else str(body or "")
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip() or "no reason given"


def _text(raw: bytes | str) -> str:
    return raw.decode(errors="replace") if isinstance(raw, bytes) else raw
