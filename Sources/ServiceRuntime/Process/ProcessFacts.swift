internal import Glibc

/// Reads /proc/self (proc(5)); nil where the kernel does not say.
enum ProcessFacts {
  static func cpuSeconds() -> Double? {
    var usage = rusage()
    // getrusage fills the struct and keeps nothing.
    guard unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 else { return nil }
    return seconds(usage.ru_utime) + seconds(usage.ru_stime)
  }

  private static func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }

  /// Field 0 of statm is what is reserved, field 1 what is resident, in pages.
  static func memory(field: Int) -> Double? {
    guard let text = text("/proc/self/statm") else { return nil }
    let fields = text.split(separator: " ")
    guard field < fields.count, let pages = Double(fields[field]) else { return nil }
    return pages * Double(sysconf(Int32(_SC_PAGESIZE)))
  }

  /// The boot's time and field 22 of stat, the ticks from there to the start.
  static func startTime() -> Double? {
    guard let stat = text("/proc/self/stat"), let end = stat.lastIndex(of: ")") else { return nil }
    let fields = stat[stat.index(after: end)...].split(separator: " ")
    guard fields.count > 19, let ticks = Double(fields[19]), let boot = bootTime() else { return nil }
    return boot + ticks / Double(sysconf(Int32(_SC_CLK_TCK)))
  }

  private static func bootTime() -> Double? {
    let line = text("/proc/stat")?.split(separator: "\n").first { $0.hasPrefix("btime ") }
    return line.flatMap { Double($0.dropFirst("btime ".count)) }
  }

  /// Since Linux 6.2 the directory's size is their number; before, they are counted.
  static func openFiles() -> Double? {
    var status = stat()
    // stat fills the struct; the path lives as a NUL-terminated copy for the length of the call.
    if unsafe stat("/proc/self/fd", &status) == 0, status.st_size > 0 { return Double(status.st_size) }
    guard let directory = unsafe opendir("/proc/self/fd") else { return nil }
    defer { unsafe closedir(directory) }
    // "." and ".." are none, and neither is the directory itself.
    var count = -3
    while unsafe readdir(directory) != nil { count += 1 }
    return Double(count)
  }

  static func openFileLimit() -> Double? {
    var limit = rlimit()
    // getrlimit fills the struct and keeps nothing.
    guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return nil }
    return Double(limit.rlim_cur)
  }

  private static func text(_ path: String) -> String? {
    // The path lives as a NUL-terminated copy for the length of the call.
    let file = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var buffer = [UInt8](repeating: 0, count: 64 * 1024)
    let count = unsafe buffer.withUnsafeMutableBytes { buffer in
      // read writes at most `count` bytes into the array.
      unsafe read(file, buffer.baseAddress, buffer.count)
    }
    return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : nil
  }

  /// The cores that the process is bound to (`taskset`, systemd's `CPUAffinity`).
  static func cores() -> Int? {
    let name = "Cpus_allowed:"
    // A mask in hexadecimal digits, with a comma after each eight.
    guard let line = text("/proc/self/status")?.split(separator: "\n").first(where: { $0.hasPrefix(name) }) else {
      return nil
    }
    let count = line.dropFirst(name.count).reduce(0) { $0 + ($1.hexDigitValue ?? 0).nonzeroBitCount }
    return count > 0 ? count : nil
  }
}
