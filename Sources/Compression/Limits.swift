/// The bounds of this module, each with the reason for its number.
enum Limits {
  /// Bytes that a coder hands on at a time: what a message usually has, and little beside its own tables.
  static let chunkBytes = 16 * 1024

  /// Coders of each direction that wait for their next message. A compressor holds 260 KiB, a decompressor 45; as many
  /// as event loops usually work at once.
  static let keptCoders = 4
}
