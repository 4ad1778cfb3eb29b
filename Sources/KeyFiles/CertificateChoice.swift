internal import X509

/// The merchant's certificate among all that a file holds, and its issuer's word for it.
struct CertificateChoice {
    let chosen: FoundCertificate
    /// All that the file holds, each once.
    let all: [FoundCertificate]
    /// The issuer that lies beside it and whose signature was checked.
    let issuer: FoundCertificate?

    /// - Parameters:
    ///   - certificates: DER, at least one.
    ///   - fits: Which of them are for the private key that lies in the same file; all, when there is none.
    init(
        among certificates: [[UInt8]], of path: String, where fits: ([UInt8]) -> Bool = { _ in true }
    ) throws(KeyFileError) {
        var all: [FoundCertificate] = []
        for der in certificates where !all.contains(where: { $0.der == der }) { all.append(FoundCertificate(der: der)) }
        self.all = all
        chosen = try Self.choose(among: all, candidates: all.filter { fits($0.der) }, path)
        issuer = try Self.issuer(of: chosen, among: all, path)
    }

    private static func choose(
        among all: [FoundCertificate], candidates: [FoundCertificate], _ path: String
    ) throws(KeyFileError) -> FoundCertificate {
        // One alone, or the key's only one, is passed on whatever it is: the daemon says best what is wrong with it.
        if let only = candidates.first, candidates.count == 1 {
            guard only.certificate != nil else {
                throw KeyFileError(
                    .unsuitable, path: path,
                    "begins like a certificate, but is not a whole and well-formed one. Download it again.")
            }
            return only
        }
        let suitable = candidates.filter { $0.role == .paymentProcessing }
        if let only = suitable.first, suitable.count == 1 { return only }
        let found = list(suitable.isEmpty ? all : suitable)
        throw suitable.isEmpty
            ? KeyFileError(
                .unsuitable, path: path,
                "holds \(all.count) certificates, but no Apple Pay Payment Processing Certificate among them: \(found)."
            )
            : KeyFileError(
                .unsuitable, path: path,
                "holds \(suitable.count) Apple Pay Payment Processing Certificates: \(found). Import them one by one, "
                    + "each from a file of its own.")
    }

    /// Certificates of the issuer's name decide only together with its signature: a chain that was put together from
    /// two downloads, or changed on its way, shows here.
    private static func issuer(
        of chosen: FoundCertificate, among all: [FoundCertificate], _ path: String
    ) throws(KeyFileError) -> FoundCertificate? {
        guard let certificate = chosen.certificate else { return nil }
        let named = all.filter { $0.der != chosen.der && $0.certificate?.subject == certificate.issuer }
        guard !named.isEmpty else { return nil }
        for candidate in named where candidate.role == .authority {
            if let issuer = candidate.certificate,
                issuer.publicKey.isValidSignature(certificate.signature, for: certificate)
            {
                return candidate
            }
        }
        throw KeyFileError(
            .unsuitable, path: path,
            "holds \(chosen.description) and its issuer, who did not sign it: \(list(named)). The certificate was "
                + "changed, or does not come from there. Download it again from Apple's developer portal.")
    }

    private static func list(_ certificates: [FoundCertificate]) -> String {
        let shown = certificates.prefix(5).map(\.description).joined(separator: "; ")
        return certificates.count > 5 ? "\(shown); and \(certificates.count - 5) more" : shown
    }

    /// What was taken from a file that holds several; nil where there was nothing to choose.
    var note: String? {
        guard all.count > 1 else { return nil }
        let word = issuer.map { ", signed by \($0.description)" } ?? "; its issuer is not in the file"
        return "took one of \(all.count) certificates: \(chosen.description)\(word)."
    }
}
