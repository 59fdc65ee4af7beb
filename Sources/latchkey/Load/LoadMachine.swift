import Cryptography
import Glibc
import LatchkeyClient
import LatchkeyModel

/// What a load test runs on, and what it costs there.
enum LoadMachine {
  /// Processor, memory and kernel; what the kernel does not say is null.
  static func description() -> JSONValue {
    let model = line("/proc/cpuinfo", "model name").map { JSONValue.string($0) } ?? .null
    let memory = line("/proc/meminfo", "MemTotal").flatMap { Int64($0.prefix { $0.isNumber }) }
    return [
      "processors": .integer(Int64(sysconf(Int32(_SC_NPROCESSORS_ONLN)))),
      "model": model,
      "memory_kib": memory.map { .integer($0) } ?? .null,
      "kernel": text("/proc/sys/kernel/osrelease").map { .string(String($0.split(separator: "\n").first ?? "")) }
        ?? .null,
    ]
  }

  /// Processor seconds of this process and of the further ones that have ended.
  static func loadSeconds() -> Double {
    [RUSAGE_SELF, RUSAGE_CHILDREN].reduce(0) { sum, whose in
      var usage = rusage()
      // getrusage fills the struct and keeps nothing.
      guard unsafe getrusage(__rusage_who_t(whose.rawValue), &usage) == 0 else { return sum }
      return sum + seconds(usage.ru_utime) + seconds(usage.ru_stime)
    }
  }

  /// Processor seconds of the process that listens at `address`; nil when it runs elsewhere or is somebody else's.
  static func serverSeconds(_ address: ServiceAddress) -> Double? {
    guard let process = listener(address), let stat = text("/proc/\(process)/stat"), let end = stat.lastIndex(of: ")")
    else { return nil }
    // Fields 14 and 15 of proc(5): user and system time, in ticks.
    let fields = stat[stat.index(after: end)...].split(separator: " ")
    guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return nil }
    return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
  }

  /// The process that listens there, found by its socket: /proc/net/tcp says which, /proc/PID/fd who has it.
  private static func listener(_ address: ServiceAddress) -> String? {
    guard ["127.0.0.1", "localhost", "::1"].contains(address.host) else { return nil }
    let digits = String(address.port, radix: 16, uppercase: true)
    let port = ":" + String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    var links: Set<String> = []
    for path in ["/proc/net/tcp", "/proc/net/tcp6"] {
      for line in (text(path) ?? "").split(separator: "\n") {
        let fields = line.split(separator: " ")
        // 0A is LISTEN.
        if fields.count > 9, fields[1].hasSuffix(port), fields[3] == "0A" { links.insert("socket:[\(fields[9])]") }
      }
    }
    guard !links.isEmpty else { return nil }
    return entries("/proc").first { process in
      process.allSatisfy(\.isNumber)
        && entries("/proc/\(process)/fd").contains { links.contains(target("/proc/\(process)/fd/\($0)")) }
    }
  }

  private static func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }

  /// The value of the first line `name: value`.
  private static func line(_ path: String, _ name: String) -> String? {
    let line = text(path)?.split(separator: "\n").first { $0.hasPrefix(name) }
    return line?.split(separator: ":", maxSplits: 1).last.map { String($0.drop { $0.isWhitespace }) }
  }

  private static func text(_ path: String) -> String? {
    guard var file = try? InputFile(path), let bytes = try? file.contents() else { return nil }
    return String(decoding: bytes, as: UTF8.self)
  }

  private static func entries(_ path: String) -> [String] {
    // readdir's entry and its NUL-terminated name stay until the next call, and are copied before it.
    guard let directory = unsafe opendir(path) else { return [] }
    defer { unsafe closedir(directory) }
    var names: [String] = []
    while let entry = unsafe readdir(directory) {
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        unsafe pointer.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      if !name.hasPrefix(".") { names.append(name) }
    }
    return names
  }

  private static func target(_ path: String) -> String {
    var buffer = [UInt8](repeating: 0, count: 256)
    let count = unsafe buffer.withUnsafeMutableBytes { buffer in
      // readlink writes at most `count` bytes into the array.
      unsafe buffer.baseAddress.map { base in
        unsafe readlink(path, base.assumingMemoryBound(to: CChar.self), buffer.count)
      } ?? 0
    }
    return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : ""
  }
}
