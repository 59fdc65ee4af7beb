internal import GRPC

/// Answers the questions of server reflection, in whichever version of the protocol they are asked.
struct ReflectionIndex: Sendable {
  enum Question: Sendable {
    case file(String)
    case symbol(String)
    case services
    /// proto3 files have no extensions.
    case extensions
    case none
  }

  enum Answer: Sendable, Equatable {
    case files([[UInt8]])
    case services([String])
    case failure(StatusCode, String)
  }

  /// A file and all that it imports, by its name: asking again and again costs no more than sending them.
  private let descriptorsByName: [String: [[UInt8]]]
  private let fileNamesBySymbol: [String: String]
  private let services: [String]

  /// - Parameter services: the full names of what the server serves; only these are listed.
  init(files: [DescriptorFile], services: [String]) {
    var byName: [String: DescriptorFile] = [:]
    var bySymbol: [String: String] = [:]
    for file in files {
      byName[file.name] = file
      for symbol in file.symbols { bySymbol[symbol] = file.name }
    }
    // Each is decoded once, and shared by all that import it.
    let decoded = byName.mapValues(\.descriptor)
    descriptorsByName = byName.mapValues { file in Self.withImports(file, byName).compactMap { decoded[$0] } }
    fileNamesBySymbol = bySymbol
    self.services = services
  }

  func answer(_ question: Question) -> Answer {
    switch question {
    case .file(let name):
      guard let files = descriptorsByName[name] else { return .failure(.notFound, "no such file") }
      return .files(files)
    case .symbol(let name):
      guard let files = fileNamesBySymbol[name].flatMap({ descriptorsByName[$0] }) else {
        return .failure(.notFound, "no such symbol")
      }
      return .files(files)
    case .services:
      return .services(services)
    case .extensions:
      return .failure(.notFound, "there are no extensions")
    case .none:
      return .failure(.invalidArgument, "the request asks nothing")
    }
  }

  /// The names of the file, then of each that it imports, directly or not, once.
  private static func withImports(_ file: DescriptorFile, _ files: [String: DescriptorFile]) -> [String] {
    var names = [file.name]
    var next = 0
    while next < names.count {
      for other in files[names[next]]?.imports ?? [] where !names.contains(other) { names.append(other) }
      next += 1
    }
    return names
  }
}
