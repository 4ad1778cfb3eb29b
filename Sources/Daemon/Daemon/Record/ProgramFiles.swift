import AuditChain
import Foundation
import Locks
import UsageRecording
import WorkerSupervision

/// The files whose code opens payments on this host: the daemon's program, the worker's program, and the PKCS#11 libraries.
/// Their SHA-256 is recorded, so that an auditor can determine which programs opened a payment.
final class ProgramFiles: Sendable {
    private let worker: WorkerExecutable
    private let paths: [String: String]
    private let state: Mutex<ProgramDigests>

    /// Computes the digests of the files.
    ///
    /// - Parameters:
    ///   - worker: the program that every worker of this daemon runs.
    ///   - modules: the paths of the PKCS#11 libraries, by the configured name of the HSM token.
    init(worker: WorkerExecutable, modules: [String: String]) {
        (self.worker, paths) = (worker, modules)
        state = Mutex(Self.read(worker, modules))
    }

    /// Computes all digests again: of the running programs, and of the libraries as they are on the disk now.
    func readAgain() -> ProgramDigests { Self.read(worker, paths) }

    private static func read(_ worker: WorkerExecutable, _ modules: [String: String]) -> ProgramDigests {
        ProgramDigests(
            daemon: AuditDigest.ofFile("/proc/self/exe"), worker: AuditDigest.ofFile(worker.openedPath),
            sbom: sbom.flatMap { AuditDigest.ofFile($0) }, modules: modules.compactMapValues { AuditDigest.ofFile($0) })
    }

    var digests: ProgramDigests { state.withLock { $0 } }

    /// Computes the digest of an HSM token's library again. Called after a worker has opened the HSM token.
    ///
    /// - Returns: the event to record; nil if the digest is the one that was recorded last.
    func changed(hsmToken: String) -> AuditEvent? {
        guard let path = paths[hsmToken] else { return nil }
        let present = AuditDigest.ofFile(path)
        return state.withLock { state in
            let recorded = state.modules[hsmToken]
            guard recorded != present else { return nil }
            state.modules[hsmToken] = present
            return .moduleChange(from: recorded, to: present)
        }
    }

    /// The path of the software bill of materials in the package's layout: `share/doc/paytokend` next to the program's
    /// directory. Nil without /proc.
    private static var sbom: String? {
        guard let own = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe") else { return nil }
        return URL(filePath: own).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "share/doc/paytokend/sbom.cdx.json").path(percentEncoded: false)
    }
}
