internal import CZlib

/// Expands gzip members, one input at a time. Owns one inflating `z_stream`.
@safe final class GzipDecompressor: @unchecked Sendable {
  // Unchecked: used by one thread at a time, the one that took it out of `Gzip`'s store.

  /// zlib keeps a pointer back to it, so it stays in one place from `init` to `deinit`.
  private let stream: UnsafeMutablePointer<z_stream>
  private var chunk = [UInt8](repeating: 0, count: Limits.chunkBytes)

  init() throws(CompressionError) {
    unsafe stream = .allocate(capacity: 1)
    unsafe stream.initialize(to: z_stream())
    // 16 above the window's size: gzip and nothing else.
    let code = unsafe inflateInit2_(stream, 15 + 16, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
    guard code == Z_OK else {
      unsafe stream.deallocate()
      throw code == Z_MEM_ERROR ? .outOfMemory : .library(operation: "inflateInit2", code: code)
    }
  }

  deinit {
    unsafe inflateEnd(stream)
    unsafe stream.deallocate()
  }

  func decompress(
    _ bytes: UnsafeRawBufferPointer,
    limit: Int,
    output: (UnsafeRawBufferPointer) -> Void
  ) throws(CompressionError) {
    guard let count = UInt32(exactly: bytes.count) else { throw .overLimit }
    unsafe inflateReset(stream)
    // zlib reads at most `avail_in` bytes from here, all within this call, and writes through no pointer to it.
    unsafe stream.pointee.next_in = UnsafeMutablePointer(
      mutating: bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
    )
    unsafe stream.pointee.avail_in = count
    defer {
      unsafe stream.pointee.next_in = nil
      unsafe stream.pointee.next_out = nil
    }
    var left = limit
    while true {
      let (code, produced) = unsafe chunk.withUnsafeMutableBytes { chunk -> (Int32, Int) in
        // One byte beyond the limit tells "just as much" from "more". zlib writes at most `avail_out` bytes.
        let room = min(chunk.count, left + 1)
        unsafe stream.pointee.next_out = chunk.baseAddress?.assumingMemoryBound(to: UInt8.self)
        unsafe stream.pointee.avail_out = UInt32(room)
        let code = unsafe inflate(stream, Z_NO_FLUSH)
        let produced = unsafe room - Int(stream.pointee.avail_out)
        if produced > 0, produced <= left {
          unsafe output(UnsafeRawBufferPointer(rebasing: chunk[..<produced]))
        }
        return (code, produced)
      }
      guard produced <= left else { throw .overLimit }
      left -= produced
      switch code {
      case Z_OK: break
      case Z_STREAM_END:
        guard unsafe stream.pointee.avail_in > 0 else { return }
        // RFC 1952 §2.2: members may follow one another.
        unsafe inflateReset(stream)
      // No progress is possible: there is room for output, so it is input that lacks.
      case Z_BUF_ERROR: throw .truncated
      case Z_DATA_ERROR, Z_NEED_DICT: throw .corrupt
      case Z_MEM_ERROR: throw .outOfMemory
      default: throw .library(operation: "inflate", code: code)
      }
    }
  }
}
