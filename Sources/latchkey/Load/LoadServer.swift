import Glibc
import LatchkeyClient

/// The service that a load test asks, where it runs on this machine and the kernel lets us see it.
struct LoadServer {
  private let process: String
  /// The ports on which it listens.
  private let ports: [Int]

  /// Nil when the service runs elsewhere or is somebody else's.
  init?(_ address: ServiceAddress) {
    guard ["127.0.0.1", "localhost", "::1"].contains(address.host) else { return nil }
    let listening = Self.listening()
    let wanted = Set(listening.filter { $0.port == address.port }.map(\.link))
    guard !wanted.isEmpty else { return nil }
    for process in LoadMachine.entries("/proc") where process.allSatisfy(\.isNumber) {
      let links = Set(
        LoadMachine.entries("/proc/\(process)/fd").map { LoadMachine.target("/proc/\(process)/fd/\($0)") })
      guard !links.isDisjoint(with: wanted) else { continue }
      self.process = process
      ports = listening.filter { links.contains($0.link) && $0.port != address.port }.map(\.port)
      return
    }
    return nil
  }

  /// Processor seconds that it has used.
  var seconds: Double? {
    guard let stat = LoadMachine.text("/proc/\(process)/stat"), let end = stat.lastIndex(of: ")") else { return nil }
    // Fields 14 and 15 of proc(5): user and system time, in ticks.
    let fields = stat[stat.index(after: end)...].split(separator: " ")
    guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return nil }
    return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
  }

  /// As the metrics of its management port say.
  var version: String? {
    for port in ports {
      guard let metrics = Self.get("/metrics", port: port),
        let line = metrics.split(separator: "\n").first(where: { $0.hasPrefix("latchkey_build_info{") }),
        let label = line.firstRange(of: "version=\"")
      else { continue }
      return String(line[label.upperBound...].prefix { $0 != "\"" })
    }
    return nil
  }

  /// The sockets of this machine that listen: the port, and the link that a process has to the socket.
  private static func listening() -> [(port: Int, link: String)] {
    var found: [(port: Int, link: String)] = []
    for path in ["/proc/net/tcp", "/proc/net/tcp6"] {
      for line in (LoadMachine.text(path) ?? "").split(separator: "\n") {
        let fields = line.split(separator: " ")
        // 0A is LISTEN.
        guard fields.count > 9, fields[3] == "0A", let digits = fields[1].split(separator: ":").last,
          let port = Int(digits, radix: 16)
        else { continue }
        found.append((port, "socket:[\(fields[9])]"))
      }
    }
    return found
  }

  /// What a page of this machine holds; nil when nobody answers within a second. Blocks.
  private static func get(_ path: String, port: Int) -> String? {
    let file = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var patience = timeval(tv_sec: 1, tv_usec: 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(port).bigEndian
    address.sin_addr.s_addr = in_addr_t(INADDR_LOOPBACK).bigEndian
    let request = Array("GET \(path) HTTP/1.0\r\nHost: localhost\r\n\r\n".utf8)
    // Each call reads or fills the one value whose address and size it is given, and keeps nothing.
    let isSent =
      unsafe setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size)) == 0
      && withUnsafeBytes(of: &address) { bytes in
        unsafe connect(file, bytes.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t(bytes.count)) == 0
      } && request.withUnsafeBytes { bytes in unsafe write(file, bytes.baseAddress, bytes.count) == bytes.count }
    guard isSent else { return nil }
    var answer: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 64 * 1024)
    while answer.count < 4 << 20 {
      // read writes at most `count` bytes into the array.
      let count = unsafe chunk.withUnsafeMutableBytes { chunk in unsafe read(file, chunk.baseAddress, chunk.count) }
      guard count > 0 else { break }
      answer += chunk[..<count]
    }
    return String(decoding: answer, as: UTF8.self)
  }
}
