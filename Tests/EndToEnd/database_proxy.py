"""Between a service and its PostgreSQL: passes everything on, until a test has it lose answers or fall silent."""

import contextlib
import socket
import threading

import services


class Asked:
    """What one connection is asked, as its messages say it: https://www.postgresql.org/docs/15/protocol-message-formats.html"""

    CHANGES = ("INSERT", "UPDATE", "DELETE", "WITH")

    def __init__(self):
        self.rest = b""
        self.is_begun = self.is_in_transaction = False
        self.prepared = {}

    def commits(self, data):
        """Whether something is committed by what came: a transaction, or a change that is one by itself."""
        self.rest += data
        return any([self.commits_by(kind, body) for kind, body in self.messages()])

    def messages(self):
        while True:
            kind = self.rest[:1] if self.is_begun else b""
            length = int.from_bytes(self.rest[len(kind) : len(kind) + 4], "big")
            if len(self.rest) < len(kind) + 4 or len(self.rest) < len(kind) + length:
                return
            body, self.rest = self.rest[len(kind) + 4 : len(kind) + length], self.rest[len(kind) + length :]
            # Who asks for encryption first begins after that.
            self.is_begun = self.is_begun or body[:2] == b"\x00\x03"
            if kind:
                yield kind, body

    def commits_by(self, kind, body):
        if kind == b"P":
            name, statement = body.split(b"\0")[:2]
            self.prepared[name] = statement.decode().split()[0]
        if kind != b"B":
            return False
        word = self.prepared.get(body.split(b"\0")[1], "")
        was_in_transaction = self.is_in_transaction
        if word in ("BEGIN", "COMMIT", "ROLLBACK"):
            self.is_in_transaction = word == "BEGIN"
        return word == "COMMIT" or (word in self.CHANGES and not was_in_transaction)


class DatabaseProxy:
    def __init__(self, port):
        self.target = port
        self.commits_to_lose = 0
        # How many go through before.
        self.commits_to_pass = 0
        self.lost = 0
        # Whether the database gets a commit whose answer is lost: then it happens, and otherwise it does not.
        self.delivers_lost = True
        self.open = threading.Event()
        self.open.set()
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", services.free_port()))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                # The database is away.
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.forward, args=(client, server), daemon=True).start()
            threading.Thread(target=self.copy, args=(server, client), daemon=True).start()

    def forward(self, client, server):
        """What the service says. The commit of a transaction comes with what was not waited for, in one piece."""
        asked = Asked()
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if asked.commits(data) and self.takes_commit():
                    # Its answer goes nowhere, whether there was one or not.
                    client.shutdown(socket.SHUT_RDWR)
                    if not self.delivers_lost:
                        break
                    server.sendall(data)
                    continue
                self.open.wait()
                server.sendall(data)
        self.end(client, server)

    def takes_commit(self):
        with self.lock:
            if self.commits_to_lose == 0:
                return False
            if self.commits_to_pass > 0:
                self.commits_to_pass -= 1
                return False
            self.commits_to_lose -= 1
            self.lost += 1
            return True

    def copy(self, server, client):
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                self.open.wait()
                client.sendall(data)
        self.end(client, server)

    @staticmethod
    def end(*ends):
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def stop(self):
        self.open.set()
        self.listener.close()
