import Glibc
import Synchronization

/// A PostgreSQL of the test's own, of Debian's package, on a socket in a temporary folder. It ends with the test's process,
/// also with one that is killed, and goes with everything in it.
// Sendable: every stored variable is set in `init`; the stream is only closed, in `deinit`.
@safe package final class PostgreSQLServer: @unchecked Sendable {
  package struct Failure: Error {
    package var command: String
    package var status: Int32
  }

  /// For suites that each want a database: started by the first who asks.
  package static func shared() throws -> PostgreSQLServer {
    try sharedServer.withLock { server in
      if let server { return server }
      let started = try PostgreSQLServer()
      server = started
      return started
    }
  }

  private static let sharedServer = Mutex<PostgreSQLServer?>(nil)

  /// Where its socket, its data and its log are.
  package let folder: String
  /// The end that the watcher waits for: the system closes it with this process.
  private let watched: UnsafeMutablePointer<FILE>
  private let databases = Mutex(0)

  /// `settings` are lines of postgresql.conf, such as `max_connections = 5`.
  package init(_ settings: [String] = []) throws {
    folder = try TemporaryFolder.make("lkpg")
    // A statement that is not waited for on a disk is as good for what these tests claim.
    let lines =
      [
        "listen_addresses = ''", "unix_socket_directories = '\(folder)'", "fsync = off", "max_connections = 400",
        "shared_buffers = 64MB",
      ] + settings
    // The watcher is in a session of its own, so that what ends the tests' group does not end it first.
    let end = "cat >/dev/null; as pg_ctl -D \"\(folder)/data\" -m immediate stop; rm -rf \"\(folder)\""
    let watcher = "exec setsid sh -c '\(Self.find); \(end)'"
    // The text is copied; `e` keeps the stream from other children, which would hold it open.
    guard let stream = unsafe popen("(\(watcher)) >/dev/null 2>&1", "we") else {
      throw Failure(command: "popen", status: errno)
    }
    unsafe watched = stream
    try run("chmod 755 . && { [ \"$(id -u)\" != 0 ] || chown postgres . ; }")
    try run(Self.make)
    try run("cat >>data/postgresql.conf <<'END'\n\(lines.joined(separator: "\n"))\nEND")
    try start()
  }

  deinit {
    // Waits for the watcher, which ends the server.
    unsafe pclose(watched)
  }

  package func start() throws { try run("as pg_ctl -D \"$PWD/data\" -l \"$PWD/log\" -w -t 30 start") }

  /// Ends all of its processes as a power cut would.
  package func kill() throws { try run("as pg_ctl -D \"$PWD/data\" -m immediate -w stop") }

  /// Has it read its settings anew, with one more.
  package func set(_ setting: String) throws {
    try run("echo \"\(setting)\" >>data/postgresql.conf && as pg_ctl -D \"$PWD/data\" reload")
  }

  /// The URL of a new database.
  package func database() throws -> String {
    let number = databases.withLock { count in
      count += 1
      return count
    }
    try run("as createdb --strategy file_copy -h \"$PWD\" -U latchkey test\(number)")
    return "postgresql://latchkey@/test\(number)?host=\(folder)"
  }

  /// Runs SQL as whoever may do anything, in the database of `url`.
  package func run(sql: String, in url: String) throws {
    try run("as psql -q -v ON_ERROR_STOP=1 '\(url)' <<'END'\n\(sql)\nEND")
  }

  /// Its data, copied from what the first process that asked has made and kept in the build's folder: making them takes as
  /// long as starting a server several times. What is kept is whole, because it gets its name at the end.
  private static let make = """
    made="$OLDPWD/.build/postgresql-$(initdb --version | cut -d" " -f3)-$(id -u)"; \
    if [ -d "$made" ]; then cp -a "$made" data; else \
      as initdb -D "$PWD/data" -A trust -U latchkey -E UTF8 --locale=C -N && \
      { { cp -a data "$made.$$" && sync -f "$made.$$" && mv -T "$made.$$" "$made"; } || rm -rf "$made.$$"; }; \
    fi
    """

  /// `as COMMAND` runs it as a user whom PostgreSQL takes: it refuses root.
  private static let find = """
    PATH=$(ls -d /usr/lib/postgresql/*/bin | tail -1):$PATH; \
    as() { if [ "$(id -u)" = 0 ]; then setpriv --reuid postgres --regid postgres --init-groups -- "$@"; else "$@"; fi; }
    """

  private func run(_ command: String) throws {
    // The command is made of the test's own constants.
    let status = unsafe system("cd '\(folder)' && { \(Self.find); \(command)\n} >>commands 2>&1 </dev/null")
    guard status == 0 else { throw Failure(command: command, status: status) }
  }
}
