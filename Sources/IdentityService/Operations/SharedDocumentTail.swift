import Cryptography
import LatchkeyModel
import Logging
import ServiceRuntime
import Storage

/// What operators write where all instances have it: found in the rows twice a second, and put in force here.
///
/// A file is what an operator deploys with an instance: it is put in the rows when its contents were never there before. So
/// the newest file wins whichever instance has it, and one that an instance still has from before changes nothing.
package struct SharedDocumentTail: Surrounded {
  enum Document: String, CaseIterable, Sendable {
    case policies
    case guides
  }

  private let rows: any SharedDocuments
  private let policies: PolicyFile
  private let guides: GuideFile
  private let guideWatches: GuideWatches
  private let auditChain: AuditChain
  let surroundings: Surroundings

  /// Returns once what holds is in force here.
  init(
    _ rows: any SharedDocuments, policies: PolicyFile, guides: GuideFile, guideWatches: GuideWatches,
    _ auditChain: AuditChain, _ surroundings: Surroundings
  ) async throws(StorageError) {
    self.auditChain = auditChain
    (self.rows, self.policies, self.guides, self.guideWatches) = (rows, policies, guides, guideWatches)
    self.surroundings = surroundings
    var state = State()
    policies.share()
    guides.share()
    try await offerFiles(&state)
    for document in Document.allCases { take(nil, as: document) }
    // An instance that cannot read what holds does not begin: what it would do instead may permit more.
    try await look(&state, isFirst: true)
  }

  /// What is known of the rows and of the files.
  private struct State {
    var numbers: [String: Int64] = [:]
    /// By the document, what the file held when it was offered last.
    var offered: [Document: [UInt8]] = [:]
  }

  var task: BackgroundTask { BackgroundTask("documents of all instances") { await run() } }

  private func run() async {
    // What is in force already is put in force once more, which changes nothing.
    var (state, warning, rounds) = (State(), PatientWarning(), 0)
    while await pause(Limits.sharedDocumentsInterval) {
      rounds += 1
      // Once in a while everything is taken anew: a change that was made here may have overtaken a later one.
      if rounds % Limits.sharedDocumentsAnew == 0 { state.numbers = [:] }
      do throws(StorageError) {
        try await look(&state)
        try await offerFiles(&state)
        warning.succeeded()
      } catch {
        guard warning.failed() else { continue }
        logger.warning("cannot read which policies and guides hold", metadata: ["cause": "\(error)"])
      }
    }
  }

  /// Puts in force what has changed.
  package func look() async throws(StorageError) {
    var state = State()
    try await look(&state)
  }

  private func look(_ state: inout State, isFirst: Bool = false) async throws(StorageError) {
    let numbers = try await rows.numbers()
    for document in Document.allCases where numbers[document.rawValue] != state.numbers[document.rawValue] {
      guard let found = try await rows.find(document.rawValue) else { continue }
      if let problem = take(found.contents, as: document), isFirst {
        throw StorageError(
          .corrupt, operation: "read the \(document) that hold",
          detail: "\(problem); were they written by a newer release?")
      }
      state.numbers[document.rawValue] = found.number
    }
  }

  /// Nil, or why it is not in force here.
  @discardableResult
  private func take(_ bytes: [UInt8]?, as document: Document) -> (any Error)? {
    do {
      switch document {
      case .policies: try policies.take(bytes)
      case .guides: if try guides.take(bytes) { guideWatches.definitionsChanged() }
      }
      return nil
    } catch {
      // Another release may know more than this one.
      logger.error(
        "a document that all instances have is not used here",
        metadata: ["document": "\(document)", "cause": "\(error)"])
      return error
    }
  }

  private func offerFiles(_ state: inout State) async throws(StorageError) {
    for document in Document.allCases {
      let bytes = document == .policies ? policies.offer : guides.offer
      guard let bytes, bytes != state.offered[document] else { continue }
      let problem = try await put(bytes, as: document, isFile: true)
      state.offered[document] = bytes
      guard let problem else { continue }
      logger.error("a file is not put in force", metadata: ["document": "\(document)", "cause": "\(problem)"])
    }
  }

  /// Puts a document in the place of the one that holds, everywhere, and has it on record if `note` says so. Nil, or why it
  /// did not.
  func put(
    _ bytes: [UInt8], as document: Document, isFile: Bool = false, noting note: AuditNote? = nil
  ) async throws(StorageError) -> String? {
    let (hash, record) = (SHA256Hash.hash(bytes), note.map { AuditRecord($0, in: auditChain) })
    return try await rows.change(document.rawValue, to: bytes, hash: hash, record: record) { current, wasThere in
      if isFile && wasThere { return (false, nil) }
      let problem = Self.problem(bytes, as: document, after: current?.contents)
      return (problem == nil, problem)
    }
  }

  private static let unreadable = "what holds was written by a newer release: change it there"

  /// Why a document cannot follow another one.
  private static func problem(_ bytes: [UInt8], as document: Document, after current: [UInt8]?) -> String? {
    do {
      switch document {
      case .policies:
        let version = try Policies(parsing: bytes).version
        guard version <= Limits.highestPolicyVersion else {
          return "version must be at most \(Limits.highestPolicyVersion)"
        }
        guard let current else {
          return version > Policies.builtIn.version ? nil : "version must be above \(Policies.builtIn.version)"
        }
        guard let least = (try? Policies(parsing: current))?.version else { return unreadable }
        return version > least ? nil : "version must be above \(least)"
      case .guides:
        guard let old = current.map({ try? GuideCatalog(parsing: $0) }) ?? GuideCatalog() else { return unreadable }
        return try GuideCatalog(parsing: bytes).unannounced(since: old).map {
          "guide \($0) is changed and needs a higher version"
        }
      }
    } catch {
      return "\(error)"
    }
  }
}
