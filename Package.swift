// swift-tools-version: 6.2
import PackageDescription

/// The settings of every Swift target: Swift 6 language mode (from the tools version), strict memory safety, and
/// warnings as errors. Unsafe code is then written `unsafe`, and appears next to a C target only.
let house: [SwiftSetting] = [
    .strictMemorySafety(),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
]

/// True in the builds of scripts/fuzz, which sets the variable. They have the program `fuzzer` as well, and count the executed
/// edges of the code in Sources. Assertions are checked although the build is optimised.
let isFuzzing = Context.environment["PAYTOKEND_FUZZING"] != nil
let fuzzed: [SwiftSetting] = [.unsafeFlags(["-sanitize=fuzzer", "-assert-config", "Debug"])]
let fuzzedC: [CSetting] = [.unsafeFlags(["-fsanitize=fuzzer-no-link"])]

/// `thread` or `address` in the builds of scripts/sanitize, which sets the variable.
let sanitizer = Context.environment["PAYTOKEND_SANITIZER"]
/// The Swift compiler refuses UndefinedBehaviorSanitizer on Linux. AddressSanitizer's runtime contains that of clang's checks.
let undefined: [CSetting] = [.unsafeFlags(["-fsanitize=undefined"])]
/// The options of the sanitizer's runtime, which only those builds have. Locks links them, and so all programs do.
let sanitizerOptions: [Target] =
    sanitizer == nil
    ? []
    : [
        .target(
            name: "CSanitizers", path: "Tests/Equipment/CSanitizers",
            cSettings: [
                .define("REPORTS", to: "\"\(Context.packageDirectory)/.build/sanitize/reports\""),
                .define("SUPPRESSIONS", to: "\"\(Context.packageDirectory)/scripts/suppressions\""),
            ])
    ]

let crypto: Target.Dependency = .product(name: "Crypto", package: "swift-crypto")
let cryptoExtras: Target.Dependency = .product(name: "CryptoExtras", package: "swift-crypto")
let x509: Target.Dependency = .product(name: "X509", package: "swift-certificates")
let asn1: Target.Dependency = .product(name: "SwiftASN1", package: "swift-asn1")
let nioCore: Target.Dependency = .product(name: "NIOCore", package: "swift-nio")
let nioPosix: Target.Dependency = .product(name: "NIOPosix", package: "swift-nio")
let nioEmbedded: Target.Dependency = .product(name: "NIOEmbedded", package: "swift-nio")
let nioHTTP1: Target.Dependency = .product(name: "NIOHTTP1", package: "swift-nio")
let nioTLS: Target.Dependency = .product(name: "NIOTLS", package: "swift-nio")
let nioSSL: Target.Dependency = .product(name: "NIOSSL", package: "swift-nio-ssl")
let grdb: Target.Dependency = .product(name: "GRDB", package: "GRDB.swift")
// SQLite's own interface, for the statements of a release.
let sqlite: Target.Dependency = .product(name: "GRDBSQLite", package: "GRDB.swift")
let yams: Target.Dependency = .product(name: "Yams", package: "Yams")
let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let signals: Target.Dependency = .product(name: "UnixSignals", package: "swift-service-lifecycle")
let arguments: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")
let histogram: Target.Dependency = .product(name: "Histogram", package: "hdrhistogram-swift")
// Packages that only other packages use. SwiftPM warns about a dependency that no target names; no product is used here, as the
// platform is not one of ours.
let indirect: [Target.Dependency] = [
    .product(name: "Atomics", package: "swift-atomics", condition: .when(platforms: [.windows])),
    .product(name: "SystemPackage", package: "swift-system", condition: .when(platforms: [.windows])),
    .product(name: "RealModule", package: "swift-numerics", condition: .when(platforms: [.windows])),
]

/// Targets without Swift.
let languageC: Set = [
    "CLinux", "CLibcrypto", "CLibxml2", "CLibpq", "CPKCS11", "CEpoll", "ScriptedPKCS11", "HangingResolver",
    "ProgramStart", "CLibFuzzer", "CSanitizers",
]

/// The targets of a folder, each in a subfolder of its own name and with the settings of `house`. The line above a target
/// describes it, and scripts/check-structure copies it into Architecture.md.
func folder(_ path: String, _ targets: [Target]) -> [Target] {
    for target in targets {
        target.path = target.path ?? "\(path)/\(target.name)"
        if !languageC.contains(target.name) {
            target.swiftSettings = house + (isFuzzing && path.hasPrefix("Sources/") ? fuzzed : [])
            if sanitizer == "thread" { target.swiftSettings?.append(.define("THREAD_SANITIZER")) }
        } else if path.hasPrefix("Sources/"), target.type == .regular {
            let more = (isFuzzing ? fuzzedC : []) + (sanitizer == "address" ? undefined : [])
            target.cSettings = (target.cSettings ?? []) + more
        }
    }
    return targets
}

/// The program that scripts/fuzz runs. It links libFuzzer, which only its build has.
let fuzzer: [Target] =
    isFuzzing
    ? [
        .target(name: "CLibFuzzer"),
        .executableTarget(
            name: "fuzzer", dependencies: ["CLibFuzzer", "FuzzTargets"],
            // The linker gold cannot read this build's debug information.
            linkerSettings: [.unsafeFlags(["-sanitize=fuzzer", "-use-ld=lld"])]),
    ] : []

