/// What became of one record of a guest. The raw value is how storage names it.
package enum MergeOutcome: String, Sendable, CaseIterable {
  case moved
  case kept
  case replaced
  case summed
  case refused
  case asked
}
