/// A file for protoc to write, by its path under the output directory.
package struct OutputFile: Sendable, Equatable {
  package var name: String
  package var content: String

  package init(name: String, content: String) {
    self.name = name
    self.content = content
  }
}
