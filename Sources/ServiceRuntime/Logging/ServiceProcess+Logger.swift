internal import Glibc
internal import Logging

extension ServiceProcess {
  static func logger(_ service: ServiceDescription, _ configuration: ServiceConfiguration) -> Logger {
    Logger(label: service.name) { label in
      LineLogHandler(
        label: label,
        level: configuration[CommonKeys.logLevel],
        format: configuration[CommonKeys.logFormat],
        // no-color.org
        isColoured: isatty(STDERR_FILENO) == 1 && (ProcessEnvironment.variables["NO_COLOR"] ?? "").isEmpty
      )
    }
  }
}
