/// Where a value can come from. A later source wins over an earlier one; defaults are below all of them.
package enum ConfigurationSource: String, Sendable, CaseIterable {
  case file = "the configuration file"
  case environment = "the environment"
  case flags = "the command line"
}
