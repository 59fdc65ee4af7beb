package import GRPC
package import LatchkeyModel

extension RPCError {
  /// To whoever brings an id, code or token of another cell. It follows from the text that they brought alone: nothing was
  /// looked up, so it says nothing of what there is.
  package static func otherCell(_ cell: Cell) -> RPCError {
    RPCError(
      .failedPrecondition, "this belongs to cell \(cell): ask there", reason: "OTHER_CELL",
      info: [KeyValue("cell", "\(cell)")])
  }
}

extension Cell {
  /// Errors: `FAILED_PRECONDITION` with `OTHER_CELL` for what is not of this cell.
  package func requireSame(_ other: Cell) throws(RPCError) {
    guard other == self else { throw .otherCell(other) }
  }
}
