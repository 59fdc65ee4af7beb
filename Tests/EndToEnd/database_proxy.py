"""Between a service and its PostgreSQL: passes everything on, until a test has it lose answers or fall silent."""

import contextlib
import socket
import threading

import services


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
            server = socket.create_connection(("127.0.0.1", self.target))
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.forward, args=(client, server), daemon=True).start()
            threading.Thread(target=self.copy, args=(server, client), daemon=True).start()

    def forward(self, client, server):
        """What the service says. The commit of a transaction is its own message, sent when everything before is answered."""
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if data == b"Q\x00\x00\x00\x0bCOMMIT\x00" and self.takes_commit():
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
