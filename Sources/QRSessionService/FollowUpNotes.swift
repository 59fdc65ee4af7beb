import Glibc
import LatchkeyModel

/// The sessions of ``FollowUps``, a line each in a file of the data directory.
///
/// A note is written before the answer and not synchronised: it takes a few microseconds, which no answer's time tells of,
/// and outlives the process, though not the machine. A disk that takes no notes keeps nobody waiting: then what waits is
/// lost with the process.
final class FollowUpNotes: Sendable {
  private let file: CInt
  /// What an earlier process noted.
  let left: [QRSessionID]

  /// Nil when there can be no such file.
  init?(path: String) {
    // The path is passed as a NUL-terminated copy, which lives as long as the call.
    let file = unsafe open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard file >= 0 else { return nil }
    self.file = file
    var bytes = [UInt8](repeating: 0, count: Limits.followUpNoteBytes)
    // Writes at most the array's bytes.
    let count = unsafe bytes.withUnsafeMutableBytes { unsafe read(file, $0.baseAddress, $0.count) }
    let lines = bytes.prefix(max(count, 0)).split(separator: UInt8(ascii: "\n"))
    // A line that was cut off is nobody's.
    left = Array(Set(lines.compactMap { QRSessionID(text: String(decoding: $0, as: UTF8.self)) }))
  }

  deinit {
    close(file)
  }

  func add(_ id: QRSessionID) {
    // Beyond this the file is not read: what waits is handled, and only a crash would lose it.
    guard lseek(file, 0, SEEK_END) < Limits.followUpNoteBytes else { return }
    let line = Array("\(id)\n".utf8)
    // Reads the array within its count. With O_APPEND it is one line, whole or cut off.
    _ = unsafe line.withUnsafeBytes { unsafe write(file, $0.baseAddress, $0.count) }
  }

  func clear() {
    _ = ftruncate(file, 0)
  }
}
