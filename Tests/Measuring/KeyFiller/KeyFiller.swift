import Crypto
import Foundation
import Ledger
import Locks
import MerchantKeys
import PKCS11
import PaymentToken
import SQLiteLedger
import SecretMemory
import TokenForge

/// Fills an HSM token and a ledger with merchants' keys and certificates, as imports would, but much faster. The
/// ledger's daemon must not be running. `scripts/soak keys` and `scripts/bench` use it to measure with many keys.
///
///     key-filler LEDGER COUNT MODULE TOKEN-LABEL PIN-FILE AUTHORITY NAME
///
/// The merchants are merchant.com.example.NAME.0 and so on. The last one's certificate is written to
/// AUTHORITY/NAME.pem, for minting payment tokens. SOFTHSM2_CONF must have the value that the daemon's worker uses.
@main
struct KeyFiller {
    static func main() async {
        let arguments = CommandLine.arguments
        guard arguments.count == 8, let count = Int(arguments[2]), count > 0 else {
            say("usage: key-filler LEDGER COUNT MODULE TOKEN-LABEL PIN-FILE AUTHORITY NAME")
            exit(64)
        }
        do {
            let directory = URL(filePath: arguments[6])
            let authority = try ForgeAuthority(directory: directory)
            let merchants = try (0..<count).map { number in
                let profile = MerchantCertificateProfile(
                    merchantIdentifier: "merchant.com.example.\(arguments[7]).\(number)")
                return try ForgedMerchant(authority: authority, type: .p256, profile: profile)
            }
            let hsmToken = try FilledToken(
                module: arguments[3], label: arguments[4], pin: SecretBytes(contentsOfFile: arguments[5]))
            for merchant in merchants { try hsmToken.store(merchant) }
            let ledger = try await SQLiteLedger.open(SQLiteLedger.Settings(path: arguments[1]))
            for start in stride(from: 0, to: count, by: together) {
                try await record(merchants[start..<min(start + together, count)], in: ledger)
            }
            await ledger.close()
            let last = ForgePEM.text(merchants[count - 1].certificate, label: "CERTIFICATE")
            try Data(last.utf8).write(to: directory.appending(path: "\(arguments[7]).pem"))
        } catch {
            say("key-filler: \(error)")
            exit(1)
        }
    }

    /// The number of simultaneous commits.
    private static let together = 200

    private static func record(_ merchants: ArraySlice<ForgedMerchant>, in ledger: SQLiteLedger) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for merchant in merchants {
                let key = KeyRecord(
                    publicKeyHash: PublicKeyHash.of(subjectPublicKeyInfo: merchant.key.subjectPublicKeyInfo),
                    merchantIdentifier: merchant.merchant.identifier, algorithm: .ec, state: .active,
                    createdAt: Date(), origin: .imported)
                group.addTask { try await ledger.apply(AdministrativeChange(at: Date(), key: key, records: [])) }
            }
            try await group.waitForAll()
        }
    }

    private static func say(_ text: String) {
        FileHandle.standardError.write(Data((text + "\n").utf8))
    }
}

/// An HSM token that is filled with keys.
final class FilledToken: Sendable {
    private let session: Mutex<Session>

    init(module path: String, label: String, pin: borrowing SecretBytes) throws {
        let slots = try Module(path: path).slots()
        guard let slot = try slots.first(where: { try $0.tokenInfo().label == label }) else {
            throw FillerFailure(description: "there is no token labelled \(label)")
        }
        var session = try slot.openSession(readWrite: true)
        try session.logIn(.user, pin: pin)
        self.session = Mutex(session)
    }

    /// Stores a private key, its public key and its certificate, with the attributes that an import sets.
    func store(_ merchant: ForgedMerchant) throws {
        guard case .p256(let key) = merchant.key else { throw FillerFailure(description: "not a key on P-256") }
        let hash = merchant.merchant.publicKeyHash
        func common(_ objectClass: ObjectClass, isPrivate: Bool) -> [Attribute] {
            [
                .objectClass(objectClass), .token(true), .private(isPrivate), .identifier(hash),
                .label(merchant.merchant.identifier),
            ]
        }
        let curve: [Attribute] = [.keyType(.ec), .ecParameters(EllipticCurve.p256Parameters)]
        let point = Array(key.publicKey.x963Representation)
        let certificate: [Attribute] = [
            // No search uses the subject, issuer and serial number, so these attributes are constant.
            .x509Certificate, .subject([0x30, 0]), .issuer([0x30, 0]), .serialNumber([2, 1, 1]),
            .value(merchant.certificate),
        ]
        let publicKey: [Attribute] = [
            .verify(true), .encrypt(false), .wrap(false), .ecPoint(EllipticCurve.attributeValue(forPoint: point)),
        ]
        let privateKey: [Attribute] = [
            .sensitive(true), .extractable(false), .sign(true), .derive(true), .decrypt(false), .unwrap(false),
        ]
        var secrets = SecretAttributes(capacity: 32)
        SecretBytes(copying: Array(key.rawRepresentation)).withBytes { secrets.append(.value, $0) }
        try session.withLock { session in
            _ = try session.createObject(Template(common(.certificate, isPrivate: false) + certificate))
            _ = try session.createObject(Template(common(.publicKey, isPrivate: false) + curve + publicKey))
            _ = try session.createObject(
                Template(common(.privateKey, isPrivate: true) + curve + privateKey), secrets: secrets)
        }
    }
}

/// The error that the program could not fill the HSM token or the ledger.
struct FillerFailure: Error, CustomStringConvertible {
    let description: String
}
