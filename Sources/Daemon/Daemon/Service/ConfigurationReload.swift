import AuditChain
import ConfigurationFile
import DaemonConfiguration
import Refusals
import ServerProgram
import UsageRecording
import WorkerSupervision

/// Puts a changed configuration into force, at SIGHUP or at an administrator's request. The program's main loop carries out
/// one reload at a time (``ReloadRequest``).
struct ConfigurationReload: Sendable {
    /// The person who requests a reload, with the draft of the request's audit record.
    struct Requester: Sendable {
        let caller: Caller
        let draft: AuditDraft
    }

    struct Outcome: Sendable {
        let changes: [ConfigurationValues.Change]
        /// The names of the sections, and `log.format`, that changed in the file but keep their old values until a
        /// restart.
        let pending: [String]
        let warnings: [ConfigurationWarning]
    }

    /// The maximum number of waiting requests; a further one is refused with `overloaded`. A reload takes milliseconds,
    /// so more requests than this hardly ever wait.
    private static let maximumWaiting = 8

    let live: LiveConfiguration
    let lifeRecords: LifecycleRecords
    let hsmTokens: HSMTokenPool
    let requests: AsyncStream<ReloadRequest>
    private let queue: AsyncStream<ReloadRequest>.Continuation

    init(live: LiveConfiguration, lifeRecords: LifecycleRecords, hsmTokens: HSMTokenPool) {
        self.live = live
        self.lifeRecords = lifeRecords
        self.hsmTokens = hsmTokens
        (requests, queue) = AsyncStream.makeStream(
            of: ReloadRequest.self, bufferingPolicy: .bufferingOldest(Self.maximumWaiting))
    }

    /// Puts a new configuration into force, after recording it.
    ///
    /// - Parameter requester: the person who requested the reload; nil at SIGHUP.
    func apply(_ new: Configuration, by requester: Requester? = nil) async throws(StartFailure) -> Outcome {
        let policies = try policies(of: new)
        let changes = live.changes(with: new)
        // The new configuration is recorded before it takes effect, so that no decision uses rules that are not in the
        // record.
        try await lifeRecords.reloaded(new.fileDigest, values: live.valuesToRecord(with: new), by: requester)
        let pending = live.replace(with: new, policies: policies)
        // An HSM token that refused its PIN is tried again, since the PIN file may have changed.
        hsmTokens.retry()
        return Outcome(changes: changes, pending: pending, warnings: live.warnings)
    }

    /// Reloads the configuration's file for a person. In a dry run, only checks the file.
    ///
    /// - Throws: invalid_state with the file's problems; the previous configuration then stays in force.
    func reload(by requester: Requester, dryRun: Bool) async throws(Refusal) -> Outcome {
        for await outcome in enqueue(requester, dryRun: dryRun) {
            do throws(StartFailure) {
                return try outcome.get()
            } catch {
                throw error.exitStatus == .configuration
                    ? Refusal(
                        .invalidState, "The configuration has problems; the previous one stays in force.",
                        details: String(error.message.prefix(Self.maximumDetails)))
                    : Refusal(.ledgerUnavailable, error.message)
            }
        }
        throw Refusal(.overloaded, "The daemon is stopping, or too many reloads wait; try again.")
    }

    /// Requests a reload, and returns a stream with its outcome. The stream ends without an element if the request is
    /// dropped, because too many wait or the daemon stops. Only the request keeps a reference to the ``Reply``, so
    /// dropping the request ends the stream.
    private func enqueue(_ requester: Requester, dryRun: Bool) -> AsyncStream<Result<Outcome, StartFailure>> {
        let (outcomes, continuation) = AsyncStream.makeStream(of: Result<Outcome, StartFailure>.self)
        let reply = Reply(continuation)
        queue.yield(
            ReloadRequest { source in
                do throws(StartFailure) {
                    guard !dryRun else {
                        reply.send(.success(try check(Configuration.loaded(from: source.file))))
                        return nil
                    }
                    var outcome: Outcome?
                    try await source.apply { (new: Configuration) async throws(StartFailure) in
                        let applied = try await apply(new, by: requester)
                        outcome = applied
                        return (applied.pending, applied.warnings)
                    }
                    if let outcome { reply.send(.success(outcome)) }
                    return true
                } catch {
                    reply.send(.failure(error))
                    return dryRun ? nil : false
                }
            })
        return outcomes
    }

    /// The maximum length of the problems in a refusal, in characters.
    private static let maximumDetails = 4000

    private func check(_ new: Configuration) throws(StartFailure) -> Outcome {
        _ = try policies(of: new)
        return Outcome(
            changes: live.changes(with: new), pending: live.configuration.current.partsForRestart(in: new),
            warnings: new.warnings)
    }

    private func policies(of new: Configuration) throws(StartFailure) -> Policies {
        if let objection = live.objection(to: new) { throw StartFailure(.configuration, objection) }
        return try Policies(new)
    }
}

/// Sends the outcome of a reload to the stream of the waiting caller. When the last reference to this object is gone,
/// the stream ends.
private final class Reply: Sendable {
    private let continuation: AsyncStream<Result<ConfigurationReload.Outcome, StartFailure>>.Continuation

    init(_ continuation: AsyncStream<Result<ConfigurationReload.Outcome, StartFailure>>.Continuation) {
        self.continuation = continuation
    }

    deinit { continuation.finish() }

    func send(_ result: Result<ConfigurationReload.Outcome, StartFailure>) { continuation.yield(result) }
}

extension Assembly: ReloadableParts {
    var reloadRequests: AsyncStream<ReloadRequest> { reload.requests }

    func reload(
        with new: Configuration
    ) async throws(StartFailure) -> (pending: [String], warnings: [ConfigurationWarning]) {
        let outcome = try await reload.apply(new)
        return (outcome.pending, outcome.warnings)
    }

    func reloadRefused() async { await lifeRecords.reloadRefused() }
}
