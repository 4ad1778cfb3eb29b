public import AuditChain
import StrictJSON

/// The programs of one package with their SHA-256, as read from the package's list of components (`sbom.cdx.json`,
/// CycloneDX 1.6).
public struct ListedPrograms: Sendable {
    /// SHA-256 of the file `sbom.cdx.json`. A daemon's record of event `start` has the digest of the installed list.
    public let digest: AuditDigest
    /// The package's version.
    public let version: String
    private let programs: [String: AuditDigest]

    /// Returns nil unless the file is a CycloneDX list with the SHA-256 of `paytokend` and of `paytokend-hsm`.
    public init?(file: [UInt8]) {
        guard let list = (try? JSONValue(parsing: file))?.objectValue,
            list["bomFormat"]?.stringValue == "CycloneDX",
            let version = list["metadata"]?.objectValue?["component"]?.objectValue?["version"]?.stringValue
        else { return nil }
        var programs: [String: AuditDigest] = [:]
        for component in list["components"]?.arrayValue ?? [] {
            guard let name = component.objectValue?["name"]?.stringValue?.split(separator: "/").last,
                let hash = component.objectValue?["hashes"]?.arrayValue?.first?.objectValue,
                hash["alg"]?.stringValue == "SHA-256",
                let digest = hash["content"]?.stringValue.flatMap(AuditDigest.init(hex:))
            else { continue }
            programs[String(name)] = digest
        }
        guard programs["paytokend"] != nil, programs["paytokend-hsm"] != nil else { return nil }
        digest = AuditDigest.of(file)
        self.version = version
        self.programs = programs
    }

    func has(_ programs: SystemHistory.Programs) -> Bool {
        self.programs["paytokend"]?.hex == programs.daemon && self.programs["paytokend-hsm"]?.hex == programs.worker
            && programs.sbom.map { $0 == digest.hex } ?? true
    }
}

extension ReportBuilder {
    /// The recorded programs that are in none of the given lists; empty if no list is given.
    public var unlistedPrograms: [SystemHistory.Programs] {
        guard !listed.isEmpty else { return [] }
        return system.sortedNodes.flatMap(\.programs).filter { programs in
            programs.isRecorded && !listed.contains { $0.has(programs) }
        }
    }
}
