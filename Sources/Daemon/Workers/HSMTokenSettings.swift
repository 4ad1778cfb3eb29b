/// One entry of the configuration's `tokens`: a PKCS#11 token and how its worker process uses it.
struct HSMTokenSettings: Sendable, Equatable {
    /// The name in metrics, records and `--token`.
    var name: String
    /// Absolute path of the PKCS#11 library.
    var module: String
    /// RFC 7512 URI naming the token by label and serial number, without a pin-source.
    var uri: String
    /// Absolute path of the file with the user PIN.
    var pinFile: String
    /// Working sessions, besides the one that holds the login.
    var sessions: Int
    /// A call that takes longer ends the worker.
    var callTimeout: Duration
    /// After so many operations a fresh worker takes over.
    var recycleAfter: Int
    /// Tier C: one transaction's symmetric key may be read into the worker's memory.
    var allowExtractableSecret: Bool
    /// The worker's environment variables, besides the few it always has.
    var environment: [String: String]
    /// Library-specific initialisation string (NSS); empty for none.
    var initArgs: String
    /// Absolute path of the file in which the worker remembers PINs that the token refused; empty for none.
    var refusedLogins = ""
    /// System calls that the worker is denied, by ``DeniableSystemCalls``' names.
    var deniedSystemCalls: [String] = []
}
