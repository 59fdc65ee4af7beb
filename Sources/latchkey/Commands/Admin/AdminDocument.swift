import Cryptography
import LatchkeyProtos

/// A document of the service's, as an operator writes it.
struct AdminDocument {
  let text: String
  let json: JSONValue

  init(_ json: JSONValue) {
    self.json = json
    text = json.line
  }

  init(parsing text: String) throws(CommandFailure) {
    self.text = TerminalText.json(text)
    do throws(JSONError) {
      json = try JSONValue(parsing: Array(text.utf8))
    } catch {
      throw CommandFailure(.invalid, "the document is not JSON: \(error)")
    }
  }

  init(reading path: String) throws(CommandFailure) {
    var file = try InputFile(path)
    try self.init(parsing: String(decoding: try file.contents(), as: UTF8.self))
  }

  static func get(_ document: IdentityV1.Document, _ service: AdminConnection) async throws -> AdminDocument {
    let answer = try await service.admin.getDocument(
      IdentityV1.GetDocumentRequest(document: document), options: service.options)
    return try AdminDocument(parsing: answer.json)
  }

  func set(_ document: IdentityV1.Document, _ reason: String, _ service: AdminConnection) async throws {
    _ = try await service.admin.setDocument(
      IdentityV1.SetDocumentRequest(document: document, json: text, reason: reason), options: service.options)
  }
}
