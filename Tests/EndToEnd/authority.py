"""A certificate authority for one test run, and a certificate for localhost by it."""

import collections
import datetime
import ipaddress
import os

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Files = collections.namedtuple("Files", "authority certificate key")


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject, issuer, key, days=2):
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)


class Authority:
    """An authority that certifies any names."""

    def __init__(self, name="Latchkey test authority"):
        self.name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = (
            _builder(name, name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(
                x509.KeyUsage(
                    digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
                    key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
                ),
                critical=True,
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )  # fmt: skip

    def issue(self, folder, *names, days=2, alternatives=None):
        """Writes authority.pem, certificate.pem and key.pem (0600) into the folder; zero days make an expired one.

        It is for `names` and 127.0.0.1, or for `alternatives`, of whatever kind, with the first name as its subject.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = (
            _builder(names[0], self.name, key, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName(
                    alternatives
                    or [*map(x509.DNSName, names), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
                ),
                critical=False,
            )
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        folder.mkdir(exist_ok=True)
        files = Files(folder / "authority.pem", folder / "certificate.pem", folder / "key.pem")
        files.authority.write_bytes(_pem(self._certificate))
        files.certificate.write_bytes(_pem(leaf))
        descriptor = os.open(files.key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(
                key.private_bytes(
                    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
                )
            )
        return files


def issue(folder, host="localhost"):
    """A certificate by an authority of its own."""
    return Authority().issue(folder, host)
