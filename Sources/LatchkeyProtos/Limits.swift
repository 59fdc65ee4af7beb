/// The bounds of this module, each with the reason for its number.
enum Limits {
  /// Clients that may watch a server's health at once. A load balancer or an orchestrator opens one watch for each of
  /// its instances; hundreds of them still fit.
  static let healthWatchers = 1024
}
