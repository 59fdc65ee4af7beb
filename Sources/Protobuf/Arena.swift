package import CProtobufC
internal import Glibc

/// The memory of one message while it is decoded or encoded: everything protobuf-c allocates, up to a cap, freed at
/// once.
///
/// A bump allocator. It is handed to protobuf-c as its `ProtobufCAllocator`; a request beyond the cap gets NULL, which
/// makes protobuf-c give the message up. One block is kept from message to message.
@safe
package final class Arena {
  /// What the C callback works on: plain memory at a fixed address, so that no reference count moves per field.
  @usableFromInline @safe
  struct State {
    /// The next free byte, and the end, of the block in use.
    @usableFromInline var cursor: UInt
    @usableFromInline var end: UInt
    /// Bytes that may still be taken from malloc or the kept block.
    @usableFromInline var remaining: Int
    /// Blocks beyond the kept one; each begins with the address of the one before it.
    @usableFromInline var overflow: UnsafeMutableRawPointer?
    @usableFromInline var isExhausted: Bool
  }

  private let keptBlock: UnsafeMutableRawPointer
  @usableFromInline let state: UnsafeMutablePointer<State>
  /// What protobuf-c is given. Its address stays the same for as long as the arena lives.
  package let allocator: UnsafeMutablePointer<ProtobufCAllocator>
  private(set) var isInUse = false

  package init() {
    // All three are freed in deinit and nowhere else, and none leaves a call made through `withCurrent`.
    unsafe keptBlock = UnsafeMutableRawPointer.allocate(byteCount: Limits.keptBlock, alignment: Self.alignment)
    unsafe state = .allocate(capacity: 1)
    unsafe state.initialize(to: State(cursor: 0, end: 0, remaining: 0, overflow: nil, isExhausted: false))
    unsafe allocator = .allocate(capacity: 1)
    unsafe allocator.initialize(
      to: ProtobufCAllocator(
        alloc: { data, size in
          guard let data = unsafe data else { return nil }
          return unsafe Arena.take(size, from: data.assumingMemoryBound(to: State.self))
        },
        free: { _, _ in },
        allocator_data: UnsafeMutableRawPointer(state)
      ))
  }

  deinit {
    unsafe Self.freeOverflow(state)
    unsafe allocator.deallocate()
    unsafe state.deallocate()
    unsafe keptBlock.deallocate()
  }

  /// Runs `body` with this thread's arena, which may use `cap` bytes, and empties the arena afterwards.
  ///
  /// `body` must not suspend, and nothing it returns may point into the arena. A nested use gets an arena of its own.
  package static func withCurrent<Result>(
    cap: Int,
    _ body: (Arena) throws(ProtobufError) -> Result
  ) throws(ProtobufError) -> Result {
    let current = ThreadArena.current
    let arena = current.isInUse ? Arena() : current
    arena.begin(cap: cap)
    defer { arena.end() }
    return try body(arena)
  }

  /// Whether an allocation was refused since `withCurrent` began.
  package var isExhausted: Bool {
    // `state` lives as long as self does.
    unsafe state.pointee.isExhausted
  }

  private func begin(cap: Int) {
    isInUse = true
    // The kept block is ours and as long as said.
    unsafe state.pointee = State(
      cursor: UInt(bitPattern: keptBlock),
      end: UInt(bitPattern: keptBlock) + UInt(Swift.min(Limits.keptBlock, cap)),
      remaining: Swift.max(0, cap - Limits.keptBlock),
      overflow: nil,
      isExhausted: false
    )
  }

  private func end() {
    // Nothing points into the blocks any more: `body` has returned.
    unsafe Self.freeOverflow(state)
    isInUse = false
  }

  /// What malloc would guarantee on the platforms we run on.
  @usableFromInline static let alignment = 16

  /// `size` bytes, aligned for anything, uninitialised; nil beyond the cap.
  @usableFromInline
  static func take(_ size: Int, from state: UnsafeMutablePointer<State>) -> UnsafeMutableRawPointer? {
    // `state` comes from a living arena: its own methods, or protobuf-c during a call that the arena outlives.
    guard size >= 0, size <= Limits.decodeCeiling else {
      unsafe state.pointee.isExhausted = true
      return nil
    }
    let rounded = UInt((size + alignment - 1) & ~(alignment - 1))
    let cursor = unsafe state.pointee.cursor
    if unsafe rounded <= state.pointee.end - cursor {
      unsafe state.pointee.cursor = cursor + rounded
      return unsafe UnsafeMutableRawPointer(bitPattern: cursor)
    }
    return unsafe takeFromNewBlock(rounded, state)
  }

  private static func takeFromNewBlock(_ size: UInt, _ state: UnsafeMutablePointer<State>) -> UnsafeMutableRawPointer? {
    let header = UInt(alignment)
    let wanted = Swift.max(Int(size + header), Limits.overflowBlock)
    let count = unsafe Swift.min(wanted, state.pointee.remaining)
    guard count >= Int(size + header), let block = unsafe malloc(count) else {
      unsafe state.pointee.isExhausted = true
      return nil
    }
    // The block is at least `header` long; its first word links it to the block before it.
    unsafe block.storeBytes(of: state.pointee.overflow, as: UnsafeMutableRawPointer?.self)
    unsafe state.pointee.overflow = block
    unsafe state.pointee.remaining -= count
    let start = UInt(bitPattern: block) + header
    unsafe state.pointee.cursor = start + size
    unsafe state.pointee.end = UInt(bitPattern: block) + UInt(count)
    return unsafe UnsafeMutableRawPointer(bitPattern: start)
  }

  private static func freeOverflow(_ state: UnsafeMutablePointer<State>) {
    var next = unsafe state.pointee.overflow
    while let block = unsafe next {
      // Each block begins with the link that `takeFromNewBlock` stored.
      unsafe next = block.load(as: UnsafeMutableRawPointer?.self)
      unsafe free(block)
    }
    unsafe state.pointee.overflow = nil
  }
}
