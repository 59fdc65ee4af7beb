import GRPC
import LatchkeyModel

extension CallOptions {
  /// Tells the balancers on the way for which cell a call is; in cell 0, as everywhere without cells, nothing is said.
  func naming(_ cell: Cell?) -> CallOptions {
    var options = self
    if let cell, cell != .first { options.metadata.add("x-latchkey-cell", cell.description) }
    return options
  }
}
