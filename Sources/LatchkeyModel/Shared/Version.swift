/// The version of this build.
package enum Version {
  package static let current = "0.1.0"
}
