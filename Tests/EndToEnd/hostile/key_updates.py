"""A TLS client that changes its keys at will, which Python's own cannot: by way of OpenSSL's library."""

import ctypes
import ctypes.util
import socket

KEY_UPDATE_NOT_REQUESTED, KEY_UPDATE_REQUESTED = 0, 1

_library = ctypes.CDLL("libssl.so.3")
_library.TLS_client_method.restype = ctypes.c_void_p
_library.SSL_CTX_new.restype = ctypes.c_void_p
_library.SSL_CTX_new.argtypes = [ctypes.c_void_p]
_library.SSL_CTX_free.argtypes = [ctypes.c_void_p]
_library.SSL_new.restype = ctypes.c_void_p
_library.SSL_new.argtypes = [ctypes.c_void_p]
_library.SSL_free.argtypes = [ctypes.c_void_p]
_library.SSL_set_fd.argtypes = [ctypes.c_void_p, ctypes.c_int]
_library.SSL_set_alpn_protos.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint]
_library.SSL_connect.argtypes = [ctypes.c_void_p]
_library.SSL_do_handshake.argtypes = [ctypes.c_void_p]
_library.SSL_key_update.argtypes = [ctypes.c_void_p, ctypes.c_int]
_library.SSL_read.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
_library.SSL_write.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]


class Client:
    """Connected, with HTTP/2 agreed. Trusts any certificate: it has nothing to lose."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        # The library waits by itself.
        self.socket.settimeout(None)
        self.context = _library.SSL_CTX_new(_library.TLS_client_method())
        self.session = _library.SSL_new(self.context)
        _library.SSL_set_fd(self.session, self.socket.fileno())
        _library.SSL_set_alpn_protos(self.session, b"\2h2", 3)
        assert _library.SSL_connect(self.session) == 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _library.SSL_free(self.session)
        _library.SSL_CTX_free(self.context)
        self.socket.close()

    def update(self, count, asks):
        """Changes its keys so often, asking the server to do the same or not: how often until it was cut off."""
        for index in range(count):
            kind = KEY_UPDATE_REQUESTED if asks else KEY_UPDATE_NOT_REQUESTED
            if _library.SSL_key_update(self.session, kind) != 1 or _library.SSL_do_handshake(self.session) != 1:
                return index
        return count

    def send(self, sent):
        assert _library.SSL_write(self.session, sent, len(sent)) == len(sent)

    def receives(self, awaited):
        """Whether these bytes come before the end."""
        received = b""
        some = ctypes.create_string_buffer(65536)
        while awaited not in received:
            count = _library.SSL_read(self.session, some, len(some))
            if count <= 0:
                return False
            received += some.raw[:count]
        return True
