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

  private let filesByName: [String: DescriptorFile]
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
    filesByName = byName
    fileNamesBySymbol = bySymbol
    self.services = services
  }

  func answer(_ question: Question) -> Answer {
    switch question {
    case .file(let name):
      guard filesByName[name] != nil else { return .failure(.notFound, "no such file") }
      return .files(withImports(name))
    case .symbol(let name):
      guard let file = fileNamesBySymbol[name] else { return .failure(.notFound, "no such symbol") }
      return .files(withImports(file))
    case .services:
      return .services(services)
    case .extensions:
      return .failure(.notFound, "there are no extensions")
    case .none:
      return .failure(.invalidArgument, "the request asks nothing")
    }
  }

  /// The file, then each that it imports, directly or not, once.
  private func withImports(_ name: String) -> [[UInt8]] {
    var names = [name]
    var next = 0
    while next < names.count {
      for other in filesByName[names[next]]?.imports ?? [] where !names.contains(other) { names.append(other) }
      next += 1
    }
    return names.compactMap { filesByName[$0]?.descriptor }
  }
}
