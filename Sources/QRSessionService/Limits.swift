import LatchkeyModel

/// The bounds of this module, each with the reason for its number.
package enum Limits {
  /// Parts of the poll table, each with its own lock: at a million sessions one holds about 4,000, so growing or
  /// sweeping one never holds a poll up for more than some tens of microseconds.
  static let pollShards = 256

  /// Polls that are looked at before their turn: as many bodies as a connection tells of.
  static let foreseenPolls = 4

  /// Huge pages of entries from which on that is worth it, 16 MiB: with the rest more than a core's caches hold.
  static let fetchedPieces = 8

  /// Polls that may wait for one session at a time. One device has one poll under way, and another when its network
  /// changed; the oldest is answered when a further one comes.
  static let waitersPerSession = 4

  /// How long a session stays in the poll table after its time, so that its poller learns how it ended. Longer than
  /// a redeeming poll may be repeated.
  static let pollRetention: Duration = .seconds(60)

  /// Slots of the expiry wheel, one a second: everything due lies ahead of it by less than one turn.
  static let wheelSeconds = 1024

  /// How many due sessions are handled before polls get their turn: telling one watch takes some 20 microseconds of an
  /// event loop, so these take 5 ms at most.
  static let expiriesPerPass = 256

  /// The pause after as many.
  static let sweepRest: Duration = .milliseconds(1)

  /// How often waiting polls are looked at for their time being over: late by less than a person notices.
  static let tick: Duration = .milliseconds(20)

  /// What a waiting poll leaves of its deadline for the answer to travel.
  static let answerMargin: Duration = .milliseconds(100)

  /// Codes that are passed around and wait to be cancelled.
  static let followUps = 1000

  /// How often a start tries what the process before it had left of them, and how long it waits in between.
  static let followUpRounds = 5
  static let followUpPause: Duration = .seconds(1)
  /// Bytes of their notes, about 24 for each, also while some fail and wait again.
  static let followUpNoteBytes = 1 << 18
  /// The pause after some failed: the storage is away.
  static let followUpRest: Duration = .seconds(1)

  /// Descriptions of who scans: about 150 bytes each. A minute is shorter than anybody expects a changed address to
  /// show.
  static let rememberedDescriptions = 100_000
  static let descriptionLifetime: Duration = .seconds(60)

  /// Wrong codes that may be typed within a code's life. The first few, by anybody anywhere, are looked at as codes that
  /// were scanned; typed codes after these take the screen's two digits as well; past the second number a typed code
  /// holds on its screen's own network only; and past the third a source waits. A limiter gives its burst and earns it
  /// back within one life, so a given code meets at most 3 guesses of 34 bits and 2 × (125 + 20) of 41: less than one
  /// in 2^32 in all, however many accounts and networks guess.
  static let unaidedTypedCodes = 3
  static let typedCodes = 125
  static let typedCodesPerSource = 20
  /// Lives of a code in which the first few are earned back: none of them twice in one life.
  static let unaidedLives = 4

  /// Ranges in the tables of places, about twice what the largest public ones have: 160 MB.
  static let geoRanges = 8_000_000
  static let geoLineBytes = 4096

  /// Beacons that one scan may bring: more radios than are ever in one room's reach.
  static let heardBeacons = 16

  /// A form that an OAuth client sends: a few short parameters.
  static let formBytes = 8192
  static let formParameters = 32

  /// How long identity may take for a grant: it signs two tokens and commits one transaction.
  static let grantTimeout: Duration = .seconds(5)

  /// How often other instances' changes are read from the database: their waiters hear within a second of what no
  /// instance told.
  static let tailInterval: Duration = .milliseconds(250)

  /// After as long without an answer an instance says that it is not ready.
  static let tailSilence: Duration = .seconds(5)

  /// How long changes stay in the database: longer than any session that an instance cut off from it still shows. As far
  /// back they are read again when another server took the database over.
  static let changeRetention: Duration = .seconds(900)

  /// Instances that listen to one: more than one database serves.
  static let listeningInstances = 64

  /// Changes that an instance which is behind is still told; of later ones it hears from the database. 2 MB, and as many
  /// as the database takes in a second.
  static let changesPerInstance = 20_000

  /// Changes in one message, some 75 KB.
  static let changesPerWake = 500

  /// What is changed within this time of the last message goes together.
  static let wakeGathering: Duration = .milliseconds(2)

  /// How often instances that came and went are looked for, and how often an instance shows that it lives.
  static let instancesInterval: Duration = .seconds(1)

  /// A stream on which nothing came for this long is opened anew.
  static let wakeSilence: Duration = .seconds(3)
  static let wakeRetryInterval: Duration = .milliseconds(250)

  /// How long one instance may take to hand a grant over before another may: longer than identity may take.
  static let redemptionTurn: Duration = .seconds(6)

  /// How long a poll without a deadline waits for one that is at it elsewhere: longer than that.
  static let redemptionPatience: Duration = .seconds(8)

  /// With less time left it takes no further turn, which would only be taken from another poll.
  static let leastRedemptionTurn: Duration = .seconds(1)

  /// Before the deadline of one that has one: to be told that it was in vain is worth more than nothing.
  static let timeToSaySo: Duration = .milliseconds(500)

  /// Between two looks whether it is done; doubled each time.
  static let redemptionPause: Duration = .milliseconds(10)
  static let longestRedemptionPause: Duration = .milliseconds(200)

  /// How long what was handed over stays in the database after nobody may ask for it again: two clocks may disagree.
  static let redemptionRetention: Duration = .seconds(5)

  /// Codes used again whose end is remembered, about 100 bytes each: further polls of them ask neither storage nor
  /// identity. Each takes a code that was confirmed and the verifier that redeemed it.
  static let rememberedReuses = 50_000

  /// Wrong verifiers of a code before it is polled with others no faster than its interval.
  static let freeGuesses = 3

  /// Drawing new codes when one of them is taken: a collision of user codes has odds of one in 25,000 at a million
  /// live sessions, so a third attempt in a row is a fault of another kind.
  static let drawAttempts = 4

  /// Trying a change again because somebody else changed the session in between.
  static let exchangeAttempts = 4

  /// How long a redeemed session is remembered, to tell reuse of its code from an unknown one (S19).
  static let redeemedRetention: Duration = .seconds(86_400)

  /// How long any other ended session is remembered.
  static let endedRetention: Duration = .seconds(600)

  /// Rows forgotten in one transaction, and read at start in one query.
  static let rowsPerBatch = 2000

  /// Pause between two looks for ended codes whose instance is gone: as long as it takes to be held to be gone.
  static let goneInterval: Duration = .seconds(5)

  /// Pause between two sweeps of old rows.
  static let sweepInterval: Duration = .seconds(30)

  /// How these bounds relate to each other.
  static func check() {
    precondition(pollRetention >= QRLimits.repeatWindow)
    precondition(
      QRLimits.maximumLifetime + QRLimits.redeemWindow + pollRetention < .seconds(Int64(wheelSeconds)),
      "an expiry lies within one turn of the wheel"
    )
    precondition(unaidedLives > unaidedTypedCodes, "none is earned back within a code's life")
    precondition(
      unaidedTypedCodes * 100 + 2 * (typedCodes + typedCodesPerSource) < 596,
      "20^8 / 2^32 is 5.96 guesses, and the digits divide by 100")
    precondition(
      QRLimits.maximumLifetime + QRLimits.redeemWindow + pollRetention < changeRetention,
      "what an instance shows ends before its changes are forgotten")
    precondition(grantTimeout < redemptionTurn && redemptionTurn < redemptionPatience)
    precondition(endedRetention >= pollRetention && redeemedRetention >= endedRetention)
  }
}
