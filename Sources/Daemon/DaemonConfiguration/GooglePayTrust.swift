import ConfigurationFile
import Encodings
package import GooglePayToken
import WorkerSupervision

/// The keys `trust.google_pay`, `trust.google_pay_fetched` and `trust.google_pay_auto_accept`: Google's root keys from one
/// or two files. Another program fetches, since the daemon has no access to the network.
///
/// Without a fetched file, each key of the one file counts. With it, that file has the keys that a person has accepted,
/// and a key counts if both have it (``GoogleRootTrust``).
package struct GooglePayTrust: Sendable, Equatable {
    /// The absolute path of the file with the accepted keys.
    package let file: String
    /// Google's newest file.
    package struct Fetched: Sendable, Equatable {
        /// The absolute path.
        let file: String
        /// nil if the file cannot be used.
        package let content: GoogleRootFile?
        /// The reason why the file cannot be used.
        package let fault: String?
    }

    package let fetched: Fetched?
    let acceptsAll: Bool
    package let keys: GoogleRootTrust

    /// The keys that count.
    package var roots: GoogleRootKeys { keys.trusted }

    /// Reads the files.
    ///
    /// A fetched file that cannot be used is no error. Otherwise the account that fetches could end the daemon's service for
    /// both wallets.
    ///
    /// - Parameter fetched: the fetched file's absolute path; nil without one.
    /// - Throws: if the file with the accepted keys cannot be used.
    init(file: String, fetched: String?, acceptsAll: Bool) throws(TrustSettings.RootFileFlaw) {
        let accepted = try Self.content(of: file)
        guard accepted.fetch == nil else {
            throw TrustSettings.RootFileFlaw(
                what: "was written by a fetch, and no person has accepted its keys; name it in trust.google_pay_fetched"
            )
        }
        if fetched != nil {
            do throws(TrustedExecutable.Objection) {
                try TrustedExecutable.check(fileAt: file)
            } catch {
                throw TrustSettings.RootFileFlaw(
                    what: "\(error). An account that can write it decides which payments are genuine")
            }
        }
        self.fetched = fetched.map { path in
            do throws(TrustSettings.RootFileFlaw) {
                return Fetched(file: path, content: try Self.content(of: path), fault: nil)
            } catch {
                return Fetched(file: path, content: nil, fault: error.what)
            }
        }
        (self.file, self.acceptsAll) = (file, acceptsAll)
        keys = GoogleRootTrust(
            accepted: accepted.keys, fetched: self.fetched?.content?.keys, acceptsAll: acceptsAll)
    }

    /// Reads the files again, as they are now.
    package func readAgain() throws(TrustSettings.RootFileFlaw) -> GooglePayTrust {
        try GooglePayTrust(file: file, fetched: fetched?.file, acceptsAll: acceptsAll)
    }

    private static func content(of path: String) throws(TrustSettings.RootFileFlaw) -> GoogleRootFile {
        let bytes = try TrustSettings.content(ofFile: path)
        do throws(UnsuitableKey) {
            return try GoogleRootFile(parsing: bytes)
        } catch {
            throw TrustSettings.RootFileFlaw(what: "holds no root keys of Google's: \(error.reason)")
        }
    }

    /// The keys that are in one file only, as a sentence; nil if there are none.
    package var difference: String? {
        let parts = [
            ("Google lists keys that no person has accepted, and that do not count", keys.notAccepted),
            ("Google no longer lists accepted keys, which do not count", keys.vanished),
        ].filter { !$0.1.isEmpty }
        guard !parts.isEmpty else { return nil }
        return parts.map { text, keys in
            "\(text): \(keys.map { Hexadecimal.encode($0.sha256) }.joined(separator: ", "))"
        }.joined(separator: "; ")
    }
}

extension GooglePayTrust {
    private static let (accepted, fetched, autoAccept) = ("google_pay", "google_pay_fetched", "google_pay_auto_accept")

    /// Reads the keys of the section `trust`; returns nil without `google_pay`, or after a reported problem.
    init?(_ section: ConfigurationSection) {
        let fetchedPath = section.node(Self.fetched) == nil ? "" : section.path(Self.fetched, default: "")
        let acceptsAll = section.boolean(Self.autoAccept, default: false)
        guard section.node(Self.accepted) != nil else {
            if !fetchedPath.isEmpty {
                section.problem(Self.fetched, "needs google_pay, a file with the keys that a person has accepted")
            }
            return nil
        }
        if acceptsAll, fetchedPath.isEmpty {
            section.problem(Self.autoAccept, "has no effect without google_pay_fetched")
        }
        let path = section.path(Self.accepted, default: "")
        guard !path.isEmpty else { return nil }
        do throws(TrustSettings.RootFileFlaw) {
            try self.init(file: path, fetched: fetchedPath.isEmpty ? nil : fetchedPath, acceptsAll: acceptsAll)
            warn(section)
        } catch {
            section.problem(Self.accepted, "\(ConfigurationText.shown(path)) \(error.what)")
            return nil
        }
    }

    private func warn(_ section: ConfigurationSection) {
        if roots.keys.contains(where: \.isTest) {
            section.warning(
                .googlePayTestRoots, Self.accepted,
                "the file has the root key of Google's TEST environment, in which anyone can order payment tokens with "
                    + "test cards; use Google's file for production")
        }
        if acceptsAll {
            section.warning(
                .googlePayAutoAccept, Self.autoAccept,
                "a person who controls the account that fetches, or a certificate of Google's host, can make payment tokens "
                    + "that decrypt; leave it out, and accept each new key")
        }
        if let fault = fetched?.fault {
            section.warning(
                .googlePayFetchedUnusable, Self.fetched,
                "\(ConfigurationText.shown(fetched?.file ?? "")) \(fault). Every accepted key counts, even one that Google has "
                    + "removed; fetch the file again")
        }
        if let difference {
            section.warning(.googlePayRootKeysDiffer, Self.fetched, difference)
        }
    }
}
