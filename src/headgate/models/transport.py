"""What went wrong between us and a server, in one plain sentence: the library's own words help nobody."""

import errno
import socket
import ssl
from urllib.parse import urlsplit

import aiohttp

from headgate.errors import ModelError, ModelRefused
from headgate.models.base import Endpoint, is_hosted
from headgate.models.failures import ServerTrouble, show_address

CHECK_NETWORK = "check this machine's network connection"
_NO_WAY = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL}


def explain_transport(endpoint: Endpoint, error: Exception) -> ModelError:
    """The error for a request that got no answer at all."""
    server = show_address(endpoint)
    match error:
        case aiohttp.InvalidURL():
            return ModelRefused(f"{server} has no valid address: correct base_url.")
        case aiohttp.ClientConnectorCertificateError() | ssl.SSLCertVerificationError():
            correct = "" if is_hosted(endpoint) else "correct base_url, or "
            return ModelRefused(
                f"{server} has a certificate that is not trusted{_certificate_fault(error)}: "
                f"{correct}make this machine trust the certificate."
            )
        case aiohttp.ClientHttpProxyError() | aiohttp.ClientProxyConnectionError():
            return ServerTrouble(
                f"{server} cannot be reached through the proxy: check HTTP_PROXY and HTTPS_PROXY.",
                "unreachable",
            )
        case aiohttp.ClientConnectorDNSError():
            return _unknown_host(endpoint, error.os_error)
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            return ServerTrouble(
                f"{server} does not speak TLS: write http:// in base_url, or correct its port.", "unreachable"
            )
        case aiohttp.ClientConnectorError():
            return _no_connection(endpoint, error.os_error)
        case aiohttp.ClientResponseError():
            return ServerTrouble(
                f"What listens at {endpoint.root} does not speak HTTP: correct base_url.", "unreachable"
            )
    return ServerTrouble(f"{server} closed the connection before it answered.", "cut")


def _unknown_host(endpoint: Endpoint, error: OSError) -> ServerTrouble:
    host = urlsplit(endpoint.root).hostname
    if is_hosted(endpoint):
        return ServerTrouble(f'The host "{host}" cannot be found: {CHECK_NETWORK}.', "unreachable")
    if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
        return ServerTrouble(
            f'The host "{host}" cannot be looked up now: check the network, or correct base_url.',
            "unreachable",
        )
    return ServerTrouble(f'There is no host "{host}": correct base_url.', "unreachable")


def _no_connection(endpoint: Endpoint, error: OSError) -> ServerTrouble:
    if is_hosted(endpoint) and error.errno != errno.ECONNRESET:
        told = f"{show_address(endpoint)} cannot be reached: {CHECK_NETWORK}."
    elif error.errno == errno.ECONNREFUSED:
        told = f"Nothing listens at {endpoint.root}: start the model server or correct base_url."
    elif error.errno in _NO_WAY:
        told = f"{endpoint.root} cannot be reached from here: check the network, or correct base_url."
    elif error.errno == errno.ECONNRESET:
        return ServerTrouble(f"{show_address(endpoint)} closed the connection before it answered.", "cut")
    else:
        told = f"{show_address(endpoint)} cannot be reached: start it, or correct base_url."
    return ServerTrouble(told, "unreachable")


def _certificate_fault(error: Exception) -> str:
    inner = error.certificate_error if isinstance(error, aiohttp.ClientConnectorCertificateError) else error
    said = inner.verify_message if isinstance(inner, ssl.SSLCertVerificationError) else ""
    return f" ({said})" if said else ""
