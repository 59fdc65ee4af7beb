internal import CNghttp2

/// Header fields to send, in order, pseudo-header fields first.
///
/// Names and values known at compile time are referred to, never copied; the others share one byte array. Reusable:
/// `removeAll` keeps the memory.
package struct HTTP2FieldList: Sendable {
  private struct Field: Sendable {
    var staticName: StaticString?
    var staticValue: StaticString?
    /// Where the name starts in `bytes`, and how long it is; the value follows.
    var start = 0
    var nameCount = 0
    var valueCount = 0
    var isSensitive = false
  }

  private var fields: [Field] = []
  private var bytes: [UInt8] = []

  package init() {}

  package var isEmpty: Bool { fields.isEmpty }
  package var count: Int { fields.count }

  package mutating func removeAll() {
    fields.removeAll(keepingCapacity: true)
    bytes.removeAll(keepingCapacity: true)
  }

  package mutating func add(_ name: StaticString, _ value: StaticString) {
    fields.append(Field(staticName: name, staticValue: value))
  }

  package mutating func add(_ name: StaticString, _ value: String) {
    let start = bytes.count
    bytes.append(contentsOf: value.utf8)
    fields.append(Field(staticName: name, start: start, valueCount: bytes.count - start))
  }

  /// The same as of their UTF-8, without a look at each byte.
  package mutating func add(name: String, value: String) {
    let start = bytes.count
    bytes.append(contentsOf: name.utf8)
    bytes.append(contentsOf: value.utf8)
    let nameCount = name.utf8.count
    fields.append(Field(start: start, nameCount: nameCount, valueCount: bytes.count - start - nameCount))
  }

  /// - Parameter sensitive: keeps the value out of the compression table (RFC 7541 §7.1.3).
  package mutating func add(
    _ name: some Collection<UInt8>,
    _ value: some Collection<UInt8>,
    sensitive: Bool = false
  ) {
    let start = bytes.count
    bytes.append(contentsOf: name)
    let nameCount = bytes.count - start
    bytes.append(contentsOf: value)
    fields.append(
      Field(
        start: start,
        nameCount: nameCount,
        valueCount: bytes.count - start - nameCount,
        isSensitive: sensitive
      )
    )
  }

  /// Calls `body` with the fields as libnghttp2 takes them. They are valid within `body`; static ones need no copy
  /// even after it.
  func withFields(_ body: (UnsafePointer<nghttp2_nv>?, Int) -> Int32) -> Int32 {
    // The base address stays valid within the closure, and libnghttp2 copies what is not static before it returns.
    unsafe bytes.withUnsafeBufferPointer { bytes in
      unsafe withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: fields.count) { list in
        for (index, field) in fields.enumerated() {
          var flags: UInt32 = 0
          var nv = unsafe nghttp2_nv()
          if let name = field.staticName {
            unsafe nv.name = UnsafeMutablePointer(mutating: name.utf8Start)
            unsafe nv.namelen = name.utf8CodeUnitCount
            flags |= NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue
          } else if let base = bytes.baseAddress {
            unsafe nv.name = UnsafeMutablePointer(mutating: base + field.start)
            unsafe nv.namelen = field.nameCount
          }
          if let value = field.staticValue {
            unsafe nv.value = UnsafeMutablePointer(mutating: value.utf8Start)
            unsafe nv.valuelen = value.utf8CodeUnitCount
            flags |= NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue
          } else if let base = bytes.baseAddress {
            unsafe nv.value = UnsafeMutablePointer(mutating: base + field.start + field.nameCount)
            unsafe nv.valuelen = field.valueCount
          }
          if field.isSensitive { flags |= NGHTTP2_NV_FLAG_NO_INDEX.rawValue }
          unsafe nv.flags = UInt8(flags)
          unsafe list.initializeElement(at: index, to: nv)
        }
        return unsafe body(UnsafePointer(list.baseAddress), fields.count)
      }
    }
  }
}
