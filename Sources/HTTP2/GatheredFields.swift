/// The fields of the header block that is being received, one behind the other in one piece of memory.
///
/// RFC 9113 §4.3: a block is contiguous on its connection, so a session needs one of these. Gathering the block and
/// handing it on in one go spares a stream look-up and a chain of references for each field.
@safe struct GatheredFields: ~Copyable {
  /// Lengths of name and value, ahead of their bytes.
  private static let prefixBytes = 8

  /// Owned: allocated and freed here only. Bytes below `used` are initialised.
  private var memory: UnsafeMutableRawPointer?
  private var capacity = 0
  private var used = 0

  init() {
    unsafe memory = nil
  }

  deinit {
    unsafe memory?.deallocate()
  }

  /// What the block takes, and the memory that it has for that.
  var byteCount: Int { used }
  var reservedBytes: Int { capacity }

  /// Forgets the block. Keeps the memory.
  mutating func clear() { used = 0 }

  /// Forgets the block, and frees the memory.
  mutating func free() {
    guard capacity > 0 else { return }
    (used, capacity) = (0, 0)
    unsafe memory?.deallocate()
    unsafe memory = nil
  }

  /// Forgets the block. Keeps the memory unless the block was an unusually large one.
  mutating func removeAll() {
    if capacity > Limits.keptFieldCapacity { free() } else { clear() }
  }

  /// Copies a field. The caller bounds the block by the limit on header lists.
  mutating func append(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
    guard let nameCount = UInt32(exactly: name.count), let valueCount = UInt32(exactly: value.count) else { return }
    let count = Self.prefixBytes + name.count + value.count
    // `reserve` made room for `count` bytes behind `used`.
    let memory = unsafe reserve(count) + used
    unsafe memory.storeBytes(of: nameCount, as: UInt32.self)
    unsafe memory.storeBytes(of: valueCount, toByteOffset: 4, as: UInt32.self)
    let fields = unsafe memory + Self.prefixBytes
    if let base = name.baseAddress { unsafe fields.copyMemory(from: base, byteCount: name.count) }
    if let base = value.baseAddress { unsafe (fields + name.count).copyMemory(from: base, byteCount: value.count) }
    used += count
  }

  /// Calls `body` with each field until it returns false; answers whether it never did. The pointers are valid within
  /// `body`, which must not change the block.
  func deliver(_ body: (_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool) -> Bool {
    guard let memory = unsafe memory else { return true }
    var index = 0
    while index < used {
      // `append` wrote whole fields up to `used`.
      let nameCount = unsafe Int(memory.loadUnaligned(fromByteOffset: index, as: UInt32.self))
      let valueCount = unsafe Int(memory.loadUnaligned(fromByteOffset: index + 4, as: UInt32.self))
      let name = unsafe UnsafeRawBufferPointer(start: memory + index + Self.prefixBytes, count: nameCount)
      let value = unsafe UnsafeRawBufferPointer(
        start: memory + index + Self.prefixBytes + nameCount,
        count: valueCount
      )
      index += Self.prefixBytes + nameCount + valueCount
      guard unsafe body(name, value) else { return false }
    }
    return true
  }

  private mutating func reserve(_ count: Int) -> UnsafeMutableRawPointer {
    if let memory = unsafe memory, used + count <= capacity { return unsafe memory }
    let needed = used + count
    capacity = needed <= Limits.keptFieldCapacity ? max(512, 2 * needed) : max(needed, Limits.largeFieldCapacity)
    let grown = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 8)
    if let memory = unsafe memory {
      // Both hold `used` bytes, and do not overlap.
      unsafe grown.copyMemory(from: memory, byteCount: used)
      unsafe memory.deallocate()
    }
    unsafe memory = grown
    return unsafe grown
  }
}
