/// The numbered versions of a part's tables: element 0 makes version 1 from nothing, each later one goes forward from its
/// predecessor. A released version is never edited.
///
/// The tables of a part are in the schema of its name, which is the connections' search path: statements name them without
/// it. So three services may share a database, each as a user of its own who reaches nothing but its schema.
package struct PostgreSQLSchema: Sendable {
  /// Such as `identity`: lower-case letters.
  package let part: String
  /// Statements, in their order, for each version.
  package let versions: [[String]]

  package init(part: String, versions: [[String]]) {
    precondition(!versions.isEmpty, "a schema has at least one version")
    precondition(part.utf8.allSatisfy { (97...122).contains($0) }, "a part's name needs no quotes")
    self.part = part
    self.versions = versions
  }

  package var latest: Int { versions.count }
}
