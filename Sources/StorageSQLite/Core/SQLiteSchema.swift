/// The numbered versions of a database file's schema: element 0 makes version 1 from nothing, each later one goes
/// forward from its predecessor. A released version is never edited.
package struct SQLiteSchema: Sendable {
  /// SQL scripts, one for each version.
  package let versions: [String]

  package init(versions: [String]) {
    precondition(!versions.isEmpty, "a schema has at least one version")
    self.versions = versions
  }

  package var latest: Int { versions.count }
}
