import JSON
import LatchkeyModel

/// The document as an operator writes it:
///
///     {
///       "guides": [
///         {
///           "guide_id": "welcome",
///           "version": 2,
///           "steps": [
///             {"step_id": "search", "page": "home", "target": "bar/search", "message_key": "guide.search"},
///             {"step_id": "cart", "page": "home", "target": "tab/cart", "message_key": "guide.cart",
///              "reverse": true, "since_version": 2},
///             {"step_id": "end", "page": "home"}
///           ]
///         }
///       ]
///     }
///
/// A step needs its `step_id` and `page`; only the last may lack a `target`, and then it ends the guide.
extension GuideCatalog {
  package init(parsing bytes: [UInt8]) throws(GuideCatalogError) {
    let document: JSONValue
    do throws(JSONError) {
      document = try JSONValue(parsing: bytes)
    } catch {
      throw GuideCatalogError("not JSON: \(error)")
    }
    let root = try Fields(document, "the document", allowed: ["guides"])
    var guides: [GuideDefinition] = []
    for value in try root.list("guides", atMost: Limits.guides) {
      let guide = try Self.guide(value)
      guard !guides.contains(where: { $0.id == guide.id }) else {
        throw GuideCatalogError("the guide \(guide.id) occurs twice")
      }
      guides.append(guide)
    }
    self.init(guides)
  }

  private static func guide(_ value: JSONValue) throws(GuideCatalogError) -> GuideDefinition {
    let fields = try Fields(value, "a guide", allowed: ["guide_id", "version", "steps"])
    let id = try fields.id("guide_id")
    guard let version = fields.values["version"]?.integer, version > 0 else {
      throw GuideCatalogError("the guide \(id) needs a version: a whole number above 0")
    }
    var steps: [GuideStep] = []
    for value in try fields.list("steps", atMost: Limits.guideSteps) { steps.append(try step(value, of: id)) }
    guard let guide = GuideDefinition(id: id, version: version, steps: steps) else {
      throw GuideCatalogError(
        "the guide \(id) needs a step with a target; each step_id once; since_version up to its version; and a "
          + "step without a target only at its end")
    }
    return guide
  }

  private static func step(_ value: JSONValue, of guide: GuideID) throws(GuideCatalogError) -> GuideStep {
    let fields = try Fields(
      value, "a step of \(guide)",
      allowed: ["step_id", "page", "target", "message_key", "reverse", "since_version"])
    let page = try fields.text("page")
    guard !page.isEmpty else { throw GuideCatalogError("a step of \(guide) lacks its page") }
    var isReversed = false
    if let reverse = fields.values["reverse"] {
      guard let reverse = reverse.bool else {
        throw GuideCatalogError("a step of \(guide): reverse must be true or false")
      }
      isReversed = reverse
    }
    var sinceVersion: Int64 = 1
    if let since = fields.values["since_version"] {
      guard let since = since.integer else {
        throw GuideCatalogError("a step of \(guide): since_version must be a whole number")
      }
      sinceVersion = since
    }
    return GuideStep(
      id: try fields.id("step_id"),
      page: page,
      target: try fields.text("target"),
      messageKey: try fields.text("message_key"),
      isReversed: isReversed,
      sinceVersion: sinceVersion
    )
  }
}

/// The members of an object, none of them unknown.
private struct Fields {
  let values: JSONValue
  private let what: String

  init(_ value: JSONValue, _ what: String, allowed: Set<String>) throws(GuideCatalogError) {
    guard let members = value.members else { throw GuideCatalogError("\(what) must be an object") }
    if let unknown = members.first(where: { !allowed.contains($0.name) }) {
      throw GuideCatalogError("\(what) has the unknown member \(unknown.name)")
    }
    values = value
    self.what = what
  }

  func list(_ name: String, atMost most: Int) throws(GuideCatalogError) -> [JSONValue] {
    guard let list = values[name]?.array, list.count <= most else {
      throw GuideCatalogError("\(what): \(name) must be a list of at most \(most)")
    }
    return list
  }

  func id(_ name: String) throws(GuideCatalogError) -> GuideID {
    guard let id = values[name]?.string.flatMap({ GuideID($0) }) else {
      throw GuideCatalogError("\(what): \(name) must be lower-case letters, digits, '.', '_' or '-'")
    }
    return id
  }

  /// Empty when absent.
  func text(_ name: String) throws(GuideCatalogError) -> String {
    guard let value = values[name] else { return "" }
    guard let text = value.string, text.utf8.count <= Limits.guideTextBytes else {
      throw GuideCatalogError("\(what): \(name) must be text of at most \(Limits.guideTextBytes) bytes")
    }
    return text
  }
}
