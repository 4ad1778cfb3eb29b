// swift-tools-version: 6.2
import PackageDescription

/// Every Swift target: Swift 6 language mode (from the tools version), strict memory safety, and no
/// warning is let pass. What is unsafe is then written `unsafe` and lives next to a C target only.
let house: [SwiftSetting] = [
    .strictMemorySafety(),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
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

// Targets are listed from the bottom up: a target depends only on targets above it (scripts/check-structure).
let package = Package(
    name: "paytokend",
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "paytokend", targets: ["paytokend"]),
        .executable(name: "paytokend-hsm", targets: ["paytokend-hsm"]),
        .executable(name: "paytokenctl", targets: ["paytokenctl"]),
        .executable(name: "paytoken-gateway", targets: ["paytoken-gateway"]),
        // For tests, which load it by its path; not installed.
        .library(name: "ScriptedPKCS11", type: .dynamic, targets: ["ScriptedPKCS11"]),
        .library(name: "HangingResolver", type: .dynamic, targets: ["HangingResolver"]),
    ],
    // Versions are exact: an upgrade is a commit that was tested.
    dependencies: [
        // Hashes, ECDSA, ECDH, AES-GCM, RSA: BoringSSL behind Swift types.
        .package(url: "https://github.com/apple/swift-crypto.git", exact: "4.5.2"),
        // X.509 certificates and the chain Verifier.
        .package(url: "https://github.com/apple/swift-certificates.git", exact: "1.21.1"),
        // BER and DER, for CMS and SubjectPublicKeyInfo.
        .package(url: "https://github.com/apple/swift-asn1.git", exact: "1.7.4"),
        // Sockets, event loops and HTTP/1.1.
        .package(url: "https://github.com/apple/swift-nio.git", exact: "2.101.2"),
        // TLS for the gateway, with private keys that are elsewhere (NIOSSLCustomPrivateKey): BoringSSL behind Swift types.
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
        // Latencies of every size in little memory, for scripts/bench; nothing that is installed links it.
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift.git", exact: "0.2.0"),
    ],
    targets: [
        // C: module maps and the few lines that Swift cannot import.
        // Without pkg-config, whose -lp11-kit would have the worker load a library of which it needs the header alone.
        .systemLibrary(name: "CPKCS11", providers: [.apt(["libp11-kit-dev"])]),
        .target(name: "CLibcrypto", linkerSettings: [.linkedLibrary("crypto")]),
        .target(name: "CLinux"),
        .systemLibrary(name: "CLibpq", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        // The XML parser that distributions keep and mend, for Radial alone. Not Foundation's XMLParser, which is libxml2 too but
        // lets no limit be set and no document type be refused before it is read.
        .systemLibrary(name: "CLibxml2", pkgConfig: "libxml-2.0", providers: [.apt(["libxml2-dev"])]),

        // Foundations.
        .target(name: "ProductVersion", swiftSettings: house),
        .target(name: "SecretMemory", swiftSettings: house),
        .target(name: "Refusals", swiftSettings: house),
        .target(name: "StrictJSON", swiftSettings: house),
        // Hexadecimal, base64, times, names of keys, public keys and certificates' parts: each rule of writing them once.
        .target(name: "Encodings", dependencies: [crypto, asn1], swiftSettings: house),
        // The queue in which owners take turns: for the HSM, and for an event loop's time.
        .target(name: "FairShares", dependencies: [nioCore], swiftSettings: house),

        // What both daemons stand on: the operating system, logs and metrics, the configuration file, HTTP from untrusted peers.
        .target(name: "HostSystem", dependencies: ["CLinux", logging], swiftSettings: house),
        .target(name: "Telemetry", dependencies: ["Encodings", "StrictJSON", logging], swiftSettings: house),
        .target(
            name: "ConfigurationFile",
            dependencies: ["Encodings", "HostSystem", "SecretMemory", "Telemetry", yams],
            swiftSettings: house),
        // Peers of Unix sockets, and the rules of a configuration that match them.
        .target(
            name: "AccessControl", dependencies: ["CLinux", "ConfigurationFile", "HostSystem"], swiftSettings: house),
        // Not Hummingbird: that drains an unread body without limit after an early refusal, has no idle time-out by default,
        // answers what is not HTTP with an empty 400, and past its limit of connections stops accepting, so that idle peers
        // starve everyone.
        .target(
            name: "HTTPListener",
            dependencies: [
                "CLinux", "Encodings", "FairShares", "HostSystem", "Refusals", nioCore, nioPosix, nioHTTP1, logging,
            ],
            swiftSettings: house),

        // What every connection that a program makes needs: addresses of host names, bounds of HTTP answers.
        .target(name: "OutgoingConnections", dependencies: [nioCore, nioPosix], swiftSettings: house),

        // A private key on its way to the worker, sealed by the command line and opened by the worker.
        .target(name: "KeySealing", dependencies: ["SecretMemory", crypto], swiftSettings: house),

        // The HSM's side: everything that paytokend-hsm links.
        .target(name: "PKCS11", dependencies: ["CPKCS11", "Encodings", "SecretMemory"], swiftSettings: house),
        .target(
            name: "KeyRestoration", dependencies: ["CLibcrypto", "SecretMemory", crypto], swiftSettings: house),
        // What a TLS client's certificate key signs (RFC 8446 §4.4.3, RFC 5246 §7.4.8), read strictly; Apple's hosts.
        .target(name: "TLSHandshake", dependencies: ["Encodings"], swiftSettings: house),
        // A merchant key's algorithm and purpose, and what leaves an HSM token that uses it.
        .target(name: "KeyTypes", swiftSettings: house),
        .target(name: "WorkerProtocol", dependencies: ["KeyTypes", "TLSHandshake"], swiftSettings: house),
        .target(
            name: "HSMWorker",
            dependencies: [
                "KeyTypes",
                "CLinux", "Encodings", "ProductVersion", "SecretMemory", "KeySealing", "PKCS11", "KeyRestoration",
                "TLSHandshake", "WorkerProtocol",
                crypto, cryptoExtras, asn1,
            ],
            swiftSettings: house),

        // The daemon's side.
        .target(
            name: "PaymentToken",
            dependencies: ["Encodings", "Refusals", "StrictJSON", crypto, cryptoExtras, x509, asn1],
            swiftSettings: house),
        .target(
            name: "MerchantKeys",
            dependencies: [
                "KeyTypes",
                "Encodings", "WorkerProtocol", "PaymentToken", "Refusals", crypto, x509, asn1, cryptoExtras,
            ],
            swiftSettings: house),
        // The key-usage record: lines, chain, checkpoints, their verification. No database.
        .target(
            name: "AuditChain", dependencies: ["Encodings", "Refusals", "StrictJSON", crypto], swiftSettings: house),
        .target(
            name: "DaemonAPI",
            dependencies: [
                "Encodings", "OutgoingConnections", "Refusals", "StrictJSON", "TLSHandshake", nioCore, nioPosix,
                nioHTTP1,
            ],
            exclude: ["openapi.json"], swiftSettings: house),
        // The assessor's page: what an export counts, and its HTML.
        .target(
            name: "AuditReport", dependencies: ["AuditChain", "DaemonAPI", "StrictJSON"],
            swiftSettings: house),
        // Sessions with a PostgreSQL server, for whatever keeps its rows in one.
        .target(name: "PostgreSQLClient", dependencies: ["CLibpq", "SecretMemory"], swiftSettings: house),
        // The database that a section of the configuration names.
        .target(
            name: "DatabaseSettings", dependencies: ["ConfigurationFile", "PostgreSQLClient"], swiftSettings: house),
        // A private, durable SQLite file: where it stands, who may have it, which settings its connections need.
        .target(name: "SQLiteFiles", dependencies: [grdb], swiftSettings: house),
        .target(
            name: "Ledger",
            dependencies: [
                "AccessControl",
                "KeyTypes",
                "AuditChain", "Encodings", "MerchantKeys", "PaymentToken", "PostgreSQLClient", "Refusals",
                "SQLiteFiles", crypto, grdb, sqlite,
            ],
            swiftSettings: house),
        .target(
            name: "Daemon",
            dependencies: [
                "KeyTypes",
                "DatabaseSettings",
                "AccessControl", "CLinux", "Encodings", "ProductVersion", "SecretMemory", "Refusals", "StrictJSON",
                "TLSHandshake",
                "WorkerProtocol",
                "PaymentToken",
                "MerchantKeys", "AuditChain", "Ledger", "PostgreSQLClient", "DaemonAPI", "HostSystem", "Telemetry",
                "ConfigurationFile", "FairShares", "HTTPListener", nioCore, nioPosix, logging, signals, x509, crypto,
            ],
            swiftSettings: house),

        // What is paid: amounts and currencies, states, and the store that sees to it that nothing is paid twice. No card data,
        // no HTTP.
        .target(
            name: "Payments", dependencies: ["Encodings", "PostgreSQLClient", "SQLiteFiles", grdb], swiftSettings: house
        ),

        // Radial's XML, in and out. No network, no HTTP, no database.
        .target(
            name: "Radial", dependencies: ["CLibxml2", "Encodings", "Payments", "SecretMemory", "StrictJSON"],
            swiftSettings: house),
        // Payment processors: what the gateway asks of one, and those that it knows.
        .target(
            name: "Processors",
            dependencies: [
                "Encodings", "OutgoingConnections", "Payments", "Radial", "SecretMemory", "StrictJSON", nioCore,
                nioPosix, nioHTTP1, nioSSL, nioTLS, crypto,
            ],
            swiftSettings: house),

        // The merchant server: a program of its own, which calls the daemon like any other backend.
        .target(
            name: "Gateway",
            dependencies: [
                "DatabaseSettings",
                "AccessControl", "ConfigurationFile", "DaemonAPI", "Encodings", "FairShares", "HostSystem",
                "HTTPListener", "Payments", "Processors", "ProductVersion", "Radial", "Refusals", "SecretMemory",
                "StrictJSON", "Telemetry", "TLSHandshake", nioCore, nioPosix, "OutgoingConnections",
                nioHTTP1, nioSSL, logging, signals, x509, asn1, crypto, nioTLS,
            ],
            exclude: ["openapi.json"], swiftSettings: house),

        // The command line's side.
        // Standard output and error, tables, how wide they are, text that is safe for a terminal, and how a program ends.
        .target(
            name: "CommandOutput", dependencies: ["DaemonAPI", "Encodings", arguments], swiftSettings: house),
        .target(
            name: "KeyFiles", dependencies: ["CLibcrypto", "Encodings", "SecretMemory", x509, asn1],
            swiftSettings: house),

        // Test equipment, not installed: plays Apple and the Secure Element for tests and demonstrations. Shares no code
        // with what it tests.
        .target(
            name: "TokenForge", dependencies: [crypto, cryptoExtras, x509, asn1],
            path: "Sources/TestEquipment/TokenForge", swiftSettings: house),
        // Test equipment, not installed: plays a payment processor, and keeps a durable log of what was submitted to it.
        .target(
            name: "ProcessorSimulator",
            dependencies: [
                "Encodings", "HTTPListener", "HostSystem", "Payments", "StrictJSON", nioCore, nioPosix, nioHTTP1,
            ],
            path: "Sources/TestEquipment/ProcessorSimulator", swiftSettings: house),

        // Programs.
        .executableTarget(
            name: "paytokend", dependencies: ["CommandOutput", "Daemon", "DaemonAPI", "ProductVersion", arguments],
            swiftSettings: house),
        .executableTarget(
            name: "paytokend-hsm", dependencies: ["HSMWorker", "ProductVersion", arguments], swiftSettings: house),
        .executableTarget(
            name: "paytokenctl",
            dependencies: [
                "AuditChain", "AuditReport", "CLinux", "CommandOutput", "DaemonAPI", "Encodings", "HTTPListener",
                "HostSystem", "KeyFiles",
                "KeySealing", "Ledger", "PostgreSQLClient", "ProductVersion", "Refusals", "SecretMemory", "StrictJSON",
                "Telemetry", arguments, crypto, logging, nioCore, nioPosix, signals,
            ],
            swiftSettings: house),
        .executableTarget(
            name: "paytoken-gateway",
            dependencies: [
                "CommandOutput", "DaemonAPI", "Encodings", "Gateway", "Payments", "PostgreSQLClient", "ProductVersion",
                "SecretMemory", "StrictJSON", arguments,
            ],
            swiftSettings: house),
        .executableTarget(
            name: "token-forge", dependencies: ["TokenForge", "ProductVersion", arguments],
            path: "Sources/TestEquipment/token-forge", swiftSettings: house),
        .executableTarget(
            name: "processor-simulator",
            dependencies: ["HTTPListener", "ProcessorSimulator", "ProductVersion", arguments, signals],
            path: "Sources/TestEquipment/processor-simulator", swiftSettings: house),

        // A PKCS#11 module that forwards to a real one and injects faults. Nothing links it.
        .target(
            name: "ScriptedPKCS11", dependencies: ["CPKCS11"], path: "Tests/ScriptedPKCS11",
            linkerSettings: [.linkedLibrary("crypto")]),
        // A resolver that a test can have hang, preloaded into a program.
        .target(name: "HangingResolver", path: "Tests/HangingResolver"),

        // Tests. TestSupport starts real components in fresh directories.
        .target(
            name: "TestSupport",
            dependencies: [
                "CLinux", "TokenForge", "StrictJSON", "PKCS11", "SecretMemory", crypto, cryptoExtras, nioCore, nioPosix,
                nioSSL,
                x509, logging,
            ],
            path: "Tests/TestSupport",
            swiftSettings: house),
        .testTarget(name: "SecretMemoryTests", dependencies: ["SecretMemory"], swiftSettings: house),
        .testTarget(
            name: "KeySealingTests", dependencies: ["KeySealing", "SecretMemory", crypto], swiftSettings: house),
        .testTarget(name: "StrictJSONTests", dependencies: ["StrictJSON"], swiftSettings: house),
        .testTarget(name: "FairSharesTests", dependencies: ["FairShares"], swiftSettings: house),
        .testTarget(
            name: "EncodingsTests", dependencies: ["Encodings", "TestSupport", "TokenForge", crypto, asn1],
            swiftSettings: house),
        .testTarget(
            name: "PKCS11Tests",
            dependencies: [
                "Encodings", "PKCS11", "SecretMemory", "KeyRestoration", "PaymentToken", "TestSupport", crypto,
                cryptoExtras, asn1,
            ],
            swiftSettings: house),
        .testTarget(
            name: "KeyRestorationTests", dependencies: ["KeyRestoration", "SecretMemory", "TestSupport", crypto],
            swiftSettings: house),
        .testTarget(
            name: "WorkerProtocolTests", dependencies: ["WorkerProtocol", "TestSupport"],
            swiftSettings: house),
        .testTarget(
            name: "HSMWorkerTests",
            dependencies: [
                "KeyTypes",
                "CLinux", "Encodings", "HSMWorker", "KeySealing", "MerchantKeys", "PKCS11", "ProductVersion",
                "SecretMemory",
                "StrictJSON", "TLSHandshake",
                "WorkerProtocol", "TestSupport", "TokenForge", crypto, cryptoExtras,
            ],
            swiftSettings: house),
        .testTarget(
            name: "PaymentTokenTests",
            dependencies: [
                "Encodings", "PaymentToken", "StrictJSON", "TestSupport", "TokenForge", crypto, cryptoExtras, x509,
                asn1, "Refusals",
            ],
            swiftSettings: house),
        .testTarget(
            name: "MerchantKeysTests",
            dependencies: [
                "MerchantKeys", "PaymentToken", "Refusals", "WorkerProtocol", "TestSupport", "TokenForge",
                crypto,
            ],
            swiftSettings: house),
        .testTarget(
            name: "AuditChainTests",
            dependencies: ["AuditChain", "Encodings", "Refusals", "StrictJSON", "TestSupport", crypto],
            swiftSettings: house),
        .testTarget(
            name: "AuditReportTests",
            dependencies: ["AuditChain", "AuditReport", "DaemonAPI", "Refusals", "StrictJSON", "TestSupport", crypto],
            swiftSettings: house),
        .testTarget(
            name: "LedgerTests",
            dependencies: [
                "AccessControl",
                "KeyTypes",
                "AuditChain", "Ledger", "MerchantKeys", "PaymentToken", "PostgreSQLClient", "Refusals", "SQLiteFiles",
                "WorkerProtocol", "TestSupport", crypto, grdb,
            ],
            swiftSettings: house),
        .testTarget(
            name: "DaemonAPITests",
            dependencies: [
                "DaemonAPI", "Encodings", "Refusals", "StrictJSON", "TestSupport", nioCore, nioPosix,
            ],
            swiftSettings: house),
        .testTarget(
            name: "DaemonTests",
            dependencies: [
                "KeyTypes",
                "AccessControl", "AuditChain", "CLinux", "ConfigurationFile", "Daemon", "DaemonAPI", "HTTPListener",
                "HostSystem",
                "KeySealing", "Ledger", "MerchantKeys", "PaymentToken", "PostgreSQLClient", "Refusals", "SecretMemory",
                "StrictJSON", "Telemetry", "WorkerProtocol", "TestSupport", "TokenForge", logging,
                nioCore, nioEmbedded, nioHTTP1, nioPosix, crypto, grdb,
            ],
            swiftSettings: house),
        .testTarget(
            name: "TLSHandshakeTests",
            dependencies: ["TLSHandshake", "Encodings", "TestSupport", nioCore, nioPosix, nioSSL],
            swiftSettings: house),
        .testTarget(
            name: "PaymentsTests",
            dependencies: ["Payments", "PostgreSQLClient", "TestSupport", crypto, grdb],
            swiftSettings: house),
        .testTarget(
            name: "RadialTests", dependencies: ["Payments", "Radial", "SecretMemory", "StrictJSON"],
            swiftSettings: house),
        .testTarget(
            name: "OutgoingConnectionsTests",
            dependencies: ["OutgoingConnections", "TestSupport", nioCore, nioEmbedded, nioPosix], swiftSettings: house),
        .testTarget(
            name: "ProcessorsTests",
            dependencies: [
                "OutgoingConnections", "Payments", "Processors", "SecretMemory", "StrictJSON", "TestSupport",
                "TokenForge",
                nioCore, nioHTTP1, nioPosix,
            ],
            swiftSettings: house),
        .testTarget(
            name: "GatewayTests",
            dependencies: [
                "AccessControl", "ConfigurationFile", "DaemonAPI", "Encodings", "Gateway", "HTTPListener", "HostSystem",
                "Payments", "Processors", "paytoken-gateway", "Radial", "Refusals", "SecretMemory", "StrictJSON",
                "Telemetry", "TestSupport", "TLSHandshake", "TokenForge", "OutgoingConnections",
                logging, nioCore, nioPosix, nioHTTP1, nioSSL, crypto, x509, asn1, cryptoExtras,
            ],
            swiftSettings: house),
        .testTarget(
            name: "KeyFilesTests", dependencies: ["KeyFiles", "SecretMemory", "TestSupport", "TokenForge", crypto],
            swiftSettings: house),
        .testTarget(
            name: "PaytokenctlTests",
            dependencies: [
                "paytoken-gateway", "paytokenctl", "paytokend", "AuditChain", "CommandOutput", "DaemonAPI", "Encodings",
                "KeySealing", "SecretMemory", "StrictJSON",
                "TestSupport",
                "TokenForge", arguments, crypto, nioCore, nioPosix, nioHTTP1, "HTTPListener",
            ],
            swiftSettings: house),
        .testTarget(
            name: "TokenForgeTests", dependencies: ["TokenForge", "TestSupport", "token-forge", crypto, cryptoExtras],
            swiftSettings: house),
        .testTarget(
            name: "ProcessorSimulatorTests",
            dependencies: [
                "HostSystem", "ProcessorSimulator", "processor-simulator", "StrictJSON", "TestSupport", nioCore,
            ],
            swiftSettings: house),
        // What scripts/soak and scripts/bench measure with; not installed.
        .systemLibrary(name: "CEpoll", path: "Tests/CEpoll"),
        .executableTarget(
            name: "load-generator", dependencies: ["CEpoll", "CLinux", arguments, histogram],
            path: "Tests/LoadGenerator", swiftSettings: house),
        .testTarget(
            name: "LoadGeneratorTests", dependencies: ["load-generator", "TestSupport", nioCore, nioPosix],
            swiftSettings: house),
        .executableTarget(
            name: "verification-price", dependencies: ["PaymentToken", "StrictJSON", histogram],
            path: "Tests/VerificationPrice", swiftSettings: house),
        .executableTarget(
            name: "paytokend-memory-ledger",
            dependencies: ["AuditChain", "Daemon", "Ledger", "MerchantKeys", "PaymentToken"],
            path: "Tests/MemoryLedgerDaemon", swiftSettings: house),
        .executableTarget(
            name: "paytoken-gateway-file-key",
            dependencies: ["DaemonAPI", "Encodings", "Gateway", "TLSHandshake", crypto, cryptoExtras],
            path: "Tests/FileKeyGateway", swiftSettings: house),
        .executableTarget(
            name: "ledger-filler",
            dependencies: ["AuditChain", "Ledger", "PKCS11", "PostgreSQLClient", "SecretMemory", crypto],
            path: "Tests/LedgerFiller", swiftSettings: house),
        .executableTarget(
            name: "boundary-price",
            dependencies: ["CLinux", "HSMWorker", "ProductVersion", "TestSupport", "WorkerProtocol"],
            path: "Tests/BoundaryPrice", swiftSettings: house),
        .executableTarget(
            name: "key-filler",
            dependencies: ["Ledger", "MerchantKeys", "PaymentToken", "PKCS11", "SecretMemory", "TokenForge", crypto],
            path: "Tests/KeyFiller", swiftSettings: house),
        // A simulated year of the key-usage record, for what reads such records; not installed.
        .executableTarget(
            name: "paytokend-year", dependencies: ["AuditChain", "Refusals", arguments, crypto],
            path: "Tests/YearOfRecords", swiftSettings: house),
        .testTarget(
            name: "YearOfRecordsTests",
            dependencies: ["AuditChain", "StrictJSON", "TestSupport", "paytokenctl", "paytokend-year"],
            swiftSettings: house),
        // Whole programs over their sockets: paytokend, paytokend-hsm, paytokenctl, token-forge, curl, SoftHSM.
        .testTarget(
            name: "SystemTests",
            dependencies: [
                "CLinux", "TestSupport", "TokenForge", "StrictJSON", "paytokend", "paytokend-hsm", "paytokenctl",
                "paytoken-gateway", "processor-simulator", "token-forge",
                crypto, cryptoExtras, grdb, nioCore, nioPosix, nioSSL, "Encodings",
            ],
            swiftSettings: house),
    ]
)
