/// One key as the loader sees it: its name, its default and what its values must look like.
package struct ConfigurationDeclaration: Sendable {
  /// Components in camel case, joined by dots: `tls.certificateFile` is `{"tls": {"certificateFile": …}}` in the file,
  /// `LATCHKEY_TLS_CERTIFICATE_FILE` in the environment and `--tls-certificate-file` among the flags.
  package let name: String
  /// One line for `--help` and the documented example.
  package let help: String
  package let defaultValue: ConfigurationValue
  /// A secret is never printed. Prefer keys that hold the path of a file with the secret in it.
  package let isSecret: Bool
  let validate: @Sendable (ConfigurationValue) throws(ConfigurationError) -> any Sendable

  /// `TLS_CERTIFICATE_FILE`.
  package var environmentName: String { ConfigurationName.environment(name) }

  /// `--tls-certificate-file`.
  var flag: String { ConfigurationName.flag(name) }
}
