internal import Glibc

/// The variables that the process was started with.
enum ProcessEnvironment {
  static var variables: [String: String] {
    var variables: [String: String] = [:]
    // `environ` is an array of NUL-terminated strings that ends with a null pointer. It is read here, at start, before
    // any other thread runs that could change it.
    var entry = unsafe environ
    while let text = unsafe entry.pointee {
      let line = unsafe String(cString: text)
      if let equals = line.firstIndex(of: "=") {
        variables[String(line[..<equals])] = String(line[line.index(after: equals)...])
      }
      unsafe entry += 1
    }
    return variables
  }
}
