import Testing

@testable import LatchkeyModel

/// The same account scans a code again.
@Suite struct QRRescanTests {
  private let now = QRSamples.start + .seconds(2)
  private let expected = CheckCode(derivedFrom: QRSamples.digest(9))

  @Test("S9, S27: what a scan asked for stays asked for when the code is scanned again, and more may be added")
  func requirementsStay() {
    let (none, digits) = (QRRequirements(), QRRequirements(checkCode: true))
    let proof = QRRequirements(reauthentication: true)
    let both = QRRequirements(checkCode: true, reauthentication: true)
    let cases: [(QRRequirements, QRRequirements, QRRequirements)] = [
      (none, none, none), (digits, none, digits), (none, digits, digits), (proof, none, proof), (digits, proof, both),
    ]
    for (first, second, joined) in cases {
      var session = QRSamples.session()
      let scans: [(UInt8, QRRequirements)] = [(50, first), (51, second), (52, none)]
      for (number, requirements) in scans {
        let outcome = session.scan(
          by: QRSamples.confirmer(), ticket: QRSamples.digest(number), requirements: requirements, at: now)
        #expect(outcome == .claimed)
      }
      #expect(session.claim?.requirements == joined)
      #expect(session.claim?.ticket == QRSamples.digest(52))
    }
  }

  @Test("S9: scanning again gives no further try of the digits")
  func triesStaySpent() throws {
    let wrong = try #require(CheckCode(typed: expected.text == "00" ? "01" : "00"))
    var session = QRSamples.session(in: .scanned, needsCheckCode: true)
    let ticket = QRSamples.digest(50)
    #expect(session.scan(by: QRSamples.confirmer(), ticket: ticket, at: now) == .claimed)
    let confirm = { (typed: CheckCode?) in
      session.confirm(
        by: QRSamples.confirmer(),
        ticket: ticket,
        scope: nil,
        checkCode: (typed, expected),
        policy: QRConfirmPolicy(),
        at: now
      )
    }
    #expect(confirm(nil) == .needsCheckCode)
    #expect(confirm(wrong) == .wrongCheckCode)
    #expect(session.scan(by: QRSamples.confirmer(), ticket: QRSamples.digest(51), at: now) == .unavailable)
    #expect(session.state(at: now) == .denied)
  }
}
