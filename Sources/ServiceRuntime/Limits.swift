internal import GRPC
internal import TransportServer

/// The bounds of this module, each with its reason.
package enum Limits {
  /// The longest configuration or PEM file: a full example has 4 KiB, all of the web's authorities 220 KiB.
  package static let configurationBytes = 256 * 1024

  /// Entries of each list of the policy document, and bytes of a text: a changelog of a page.
  static let policyEntries = 256
  static let policyTextBytes = 4096
  /// How often the policy document is looked at: one system call. A changed one holds after at most this long.
  static let policyInterval: Duration = .seconds(1)
  /// How often another service's instance asks identity for their version, and for how long it waits: with half a second of
  /// identity's own, and a look that was just missed, a change holds everywhere within two seconds.
  static let policyFollowingInterval: Duration = .milliseconds(500)
  static let policyFollowingTimeout: Duration = .seconds(5)
  /// Answers in a row with a lower version before that is believed: ten seconds, longer than an instance of identity lags.
  static let policyStepsBack = 20

  /// How often a service that waits for its tables looks whether they are there: one connection each.
  static let waitingInterval: Duration = .seconds(1)

  /// The longest text of one field of a log line; the rest is cut off. Nothing we say ourselves is longer.
  static let logTextBytes = 4096

  /// Bytes of log lines that wait for a reader: some ten thousand lines, or seconds of the busiest log.
  static let waitingLogBytes = 1024 * 1024

  /// How long a process that ends waits for the reader of its log.
  static let lastLogLines = Duration.seconds(1)

  /// Lines that refused and failed calls may write in one second. A person reads none of them faster, and a flood of
  /// bad calls must not become a flood on the disk.
  static let callLogLinesPerSecond = 50

  /// Clients that may watch a server's health at one port at once. A load balancer or an orchestrator opens one watch for
  /// each of its instances; hundreds of them still fit.
  static let healthWatches = 1024
  /// When who got no place, or lost it, may ask again. Until then a client that goes by watches takes the server for out of
  /// order, so not for long; and a thousand that come back every five seconds are two hundred calls in one.
  static let healthWatchReturn: Duration = .seconds(5)

  /// What a probe of health may take: it is one of few, and its request is there or does not come.
  static let probeTime: Duration = .seconds(5)

  /// Connections to the management port: probes and scrapers, some of each.
  package static let managementConnections = 100
  /// Open files that are none of the gRPC port's connections: those of the management port, the database with its
  /// readers, logs, certificates and channels to other services, and what always has to be free.
  static let reservedFiles = managementConnections + 100 + RPCServer.spareFiles
  /// Those of each event loop.
  static let filesOfLoop = 3
  /// Event loops for addresses with many connections: as many as for all others, up to a machine's worth of cores.
  static let crowdLoops = 32
  /// The part of all files that connections may have which wait to be set up.
  static let partOfFilesArriving = 8

  /// Distinct series of metrics: 60 methods with 17 codes each are a thousand.
  static let metricSeries = 4096
  /// Bounds of latency histograms: nanoseconds, printed as seconds. Polls take tens of microseconds, password hashes
  /// tens of milliseconds, long polls 25 s.
  static let latencyBuckets = [
    PrometheusHistogram.Bound(limit: 50_000, text: "0.00005"),
    PrometheusHistogram.Bound(limit: 100_000, text: "0.0001"),
    PrometheusHistogram.Bound(limit: 250_000, text: "0.00025"),
    PrometheusHistogram.Bound(limit: 500_000, text: "0.0005"),
    PrometheusHistogram.Bound(limit: 1_000_000, text: "0.001"),
    PrometheusHistogram.Bound(limit: 2_500_000, text: "0.0025"),
    PrometheusHistogram.Bound(limit: 5_000_000, text: "0.005"),
    PrometheusHistogram.Bound(limit: 10_000_000, text: "0.01"),
    PrometheusHistogram.Bound(limit: 25_000_000, text: "0.025"),
    PrometheusHistogram.Bound(limit: 50_000_000, text: "0.05"),
    PrometheusHistogram.Bound(limit: 100_000_000, text: "0.1"),
    PrometheusHistogram.Bound(limit: 250_000_000, text: "0.25"),
    PrometheusHistogram.Bound(limit: 1_000_000_000, text: "1.0"),
    PrometheusHistogram.Bound(limit: 5_000_000_000, text: "5.0"),
    PrometheusHistogram.Bound(limit: 30_000_000_000, text: "30.0"),
  ]
  /// Bounds of other histograms: sizes and counts.
  static let sizeBuckets = [1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144].map {
    PrometheusHistogram.Bound(limit: $0, text: String($0))
  }

  /// The longest credential that is hashed and looked up. An access token of ours has 700 bytes.
  static let credentialBytes = 8 * 1024
  /// Verified tokens that are remembered, about 1 KiB each: one for every subject that calls within some minutes. More
  /// callers than that cost a verification each time, not memory.
  package static let verifiedTokens = 16_384

  /// How far the time of a proof of possession may be from ours (RFC 9449 section 11.1): as far as clocks may disagree.
  static let proofAge: Duration = .seconds(60)
  /// How long a nonce for proofs is the newest; the one before it holds as well.
  static let proofNonceSeconds: Int64 = 120
  /// The longest identifier of a proof; 96 random bits in any encoding are shorter.
  static let proofIdentifierBytes = 128
  /// Proofs that are remembered so that none is good twice, at most 150 bytes each: a thousand calls a second, for a
  /// proof is remembered for up to four minutes. Beyond it the key that has shown most gives way.
  package static let rememberedProofs = 262_144
  /// Proofs whose keys made no difference that do not count again, at most 50 bytes each.
  static let releasedProofs = 16_384
  /// Proofs of one key among them: more calls in one second than a device makes in a minute.
  package static let rememberedProofsOfKey = 1024
  /// How often the disk is told up to when proofs were taken: one small file.
  static let proofHorizonInterval: Duration = .seconds(30)

  /// How often the keys of identity are fetched. Identity publishes a key at least twice this long before signing
  /// with it.
  package static let keyRefreshInterval: Duration = .seconds(60)
  /// How soon a failed fetch is tried again: nothing can be verified meanwhile.
  package static let keyRetryInterval: Duration = .milliseconds(100)
  /// The least time between two fetches that unknown keys ask for.
  package static let keyFetchDistance: Duration = .seconds(5)
  /// Names of unknown keys that a fetch is asked for, that are remembered as nobody's, and that were identity's once, of which
  /// there is one a month; and how long each may be: ours have 43 bytes.
  package static let missingKeys = 256
  package static let absentKeys = 1024
  package static let retiredKeys = 64
  package static let keyNameBytes = 128
  /// How long one fetch of the keys may take.
  package static let keyFetchTimeout: Duration = .seconds(5)

  /// For how long what identity last said of ended sessions is relied on. Longer than a restart of identity takes;
  /// beyond it no token is accepted.
  package static let revocationGrace: Duration = .seconds(5)
  /// The silence after which the feed's connection is given up: identity speaks every second.
  package static let revocationSilence: Duration = .seconds(3)
  /// How soon a lost feed is asked for again.
  static let revocationRetryInterval: Duration = .milliseconds(100)
  /// The same after identity has refused: the secret or the certificate is wrong until an operator mends it.
  static let revocationRefusedInterval: Duration = .seconds(2)

  /// How often the TLS files are looked at. New ones are taken by the second look that sees them, so within this time
  /// twice; a look costs six system calls.
  static let certificateInterval: Duration = .seconds(2)
  /// How long one key seals session tickets (RFC 5077 section 5.5 leaves it open; a day is what large sites use).
  static let ticketKeyLifetime: Duration = .seconds(24 * 60 * 60)

  /// How long `--check-health` waits for its answer, which takes a millisecond: less than the 3 s after which container
  /// engines commonly give a probe up.
  static let healthTimeout: Duration = .seconds(2)
  /// How often the health status is brought in step with what the service needs: well below what a probe notices.
  static let readinessInterval: Duration = .milliseconds(200)
  /// How often the load is looked at, to give freed memory back once it has fallen: twice this is longer than connections
  /// keep memory after a burst. What of a step is little, a quarter of a core, and after how many such steps it is done
  /// again: connections that are given up end within a minute and a half.
  static let trimInterval: Duration = .seconds(5)
  static let trimLoad: Duration = .milliseconds(1250)
  static let trimSteps = 6
  /// How long the management port's watchers are waited for at the end.
  static let managementDrain: Duration = .seconds(1)
  /// What shutdown may take beyond `drainTimeout` before the process ends regardless, with status 1.
  static let shutdownGrace: Duration = .seconds(5)

  /// Events of a rate that each of many instances grants at least: what a person does by mistake, twice.
  static let smallestPart = 3

  /// Keys that a rate limiter remembers at a time: about 40 bytes each.
  package static let limitedKeys = 100_000

  /// Within which those who watched an instance that stops are asked to be back: a hundred thousand screens that come
  /// evenly are fifty in a millisecond, and nobody misses two seconds.
  package static let watchesReturn: Duration = .seconds(2)

  /// How often an instance says to the others that it lives.
  static let memberBeat: Duration = .seconds(1)
  /// After which it must take itself for dead, as the others do.
  static let memberSilence: Duration = .seconds(5)
  /// How far a clock may be off: tokens and codes are judged by it, and none of them allows for more.
  static let clockError: Duration = .seconds(1)

  /// How long one service does without another before it says so: longer than a start or a restart takes.
  static let peerPatience: Duration = .seconds(3)
  /// How soon a lost connection to another service is tried again. The protocol's own second would be most of a start,
  /// and these are few connections to machines of one's own.
  static let peerBackoff = Backoff(initial: .milliseconds(50), multiplier: 1.6, maximum: .seconds(2))
  /// How long a call to another service may take when it names no time itself: less than the 30 s after which a server
  /// gives up the call on whose behalf it is made.
  static let peerCallTimeout: Duration = .seconds(10)
  /// How long calls to other services may go on when this one closes: nobody waits for their answers.
  static let channelGrace: Duration = .seconds(1)
}
