import AuditChain
import Foundation
import Synchronization
import WorkerSupervision

/// The files whose code opens payments on this host: the daemon's program, the worker's, and the PKCS#11 libraries. The
/// record has their SHA-256, so that an auditor can tell which program opened a payment.
final class ProgramFiles: Sendable {
    private let paths: [String: String]
    private let state: Mutex<ProgramDigests>

    /// Reads the files.
    ///
    /// - Parameters:
    ///   - worker: the program that every worker of this daemon runs.
    ///   - modules: the PKCS#11 libraries' paths, by the HSM token's name in the configuration.
    init(worker: WorkerExecutable, modules: [String: String]) {
        paths = modules
        state = Mutex(
            ProgramDigests(
                daemon: AuditDigest.ofFile("/proc/self/exe"), worker: AuditDigest.ofFile(worker.openedPath),
                sbom: Self.sbom.flatMap { AuditDigest.ofFile($0) },
                modules: modules.compactMapValues { AuditDigest.ofFile($0) }))
    }

    var digests: ProgramDigests { state.withLock { $0 } }

    /// Reads an HSM token's library again, after a worker has opened the HSM token.
    ///
    /// - Returns: the event to record; nil if the library is the one recorded before.
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

    /// The path of the list of components in the layout of the package, `share/doc/paytokend` next to the program's
    /// directory; nil without /proc.
    private static var sbom: String? {
        guard let own = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe") else { return nil }
        return URL(filePath: own).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "share/doc/paytokend/sbom.cdx.json").path(percentEncoded: false)
    }
}
