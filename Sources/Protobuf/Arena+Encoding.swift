package import CProtobufC

/// Building protoc-c's structs for a message on its way out. What is returned lives until the arena is emptied.
extension Arena {
  /// Room for `count` values, uninitialised. Errors: `needsMoreMemory`.
  @inlinable
  package func allocate<Value>(
    _ type: Value.Type,
    count: Int = 1
  ) throws(ProtobufError) -> UnsafeMutablePointer<Value> {
    // The bytes are fresh, aligned for anything, and long enough.
    guard let bytes = unsafe Arena.take(MemoryLayout<Value>.stride * count, from: state) else {
      throw .needsMoreMemory
    }
    return unsafe bytes.bindMemory(to: type, capacity: count)
  }

  @inlinable
  package func string(_ value: String) throws(ProtobufError) -> ProtobufCBinaryData {
    if value.isEmpty { return unsafe ProtobufCBinaryData() }
    let count = value.utf8.count
    let data = unsafe try allocate(UInt8.self, count: count)
    // `data` has room for the UTF-8 of `value`.
    _ = unsafe UnsafeMutableBufferPointer(start: data, count: count).initialize(fromContentsOf: value.utf8)
    return unsafe ProtobufCBinaryData(len: count, data: data)
  }

  @inlinable
  package func bytes(_ value: [UInt8]) throws(ProtobufError) -> ProtobufCBinaryData {
    if value.isEmpty { return unsafe ProtobufCBinaryData() }
    let data = unsafe try allocate(UInt8.self, count: value.count)
    // `data` has room for as many bytes as `value` has.
    _ = unsafe UnsafeMutableBufferPointer(start: data, count: value.count).initialize(fromContentsOf: value)
    return unsafe ProtobufCBinaryData(len: value.count, data: data)
  }

  /// A repeated field: `(count, first element)`, nil when empty.
  @inlinable
  package func list<Element, Value>(
    _ elements: [Element],
    _ transform: (Element) throws(ProtobufError) -> Value
  ) throws(ProtobufError) -> (Int, UnsafeMutablePointer<Value>?) {
    if elements.isEmpty { return (0, nil) }
    let values = unsafe try allocate(Value.self, count: elements.count)
    for (index, element) in elements.enumerated() {
      // `index` stays below the count that was allocated.
      unsafe (values + index).initialize(to: try transform(element))
    }
    return unsafe (elements.count, values)
  }

  /// A repeated message field; `fill` is the element type's `filled(in:)`.
  @inlinable
  package func messages<Element, Struct>(
    _ elements: [Element],
    _ fill: (Element) -> (Arena) throws(ProtobufError) -> UnsafeMutablePointer<Struct>
  ) throws(ProtobufError) -> (Int, UnsafeMutablePointer<UnsafeMutablePointer<Struct>?>?) {
    unsafe try list(elements) { element throws(ProtobufError) in unsafe try fill(element)(self) }
  }
}
