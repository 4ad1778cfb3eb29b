import Foundation
import KeyTypes
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

/// The behaviour of a vendor's HSM or library, as its users or its vendor have reported it in public. The scripted module
/// in front of SoftHSM simulates it; no vendor's hardware is involved.
struct VendorBehaviour: Sendable, CustomTestStringConvertible {
    let name: String
    /// The public report or document that describes the behaviour.
    let source: String
    /// The scripted module's instructions.
    let instructions: [String]

    init(_ name: String, _ source: String, _ instructions: String...) {
        (self.name, self.source, self.instructions) = (name, source, instructions)
    }

    var testDescription: String { "\(name) (\(source))" }
}

// The return values: 0x6 CKR_FUNCTION_FAILED, 0x13 CKR_ATTRIBUTE_VALUE_INVALID, 0x30 CKR_DEVICE_ERROR, 0x32 CKR_DEVICE_REMOVED, 0x54
// CKR_FUNCTION_NOT_SUPPORTED, 0x60 CKR_KEY_HANDLE_INVALID, 0x70 CKR_MECHANISM_INVALID, 0xB0
// CKR_SESSION_CLOSED, 0xB3 CKR_SESSION_HANDLE_INVALID, 0xD1 CKR_TEMPLATE_INCONSISTENT, 0x100 CKR_USER_ALREADY_LOGGED_IN, 0x190
// CKR_CRYPTOKI_NOT_INITIALIZED.
@Suite("Vendors' behaviour, as reported in public")
struct VendorBehaviourTests {
    // MARK: At the opening

    static let slow = VendorBehaviour(
        "SoftHSM with many keys, network HSMs: each search takes seconds",
        "https://github.com/softhsm/SoftHSMv2/issues/680, https://github.com/gravitational/teleport/issues/58950, "
            + "https://github.com/Pkcs11Interop/Pkcs11Interop.X509Store/issues/34",
        "fault C_FindObjects always delay=300")

    /// A behaviour, the tiers that the worker then selects (nil for none), and words that must be in the worker's
    /// reasons for missing tiers.
    struct Opening: Sendable, CustomTestStringConvertible {
        let vendor: VendorBehaviour
        let ec: ProtectionTier?
        let rsa: ProtectionTier?
        let reasons: [String]

        var testDescription: String { vendor.testDescription }
    }

