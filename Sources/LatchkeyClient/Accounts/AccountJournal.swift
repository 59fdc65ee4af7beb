import Cryptography
import Glibc
import JSON

/// How far the switch from one subject to another has come: what a crash must not forget.
struct AccountJournal: Equatable {
  /// The subject whose steps are all done.
  var current: String?
  /// The subject that is being switched to.
  var next: String?
  var wipeRequired = false
  /// The steps that are done for `next`.
  var done: [String] = []

  private static func path(_ root: String) -> String { "\(root)/account-scope.json" }

  /// The journal of a directory; an empty one where there is none yet.
  static func read(in root: String) throws(AccountScopeError) -> AccountJournal {
    let bytes: [UInt8]
    do throws(SecretFileError) {
      bytes = try SecretFile.read(path(root))
    } catch {
      if case .system(_, _, ENOENT) = error { return AccountJournal() }
      throw .storage(error.description)
    }
    // A damaged journal is reported: taken for an empty one, it would mix the data of two people.
    guard let json = try? JSONValue(parsing: bytes), let wipe = json["wipe_required"]?.bool,
      let steps = json["done"]?.array?.map(\.string), steps.allSatisfy({ $0 != nil })
    else { throw .storage("\(path(root)) is damaged") }
    return AccountJournal(
      current: json["current"]?.string, next: json["next"]?.string, wipeRequired: wipe, done: steps.compactMap(\.self))
  }

  func write(in root: String) throws(AccountScopeError) {
    let json: JSONValue = [
      "current": current.map { .string($0) } ?? .null,
      "next": next.map { .string($0) } ?? .null,
      "wipe_required": .bool(wipeRequired),
      "done": .array(done.map { .string($0) }),
    ]
    do throws(SecretFileError) {
      try SecretFile.replace(Self.path(root), json.encoded())
    } catch {
      throw .storage(error.description)
    }
  }
}
