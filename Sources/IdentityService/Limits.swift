import ServiceRuntime

/// The bounds of the identity service, each with its reason.
package enum Limits {
  /// Bytes of a challenge's proof-of-work solution: far more than any solution needs.
  package static let powSolutionBytes = 32

  /// Characters of a token that is looked at: ours have under 1,200.
  package static let tokenCharacters = 8192

  /// Characters of an id that another service chose.
  package static let foreignIDCharacters = 128

  /// How long a sign-in with MERGE waits for the migrator to take the merge on before it answers without a migration
  /// id. Shorter than a person's patience; the merge is durable by then and goes on by itself.
  package static let migratorPatience: Duration = .seconds(2)

  /// A merge that the sign-in itself could not hand over is tried again after this long, doubling up to the longest.
  package static let mergeRetryFirst: Duration = .seconds(1)
  package static let mergeRetryLongest: Duration = .seconds(120)

  /// The dispatcher leaves a new merge to the sign-in that made it for this long: longer than `migratorPatience`, so
  /// that the two never work on the same one.
  package static let mergeHandover: Duration = .seconds(5)

  /// How long the migrator may take a token as the word of who agreed to a merge: one call.
  package static let mergeProofLifetime: Duration = .seconds(60)

  /// How long a merge that the dispatcher works on is its own: three plans and starts, each asked for in vain, and no longer
  /// than whoever waits for it should when the dispatcher dies. Offering one twice starts it once.
  package static let mergeLease: Duration = .seconds(20)

  /// How long a conflict's answer waits for the counts of the guest's rows, which are a courtesy.
  package static let summaryPatience: Duration = .milliseconds(500)

  /// A new signing key is published this long before it signs: twice as long as verifiers may cache the key set.
  package static let signingKeyLead: Duration = .seconds(600)

  /// Seconds that a verifier may cache the key set.
  package static let keySetMaxAgeSeconds = 300

  /// How long a key signs.
  package static let signingKeyPeriod: Duration = .seconds(30 * 86_400)

  /// How often the key directory is looked at, so that an operator's new key is published within this time.
  package static let signingKeyRescan: Duration = .seconds(15)

  /// How often shared keys are read, some rows at a time: what one instance makes the others publish within this time.
  static let sharedKeysInterval: Duration = .milliseconds(500)

  /// How often it is looked which policies and guides hold for all instances: an index of a few rows.
  static let sharedDocumentsInterval: Duration = .milliseconds(500)
  /// After how many looks what holds is read and put in force whether it seems to have changed or not: every ten seconds.
  static let sharedDocumentsAnew = 20

  /// Far more than anybody changes policies, and far from the end of numbers: after the highest there is no other.
  static let highestPolicyVersion: Int64 = 1 << 53

  /// Keys in the directory beyond which no more are made at somebody's wish: something is wrong, such as a loop that
  /// rotates. However many there are, they are read.
  package static let signingKeys = 32

  /// Ended sessions stay on record for this long, so that an old refresh token is told apart from no token.
  package static let endedSessionRetention: Duration = .seconds(30 * 86_400)

  /// How often what is over is forgotten, and how many rows of each kind at once: at most some milliseconds of the
  /// writer's time.
  package static let purgeInterval: Duration = .seconds(60)
  package static let purgeRows = 1000

  /// Other services that watch sessions end: each instance of each needs one.
  package static let revocationWatches = 64
  /// Ends that wait for a service that is behind, a few bytes each. One further behind begins anew.
  static let batchesPerRevocationWatch = 1024
  /// Sessions in one message to a service: about 16 KiB.
  static let sessionsPerRevocationMessage = 512
  /// How often an instance looks which sessions others ended: a quarter of the second within which it refuses them.
  static let endingsInterval: Duration = .milliseconds(250)
  /// Ended sessions that are read at once: some milliseconds of a connection. Of more the next page is read right away.
  static let endingsAtOnce = 2000
  /// For how long an instance that cannot look accepts tokens: as long as another service that does not hear of it.
  static let endingsGrace = ServiceRuntime.Limits.revocationGrace
  /// For how long after a look an instance says to other services that it knows all: signs of life, from which a look counts,
  /// come each second.
  static let endingsFreshness: Duration = .seconds(2)
  /// Added to how far back a look goes: how long a change may have taken from its time to its commit, and how far the
  /// clocks of instances may be apart.
  static let endingsDelay: Duration = .seconds(60)

  /// For how long what was told to watchers is kept: far longer than an instance looks back. And how often it is looked for
  /// what is older.
  static let newsKept: Duration = .seconds(3600)
  static let newsForgottenInterval: Duration = .seconds(60)

  /// How often a service hears that nothing ended: well below `ServiceRuntime.Limits.revocationSilence`.
  static let revocationBeat: Duration = .seconds(1)
  /// Open watches of one subject: a person has fewer devices than this.
  package static let watchesPerSubject = 16
  /// Of these, a session's and a device's: an app has one, and another while its network changes, in a few windows.
  package static let watchesPerSession = 4
  package static let watchesPerDevice = 8

  /// Open watches of the process, about 1 KiB each.
  package static let watches = 50_000
  static let watchBounds = WatchBounds(
    total: watches, perSubject: watchesPerSubject, perDevice: watchesPerDevice, perSession: watchesPerSession)

  /// Events that wait for a watcher that is behind; of more, the oldest are dropped, as the list can be asked for.
  package static let eventsPerWatch = 64

  /// Challenges for guests that a network may ask for in an hour without work: a household, not a farm.
  package static let guestsPerHour = 60

  /// Work for the first challenge beyond that, and for the most: 16 bits are some 30 ms of a phone, 22 about 2 s.
  package static let leastWorkBits = 16
  package static let mostWorkBits = 22

  /// Networks that are counted, about 32 bytes each. When more are active, those not counted are asked for work.
  package static let countedNetworks = 65_536

  /// How long a sign-in asked for again is answered the same: longer than any client goes on trying.
  package static let signInReplay: Duration = .seconds(600)

  /// Codes that a network may ask for in an hour without work: a household.
  package static let codesPerHour = 10

  /// Codes that are delivered at the same time, each on a thread that waits, how many of those one network may have, and
  /// the pauses before another try to deliver one: its owner waits.
  package static let codeDeliveries = 8
  package static let codeDeliveriesPerSource = 2
  package static let deliveryPauses: [Duration] = [.milliseconds(250), .seconds(1)]

  /// How long a service that stops withdraws codes that wait: others have to end after it.
  static let lastWithdrawals = Duration.seconds(2)

  /// Notices to owners that are delivered at the same time on each of the two channels: half of the threads in all, so that
  /// codes, which people wait for, find one. And how often it is looked for those that are due again.
  package static let noticeDeliveries = 2
  /// How often it is said that notices were dropped.
  package static let droppedNoticesInterval: Duration = .seconds(60)
  package static let noticeRound: Duration = .seconds(2)

  /// Accounts that a network may make, and sign-ins that it may try, in an hour without work: a household, and a company
  /// at nine in the morning.
  package static let registrationsPerHour = 30
  package static let signInsPerHour = 600

  /// OpenID providers of an installation.
  package static let providers = 64
  /// Keys of a provider are asked for anew after the first, hold while it cannot be reached until the second, and are
  /// asked for no more often than the third, whatever keys tokens name.
  package static let providerKeysFresh: Duration = .seconds(3600)
  package static let providerKeysStale: Duration = .seconds(86_400)
  package static let providerKeysDistance: Duration = .seconds(30)
  /// Providers that are asked at the same time.
  package static let keyFetches = 2
  /// An older ID token signs nobody in, however long its provider would let it hold.
  package static let idTokenAge: Duration = .seconds(600)

  /// Codes that wait for their delivery, some 200 bytes each, and how long a failed delivery is held against the next:
  /// as long as a mail server takes to come back, and short enough to try.
  package static let codesWaiting = 1000
  package static let codeSinkRest: Duration = .seconds(10)

  /// How long a transfer's code holds: long enough to fetch the other phone.
  package static let transferLifetime: Duration = .seconds(600)

  /// Codes of transfers that a network may present in an hour: a family with new phones that mistypes, while a code
  /// has 69 bits.
  package static let transferTriesPerHour = 60

  /// The purge loop leaves a deletion to the call that asked for it for this long: longer than `purgePatience`, so that
  /// the two never work on the same one. Purging twice would do no harm.
  package static let purgeHandover: Duration = .seconds(12)
  package static let purgePatience: Duration = .seconds(9)
  package static let purgeRetryFirst: Duration = .seconds(2)
  package static let purgeRetryLongest: Duration = .seconds(600)
  /// How long a purge that the loop works on is its own: longer than `purgePatience`.
  package static let purgeLease: Duration = .seconds(20)
  package static let purgeRound: Duration = .seconds(1)

  /// Records of one message of an export: the store ends a page at 2 MiB whatever is asked for.
  package static let exportPage: Int32 = 500
  package static let exportPatience: Duration = .seconds(5)

  /// Guests are kept this long after their last use, and how often those that are not used are looked for.
  package static let guestRetention: Duration = .seconds(180 * 86_400)
  package static let retentionInterval: Duration = .seconds(6 * 3600)
  /// How often guests are counted, which takes some 10 ms for a million.
  package static let guestCountInterval: Duration = .seconds(600)
  /// Between two counts of guests because there seems to be no room for one more.
  static let guestRecountPause: Duration = .seconds(10)
  /// Guests beyond which no more are made, about 2 KiB each with device and session.
  package static let guests = 10_000_000
  package static let retentionPage = 100
  /// The part of that number for which room is made when there is none: more than come in `retentionInterval` where guests
  /// are so many, and no more data than has to be given up for them.
  static let guestRoomShare = 20
  /// How long an instance that looks for them, and stands still, keeps the others from looking; and how often it says
  /// otherwise.
  package static let retentionLease: Duration = .seconds(300)
  package static let retentionRenewal: Duration = .seconds(30)

  /// Sessions of one subject that are listed, some 200 bytes each: far more than a person has, and a message that stock
  /// clients take. Whoever has more sees the newest.
  package static let listedSessions = 1000

  /// Sessions that one change ends when everybody's do: some milliseconds of the writer's time.
  package static let sessionsEndedAtOnce = 500

  /// Bytes of a policies' or guides' document as it is sent: as long as the file may be.
  package static let documentMessageBytes = 1 << 20

  /// Security events that are forgotten at once, and how often those that are old enough are looked for.
  package static let auditTrimRows = 1000
  package static let auditTrimInterval: Duration = .seconds(3600)

  /// How often the ends of the audit log's chains are recorded where there are several: what was cut off before that is
  /// not noticed.
  package static let auditSealInterval: Duration = .seconds(10)
  /// Rounds after which whatever got a place in the log before them is committed: transactions last seconds.
  package static let auditSealRounds = 4
  /// Chains whose ends an instance remembers to have recorded; it records them again otherwise.
  package static let auditSealedChains = 10_000
  /// Beginnings of chains are kept for as long as events, and for this long: what speaks of a chain goes before it.
  package static let auditChainMargin: Duration = .seconds(2 * 86_400)

  /// Characters that are kept of another service's reason.
  package static let foreignReasonCharacters = 500

  /// A merge that the migrator does not take for this long is given up, so that its guest is not frozen for ever: far
  /// longer than any outage.
  package static let mergePatience: Duration = .seconds(7 * 86_400)

  /// How long a browser's cookie holds: a visit.
  package static let webCookieLifetime: Duration = .seconds(3600)

  /// Events of one page of the audit log, about 200 bytes each.
  package static let auditPage = 1000

  /// Refused calls that are recorded one by one in a second, and that may wait to be written: a person guessing, not a
  /// flood, which is recorded as a number.
  package static let auditRefusalsPerSecond = 50
  /// Refused calls that are on record one by one, about 250 bytes each: a quarter of a gigabyte.
  package static let auditRefusals = 1_000_000
  /// How often the number of those beyond that is recorded.
  package static let auditDroppedInterval: Duration = .seconds(3600)
  package static let auditRefusalsWaiting = 500
  package static let auditInterval: Duration = .milliseconds(250)

  /// Identifiers that a network may ask about in a minute: a person typing, each pause a question; not a list of a
  /// million addresses.
  package static let identifierChecksPerMinute = 30

  /// Guides of an installation and steps of one: tours that people sit through, and a document that parses in under a
  /// millisecond.
  package static let guides = 256
  package static let guideSteps = 256

  /// Bytes of a page, a target path or a message key.
  package static let guideTextBytes = 512

  /// How often the guides' document is looked at. A changed one holds after at most this long.
  package static let guidesInterval: Duration = .seconds(2)

  /// Subjects that one call resets: a test cohort, within some milliseconds of the writer's time.
  package static let guideCohort = 500
}
