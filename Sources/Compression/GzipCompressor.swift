internal import CZlib

/// Makes a gzip member of each input. Owns one deflating `z_stream`.
@safe final class GzipCompressor: @unchecked Sendable {
  // Unchecked: used by one thread at a time, the one that took it out of `Gzip`'s store.

  /// zlib keeps a pointer back to it, so it stays in one place from `init` to `deinit`.
  private let stream: UnsafeMutablePointer<z_stream>
  private var chunk = [UInt8](repeating: 0, count: Limits.chunkBytes)

  init() throws(CompressionError) {
    unsafe stream = .allocate(capacity: 1)
    unsafe stream.initialize(to: z_stream())
    // The fastest level: it runs on an event loop, and the better ones win a few per cent. 16 above the window's size
    // means gzip; 8 is zlib's own choice of memory.
    let code = unsafe deflateInit2_(
      stream,
      Z_BEST_SPEED,
      Z_DEFLATED,
      15 + 16,
      8,
      Z_DEFAULT_STRATEGY,
      ZLIB_VERSION,
      Int32(MemoryLayout<z_stream>.size)
    )
    guard code == Z_OK else {
      unsafe stream.deallocate()
      throw code == Z_MEM_ERROR ? .outOfMemory : .library(operation: "deflateInit2", code: code)
    }
  }

  deinit {
    unsafe deflateEnd(stream)
    unsafe stream.deallocate()
  }

  func compress(
    _ bytes: UnsafeRawBufferPointer,
    output: (UnsafeRawBufferPointer) -> Void
  ) throws(CompressionError) {
    guard let count = UInt32(exactly: bytes.count) else { throw .overLimit }
    unsafe deflateReset(stream)
    // zlib reads at most `avail_in` bytes from here, all within this call, and writes through no pointer to it.
    unsafe stream.pointee.next_in = UnsafeMutablePointer(
      mutating: bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
    )
    unsafe stream.pointee.avail_in = count
    defer {
      unsafe stream.pointee.next_in = nil
      unsafe stream.pointee.next_out = nil
    }
    while true {
      let code = unsafe chunk.withUnsafeMutableBytes { chunk -> Int32 in
        unsafe stream.pointee.next_out = chunk.baseAddress?.assumingMemoryBound(to: UInt8.self)
        // zlib writes at most `avail_out` bytes.
        unsafe stream.pointee.avail_out = UInt32(chunk.count)
        let code = unsafe deflate(stream, Z_FINISH)
        let produced = unsafe chunk.count - Int(stream.pointee.avail_out)
        if produced > 0 { unsafe output(UnsafeRawBufferPointer(rebasing: chunk[..<produced])) }
        return code
      }
      switch code {
      case Z_STREAM_END: return
      case Z_OK: break
      default: throw .library(operation: "deflate", code: code)
      }
    }
  }
}
