import Cryptography
import Glibc
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

  private static func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }

  /// The value of the first line `name: value`.
  private static func line(_ path: String, _ name: String) -> String? {
    let line = text(path)?.split(separator: "\n").first { $0.hasPrefix(name) }
    return line?.split(separator: ":", maxSplits: 1).last.map { String($0.drop { $0.isWhitespace }) }
  }

  static func text(_ path: String) -> String? {
    guard var file = try? InputFile(path), let bytes = try? file.contents() else { return nil }
    return String(decoding: bytes, as: UTF8.self)
  }

  static func entries(_ path: String) -> [String] {
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

  static func target(_ path: String) -> String {
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