// A folder, and each of its targets, depends only on those above it (scripts/check-structure).
let folders: [[Target]] = [
    folder(
        "Sources/Support",
        sanitizerOptions + [
            /// The mutex and the atomic values of all targets: the standard library's, or what ThreadSanitizer observes.
            .target(name: "Locks", dependencies: sanitizerOptions.map { .byName(name: $0.name) }),
            /// A dictionary with a maximum number of entries.
            .target(name: "BoundedTable"),
            /// Linux headers that Swift cannot import, and the few lines that only C can express.
            .target(name: "CLinux"),
            /// OpenSSL's libcrypto: OAEP in constant time, PKCS#12 and encrypted PKCS#8.
            .target(name: "CLibcrypto", linkerSettings: [.linkedLibrary("crypto")]),
            /// libxml2, the XML parser that distributions maintain; for Radial alone.
            // Not Foundation's XMLParser: it is libxml2 too, but has no limits and cannot refuse a document type before reading it.
            .systemLibrary(name: "CLibxml2", pkgConfig: "libxml-2.0", providers: [.apt(["libxml2-dev"])]),
            /// The version, one constant.
            .target(name: "ProductVersion"),
            /// Bytes that are locked in memory, excluded from core dumps, and wiped.
            .target(name: "SecretMemory", dependencies: ["Locks"]),
            /// The closed set of refusal codes.
            .target(name: "Refusals"),
            /// Bounded JSON, read and written.
            .target(name: "StrictJSON"),
            /// Hexadecimal, base64, times, durations, key names, public keys, certificate fields: one encoder and decoder each.
            .target(name: "Encodings", dependencies: [crypto, asn1]),
            /// A queue in which owners take turns, and within an owner the names that it works for; a lock for asynchronous work.
            .target(name: "FairShares", dependencies: ["Locks", nioCore]),
            /// Services of Linux: small files, accounts, systemd notifications.
            .target(name: "HostSystem", dependencies: ["Locks", "CLinux", logging]),
            /// The log on standard error, and metrics in Prometheus' text format.
            .target(name: "Telemetry", dependencies: ["Locks", "Encodings", "StrictJSON", logging]),
            /// YAML configuration: sections with a closed set of keys; each problem is reported with its line.
            .target(
                name: "ConfigurationFile",
                dependencies: ["Encodings", "HostSystem", "SecretMemory", "Telemetry", yams]),
        ]),
    folder(
        "Sources/HSM",
        [
            /// The PKCS#11 header.
            // Without pkg-config: its -lp11-kit would make the worker load a library of which it needs the header alone.
            .systemLibrary(name: "CPKCS11", providers: [.apt(["libp11-kit-dev"])]),
            /// Modules, slots, sessions, objects, mechanisms: the specification's nouns, independent of payments.
            .target(name: "PKCS11", dependencies: ["CPKCS11", "Encodings", "SecretMemory"]),
            /// The sealing of a private key for the worker: paytokenctl seals, the worker opens.
            .target(name: "KeySealing", dependencies: ["SecretMemory", crypto]),
            /// Tier C: the one-step KDF, OAEP and GCM for Apple Pay; HKDF, HMAC and AES-CTR for Google Pay.
            .target(
                name: "KeyRestoration", dependencies: ["CLibcrypto", "SecretMemory", crypto]),
            /// A strict parser of the data that the key of a TLS client's certificate signs; Apple's session hosts.
            .target(name: "TLSHandshake", dependencies: ["Encodings"]),
            /// The possible requests to Apple's App Store Connect API, and the JSON Web Tokens for them.
            .target(name: "PortalRequests", dependencies: ["Encodings", asn1]),
            /// A merchant key's algorithm and use, and the protection tiers.
            .target(name: "KeyTypes"),
            /// The frames between the daemon and its workers.
            .target(name: "WorkerProtocol", dependencies: ["KeyTypes", "PortalRequests", "TLSHandshake"]),
            /// Messages with which a key's private half proves itself: the worker's self-tests, the daemon's proofs.
            .target(
                name: "KeyTesting", dependencies: ["Encodings", "TLSHandshake", "WorkerProtocol", crypto, cryptoExtras]),
            /// The worker's operations on those frames: all that paytokend-hsm links.
            .target(
                name: "HSMWorker",
                dependencies: [
                    "Locks", "KeyTypes",
                    "CLinux", "Encodings", "ProductVersion", "SecretMemory", "KeySealing", "PKCS11", "KeyRestoration",
                    "KeyTesting", "PortalRequests", "TLSHandshake", "WorkerProtocol",
                    crypto, cryptoExtras, asn1,
                ]),
        ]),
    folder(
        "Sources/PaymentTokens",
        [
            /// Payment token, signature, trust, payload, expected details. No I/O and no clock.
            .target(
                name: "PaymentToken",
                dependencies: [
                    "BoundedTable", "Locks", "Encodings", "Refusals", "StrictJSON", crypto, cryptoExtras, x509, asn1,
                ]),
            /// Google Pay's payment token: its format, its signatures up to Google's root keys, its plaintext. No I/O and no clock.
            .target(
                name: "GooglePayToken",
                dependencies: [
                    "BoundedTable", "Locks", "Encodings", "PaymentToken", "Refusals", "StrictJSON", crypto,
                ]),
            /// The index from public key hash to merchant key; states, certificates, rotations.
            .target(
                name: "MerchantKeys",
                dependencies: [
                    "Locks", "KeyTypes",
                    "Encodings", "PortalRequests", "WorkerProtocol", "PaymentToken", "Refusals", crypto, x509, asn1,
                    cryptoExtras,
                ]),
            /// Keys and certificates from PEM, DER, PKCS#7 and PKCS#12 files, for the command line.
            .target(
                name: "KeyFiles", dependencies: ["CLibcrypto", "Encodings", "SecretMemory", x509, asn1]),
        ]),
    folder(
        "Sources/Service",
        [
            /// The peer of a Unix socket, its person, and the access rules that match it; for daemon and gateway.
            .target(
                name: "AccessControl", dependencies: ["CLinux", "ConfigurationFile", "GooglePayToken", "HostSystem"]),
            /// The HTTP/1.1 client of all programs: one attempt, bounded answers, and no wait for another host's name resolution.
            .target(name: "OutgoingConnections", dependencies: ["Locks", nioCore, nioPosix, nioHTTP1, nioTLS]),
            /// Requests to one host that no setting can change, over verified TLS.
            .target(name: "FixedHosts", dependencies: ["OutgoingConnections", nioCore, nioSSL]),
            /// The HTTP/1.1 server for untrusted peers, of daemon and gateway: bounded requests, connection limits, socket files, shutdown.
            // Not Hummingbird: it drains an unread body without limit after an early refusal, has no idle timeout by default,
            // answers bytes that are not HTTP with an empty 400, and stops accepting at its connection limit, so that idle
            // peers starve all others.
            .target(
                name: "HTTPListener",
                dependencies: [
                    "Locks", "AccessControl", "CLinux", "Encodings", "FairShares", "HostSystem", nioCore, nioPosix,
                    nioHTTP1,
                    logging,
                ]),
            /// The daemon's API: types, the one table from code to status, the client; openapi.json.
            .target(
                name: "DaemonAPI",
                dependencies: [
                    "Encodings", "OutgoingConnections", "Refusals", "StrictJSON", "TLSHandshake", nioCore, nioHTTP1,
                ],
                exclude: ["openapi.json"]),
            /// Requests and answers of the gateway's admin socket, shared with its command lines.
            .target(name: "GatewayAPI", dependencies: ["DaemonAPI", "Refusals"]),
            /// The common part of daemon and gateway: start, signals, reload and shutdown; router, request log, refusals.
            .target(
                name: "ServerProgram",
                dependencies: [
                    "Locks", "Encodings",
                    "ConfigurationFile", "DaemonAPI", "HTTPListener", "HostSystem", "Refusals", "Telemetry", nioPosix,
                    logging, signals,
                ]),
        ]),
    folder(
        "Sources/Records",
        [
            /// The key-usage record: lines, hash chain, audit checkpoints, and their verification. No database.
            .target(
                name: "AuditChain",
                dependencies: ["Encodings", "KeyTypes", "Refusals", "StrictJSON", crypto, cryptoExtras]),
            /// The assessor's report: totals of an export, and their HTML page.
            .target(
                name: "AuditReport", dependencies: ["Encodings", "AuditChain", "DaemonAPI", "StrictJSON"],
                resources: [.embedInCode("Page/report.template.html")]),
        ]),
    folder(
        "Sources/Storage",
        [
            /// PostgreSQL's client library.
            .systemLibrary(name: "CLibpq", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
            /// The common part of both database engines: the queue of writes, deadlines, statements and rows. No database.
            .target(name: "DatabaseKit", dependencies: ["Locks"]),
            /// Sessions with a PostgreSQL server through libpq: bounded waits, pipelined statements, typed rows; no tables.
            .target(name: "PostgreSQLClient", dependencies: ["Locks", "CLibpq", "DatabaseKit", "SecretMemory"]),
            /// The configuration of a PostgreSQL database.
            .target(
                name: "DatabaseSettings", dependencies: ["ConfigurationFile", "PostgreSQLClient"]),
            /// Private, durable SQLite files: location, lock, durability settings, one commit for many writes.
            .target(name: "SQLiteFiles", dependencies: ["Locks", "DatabaseKit", grdb, sqlite]),
            /// Claims, key records and audit records in one commit for many requests: the rules and statements of every engine.
            .target(
                name: "Ledger",
                dependencies: [
                    "BoundedTable", "Locks", "AccessControl", "KeyTypes", "AuditChain", "DatabaseKit", "Encodings",
                    "MerchantKeys", "PaymentToken",
                    "PostgreSQLClient", "Refusals", "SQLiteFiles", grdb,
                ]),
            /// The ledger in a file, for one host.
            .target(
                name: "SQLiteLedger",
                dependencies: [
                    "Locks", "AuditChain", "DatabaseKit", "Ledger", "MerchantKeys",
                    "PaymentToken", "SQLiteFiles", crypto, grdb, sqlite,
                ]),
            /// The ledger on a PostgreSQL server, for several hosts.
            .target(
                name: "PostgreSQLLedger",
                dependencies: [
                    "Locks", "AccessControl", "KeyTypes", "AuditChain", "DatabaseKit", "Ledger", "MerchantKeys",
                    "PaymentToken", "PostgreSQLClient",
                ]),
            /// Operations on a ledger that no daemon uses: the restore of a file, and the move of a file to a server.
            .target(
                name: "OfflineLedger",
                dependencies: [
                    "AuditChain", "DatabaseKit", "Ledger", "MerchantKeys",
                    "PaymentToken", "PostgreSQLClient", "PostgreSQLLedger", "SQLiteFiles", "SQLiteLedger", crypto, grdb,
                ]),
            /// Amounts, currencies, payment states and the store of payments (SQLite; PostgreSQL for several gateways), without card data.
            .target(
                name: "Payments",
                dependencies: ["Locks", "DatabaseKit", "Encodings", "PostgreSQLClient", "SQLiteFiles", grdb]
            ),
        ]),
    folder(
        "Sources/Daemon",
        [
            /// Calls to the HSM tokens' worker processes: queue, choice of the worker, start and replacement of workers.
            .target(
                name: "WorkerSupervision",
                dependencies: [
                    "Locks", "CLinux", "FairShares", "HostSystem", "KeyTypes", "PaymentToken", "PortalRequests",
                    "ProductVersion",
                    "SecretMemory",
                    "TLSHandshake",
                    "Telemetry", "WorkerProtocol", nioCore, nioPosix, logging, crypto,
                ]),
            /// The daemon's configuration: its sections, the access rules and the callers that they match, its values in the record.
            .target(
                name: "DaemonConfiguration",
                dependencies: [
                    "AccessControl", "AuditChain", "CLinux", "ConfigurationFile", "DaemonAPI", "DatabaseSettings",
                    "Encodings", "GooglePayToken", "HTTPListener", "HostSystem", "KeyTypes", "Ledger", "MerchantKeys",
                    "PaymentToken", "PortalRequests", "PostgreSQLClient", "PostgreSQLLedger", "SQLiteLedger",
                    "SecretMemory", "ServerProgram", "Telemetry", "WorkerSupervision", crypto, x509,
                ]),
            /// The daemon's part of the key-usage record: writes, seals, checks, archives and exports it; the write gate of its ledger.
            .target(
                name: "UsageRecording",
                dependencies: [
                    "AccessControl", "AuditChain", "DaemonAPI", "DaemonConfiguration", "Encodings", "FairShares",
                    "HTTPListener", "HostSystem", "KeyTypes", "Ledger", "Locks", "MerchantKeys", "PaymentToken",
                    "Refusals", "Telemetry", "WorkerProtocol", "WorkerSupervision", crypto, logging, nioPosix,
                ]),
            /// The daemon: all of the above except the HSM's side.
            .target(
                name: "Daemon",
                dependencies: [
                    "BoundedTable", "Locks", "FairShares",
                    "KeyTesting", "KeyTypes",
                    "AccessControl", "Encodings", "PortalRequests", "ProductVersion", "SecretMemory",
                    "Refusals", "StrictJSON",
                    "TLSHandshake",
                    "WorkerProtocol",
                    "GooglePayToken", "PaymentToken",
                    "MerchantKeys", "AuditChain", "Ledger", "PostgreSQLLedger", "SQLiteLedger",
                    "DaemonAPI",
                    "HostSystem", "Telemetry",
                    "ConfigurationFile", "DaemonConfiguration", "HTTPListener", "WorkerSupervision", nioCore, nioPosix,
                    logging, signals, x509, "ServerProgram", "UsageRecording", crypto,
                ]),
        ]),
    folder(
        "Sources/Gateway",
        [
            /// Radial's XML: reads requests and replies within bounds, writes replies and the message to the processor; no network.
            .target(
                name: "Radial", dependencies: ["CLibxml2", "Encodings", "Payments", "SecretMemory", "StrictJSON"]),
            /// The interface to payment processors, and those known (a simulator; Radial, never tried). A new one is a file of its own.
            .target(
                name: "Processors",
                dependencies: [
                    "Locks", "Encodings", "GooglePayToken", "HostSystem", "KeyTypes", "OutgoingConnections", "Payments",
                    "Radial", "SecretMemory", "StrictJSON", nioCore, nioHTTP1, nioSSL, crypto,
                ]),
            /// The merchant server: a separate program that calls the daemon like any other backend.
            .target(
                name: "Gateway",
                dependencies: [
                    "Locks", "GatewayAPI",
                    "DatabaseSettings",
                    "AccessControl", "ConfigurationFile", "DaemonAPI", "Encodings", "FairShares", "GooglePayToken",
                    "HostSystem", "HTTPListener", "KeyTypes", "Payments", "Processors", "ProductVersion", "Radial",
                    "Refusals", "SecretMemory", "StrictJSON", "Telemetry", "TLSHandshake", nioCore,
                    "OutgoingConnections",
                    nioHTTP1, nioSSL, logging, "ServerProgram", x509, asn1, crypto, nioTLS,
                ],
                exclude: ["openapi.json"]),
            /// The requests to Apple's App Store Connect API that the daemon has permitted: a separate program that calls the daemon.
            .target(
                name: "Outbound",
                dependencies: [
                    "ConfigurationFile", "DaemonAPI", "Encodings", "FixedHosts", "HTTPListener", "HostSystem",
                    "OutgoingConnections", "PortalRequests", "ProductVersion", "ServerProgram", "StrictJSON",
                    "Telemetry",
                    logging, nioCore, nioHTTP1,
                ]),
        ]),
    folder(
        "Sources/Programs",
        [
            /// For the command lines: tables, text that is safe for a terminal, exit statuses.
            .target(
                name: "CommandOutput",
                dependencies: ["SecretMemory", "PostgreSQLClient", "DaemonAPI", "Encodings", "StrictJSON", arguments]),
            /// The daemon's command line.
            .executableTarget(
                name: "paytokend",
                dependencies: ["HostSystem", "CommandOutput", "Daemon", "ProductVersion", arguments]),
            /// The worker's command line.
            .executableTarget(
                name: "paytokend-hsm", dependencies: ["HSMWorker", "ProductVersion", "WorkerProtocol", arguments]),
            /// The command line of the security team and the auditor.
            .executableTarget(
                name: "paytokenctl",
                dependencies: [
                    "Locks", "GatewayAPI",
                    "AccessControl",
                    "AuditChain", "AuditReport", "CLinux", "CommandOutput", "DaemonAPI", "Encodings", "FixedHosts",
                    "GooglePayToken", "HTTPListener", "HostSystem", "KeyFiles", "OutgoingConnections", "KeySealing",
                    "Ledger", "OfflineLedger", "PostgreSQLClient", "PostgreSQLLedger", "ProductVersion",
                    "SecretMemory",
                    "StrictJSON",
                    "Telemetry", arguments, crypto, logging, nioCore, nioHTTP1, nioPosix, signals,
                ]),
            /// The merchant server's command line.
            .executableTarget(
                name: "paytoken-gateway",
                dependencies: [
                    "GatewayAPI",
                    "HostSystem",
                    "CommandOutput", "DaemonAPI", "Encodings", "Gateway", "Payments", "PostgreSQLClient",
                    "ProductVersion",
                    "SecretMemory", arguments,
                ]),
            /// The outbound program's command line.
            .executableTarget(
                name: "paytoken-outbound",
                dependencies: ["CommandOutput", "HostSystem", "Outbound", "ProductVersion", arguments]),
        ]),
    folder(
        "Tests/Equipment",
        [
            /// Plays Apple and the Secure Element; shares no code with what it tests.
            .target(
                name: "TokenForge",
                dependencies: [crypto, cryptoExtras, x509, asn1] + sanitizerOptions.map { .byName(name: $0.name) }),
            /// Plays a payment processor, and keeps a durable log of all submissions.
            .target(
                name: "ProcessorSimulator",
                dependencies: [
                    "Locks", "Encodings", "HTTPListener", "HostSystem", "Payments", "StrictJSON", nioCore, nioPosix,
                    nioHTTP1,
                ]),
            /// Plays Apple's App Store Connect API, and the host with Google's root keys.
            .target(
                name: "PortalSimulator", dependencies: ["Locks", "TokenForge", crypto, nioCore, nioPosix, nioSSL]),
            /// TokenForge's command line.
            .executableTarget(
                name: "token-forge", dependencies: ["TokenForge", "ProductVersion", arguments, crypto]),
            /// ProcessorSimulator's command line.
            .executableTarget(
                name: "processor-simulator",
                dependencies: ["HTTPListener", "ProcessorSimulator", "ProductVersion", arguments, signals]),
            /// PortalSimulator's command line.
            .executableTarget(
                name: "portal-simulator",
                dependencies: ["PortalSimulator", "ProductVersion", "TokenForge", arguments, crypto]),
            /// The start of a program with files as its standard descriptors and no other descriptor.
            .target(name: "ProgramStart", dependencies: ["CLinux"]),
            /// Starts real components in fresh directories.
            .target(
                name: "TestSupport",
                dependencies: [
                    "Locks", "CLinux", "HostSystem", "ProgramStart", "TokenForge", "StrictJSON", "PKCS11",
                    "SecretMemory",
                    crypto,
                    cryptoExtras,
                    grdb, sqlite, nioCore, nioPosix, nioSSL, x509, logging,
                ] + indirect),
            .testTarget(
                name: "TokenForgeTests",
                dependencies: ["TokenForge", "TestSupport", "token-forge", crypto, cryptoExtras]),
            .testTarget(
                name: "ProcessorSimulatorTests",
                dependencies: [
                    "Locks", "HostSystem", "ProcessorSimulator", "processor-simulator", "StrictJSON", "TestSupport",
                    nioCore,
                ]),
            /// A PKCS#11 module that forwards to a real one and injects faults.
            .target(
                name: "ScriptedPKCS11", dependencies: ["CPKCS11"],
                linkerSettings: [.linkedLibrary("crypto")]),
            /// A resolver that a test can make hang; preloaded into a program.
            .target(name: "HangingResolver"),
        ]),
    folder(
        "Tests/Support",
        [
            .testTarget(name: "SecretMemoryTests", dependencies: ["SecretMemory", "TestSupport"]),
            .testTarget(name: "StrictJSONTests", dependencies: ["StrictJSON"]),
            .testTarget(name: "FairSharesTests", dependencies: ["Locks", "FairShares"]),
            .testTarget(
                name: "EncodingsTests", dependencies: ["Encodings", "TestSupport", "TokenForge", crypto, asn1]),
        ]),
    folder(
        "Tests/HSM",
        [
            .testTarget(
                name: "KeySealingTests", dependencies: ["KeySealing", "SecretMemory", crypto]),
            .testTarget(
                name: "PKCS11Tests",
                dependencies: [
                    "Encodings", "PKCS11", "SecretMemory", "KeyRestoration", "PaymentToken", "TestSupport", crypto,
                    cryptoExtras, asn1,
                ]),
            .testTarget(
                name: "KeyRestorationTests",
                dependencies: ["KeyRestoration", "SecretMemory", "TestSupport", crypto, cryptoExtras]),
            .testTarget(name: "PortalRequestsTests", dependencies: ["PortalRequests"]),
            .testTarget(
                name: "WorkerProtocolTests", dependencies: ["PortalRequests", "WorkerProtocol", "TestSupport"]),
            .testTarget(
                name: "HSMWorkerTests",
                dependencies: [
                    "Locks", "KeyTesting", "KeyTypes",
                    "AuditChain", "CLinux", "Encodings", "HSMWorker", "KeySealing", "MerchantKeys", "PKCS11",
                    "PortalRequests", "ProductVersion",
                    "SecretMemory",
                    "StrictJSON", "TLSHandshake",
                    "WorkerProtocol", "TestSupport", "TokenForge", crypto, cryptoExtras,
                ]),
            .testTarget(
                name: "TLSHandshakeTests",
                dependencies: ["TLSHandshake", "Encodings", "TestSupport", nioCore, nioPosix, nioSSL]),
        ]),
    folder(
        "Tests/PaymentTokens",
        [
            .testTarget(
                name: "PaymentTokenTests",
                dependencies: [
                    "Encodings", "PaymentToken", "StrictJSON", "TestSupport", "TokenForge", crypto, cryptoExtras, x509,
                    asn1, "Refusals",
                ]),
            .testTarget(
                name: "GooglePayTokenTests",
                dependencies: [
                    "Encodings", "GooglePayToken", "PaymentToken", "Refusals", "StrictJSON", "TestSupport",
                    "TokenForge",
                    crypto,
                ],
                exclude: ["open-google-pay"]),
            .testTarget(
                name: "MerchantKeysTests",
                dependencies: [
                    "KeyTypes", "MerchantKeys", "PaymentToken", "PortalRequests", "Refusals", "WorkerProtocol",
                    "TestSupport",
                    "TokenForge",
                    crypto,
                ]),
            .testTarget(
                name: "KeyFilesTests", dependencies: ["KeyFiles", "SecretMemory", "TestSupport", "TokenForge", crypto]),
        ]),
    folder(
        "Tests/Service",
        [
            .testTarget(
                name: "DaemonAPITests",
                dependencies: [
                    "Locks", "DaemonAPI", "Encodings", "OutgoingConnections", "Refusals", "StrictJSON", "TestSupport",
                    nioCore,
                    nioPosix,
                ]),
            .testTarget(
                name: "OutgoingConnectionsTests",
                dependencies: ["OutgoingConnections", "TestSupport", nioCore, nioEmbedded, nioPosix]),
        ]),
    folder(
        "Tests/Records",
        [
            .testTarget(
                name: "AuditChainTests",
                dependencies: [
                    "AuditChain", "Encodings", "KeyTypes", "Refusals", "StrictJSON", "TestSupport", crypto,
                    cryptoExtras,
                ]),
            .testTarget(
                name: "AuditReportTests",
                dependencies: [
                    "AuditChain", "AuditReport", "KeyTypes", "Refusals", "StrictJSON", "TestSupport", crypto,
                ], exclude: ["templates.json"]),
        ]),
    folder(
        "Tests/Storage",
        [
            .testTarget(
                name: "LedgerTests",
                dependencies: [
                    "Locks", "AccessControl",
                    "KeyTypes",
                    "AuditChain", "DatabaseKit", "Ledger", "MerchantKeys", "OfflineLedger", "PaymentToken",
                    "PostgreSQLClient",
                    "PostgreSQLLedger", "Refusals", "SQLiteFiles", "SQLiteLedger",
                    "WorkerProtocol", "TestSupport", crypto, cryptoExtras, grdb,
                ]),
            .testTarget(
                name: "PaymentsTests",
                dependencies: [
                    "Locks", "DatabaseKit", "Payments", "PostgreSQLClient", "SQLiteFiles", "TestSupport", crypto, grdb,
                ]),
        ]),
    folder(
        "Tests/Daemon",
        [
            .testTarget(
                name: "WorkerSupervisionTests",
                dependencies: [
                    "Locks", "HostSystem", "KeySealing", "KeyTypes", "MerchantKeys", "PaymentToken", "SecretMemory",
                    "Telemetry", "TestSupport",
                    "TokenForge", "WorkerProtocol",
                    "WorkerSupervision", logging, crypto,
                ]),
            .testTarget(
                name: "DaemonTests",
                dependencies: [
                    "Locks", "WorkerSupervision", "ServerProgram",
                    "KeySealing", "KeyTypes", "SecretMemory", "TLSHandshake",
                    "AccessControl", "AuditChain", "CLinux", "ConfigurationFile", "Daemon", "DaemonAPI",
                    "DaemonConfiguration", "HTTPListener", "GooglePayToken", "HostSystem",
                    "Ledger", "MerchantKeys", "PaymentToken", "PortalRequests", "PostgreSQLClient", "Refusals",
                    "SQLiteLedger",
                    "StrictJSON", "Telemetry", "UsageRecording", "WorkerProtocol", "TestSupport", "TokenForge", logging,
                    nioCore, nioEmbedded, nioHTTP1, nioPosix, crypto, cryptoExtras, grdb,
                ]),
        ]),
    folder(
        "Tests/Gateway",
        [
            .testTarget(
                name: "RadialTests", dependencies: ["Payments", "Radial", "SecretMemory", "StrictJSON"]),
            .testTarget(
                name: "ProcessorsTests",
                dependencies: [
                    "GooglePayToken", "OutgoingConnections", "Payments", "Processors", "SecretMemory", "StrictJSON",
                    "TestSupport", "TokenForge", nioCore, nioHTTP1, nioPosix,
                ]),
            .testTarget(
                name: "OutboundTests",
                dependencies: [
                    "ConfigurationFile", "DaemonAPI", "Outbound", "OutgoingConnections", "PortalRequests",
                    "PortalSimulator", "ServerProgram", "TestSupport", "TokenForge", crypto, nioCore, nioSSL,
                ]),
            .testTarget(
                name: "GatewayTests",
                dependencies: [
                    "GatewayAPI",
                    "ServerProgram",
                    "AccessControl", "ConfigurationFile", "DaemonAPI", "Encodings", "Gateway", "GooglePayToken",
                    "HTTPListener", "HostSystem", "KeyTypes", "Payments", "SecretMemory", "Processors",
                    "paytoken-gateway", "Radial", "Refusals", "StrictJSON",
                    "Telemetry", "TestSupport", "TLSHandshake", "TokenForge", "OutgoingConnections",
                    logging, nioCore, nioPosix, nioHTTP1, nioSSL, crypto, x509, asn1, cryptoExtras,
                ]),
        ]),
    folder(
        "Tests/Measuring",
        [
            /// Linux's epoll.
            .systemLibrary(name: "CEpoll"),
            /// The load of scripts/soak and scripts/bench.
            .executableTarget(
                name: "load-generator", dependencies: ["CEpoll", "CLinux", arguments, histogram],
                path: "Tests/Measuring/LoadGenerator"),
            .testTarget(
                name: "LoadGeneratorTests", dependencies: ["Locks", "load-generator", "TestSupport", nioCore, nioPosix]),
            /// The cost of verifying a payment token.
            .executableTarget(
                name: "verification-price", dependencies: ["PaymentToken", "StrictJSON", histogram],
                path: "Tests/Measuring/VerificationPrice"),
            /// The daemon with a ledger in memory.
            .executableTarget(
                name: "paytokend-memory-ledger",
                dependencies: ["Locks", "AuditChain", "Daemon", "Ledger", "MerchantKeys", "PaymentToken"],
                path: "Tests/Measuring/MemoryLedgerDaemon"),
            /// The gateway with its identity key in a file.
            .executableTarget(
                name: "paytoken-gateway-file-key",
                dependencies: ["DaemonAPI", "Encodings", "Gateway", "TLSHandshake", crypto, cryptoExtras],
                path: "Tests/Measuring/FileKeyGateway"),
            /// A ledger of any size.
            .executableTarget(
                name: "ledger-filler",
                dependencies: [
                    "Locks", "AuditChain", "Ledger", "PKCS11", "PostgreSQLClient", "PostgreSQLLedger", "SecretMemory",
                    "SQLiteLedger",
                    crypto,
                ],
                path: "Tests/Measuring/LedgerFiller"),
            /// A worker process at the other end of a socket pair.
            .target(name: "WorkerLink", dependencies: ["CLinux", "WorkerProtocol"]),
            /// The cost of the worker's process boundary.
            .executableTarget(
                name: "boundary-price",
                dependencies: ["Locks", "HSMWorker", "ProductVersion", "TestSupport", "WorkerLink", "WorkerProtocol"],
                path: "Tests/Measuring/BoundaryPrice"),
            /// The times that scripts/timing compares.
            .executableTarget(
                name: "timing-probe",
                dependencies: [
                    "KeyRestoration", "KeyTypes", "ProductVersion", "SecretMemory", "TestSupport", "WorkerLink",
                    "WorkerProtocol", arguments, crypto,
                ],
                path: "Tests/Measuring/TimingProbe"),
            /// An HSM token and a ledger with many keys.
            .executableTarget(
                name: "key-filler",
                dependencies: [
                    "Locks", "Ledger", "MerchantKeys", "PaymentToken", "PKCS11", "SecretMemory", "SQLiteLedger",
                    "TokenForge", crypto,
                ],
                path: "Tests/Measuring/KeyFiller"),
            /// A simulated year of the key-usage record, for programs that read such records.
            .executableTarget(
                name: "paytokend-year", dependencies: ["AuditChain", "KeyTypes", "Refusals", arguments, crypto],
                path: "Tests/Measuring/YearOfRecords"),
            .testTarget(
                name: "YearOfRecordsTests",
                dependencies: ["AuditChain", "StrictJSON", "TestSupport", "paytokenctl", "paytokend-year"]),
        ]),
    folder(
        "Tests/Fuzzing",
        [
            /// The inputs from outside that scripts/fuzz varies, each with its oracle.
            .target(
                name: "FuzzTargets",
                dependencies: [
                    "Locks", "AuditChain", "ConfigurationFile", "DaemonAPI", "Encodings", "HTTPListener", "KeyFiles",
                    "GooglePayToken", "Outbound", "PaymentToken", "PortalRequests", "PostgreSQLClient", "Processors",
                    "Radial",
                    "Refusals", "StrictJSON", "TLSHandshake", "Telemetry",
                    "TokenForge", "WorkerProtocol", asn1, crypto, cryptoExtras, logging, nioCore, nioPosix, x509,
                ]),
            /// The committed corpora, on the ordinary build.
            .testTarget(name: "FuzzTargetsTests", dependencies: ["FuzzTargets"]),
        ] + fuzzer),
    folder(
        "Tests/Programs",
        [
            .testTarget(
                name: "PaytokenctlTests",
                dependencies: [
                    "Locks", "paytoken-gateway", "paytokenctl", "paytokend", "AuditChain", "CommandOutput", "DaemonAPI",
                    "Encodings",
                    "KeySealing", "SecretMemory", "StrictJSON",
                    "TestSupport",
                    "TokenForge", arguments, crypto, nioCore, nioPosix, nioHTTP1, "HTTPListener",
                ]),
            /// Ledgers and payment stores of every schema, with random content, upgraded by the programs under kills.
            .testTarget(
                name: "UpgradeTests",
                dependencies: [
                    "Locks", "AccessControl", "AuditChain", "DatabaseKit", "KeyTypes", "Ledger", "MerchantKeys",
                    "Payments", "PaymentToken", "PostgreSQLClient", "PostgreSQLLedger", "SQLiteLedger", "TestSupport",
                    "paytokend", "paytokend-hsm", "paytokenctl", "paytoken-gateway", crypto, grdb,
                ]),
            /// Whole programs over their sockets: paytokend, paytokend-hsm, paytokenctl, token-forge, curl, SoftHSM.
            .testTarget(
                name: "SystemTests",
                dependencies: [
                    "Locks", "CLinux", "TestSupport", "TokenForge", "StrictJSON", "paytokend", "paytokend-hsm",
                    "paytokenctl",
                    "paytoken-gateway", "paytoken-outbound", "PortalSimulator", "processor-simulator", "token-forge",
                    crypto, cryptoExtras, grdb, nioCore, nioPosix, nioSSL, "Encodings",
                ]),
        ]),
]

let package = Package(
    name: "paytokend",
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "paytokend", targets: ["paytokend"]),
        .executable(name: "paytokend-hsm", targets: ["paytokend-hsm"]),
        .executable(name: "paytokenctl", targets: ["paytokenctl"]),
        .executable(name: "paytoken-gateway", targets: ["paytoken-gateway"]),
        .executable(name: "paytoken-outbound", targets: ["paytoken-outbound"]),
        // For tests, which load it by its path; not installed.
        .library(name: "ScriptedPKCS11", type: .dynamic, targets: ["ScriptedPKCS11"]),
        .library(name: "HangingResolver", type: .dynamic, targets: ["HangingResolver"]),
    ],
    // Versions are exact, those of transitive dependencies included: an upgrade is a commit that was tested, and a commit
    // always has the same sources. scripts/check-structure compares them with scripts/packaging/swift-packages and the
    // resolved graph; scripts/update-dependencies changes them.
    dependencies: [
        // Hashes, ECDSA, ECDH, AES-GCM, RSA: BoringSSL with Swift types.
        .package(url: "https://github.com/apple/swift-crypto.git", exact: "4.5.2"),
        // X.509 certificates and the chain Verifier.
        .package(url: "https://github.com/apple/swift-certificates.git", exact: "1.21.1"),
        // BER and DER, for CMS and SubjectPublicKeyInfo.
        .package(url: "https://github.com/apple/swift-asn1.git", exact: "1.7.4"),
        // Sockets, event loops and HTTP/1.1.
        .package(url: "https://github.com/apple/swift-nio.git", exact: "2.101.2"),
        // TLS for the gateway, with private keys outside the process (NIOSSLCustomPrivateKey): BoringSSL with Swift types.
        .package(url: "https://github.com/apple/swift-nio-ssl.git", exact: "2.37.6"),
        // SQLite for the ledger.
        .package(url: "https://github.com/groue/GRDB.swift.git", exact: "7.10.0"),
        // YAML for the configuration; it keeps line numbers.
        .package(url: "https://github.com/jpsim/Yams.git", exact: "6.2.2"),
        // The logging interface that Swift on servers shares.
        .package(url: "https://github.com/apple/swift-log.git", exact: "1.16.2"),
        // UnixSignals: SIGTERM and SIGHUP as an asynchronous sequence.
        .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", exact: "2.13.0"),
        // Command lines, their help and completions.
        .package(url: "https://github.com/apple/swift-argument-parser.git", exact: "1.8.2"),
        // Histograms of latencies, for scripts/bench; no installed program links it.
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift.git", exact: "0.2.0"),
        // Transitive. Atomic integers and references of swift-nio.
        .package(url: "https://github.com/apple/swift-atomics.git", exact: "1.3.0"),
        // Transitive. Deques of swift-nio.
        .package(url: "https://github.com/apple/swift-collections.git", exact: "1.6.0"),
        // Transitive. Paths of swift-nio's file system target, which no program links.
        .package(url: "https://github.com/apple/swift-system.git", exact: "1.8.1"),
        // Transitive. Merged sequences of swift-service-lifecycle's service group, which no program links.
        .package(url: "https://github.com/apple/swift-async-algorithms.git", exact: "1.1.4"),
        // Transitive. Real numbers of hdrhistogram-swift.
        .package(url: "https://github.com/apple/swift-numerics.git", exact: "1.1.1"),
    ],
    targets: folders.flatMap { $0 }
)
