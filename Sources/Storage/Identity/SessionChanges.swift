import LatchkeyModel

/// What one change did to sessions.
package struct SessionChanges: Sendable, Equatable {
  package var began: [Session] = []
  package var ended: [EndedSession] = []

  package init(began: [Session] = [], ended: [EndedSession] = []) {
    self.began = began
    self.ended = ended
  }

  package var isEmpty: Bool { began.isEmpty && ended.isEmpty }
}
