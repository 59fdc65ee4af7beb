internal import CDescriptorProtos

/// The text of a `string` field that protoc-c holds as `char *`; empty when absent.
func text(_ value: UnsafeMutablePointer<CChar>?) -> String {
  // protobuf-c ends each string that it unpacks with a NUL.
  guard let value = unsafe value else { return "" }
  return unsafe String(cString: value)
}

/// The elements of a repeated message field.
func elements<Struct>(
  _ count: Int,
  _ values: UnsafeMutablePointer<UnsafeMutablePointer<Struct>?>?
) -> [UnsafeMutablePointer<Struct>] {
  // protobuf-c set `count` to the pointers that `values` points to.
  guard count > 0, let values = unsafe values else { return unsafe [] }
  return unsafe UnsafeBufferPointer(start: values, count: count).compactMap { unsafe $0 }
}
