import LatchkeyModel

/// Sessions that several instances of the service use at a time.
package protocol SharedQRSessionStore: QRSessionStore {
  /// A secret that all instances have: what the first of them proposed.
  func sharedSecret(proposing secret: [UInt8]) async throws(StorageError) -> [UInt8]

  /// What to ask after, for what is exchanged from here on.
  func changeMark() async throws(StorageError) -> QRChangeMark

  /// What was exchanged since `mark` was given, by whichever instance: each change once, whatever order they were
  /// committed in and however long that took. When the database was taken over by another server since, what was exchanged
  /// in the last `duration`, by the store's clock: some of it was told before.
  ///
  /// Either is read in pages of `limit`; while the new mark has a place, there is more.
  func changes(
    since mark: QRChangeMark, orOfLast duration: Duration, limit: Int
  ) async throws(StorageError) -> QRChanges

  /// Forgets up to `limit` changes that are older than `age`. Returns how many there were.
  func forgetChanges(olderThan age: Duration, limit: Int) async throws(StorageError) -> Int

  /// Codes whose time has ended by now, by the store's clock, undecided or unredeemed, and whose instance lives no more: each
  /// is given once, to the living member with the lowest number; nobody else gets any. After `outcomeUnknown` those of that
  /// call may never be given. About `limit` of each instance; the next come with the next call. None where the store knows of
  /// no members.
  func takeExpired(by member: UInt16, limit: Int) async throws(StorageError) -> [QRSessionID]

  func redemption(of id: QRSessionID) async throws(StorageError) -> QRRedemption?

  /// Lets `holder` alone hand the session's grant over for as long as `turn`, by the store's clock, which is everybody's.
  /// Returns the turn's number, which is higher than those of the session's turns before it, also of turns that were
  /// forgotten; nil while another one may, and once it was handed over.
  @discardableResult
  func takeRedemption(
    of id: QRSessionID, by holder: [UInt8], for turn: Duration
  ) async throws(StorageError) -> Int64?

  /// Ends the holder's turn, if it has it.
  func giveUpRedemption(of id: QRSessionID, by holder: [UInt8]) async throws(StorageError)

  /// As `exchange`, and stores what is handed over, if `holder` still may. Where `session` is `before`, the answer alone.
  func redeem(
    _ before: QRSession, for session: QRSession, handingOver redemption: QRRedemption, at now: Timestamp
  ) async throws(StorageError) -> QRRedemption.Outcome

  /// Forgets up to `limit` redemptions that ended before `time`.
  func forgetRedemptions(endedBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int
}
