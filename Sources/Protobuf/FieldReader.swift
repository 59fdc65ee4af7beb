package import CProtobufC

/// Reading the fields of protoc-c's structs, which are valid while the arena is that they were decoded into.
package enum FieldReader {
  @inlinable
  package static func string(_ data: ProtobufCBinaryData, _ field: String) throws(ProtobufError) -> String {
    // protobuf-c set `len` to the bytes that `data` points to.
    guard unsafe data.len > 0, let start = unsafe data.data else { return "" }
    let buffer = unsafe UnsafeBufferPointer(start: start, count: data.len)
    guard let string = unsafe String(validating: buffer, as: UTF8.self) else { throw .invalidUTF8(field: field) }
    return string
  }

  @inlinable
  package static func bytes(_ data: ProtobufCBinaryData) -> [UInt8] {
    // protobuf-c set `len` to the bytes that `data` points to.
    guard unsafe data.len > 0, let start = unsafe data.data else { return [] }
    return unsafe Array(UnsafeBufferPointer(start: start, count: data.len))
  }

  @inlinable
  package static func message<Struct, Message>(
    _ pointer: UnsafeMutablePointer<Struct>?,
    _ field: String,
    _ read: (UnsafePointer<Struct>) throws(ProtobufError) -> Message
  ) throws(ProtobufError) -> Message? {
    guard let pointer = unsafe pointer else { return nil }
    do throws(ProtobufError) {
      return unsafe try read(pointer)
    } catch {
      throw error.within(field)
    }
  }

  @inlinable
  package static func list<Value, Element>(
    _ count: Int,
    _ values: UnsafeMutablePointer<Value>?,
    _ read: (Value) -> Element
  ) -> [Element] {
    // protobuf-c set `count` to the elements that `values` points to.
    guard count > 0, let values = unsafe values else { return [] }
    return unsafe UnsafeBufferPointer(start: values, count: count).map(read)
  }

  @inlinable
  package static func strings(
    _ count: Int,
    _ values: UnsafeMutablePointer<ProtobufCBinaryData>?,
    _ field: String
  ) throws(ProtobufError) -> [String] {
    guard count > 0, let values = unsafe values else { return [] }
    var strings: [String] = []
    strings.reserveCapacity(count)
    for index in 0..<count {
      do throws(ProtobufError) {
        // protobuf-c set `count` to the elements that `values` points to.
        strings.append(unsafe try string(values[index], field))
      } catch {
        throw .invalidUTF8(field: "\(field)[\(index)]")
      }
    }
    return strings
  }

  @inlinable
  package static func messages<Struct, Message>(
    _ count: Int,
    _ values: UnsafeMutablePointer<UnsafeMutablePointer<Struct>?>?,
    _ field: String,
    _ read: (UnsafePointer<Struct>) throws(ProtobufError) -> Message
  ) throws(ProtobufError) -> [Message] {
    guard count > 0, let values = unsafe values else { return [] }
    var messages: [Message] = []
    messages.reserveCapacity(count)
    for index in 0..<count {
      // protobuf-c set `count` to the elements that `values` points to.
      guard let element = unsafe values[index] else { throw .malformed }
      do throws(ProtobufError) {
        messages.append(unsafe try read(element))
      } catch {
        throw error.within("\(field)[\(index)]")
      }
    }
    return messages
  }
}