    @Test(
        "serves the versions that the HSM token allows, and gives the lacking mechanism for the others",
        arguments: [
            Opening(
                vendor: VendorBehaviour(
                    "Luna 7: no raw shared secret, NIST's one-step KDF instead",
                    "Thales, Luna Network HSM 7, SDK Reference Guide, ECDH with Key Derive Function",
                    "refuse-null-kdf", "one-step-kdf"),
                ec: .a, rsa: .c, reasons: []),
            Opening(
                vendor: VendorBehaviour(
                    "AWS CloudHSM: CKA_PRIVATE must be true on public keys, no CKD_NULL, no copies of objects",
                    "https://github.com/OpenSC/OpenSC/issues/2747, "
                        + "https://docs.aws.amazon.com/cloudhsm/latest/userguide/pkcs11-apis.html",
                    "refuse-null-kdf", "fault C_GenerateKeyPair always return=0x13",
                    "fault C_CreateObject always return=0x13",
                    "fault C_CopyObject always return=0x54", "fault C_SetAttributeValue always return=0x54"),
                ec: nil, rsa: nil, reasons: ["EC_v1", "RSA_v1", "C_GenerateKeyPair: CKR_ATTRIBUTE_VALUE_INVALID"]),
            Opening(
                vendor: VendorBehaviour(
                    "Google Cloud KMS: no derivation, no unwrapping, other templates for key pairs",
                    "https://github.com/GoogleCloudPlatform/kms-integrations/blob/master/kmsp11/docs/user_guide.md",
                    "fault C_GenerateKeyPair always return=0xD1", "fault C_DeriveKey always return=0x54",
                    "fault C_CreateObject always return=0x54", "fault C_UnwrapKey always return=0x54"),
                ec: nil, rsa: nil, reasons: ["EC_v1", "RSA_v1", "C_GenerateKeyPair: CKR_TEMPLATE_INCONSISTENT"]),
            Opening(
                vendor: VendorBehaviour(
                    "Azure Managed HSM's TLS offload library: signatures only",
                    "https://github.com/microsoft/AzureManagedHsmTLSOffload/releases/tag/v1.1.0.03180",
                    "fault C_DeriveKey always return=0x54", "fault C_DecryptInit always return=0x54",
                    "fault C_UnwrapKey always return=0x54"),
                ec: nil, rsa: nil,
                reasons: ["EC_v1", "RSA_v1", "C_DeriveKey: CKR_FUNCTION_NOT_SUPPORTED"]),
            Opening(
                vendor: VendorBehaviour(
                    "Luna's OpenSSL provider as a sign-only provider, p11-kit 0.24 and pkcs11-proxy: no ECDH at all",
                    "https://github.com/ThalesGroup/luna-openssl-provider/pull/25",
                    "fault C_DeriveKey always return=0x70"),
                ec: nil, rsa: .c, reasons: ["EC_v1", "C_DeriveKey: CKR_MECHANISM_INVALID"]),
            Opening(
                vendor: VendorBehaviour(
                    "IBM CCA behind opencryptoki: X9.63 key derivation only, since the shared secret never leaves the HSM",
                    "https://github.com/opencryptoki/opencryptoki/pull/821, "
                        + "https://github.com/opencryptoki/opencryptoki/issues/333",
                    "refuse-null-kdf"),
                ec: nil, rsa: .c,
                reasons: ["EC_v1", "CKM_ECDH1_DERIVE with CKD_NULL (C_DeriveKey: CKR_MECHANISM_PARAM_INVALID)"]),
            Opening(
                vendor: VendorBehaviour(
                    "SoftHSM 2.6: OAEP with SHA-1 only, raw RSA instead",
                    "https://github.com/softhsm/SoftHSMv2/issues/795"),
                ec: .c, rsa: .c, reasons: []),
            Opening(
                vendor: VendorBehaviour(
                    "OAEP with SHA-1 only, and no raw RSA because of FIPS mode",
                    "https://github.com/softhsm/SoftHSMv2/issues/795, https://github.com/latchset/kryoptic/issues/16",
                    "refuse-mechanism C_DecryptInit 0x3"),
                ec: .c, rsa: nil,
                reasons: [
                    "RSA_v1", "CKM_RSA_PKCS_OAEP with SHA-256", "CKM_RSA_X_509 (C_DecryptInit: CKR_MECHANISM_INVALID)",
                ]),
            Opening(
                vendor: VendorBehaviour(
                    "nShield and Utimaco: attributes that do not exist there (CKA_ALWAYS_AUTHENTICATE, CKA_COPYABLE)",
                    "https://github.com/OpenSC/libp11/issues/195, https://github.com/Mastercard/pkcs11-tools/pull/45",
                    "refuse-attribute C_GetAttributeValue 0x202", "refuse-attribute C_GetAttributeValue 0x171"),
                ec: .c, rsa: .c, reasons: []),
            Opening(
                vendor: VendorBehaviour(
                    "One login for all sessions of the process: C_Login says that the user is logged in already",
                    "https://github.com/softhsm/SoftHSMv2/issues/228, https://github.com/pyauth/python-pkcs11/issues/61",
                    "fault C_Login always answer=0x100"),
                ec: .c, rsa: .c, reasons: []),
            Opening(vendor: slow, ec: .c, rsa: .c, reasons: []),
        ])
    func opening(_ tested: Opening) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        try hsmToken.play(tested.vendor.instructions)
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: 2) { $0.callTimeout = 60_000 }
        #expect(description.tierECv1 == tested.ec && description.tierRSAv1 == tested.rsa, "\(description)")
        let reasons = description.shortcomings.joined(separator: "\n")
        for reason in tested.reasons { #expect(reasons.contains(reason), "\(reasons)") }
        // The worker decrypts payments for which it has a tier, and reports the others as not supported.
        for (payment, tier, merchant) in [
            (try EncryptedPayment.ec(), tested.ec, try SharedForge.ecMerchant),
            (try EncryptedPayment.rsa(), tested.rsa, try SharedForge.rsaMerchant),
        ] {
            guard let tier else {
                #expect(try await worker.call(payment.request).failureKind == .notSupported)
                continue
            }
            try await worker.mustImport(merchant, description)
            #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: tier))
        }
        #expect(try await worker.end() == 0)
    }

    // MARK: While it serves

    @Test(
        "decrypts the payment in the same call despite a fault of the session",
        arguments: [
            VendorBehaviour(
                "Luna SA: CKR_SESSION_HANDLE_INVALID now and then",
                "https://github.com/privacyidea/privacyidea/issues/1003",
                "fault C_DeriveKey every=2 return=0xB3"),
            VendorBehaviour(
                "A member of an HA group takes over: all sessions are gone",
                "https://github.com/hyperledger/fabric/pull/1022", "fault C_DeriveKey nth=2 close-sessions"),
            VendorBehaviour(
                "pkcs11-proxy restarted: sessions are gone, and former handles name no key",
                "https://github.com/openssl-projects/pkcs11-provider/issues/494",
                "fault C_DeriveKey nth=2 close-sessions", "fault C_DeriveKey nth=3 return=0x60"),
        ])
    func repairs(_ vendor: VendorBehaviour) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await WorkerUnderTest.withMerchantKeys(hsmToken) { $0.callTimeout = 60_000 }
        try hsmToken.play(vendor.instructions)
        for _ in 0..<6 {
            let payment = try EncryptedPayment.ec()
            #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: .c))
        }
        #expect(try await worker.end() == 0)
    }

    @Test(
        "reports the HSM token as unavailable if only a new process helps, and the next process decrypts the payment",
        arguments: [
            VendorBehaviour(
                "SafeNet network HSM after an idle time: the library is no longer initialised",
                "https://github.com/Pkcs11Interop/Pkcs11Interop/issues/214",
                "fault C_DeriveKey always return=0x190", "fault C_OpenSession always return=0x190",
                "fault C_GetSessionInfo always return=0x190"),
            VendorBehaviour(
                "SafeNet network HSM after a switch restarted: only unloading the library helps",
                "https://github.com/OpenSC/libp11/issues/228", "fault C_DeriveKey always return=0x32",
                "fault C_OpenSession always return=0x32", "fault C_GetTokenInfo always return=0x32"),
            VendorBehaviour(
                "A network HSM closes idle connections: CKR_DEVICE_ERROR from every call",
                "https://github.com/PeculiarVentures/node-webcrypto-p11/issues/56",
                "fault C_DeriveKey always return=0x30",
                "fault C_GetTokenInfo always return=0x30", "fault C_GetSessionInfo always return=0x30"),
            VendorBehaviour(
                "YubiHSM 2 after an idle time: the session with the device is gone for all sessions of the library, which "
                    + "calls them good; only C_Finalize helps",
                "https://github.com/Yubico/yubihsm-shell/issues/541", "fault C_DeriveKey always return=0xB0"),
            VendorBehaviour(
                "HA group: each new session is invalid at its first use",
                "https://github.com/hyperledger/fabric/pull/1022",
                "fault C_DeriveKey always return=0xB3"),
            VendorBehaviour(
                "YubiHSM 2 without its connector: CKR_FUNCTION_FAILED from every operation",
                "https://github.com/Yubico/yubihsm-shell/issues/267", "fault C_DeriveKey always return=0x6",
                "fault C_GetTokenInfo always return=0x6"),
        ])
    func restarts(_ vendor: VendorBehaviour) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await WorkerUnderTest.withMerchantKeys(hsmToken) { $0.callTimeout = 2_000 }
        try hsmToken.play(vendor.instructions)
        let payment = try EncryptedPayment.ec()
        #expect(try await worker.call(payment.request).failureKind == .hsmTokenUnavailable)
        // After such a failure, the daemon's supervisor starts another worker. Here the test starts it instead.
        try hsmToken.play()
        let next = try await WorkerUnderTest.serving(hsmToken)
        #expect(try await next.call(payment.request) == .plaintext(payment.plaintext, tier: .c))
    }
}
