"""TLS with and without client certificates."""

import os

from labkit.servers import Quietus
from labkit.suite import MIB, Failure, Skip, expect, suite

from .libnbd_tools import comes_back

_SUBJECT = "/CN=localhost"


def _authority(stage, directory):
    stage.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=lab",
              "-addext", "keyUsage=critical,keyCertSign,cRLSign",
              "-keyout", f"{directory}/ca-key.pem", "-out", f"{directory}/ca-cert.pem")


def _certificate(stage, directory, who, extra):
    stage.run("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", _SUBJECT,
              "-keyout", f"{directory}/{who}-key.pem", "-out", f"{directory}/{who}.csr")
    extensions = os.path.join(directory, f"{who}.ext")
    with open(extensions, "w") as file:
        file.write("basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost\n" + extra)
    stage.run("openssl", "x509", "-req", "-in", f"{directory}/{who}.csr", "-days", "2", "-extfile", extensions,
              "-CA", f"{directory}/ca-cert.pem", "-CAkey", f"{directory}/ca-key.pem", "-CAcreateserial",
              "-out", f"{directory}/{who}-cert.pem")


def _certificates(stage):
    directory = stage.work.directory("pki")
    _authority(stage, directory)
    _certificate(stage, directory, "server", "extendedKeyUsage=serverAuth\n")
    _certificate(stage, directory, "client", "extendedKeyUsage=clientAuth\n")
    return directory


def _serve(stage, directory):
    if stage.kind != Quietus.kind:
        raise Skip(f"not set up for {stage.kind}")
    return stage.serve(64 * MIB, serve_options=[
        "--tls-cert", f"{directory}/server-cert.pem", "--tls-key", f"{directory}/server-key.pem",
        "--tls-client-ca", f"{directory}/ca-cert.pem"])


def _secure(server, directory):
    return (f"nbds+unix://localhost/?socket={server.socket}"
            f"&tls-certificates={directory}&tls-hostname=localhost")


@suite("TLS: copies over nbds, clients without a certificate refused", needs=["openssl", "nbdcopy"])
def client_certificates(stage):
    directory = _certificates(stage)
    server = _serve(stage, directory)
    comes_back(stage, _secure(server, directory))
    _refused(stage, server.uri, "a client without TLS")
    stranger = stage.work.directory("stranger")
    os.symlink(f"{directory}/ca-cert.pem", f"{stranger}/ca-cert.pem")
    _refused(stage, _secure(server, stranger), "a client without a certificate")


def _refused(stage, uri, who):
    try:
        stage.run("nbdinfo", uri)
    except Failure:
        return
    expect(f"{who} is refused", False)
