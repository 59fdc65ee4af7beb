import Glibc

/// A folder that goes away with this object.
final class TemporaryFolder: Sendable {
  let path: String

  init() throws {
    var template = Array("/tmp/latchkey-identity-XXXXXX".utf8CString)
    // mkdtemp writes within the array's NUL-terminated length and returns that same pointer.
    let made = unsafe template.withUnsafeMutableBufferPointer { unsafe mkdtemp($0.baseAddress!) != nil }
    guard made else { throw CannotMake(code: errno) }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit {
    // The path is one that this object made; nftw calls back with each entry below it, contents first.
    _ = unsafe nftw(path, { entry, _, _, _ in unsafe entry.map { unsafe remove($0) } ?? 0 }, 16, FTW_DEPTH | FTW_PHYS)
  }

  struct CannotMake: Error {
    let code: Int32
  }
}
